"""What the controller asks of its store.  `SqliteStore` and the in-memory double pass one interface
test.
"""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from zope.interface import Interface

from garcon.errors import GarconError
from garcon.store.records import Change, Row, StoredChat


class Damaged(GarconError):
    """Rows of one view cannot be trusted; only the chat they belong to is fenced (decisions.md
    24).
    """

    def __init__(self, view_id: str, what: str) -> None:
        super().__init__("LEDGER_FENCED", f"The stored transcript is damaged ({what}).", status=503)
        self.view_id = view_id


class NotStored(GarconError):
    """A write failed as a whole: nothing of it was kept."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            "INTERNAL_ERROR", f"The store refused a write ({reason}).", status=500, retryable=True
        )


class IStore(Interface):
    """Durable memory of one workspace.

    A write cannot be cancelled: giving up on its Deferred leaves it to be done.  A read that has
    been given up before its turn is not done.  All are idempotent, so a write of unknown fate may
    simply be repeated.
    """

    def open() -> Deferred[None]:
        """Open or create the store; fails with `StartupError`."""

    def close() -> Deferred[None]:
        """Fire when every accepted write is durable and the store is shut; later calls fail."""

    def load() -> Deferred[list[StoredChat]]:
        """List all chats."""

    def settings() -> Deferred[dict[str, str]]:
        """Return the small key-value settings."""

    def write(changes: Sequence[Change]) -> Deferred[None]:
        """Make all the changes, in order, or none; fires once they are durable, fails with
        `NotStored`, or with `Damaged` where rows that are there already cannot be trusted.

        Writes that come while a commit runs share the next one.
        """

    def read_rows(
        view_id: str, first: int, last: int, most_bytes: int | None = None
    ) -> Deferred[list[Row]]:
        """Return the rows `first` to `last`, all of them; anything missing or unlike its check is
        `Damaged`.

        With `most_bytes` the one with which the payloads together pass it is the last.
        """

    def find_message(view_id: str, client_message_id: str) -> Deferred[Row | None]:
        """Return the row with that message identity, if the view has one; fails with `Damaged`."""
