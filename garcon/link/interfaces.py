"""What the link offers to the two roles.  `ControllerLink` and `WorkerLink` (link.py) and
`memory.py` implement it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, frozen
from msgspec import Struct
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from garcon.contract.diagnostics import LinkDiagnostics
from garcon.contract.rpc import Lane, Method
from garcon.contract.terminals import TerminalNotification


@frozen
class Peer:
    """Who is proven to be at the other end of a lane."""

    executor_id: str
    runtime_id: str
    role: str


@define(eq=False)
class CallContext:
    """What a handler knows of the call it serves.

    `session` is the lane session that carried the request and `generation` its primary's session
    id.  The handler's Deferred is cancelled when the caller gives up, and when the session of a
    ``session`` class call is lost.
    """

    method: Method
    lane: Lane
    peer: Peer
    session: ILaneSession
    generation: str
    integration_id: str = ""


@frozen
class Guarded:
    """A handler's result that must be judged once more, synchronously, right before it is queued.

    `guard` gets the encoded size of the value and returns the value to send (the same or a smaller
    one) or raises `GarconError`, which is then sent as the error instead (cli-gateway: the per-call
    reply guard).
    """

    value: Any
    guard: Callable[[int], Any]


Handler = Callable[[Any, CallContext], "Deferred[Any]"]
"""Takes the decoded request (the method's type) and the context; fires with the result (the
method's type) or Guarded.
"""


class ILaneSession(Interface):
    """One authenticated lane; dead for good once lost."""

    lane: Lane = Attribute("Which lane.")
    session_id: str = Attribute("The lane's own session id; on primary, the link generation.")
    peer: Peer = Attribute("Who is at the other end.")
    is_open: bool = Attribute("Whether messages can still be sent.")
    queued_bytes: int = Attribute(
        "Encoded bytes admitted for this lane and not yet handed to the transport."
    )

    def call(
        method: Method,
        request: Struct | None,
        deadline: float | None = ...,
        integration_id: str = "",
    ) -> Deferred[Any]:
        """Send a call and fire with its decoded result, or fail with `CallError`.

        `deadline` defaults to the method's; None is no timer.  Cancelling sends one ``cancel``
        frame.
        """


class ICapturedLink(Interface):
    """One generation of a link: calls go to exactly this primary session and its bulk, never to a
    replacement.
    """

    generation: str = Attribute("The primary's session id.")
    peer: Peer = Attribute("Who is at the other end.")
    is_current: bool = Attribute("Whether this primary is still connected.")

    def call(
        method: Method,
        request: Struct | None,
        *,
        lane: Lane | None = None,
        deadline: float | None = ...,
    ) -> Deferred[Any]:
        """Call on the method's lane (or `lane`, for methods that have none of their own).

        Waiting for bulk lasts at most 20 s and counts against the deadline; not admitted in that
        time, or the generation gone before sending, is `CallError` with outcome ``not-dispatched``.
        """


class ILink(Interface):
    """Both lanes of one executor, over however many sessions."""

    executor_id: str | None = Attribute("The executor; None on a worker that has not linked yet.")
    bulk_phase: str = Attribute(
        "offline, preparing, connecting, reconciling, activating, ready or reconnecting."
    )
    last_error: tuple[str, str] | None = Attribute(
        "Kind and text of the last link failure, or None."
    )

    def current() -> ICapturedLink | None:
        """The generation that is connected now, or None."""

    def call(
        method: Method,
        request: Struct | None,
        *,
        deadline: float | None = ...,
        interactive: bool = False,
    ) -> Deferred[Any]:
        """Call on the method's own lane, as its continuity class has it (control.md J.8).

        A ``session`` or ``launch`` call goes to the generation that is active now, or fails with
        `CallError`, ``not-dispatched``, at once.  A launch whose session is lost after sending
        fails with `LaunchLost`.

        A ``journaled`` call outlives sessions.  While none is active it waits, if the link has
        been up and is within its grace, and is ``not-dispatched`` when it could not be sent by its
        dispatch deadline: its `deadline` less up to a second for the call itself; at most 20 s
        after it was made when `interactive` or on bulk.  Once sent it is reconciled on the next
        session of the same worker process; it ends ``unknown`` when that cannot tell of it, when
        the worker was restarted, when the grace or the `deadline` is over and when the link is
        closed.  `deadline` defaults to the method's, and to at most 20 s when `interactive`; None
        is no timer.  Cancelling withdraws the call, on the next session if there is none.
        """

    def reconcile_primary() -> Deferred[None]:
        """Controller: account for primary's lost calls on the present generation.

        The owner does so once for each generation, after its installation calls and before it
        resumes producers.  Fails with `LaneLost` when the generation ends meanwhile.
        """

    def activate() -> None:
        """Controller: let `call` use the present generation from now on, what waits first.

        Comes after `reconcile_primary`; nothing happens when that generation has ended meanwhile.
        """

    def probe() -> Deferred[None]:
        """Ask for a sign of life on each lane there is; fires when all have answered or ended.

        The caller sets the deadline.
        """

    def diagnostics() -> LinkDiagnostics:
        """Return what the link knows of itself: no address, no secret, no payload."""

    def send_producer(seq: int, frame: Struct) -> bool:
        """Worker: queue one producer frame on primary; False when it is not admitted now (retry
        later).
        """

    def acknowledge(acknowledgements: dict[str, int]) -> None:
        """Controller: acknowledge producer frames, binding id to the highest contiguous number
        taken.
        """

    def send_terminal(notification: TerminalNotification) -> bool:
        """Worker: queue one terminal event on primary; False when it is not admitted now (retry
        later).  All of them keep their order, also with the replies of calls.

        Output is admitted while the socket takes more and little else waits, anything else as a
        call would be.  Raises `LimitExceeded` for one that no record can hold.
        """

    def detach_terminal(attachment_id: str) -> None:
        """Controller: say that an attachment is not wanted any more."""

    def take_terminals(taken: dict[str, int]) -> None:
        """Controller: say how far attachments are rid of their output, by their ids."""

    def close(cause: str) -> Deferred[None]:
        """End both lanes and every attempt, for good."""


class ILinkEvents(Interface):
    """What a link tells its owner, synchronously and in order."""

    def primary_installed(captured: ICapturedLink) -> None:
        """A new generation is authenticated; installation calls may be made.

        A controller then installs it: describe, start integrations, `ILink.reconcile_primary`,
        resume producers, `ILink.activate`.
        """

    def primary_lost(captured: ICapturedLink, cause: str) -> None:
        """That generation ended; its calls have been failed already, but for those that
        `ILink.call` keeps for the next.
        """

    def bulk_changed(phase: str) -> None:
        """The bulk life cycle moved."""

    def link_failed(kind: str, text: str) -> None:
        """An attempt or a session failed; at most one notice a second."""

    def producer_received(binding_id: str, seq: int, frame: Any) -> None:
        """Controller: one producer frame arrived (decoded `ProducerFrame`)."""

    def producer_acknowledged(acknowledgements: dict[str, int]) -> None:
        """Worker: the controller has these."""


class ITerminalEvents(Interface):
    """What the owner of a link provides as well where it has terminals; without it, what its peer
    says of them is a breach of the protocol.
    """

    def terminal_received(notification: TerminalNotification) -> None:
        """Controller: the next event of an attachment has arrived."""

    def terminal_detached(attachment_id: str) -> None:
        """Worker: the controller does not want an attachment any more."""

    def terminals_taken(taken: dict[str, int]) -> None:
        """Worker: the controller has handed on the output of attachments so far."""
