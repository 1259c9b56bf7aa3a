"""Recorded talks with Claude Code 2.1.197, played to a conversation: what it makes of each turn
stands in ``*.stories.jsonl``, one turn a line, and nothing in them is unknown.

The recordings were made by hand: settings were changed, and lines sent, whenever it was of
interest.  Lines that were sent while a turn ran are played as further input for it.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.catalogs import PERMISSION_MODES
from garcon.contract.messages import AskUserQuestionToolUse
from garcon.contract.runs import PermissionRequested, RunEnded
from garcon.contract.steering import Steer, SteerTarget
from garcon.runtime.agents.claude_protocol import ClaudeConversation
from garcon.runtime.agents.conversation import Emit, Output, SteerSettled, Unknown
from garcon.runtime.agents.lines import decode, encode
from garcon.runtime.agents.stamps import Stamp
from garcon.test.runtime.agents.replay import NOW, Taken, recorded
from garcon.testing.agent_runs import a_launch, a_response

Message = dict[str, Any]


def stories(name: str) -> list[list[str]]:
    """Return what a recording's turns are to become."""
    text = Path(__file__).with_name(f"{name}.stories.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


@define(eq=False)
class Player:
    """Plays one recording."""

    name: str
    taken: Taken = field(factory=Taken)
    conversation: ClaudeConversation = field(factory=ClaudeConversation)
    turns: list[list[str]] = field(factory=list)
    outputs: list[Output] = field(factory=list)
    _mode: Any = "default"
    _model: str = ""
    _session: str | None = None
    _ids: dict[str, str] = field(factory=dict)
    """Our ids of the lines that were further input."""

    def play(self) -> None:
        """Play all of it."""
        talk = list(recorded(f"{self.name}.jsonl"))
        self.take(self.conversation.open())
        for place, (direction, message) in enumerate(talk):
            if direction == "out":
                self.hear(message)
            elif message["type"] == "user":
                text = message["message"]["content"]
                text = text if isinstance(text, str) else text[-1]["text"]
                line_id = message.get("uuid") or replayed(talk[place:], text)
                self.say(text, line_id or "line")
                if line_id is None:
                    # It was recorded without lines coming back.
                    self.hear({"type": "user", "isReplay": True, "uuid": "line"})
            elif message["type"] == "control_response":
                self.decide(message["response"].get("response") or {})
            elif message["type"] == "control_request":
                self.ask(message["request"])
        self.turns.append(self.taken.story())

    def take(self, outputs: list[Output] | None) -> None:
        """Take outputs, and agree to every setting."""
        before = len(self.taken.sent)
        self.outputs += outputs or []
        self.taken.take(outputs)
        for sent in self.taken.sent[before:]:
            subtype = str(sent.get("request", {}).get("subtype", ""))
            if subtype.startswith(("set_", "apply_")):
                answer = {"subtype": "success", "request_id": sent["request_id"]}
                self.hear({"type": "control_response", "response": answer})

    def hear(self, message: Message) -> None:
        """Let the agent say something."""
        if message.get("uuid") in self._ids:
            message = message | {"uuid": self._ids[message["uuid"]]}
        self.take(self.conversation.received(message, self.taken.stamp()))
        if isinstance(message.get("session_id"), str):
            self._session = message["session_id"]

    def say(self, text: str, line_id: str) -> None:
        """Begin a turn, or add to the one that runs."""
        if self.conversation._launch is not None:
            steer = Steer(target=SteerTarget(run_id="run"), client_message_id=line_id, content=text)
            self.take(self.conversation.steer(steer))
            self._ids[line_id] = self.taken.sent[-2]["uuid"]
            return
        if self.turns or self.taken.events:
            self.turns.append(self.taken.story())
        launch = a_launch(
            text,
            agent_session_id=self._session,
            permission_mode=self._mode,
            model=self._model,
            is_compaction=text == "/compact",
        )
        self.take(self.conversation.prompt(launch, Stamp(now=NOW, fresh_id=line_id)))

    def decide(self, said: Message) -> None:
        """Decide as was decided, if we ask at all."""
        asked = [one for one in self.taken.events if isinstance(one, PermissionRequested)]
        if not asked or "behavior" not in said:
            return
        response = None
        tool = asked[-1].requested_tool
        if isinstance(tool, AskUserQuestionToolUse) and tool.questions:
            first = tool.questions[0]
            chosen = {"questionId": first.id, "selectedOptionIds": [first.options[0].id]}
            response = {"outcome": "answered", "answers": [chosen]}
        decision = a_response(
            "run",
            asked[-1],
            allow=said["behavior"] == "allow",
            always_allow="updatedPermissions" in said,
            response=response,
        )
        self.take(self.conversation.decide(decision, self.taken.stamp()))

    def ask(self, request: Message) -> None:
        """Do what was asked of the agent, as far as that is ours to do."""
        match request["subtype"]:
            case "interrupt":
                self.take(self.conversation.interrupt(self.taken.stamp()))
            case "set_permission_mode" if request["mode"] in PERMISSION_MODES:
                self._mode = request["mode"]
            case "set_model":
                self._model = request["model"] or ""


def replayed(talk: list[tuple[str, Message]], text: str) -> str | None:
    """Return the id that the agent gave to a line which had none, None if it never came back."""
    for direction, message in talk:
        if direction == "out" and message.get("isReplay"):
            content = message["message"]["content"]
            if text == (content if isinstance(content, str) else content[-1].get("text")):
                return str(message["uuid"])
    return None


class GoldenTests(SynchronousTestCase):
    """Every recording."""

    def check(self, name: str) -> Player:
        """Play a recording and compare."""
        player = Player(name)
        player.play()
        self.assertEqual(player.turns, stories(name))
        self.assertEqual([one for one in player.outputs if isinstance(one, Unknown)], [])
        ends = [one for one in player.outputs if isinstance(one, Emit)]
        count = sum(isinstance(one.event, RunEnded) for one in ends)
        self.assertEqual(count, len(player.turns))
        return player

    def test_steering_interrupts_and_permissions(self) -> None:
        """All further input was delivered."""
        player = self.check("claude-steering")
        settled = [one for one in player.outputs if isinstance(one, SteerSettled)]
        self.assertEqual({one.steered.outcome for one in settled}, {"delivered"})

    def test_controls_errors_and_compaction(self) -> None:
        """And what the agent's own commands say."""
        self.check("claude-controls")


class HostileTests(SynchronousTestCase):
    """Whatever comes in place of what is known."""

    def test_recordings_with_anything_changed(self) -> None:
        """Values of other types, members gone, lines twice, in another order, or cut: nothing is
        raised, a turn ends at most once, and there is an end when the process goes.
        """
        chance = random.Random(7)
        for name in ("claude-steering", "claude-controls", "claude"):
            talk = [
                message for direction, message in recorded(f"{name}.jsonl") if direction == "out"
            ]
            for _ in range(60):
                self.hear([spoilt(chance, message) for message in shuffled(chance, talk)], chance)

    def hear(self, messages: list[Any], chance: random.Random) -> None:
        """Have a conversation hear all of it."""
        taken, conversation = Taken(), ClaudeConversation()
        taken.take(conversation.open())
        runs = ends = 0
        for message in messages:
            if conversation._launch is None and chance.random() < 0.3:
                runs += 1
                mode = chance.choice(PERMISSION_MODES)
                launch = a_launch("go", permission_mode=mode, is_compaction=chance.random() < 0.1)
                taken.take(conversation.prompt(launch, taken.stamp()))
            elif chance.random() < 0.05:
                steer = Steer(target=SteerTarget(run_id="r"), client_message_id="m", content="x")
                taken.take(conversation.steer(steer))
            elif chance.random() < 0.03:
                taken.take(conversation.interrupt(taken.stamp()))
            line = decode(encode(message)[: chance.choice((10, 10**9))])
            if line is not None:
                taken.take(conversation.received(line, taken.stamp()))
        taken.take(conversation.ended("gone", taken.stamp()))
        ends = sum(isinstance(event, RunEnded) for event in taken.events)
        self.assertEqual(ends, runs)


def shuffled(chance: random.Random, talk: list[Message]) -> list[Message]:
    """Return a talk with some of it twice, or elsewhere."""
    talk = list(talk)
    for _ in range(chance.randrange(6)):
        place, other = chance.randrange(len(talk)), chance.randrange(len(talk))
        talk[place], talk[other] = talk[other], talk[place]
        talk.insert(place, talk[other])
    return talk


def spoilt(chance: random.Random, value: Any, depth: int = 0) -> Any:
    """Return a value with something changed, now and then."""
    if chance.random() < 0.02 * (depth > 0):
        return chance.choice((None, 0, -1.5, True, "", "x", [], [None], {}, {"type": 3}))
    if isinstance(value, dict):
        kept = {k: spoilt(chance, v, depth + 1) for k, v in value.items() if chance.random() > 0.01}
        return kept | ({"sparkle": 1} if chance.random() < 0.01 else {})
    if isinstance(value, list):
        return [spoilt(chance, one, depth + 1) for one in value]
    return value
