"""The one client behind every command: it knows routes, not paths, and not what lies behind them.

Every application call carries the captured controller instance.  Recovery never adopts another.
"""

from __future__ import annotations

import json

from garcon.cli.discovery import PROOF_TIME, prove
from garcon.cli.failures import (
    AUTHENTICATION,
    OPERATIONAL,
    RECOVERY,
    VERIFICATION,
    ApiError,
    BadAnswer,
    CommandFailure,
    NoNetwork,
    RuntimeReplaced,
    TransportFailure,
    failure_of,
)
from garcon.cli.http import exchange, request_bytes
from garcon.contract.routes import CLI_CONTEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from garcon.cli.discovery import Endpoint
    from garcon.cli.system import System
    from garcon.contract.routes import Route

    T = TypeVar("T")

REQUEST_TIME = 30.0
CONTEXT_TIME = 10.0
"""The gateway asks its controller for at most 5 s; its own answer must still arrive."""

BUSY_TIME = 15.0
"""How long something is asked again while a worker's gateway has no room for it (control.md F.6):
many commands at once are ordinary, since agents start them.
"""
BUSY = "CLI_SERVICE_BUSY"

RESTARTED = "Garcon restarted while the turn was running; its outcome is not known here"
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_LARGEST_RETRY_AFTER = 5


class Context:
    """Which controller the endpoint leads to, and where new work goes by default."""

    __slots__ = ("default_executor_id", "server_instance_id", "workspace_name")

    def __init__(
        self, server_instance_id: str, default_executor_id: str, workspace_name: str | None
    ) -> None:
        self.server_instance_id = server_instance_id
        self.default_executor_id = default_executor_id
        self.workspace_name = workspace_name

    def workspace(self) -> str:
        """Return how diagnostics name the workspace."""
        if self.workspace_name is None:
            return "this Garcon workspace"
        return f'Garcon workspace "{self.workspace_name}"'


class GarconClient:
    """A proven endpoint and the controller instance that this invocation belongs to."""

    def __init__(self, endpoint: Endpoint, system: System, context: Context) -> None:
        self.endpoint = endpoint
        self.system = system
        self.context = context
        self.token: str | None = None
        """A user's, for commands that act for that user."""

    @classmethod
    def connect(cls, endpoint: Endpoint, system: System) -> GarconClient:
        """Prove the endpoint, learn its controller, and return a client bound to both."""
        try:
            prove(endpoint, system)
            context = _with_room(system, lambda: _context(endpoint, system))
            return cls(endpoint, system, context)
        except RuntimeReplaced as e:
            raise CommandFailure(VERIFICATION, e.text, OPERATIONAL) from None
        except (ApiError, TransportFailure) as e:
            failure = failure_of(e, VERIFICATION)
            # Whatever the answer, the typed command is not what is wrong here.
            failure.exit_status = OPERATIONAL
            if isinstance(e, TransportFailure) and not e.sent and not isinstance(e, NoNetwork):
                failure.text += f" ({endpoint.unreached()})"
            raise failure from None

    def verify(self, seconds: float = CONTEXT_TIME) -> None:
        """Check that the same process still leads to the same controller; each of the two questions
        takes at most `seconds`.

        Raises `RuntimeReplaced` when it does not; `ApiError` or `TransportFailure` when that
        cannot be told now.
        """
        try:
            prove(self.endpoint, self.system, min(seconds, PROOF_TIME))
            live = _context(self.endpoint, self.system, min(seconds, CONTEXT_TIME))
        except TransportFailure:
            if self.endpoint.was_replaced():
                raise RuntimeReplaced("another process has taken the endpoint's place") from None
            raise
        if live.server_instance_id != self.context.server_instance_id:
            raise RuntimeReplaced("another controller answers now")

    def call(
        self,
        route: Route,
        query: Iterable[tuple[str, str]] = (),
        body: dict[str, Any] | None = None,
        *,
        executor_id: str = "",
        seconds: float | None = None,
        token: str | None = None,
    ) -> dict[str, Any]:
        """Make one request and return the object it answers; with a user's `token` instead of the
        capability, on that user's behalf.

        Raises `ApiError`, `TransportFailure` (among them `BadAnswer`) or `RuntimeReplaced`.
        """
        data = None if body is None else encode(body)
        return self.send(route, query, data, executor_id=executor_id, seconds=seconds, token=token)

    def send(
        self,
        route: Route,
        query: Iterable[tuple[str, str]] = (),
        data: bytes | None = None,
        *,
        executor_id: str = "",
        seconds: float | None = None,
        patient: bool = False,
        token: str | None = None,
    ) -> dict[str, Any]:
        """As `call`, with a body already encoded, so that a repetition is the same to the byte.

        Reads wait for room at a busy gateway, and so does a `patient` change: it did not run.
        """
        token = self.token if token is None else token
        path = route.path.replace(":executorId", quote(executor_id))
        headers = [("X-Garcon-Server-Instance", self.context.server_instance_id)]
        target = path + query_text(query)
        time = REQUEST_TIME if seconds is None else seconds

        def ask() -> dict[str, Any]:
            return _request(
                self.endpoint, self.system, route.method, target, headers, data, time, token
            )

        # A poll with a time of its own is patient by itself.
        if patient or (route.method == "GET" and seconds is None):
            return _with_room(self.system, ask)
        return ask()


