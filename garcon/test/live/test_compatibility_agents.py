"""A program of somebody else's that stands in for Claude Code: how it is found, started and spoken
to (existing-clients.md, agent binaries and Claude Code process).
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from typing import Any

from garcon.test.live.foreign import ForeignCase, Stage
from garcon.testing.fleet import eventually
from garcon.testing.foreign_client import message

STAND_IN = """#!{python}
import json
import sys

with open({log!r}, "a") as log:
    print(json.dumps(sys.argv[1:]), file=log)
if "auth" in sys.argv or "--version" in sys.argv:
    print("1.0.0 (Claude Code)")
    sys.exit(0)
options = dict(zip(sys.argv, sys.argv[1:]))
session = options.get("--session-id") or options.get("--resume")


def say(kind, **members):
    print(json.dumps({{"type": kind, "session_id": session, **members}}), flush=True)


for line in sys.stdin:
    said = json.loads(line)
    if said["type"] == "control_request":
        answer = {{"subtype": "success", "request_id": said["request_id"], "response": {{}}}}
        say("control_response", response=answer)
        if said["request"]["subtype"] == "interrupt":
            say("result", subtype="error_during_execution", is_error=True)
    if said["type"] == "user":
        text = said["message"]["content"][-1]["text"]
        if text == "wait":
            continue
        say("system", subtype="init", model="opus", tools=[])
        block = {{"type": "text", "text": "heard: " + text}}
        say("assistant", message={{"role": "assistant", "content": [block]}})
        say("result", subtype="success", is_error=False, result="heard: " + text)
"""


class ClaudeTests(ForeignCase):
    """Claude Code by its stand-in."""

    def setUp(self) -> None:
        folder = Stage.get().folder()
        self.log = folder / "arguments"
        program = folder / "somebodys-claude"
        program.write_text(STAND_IN.format(python=sys.executable, log=str(self.log)))
        program.chmod(0o755)
        type(self).environment = {"CLAUDE_BINARY": str(program)}
        super().setUp()

    def started(self) -> list[list[str]]:
        """The arguments of each start that was for a turn."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in lines if "--input-format" in line]

    def chat_body(self, text: str) -> dict[str, Any]:
        """Return what starts a chat."""
        return message(
            chatId=self.client.ids.chat(),
            projectPath=self.project,
            command=text,
            agentId="claude",
            model="opus",
            agentSettings={"ownerId": "claude", "schemaVersion": 1, "values": {}},
        )

    def test_sessions(self) -> None:
        """A new one has an id of ours, an old one is resumed; both directions are stream-json, and
        a turn is over with its result (and stopped when it is stopped).
        """
        agents = self.client.do("GET", "/models")["catalog"]["agents"]
        claude = next(one for one in agents if one["id"] == "claude")
        models = [one["value"] for one in claude["models"] if "endpointId" not in one]
        self.assertEqual(models, ["opus", "sonnet", "haiku", "fable"])
        others = [one["value"] for one in claude["models"][len(models) :]]
        self.assertEqual([name.partition(":")[2] for name in others], ["scripted", "other"])
        turn = self.client.do("POST", "/chats/start", self.chat_body("hello"))
        chat_id = turn["chatId"]
        self.assertEqual(self.ended(turn), ("completed", ["heard: hello"]))
        self.assertEqual(self.socket.turn_ended(turn)["type"], "agent-run-finished")
        self.assertEqual(self.ended(self.client.run(chat_id, "more"))[1], ["heard: more"])
        [arguments] = self.started()
        options = dict(pairwise(arguments))
        self.assertEqual(options["--input-format"], "stream-json")
        self.assertEqual(options["--output-format"], "stream-json")
        session = options["--session-id"]
        self.assertNotIn("--resume", options)
        details = self.client.do("GET", "/chats/details", chatId=chat_id)
        self.assertEqual(details["agentSessionId"], session)
        waiting = self.client.run(chat_id, "wait")
        self.client.stop(chat_id)
        self.assertEqual(self.ended(waiting)[0], "interrupted")
        self.restart()
        self.assertEqual(self.ended(self.client.run(chat_id, "again"))[0], "completed")
        arguments = eventually("the second start", lambda: self.started()[1:])[-1]
        options = dict(pairwise(arguments))
        self.assertEqual(options["--resume"], session)
        self.assertNotIn("--session-id", options)
