"""Recorded talks with agents of this protocol, played to conversations: what these make of each
turn.

A recording holds several sessions of one process, of which a conversation has one.  It was made by
hand: modes and models were set, and prompts sent while another ran, whenever it was of interest.
Those messages are not ours to send, and what came of them is heard all the same.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field

from garcon.contract.runs import PermissionRequested
from garcon.runtime.agents.acp_protocol import AcpConversation, AcpWays
from garcon.runtime.agents.conversation import Output, Unknown
from garcon.test.runtime.agents.replay import Taken, recorded
from garcon.testing.agent_runs import a_launch, a_response


@define(eq=False)
class Talk:
    """One conversation, with the turns that it made of the recording."""

    conversation: AcpConversation
    taken: Taken = field(factory=Taken)
    session: str = ""
    turns: list[list[str]] = field(factory=list)
    asked: dict[Any, PermissionRequested] = field(factory=dict)
    """Its permission requests, by their recorded ids."""

    @property
    def is_idle(self) -> bool:
        """Whether no turn runs."""
        return self.conversation._launch is None

    def take(self, outputs: list[Output] | None) -> None:
        """Take outputs, as part of the turn that runs."""
        self.taken.take(outputs)
        if self.turns:
            self.turns[-1] += self.taken.story()

    def last(self, method: str) -> dict[str, Any]:
        """Return what was sent last, by a method."""
        return [sent for sent in self.taken.sent if sent.get("method") == method][-1]


@define(eq=False)
class Player:
    """Plays one recording."""

    talks: list[Talk] = field(factory=list)
    unknown: list[str] = field(factory=list)
    _sessions: dict[str, Talk] = field(factory=dict)
    _asked: dict[int, tuple[Talk, int]] = field(factory=dict)
    """By the number of a recorded request: whose it is, and its number there."""
    _initialized: dict[str, Any] = field(factory=dict)

    def play(self, name: str) -> list[list[str]]:
        """Play all of it, and return the turns."""
        for direction, message in recorded(name):
            if direction == "out":
                self._heard(message)
            else:
                self._said(message)
        return [turn for talk in self.talks for turn in talk.turns]

    def _heard(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            if not self._initialized:
                self._initialized = message
                return
            talk, number = self._asked.pop(message["id"], (None, 0))
            if talk is not None:
                if not talk.session:
                    talk.session = message["result"]["sessionId"]
                    self._sessions[talk.session] = talk
                self._hear(talk, {**message, "id": number})
            return
        talk = self._sessions.get(message["params"].get("sessionId", ""))
        if talk is not None:
            self._hear(talk, message)

    def _hear(self, talk: Talk, message: dict[str, Any]) -> None:
        outputs = talk.conversation.received(message, talk.taken.stamp())
        self.unknown += [output.kind for output in outputs if isinstance(output, Unknown)]
        talk.taken.take(outputs)
        for event in talk.taken.events:
            if isinstance(event, PermissionRequested):
                talk.asked[message["id"]] = event
        if talk.turns:
            talk.turns[-1] += talk.taken.story()

    def _said(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "session/new":
            talk = Talk(AcpConversation(parameters["cwd"], None, AcpWays()))
            self.talks.append(talk)
            talk.take(talk.conversation.open())
            self._hear(talk, {**self._initialized, "id": talk.last("initialize")["id"]})
            self._note(message, talk)
            return
        if method is None:
            self._answered(message)
            return
        talk_of = self._sessions.get(parameters.get("sessionId", ""))
        if talk_of is None:
            return
        talk = talk_of
        if method == "session/prompt" and talk.is_idle and parameters.get("prompt"):
            talk.turns.append([])
            text = parameters["prompt"][0]["text"]
            launch = a_launch(text, model="default", agent_session_id=talk.session)
            talk.take(talk.conversation.prompt(launch, talk.taken.stamp()))
            while talk.taken.sent[-1]["method"] != "session/prompt":
                # It had been set to something else.
                self._hear(talk, {"id": talk.taken.sent[-1]["id"], "result": {}})
            self._note(message, talk)
        elif method == "session/cancel":
            talk.take(talk.conversation.interrupt(talk.taken.stamp()))

    def _note(self, message: dict[str, Any], talk: Talk) -> None:
        """See that we sent the same, but for its number."""
        sent = talk.last(message["method"])
        assert sent == {**message, "id": sent["id"]}, (sent, message)
        self._asked[message["id"]] = (talk, sent["id"])

    def _answered(self, message: dict[str, Any]) -> None:
        outcome = message.get("result", {}).get("outcome", {})
        for talk in self.talks:
            asked = talk.asked.pop(message["id"], None)
            if asked is not None and "optionId" in outcome:
                chosen = outcome["optionId"]
                is_no = chosen in ("reject", "cancel", "no")
                always = chosen in ("always", "allow_always", "proceed_always")
                answer = a_response("run", asked, allow=not is_no, always_allow=always)
                talk.take(talk.conversation.decide(answer, talk.taken.stamp()))
                assert talk.taken.sent[-1] == message, (talk.taken.sent[-1], message)
