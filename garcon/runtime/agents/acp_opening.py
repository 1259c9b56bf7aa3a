"""How a session of this protocol is opened, as values: begun, taken up again, or forked.

A session is taken up by `session/load`, whose replayed history is nobody's row here, or by
`session/resume` where the agent has only that.  Any capability may be missing: an agent that can do
neither begins a session of its own, and so does one that cannot fork.

The answer to `session/load` should be the end of the history, but Gemini's may come before it.  So
we go on to ask something that nobody knows, until nothing more has come before an answer.
"""

from __future__ import annotations

from typing import Any

from attrs import define

from garcon.contract.runs import ForkPoint
from garcon.contract.version import VERSION
from garcon.runtime.agents import acp_steering
from garcon.runtime.agents.acp_choices import Choices
from garcon.runtime.agents.acp_known import unknown_in_answer
from garcon.runtime.agents.acp_wire import (
    AUTH_REQUIRED,
    Calls,
    an_object,
    error_text,
    objects_of,
    text_of,
)
from garcon.runtime.agents.conversation import Output, Ready, Refused, Version

PURPOSES = frozenset({"initialize", "new", "load", "resume", "fork", "settle"})
SETTLED = "_garcon/settled"
SETTLE_ROUNDS = 200
PROTOCOL = 1
"""The version that we speak."""
INITIALIZE = {
    "protocolVersion": PROTOCOL,
    "clientCapabilities": {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
    },
    "clientInfo": {"name": "garcon", "title": "Garcon", "version": VERSION},
}


@define(eq=False)
class Opening:
    """Ask until there is a session; `session_id` is known then."""

    _directory: str
    _resume: str | None
    _fork_from: ForkPoint | None
    _calls: Calls
    _choices: Choices
    session_id: str = ""
    is_open: bool = False
    is_fork: bool = False
    """It began as the fork that its launch asked for."""
    is_new: bool = False
    takes_images: bool = False
    can_be_steered: bool = False
    _sign_in: str = ""
    _settling: int = 0
    _is_quiet: bool = True

    def begin(self) -> list[Output]:
        """Say what is written first."""
        return [self._calls.ask("initialize", "initialize", INITIALIZE)]

    def answered(self, purpose: str, message: dict[str, Any]) -> list[Output]:
        """Take the answer to one of `PURPOSES`."""
        if purpose == "settle":
            return self._settled()
        error = message.get("error")
        result = an_object(message.get("result"))
        if error is None:
            if purpose == "initialize":
                return [*unknown_in_answer("initialize", result), *self._initialized(result)]
            return [*unknown_in_answer("opened", result), *self._opened(purpose, result)]
        if purpose == "fork":
            # What was said is told instead.
            return [self._ask("new")]
        text = error_text(error)
        if an_object(error).get("code") == AUTH_REQUIRED:
            text += f". Sign in by starting the agent in a terminal once{self._sign_in}."
        return [Refused(f"the agent {_COULD_NOT[purpose]}: {text}")]

    def _initialized(self, result: dict[str, Any]) -> list[Output]:
        spoken = result.get("protocolVersion")
        if spoken is True or spoken != PROTOCOL:
            text = f"the agent does not speak version {PROTOCOL} of the Agent Client Protocol"
            return [Refused(f"{text}, but {spoken}" if type(spoken) is int else text)]
        said = an_object(result.get("agentCapabilities"))
        session = an_object(said.get("sessionCapabilities"))
        self.takes_images = an_object(said.get("promptCapabilities")).get("image") is True
        self.can_be_steered = acp_steering.is_offered(said)
        ways = ", ".join(
            name for one in objects_of(result.get("authMethods")) if (name := _name(one))
        )
        self._sign_in = f" ({ways})" if ways else ""
        release = text_of(an_object(result.get("agentInfo")).get("version"))
        outputs: list[Output] = [Version(release)] if release else []
        if self._resume is not None and said.get("loadSession") is True:
            return [*outputs, self._ask("load", self._resume)]
        if self._resume is not None and isinstance(session.get("resume"), dict):
            return [*outputs, self._ask("resume", self._resume)]
        point = self._fork_from
        can_fork = isinstance(session.get("fork"), dict)
        if self._resume is None and point is not None and point.anchor is None and can_fork:
            return [*outputs, self._ask("fork", point.agent_session_id)]
        return [*outputs, self._ask("new")]

    def _ask(self, purpose: str, session_id: str | None = None) -> Output:
        parameters: dict[str, Any] = {"cwd": self._directory, "mcpServers": []}
        if session_id is not None:
            parameters = {"sessionId": session_id, **parameters}
        return self._calls.ask(purpose, f"session/{purpose}", parameters)

    def _opened(self, purpose: str, result: dict[str, Any]) -> list[Output]:
        named = text_of(result.get("sessionId"))
        if not named and purpose in ("load", "resume"):
            named = self._resume or ""
        if not named:
            return [Refused("the agent named no session")]
        self.session_id = named
        self.is_fork, self.is_new = purpose == "fork", purpose == "new"
        self._choices.opened(result)
        return self._settled() if purpose == "load" else self._done()

    def _done(self) -> list[Output]:
        self.is_open = True
        return [Ready()]

    def updated(self) -> None:
        """Something has come of the session that is being opened."""
        self._is_quiet = False

    def _settled(self) -> list[Output]:
        if self._settling and (self._is_quiet or self._settling >= SETTLE_ROUNDS):
            return self._done()
        self._settling += 1
        self._is_quiet = True
        return [self._calls.ask("settle", SETTLED, {"sessionId": self.session_id})]


_COULD_NOT = {
    "initialize": "refused to start",
    "new": "refused to start",
    "load": "could not load its session",
    "resume": "could not go on with its session",
}


def _name(method: dict[str, Any]) -> str:
    return text_of(method.get("name")) or text_of(method.get("id"))