def _with_room(system: System, ask: Callable[[], T]) -> T:
    """Ask, and ask again while all that is said is that there is no room now."""
    deadline = system.clock() + BUSY_TIME
    while True:
        try:
            return ask()
        except ApiError as error:
            # Never sooner than was asked for, and not all at the same moment.
            delay = max(1, error.retry_after or 0) * (system.jitter() + 0.1)
            if error.code != BUSY or system.clock() + delay > deadline:
                raise
        system.sleep(delay)


def _context(endpoint: Endpoint, system: System, seconds: float = CONTEXT_TIME) -> Context:
    said = _request(endpoint, system, CLI_CONTEXT.method, CLI_CONTEXT.path, [], None, seconds)
    instance, executor = said.get("serverInstanceId"), said.get("defaultExecutorId")
    name = said.get("workspaceName")
    if (
        not (isinstance(instance, str) and _is_instance(instance))
        or not (isinstance(executor, str) and is_executor_id(executor))
        or not (name is None or isinstance(name, str))
    ):
        raise BadAnswer("the endpoint's context is malformed")
    return Context(instance, executor, name)


def _is_instance(text: str) -> bool:
    return 0 < len(text) <= 128 and text.isascii() and text.isprintable() and text == text.strip()


def _request(
    endpoint: Endpoint,
    system: System,
    method: str,
    target: str,
    headers: list[tuple[str, str]],
    data: bytes | None,
    seconds: float,
    token: str | None = None,
) -> dict[str, Any]:
    credential = endpoint.descriptor.local_capability if token is None else token
    request = request_bytes(
        method,
        target,
        endpoint.authority,
        [
            ("Accept", "application/json"),
            ("Authorization", f"Bearer {credential}"),
            *headers,
        ],
        data,
    )
    answer = exchange(endpoint.host, endpoint.port, request, seconds, system.clock)
    if 300 <= answer.status < 400:
        raise BadAnswer("the endpoint redirects, which Garcon never does")
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        said = None
    if 200 <= answer.status < 300:
        if not isinstance(said, dict):
            raise BadAnswer(f"the answer is not a JSON object (HTTP {answer.status})")
        return said
    raise _api_error(answer.status, said, answer.headers.get("retry-after"))


def _api_error(status: int, said: Any, retry_after: str | None) -> ApiError | RuntimeReplaced:
    said = said if isinstance(said, dict) else {}
    text, code = said.get("error"), said.get("errorCode")
    if code == "CLI_CONTROLLER_CHANGED" and status == 409:
        return RuntimeReplaced("another controller answers now")
    seconds = None
    if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
        seconds = min(int(retry_after[:6]), _LARGEST_RETRY_AFTER)
    return ApiError(
        status,
        code if isinstance(code, str) else "",
        text if isinstance(text, str) and text.strip() else "the request failed",
        said.get("retryable") is True,
        seconds,
    )


def access_lost(error: ApiError) -> bool:
    """Whether the endpoint no longer takes our word at all."""
    return error.status in (401, 403)


def restarted() -> CommandFailure:
    """The end of an invocation whose controller is gone."""
    return CommandFailure(RECOVERY, RESTARTED, OPERATIONAL, "CLI_CONTROLLER_CHANGED")


def denied(error: ApiError) -> CommandFailure:
    """The end of an invocation that lost its access."""
    return CommandFailure(AUTHENTICATION, error.said(), OPERATIONAL, error.code)


def encode(body: dict[str, Any]) -> bytes:
    """Return a request body.  A lone surrogate stays an escape, so it is always valid UTF-8."""
    return json.dumps(body, separators=(",", ":")).encode("ascii")


def query_text(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a query string, ``?`` included, or nothing."""
    text = "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)
    return "?" + text if text else ""


def quote(text: str) -> str:
    """Percent-encode everything but unreserved characters."""
    data = text.encode("utf-8", "surrogatepass")
    return "".join(chr(b) if b in _UNRESERVED else f"%{b:02X}" for b in data)


def is_executor_id(text: str) -> bool:
    """Whether `text` is ``local`` or a lower-case UUID v4."""
    return text == "local" or is_uuid4(text)


def is_uuid4(text: str) -> bool:
    """Whether `text` is a lower-case UUID v4."""
    parts = text.split("-")
    return (
        [len(part) for part in parts] == [8, 4, 4, 4, 12]
        and all(c in "0123456789abcdef" for part in parts for c in part)
        and parts[2][0] == "4"
        and parts[3][0] in "89ab"
    )


def is_chat_id(text: str) -> bool:
    """Whether `text` is a chat id (chats.md 2.1)."""
    return (
        len(text) == 16
        and text.isascii()
        and text.isdigit()
        and 1_000 <= int(text) <= 9_007_199_254_740_991
    )
