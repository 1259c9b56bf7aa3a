"""Recorded talks with Codex, played to conversations: what these make of each turn, and that they
say what the recording was answered to.

A recording holds several threads, of which a conversation has one.  Requests have other numbers
there, and nobody cleaned up after a turn.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field

from garcon.contract.runs import PermissionRequested
from garcon.contract.steering import Steer, SteerTarget
from garcon.runtime.agents.codex_protocol import CodexConversation
from garcon.runtime.agents.codex_settings import USUAL_EFFORTS
from garcon.test.runtime.agents.replay import Taken, recorded
from garcon.testing.agent_runs import a_launch, a_response

_MODES = {"untrusted": "default", "on-request": "default", "never": "bypassPermissions"}
_DECISIONS: dict[str, dict[str, Any]] = {
    "accept": {"allow": True},
    "acceptForSession": {"allow": True, "always_allow": True},
    "decline": {"allow": False},
}


@define(eq=False)
class Talk:
    """One conversation, with the turns that it made of the recording."""

    mode: str
    conversation: CodexConversation
    taken: Taken = field(factory=Taken)
    session: str | None = None
    turns: dict[str, list[str]] = field(factory=dict)
    title: str = ""

    @property
    def is_idle(self) -> bool:
        """Whether no turn runs."""
        return self.conversation._turn is None

    def hear(self, message: dict[str, Any]) -> None:
        """Take a message, and clean up where that is asked for."""
        self.taken.take(self.conversation.received(message, self.taken.stamp()))
        last = self.taken.sent[-1] if self.taken.sent else {}
        if last.get("method") == "thread/backgroundTerminals/clean":
            self.taken.sent.clear()
            self.hear({"id": last["id"], "result": {}})
        self.turns.setdefault(self.title, []).extend(self.taken.story())


@define(eq=False)
class Player:
    """Plays one recording."""

    talks: list[Talk] = field(factory=list)
    _threads: dict[str, Talk] = field(factory=dict)
    _asked: dict[int, tuple[Talk, int]] = field(factory=dict)
    """By the number of a recorded request: whose it is, and its number there."""
    _first: list[dict[str, Any]] = field(factory=list)

    def play(self, name: str) -> list[Talk]:
        """Play all of it."""
        for direction, message in recorded(name):
            if direction == "out":
                self._heard(message)
            else:
                self._said(message)
        return self.talks

    def _heard(self, message: dict[str, Any]) -> None:
        if not self.talks:
            self._first.append(message)
            return
        if "method" not in message:
            talk, number = self._asked.get(message["id"], (None, 0))
            if talk is not None:
                talk.hear({**message, "id": number})
                thread_id = message.get("result", {}).get("thread", {}).get("id")
                if thread_id:
                    self._threads[thread_id] = talk
            return
        talk = self._threads.get(message["params"].get("threadId", ""))
        if talk is not None:
            talk.hear(message)

    def _said(self, message: dict[str, Any]) -> None:
        parameters = message.get("params") or {}
        method = message.get("method")
        if method == "thread/start":
            self._note(message, self._opened(_MODES[parameters["approvalPolicy"]]))
            return
        if method is None:
            self._answered(message)
            return
        talk = self._threads.get(parameters.get("threadId", ""))
        if talk is None:
            return
        stamp = talk.taken.stamp()
        match method:
            case "turn/start" if talk.is_idle:
                talk.title = f"{len(talk.turns)} {parameters['input'][0]['text']}"
                launch = a_launch("go", permission_mode=talk.mode, agent_session_id=talk.session)
                talk.taken.take(talk.conversation.prompt(launch, stamp))
                talk.session = parameters["threadId"]
            case "turn/interrupt" if not talk.is_idle:
                talk.taken.take(talk.conversation.interrupt(stamp))
                assert talk.taken.sent[-1]["params"] == parameters
            case "turn/steer" if not talk.is_idle:
                target = SteerTarget(run_id="run", turn=parameters["expectedTurnId"])
                text = parameters["input"][0]["text"]
                steer = Steer(target=target, client_message_id="cm-1", content=text)
                talk.taken.take(talk.conversation.steer(steer))
                ours = talk.taken.sent[-1]["params"]
                assert ours == {**parameters, "clientUserMessageId": "cm-1"}
            case _:
                return
        assert talk.taken.sent[-1]["method"] == method
        self._note(message, talk)

    def _note(self, message: dict[str, Any], talk: Talk) -> None:
        self._asked[message["id"]] = (talk, talk.taken.sent[-1]["id"])

    def _opened(self, mode: str) -> Talk:
        launch = a_launch("", project_path="/srv/project", model="")
        talk = Talk(mode, CodexConversation(launch, None, lambda _: USUAL_EFFORTS))
        self.talks.append(talk)
        talk.taken.take(talk.conversation.open())
        talk.hear({**self._first[0], "id": talk.taken.sent[-1]["id"]})
        return talk

    def _answered(self, message: dict[str, Any]) -> None:
        decision = _DECISIONS.get(str(message.get("result", {}).get("decision")))
        for talk in self.talks:
            turn = talk.conversation._turn
            for occurrence, asked in [] if turn is None else list(turn._questions.items()):
                if decision is not None and asked.request_id == message["id"]:
                    answer = a_response("run", _request(occurrence, asked.tool), **decision)
                    talk.taken.take(talk.conversation.decide(answer, talk.taken.stamp()))
                    assert talk.taken.sent[-1] == message


def _request(occurrence: str, tool: Any) -> PermissionRequested:
    return PermissionRequested(
        permission_occurrence_id=occurrence, requested_tool=tool, timestamp=""
    )
