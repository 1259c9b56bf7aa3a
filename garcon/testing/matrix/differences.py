"""What the two doors may answer differently, and why: data, to which the comparison adds nothing.

Everything that is not listed here or beside a case is compared to the byte.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from attrs import field, frozen


class Kind(Enum):
    """What a member may hold that is not the same twice."""

    ID = "made anew for each answer"
    TIME = "an instant, or how long something took"
    COUNT = "a number that is another one at each door: a counter of the link, a process"
    EXECUTOR = "the executor that new work goes to by default"


class Why(Enum):
    """Why a worker's gateway answers something else than the controller itself."""

    NO_HANDLER = "no handler yet: 404 OPERATION_NOT_AVAILABLE, and direct HTTP says Not found"
    GRANT = "the worker's account has no grant for it"
    SELF = "a worker may change nothing of itself but its label"
    PATCH = "a worker may send one settings patch only"
    CAPABILITY = "a gateway knows its own capability only; accounts of the controller may be off"
    ENVELOPE = "the bridge's envelope is narrower than HTTP"
    EXECUTOR = "through a gateway the executor has to be named"
    PUBLIC_URL = "behind a gateway no Host suggests a public URL"
    ENDPOINT = "a diagnostic names the endpoint that was selected"
    LANE = "a lane carries no more"


@frozen
class Instead:
    """What the gateway answers where it may differ: a status and the code of an error.

    The answer that direct HTTP gives is judged by its own case.  For a command `status` is that of
    its exit and `code` a word of standard error.
    """

    why: Why
    status: int
    code: str = ""


HEADERS = ("content-type", "retry-after")
"""The headers that are compared.  Others do not cross (spec: "Only a small header set"), and the
gateway forbids caching of whatever it answers.
"""

GATEWAY_HEADERS = {"cache-control": "no-store"}

Members = dict[str, Kind]
"""Members of answers that may differ, by their names, at whatever depth."""

ACCEPTED: Members = {"acceptedAt": Kind.TIME, "turnId": Kind.ID}
"""A command that was accepted (chats.md 2.5); its identities are the caller's own, but the turn."""

ENTRY: Members = {
    "agentOwnershipEpoch": Kind.ID,
    "createdAt": Kind.TIME,
    "lastActivityAt": Kind.TIME,
    "lastReadAt": Kind.TIME,
}
"""A chat that was just made, as lists show it."""

RECEIPT: Members = {
    "acceptedAt": Kind.TIME,
    "clientRequestId": Kind.ID,
    "settledAt": Kind.TIME,
    "turnId": Kind.ID,
    "updatedAt": Kind.TIME,
}
"""A receipt of a turn that the command has started under identities of its own."""

LINK: Members = {
    "causes": Kind.COUNT,
    "oldestQueuedSeconds": Kind.TIME,
    "queuedBytes": Kind.COUNT,
    "queuedMessages": Kind.COUNT,
    "incomingCalls": Kind.COUNT,
    "redialSeconds": Kind.TIME,
    "roundTripMs": Kind.TIME,
    "sessionSeconds": Kind.TIME,
    "silentSeconds": Kind.TIME,
}
"""The figures of a link (decisions.md 13)."""


@frozen
class Printed:
    """What a command may print differently, in a line ``label: value`` or a word of a pattern with
    one group.
    """

    pattern: str
    kind: Kind


HANDLE = (Printed(r"^chat id: (\d{16})$", Kind.ID), Printed(r"^turn id: (\S+)$", Kind.ID))
NEW_ID = (Printed(r"^([0-9a-f-]{36})$", Kind.ID),)
OBSERVED = (Printed(r"^observed at: (\S+)$", Kind.TIME),)


@frozen
class Allowed:
    """All that may differ in one row's answers and in what its commands print."""

    members: Members = field(factory=dict)
    printed: tuple[Printed, ...] = ()

    def with_members(self, more: Members) -> Allowed:
        """Return the same with what a single case allows besides."""
        return Allowed(self.members | more, self.printed) if more else self


def fits(kind: Kind, value: Any) -> bool:
    """Whether a value is what its kind says; anything else is a difference like any other."""
    if value is None:
        return True
    if kind in (Kind.ID, Kind.EXECUTOR):
        return isinstance(value, str) and value != ""
    if kind is Kind.TIME:
        return isinstance(value, str | float | int) and value != ""
    return isinstance(value, int | dict)
