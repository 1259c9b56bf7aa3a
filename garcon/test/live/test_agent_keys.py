"""Where the key of a profile is while an agent uses it: in that one child and what it runs, and in
one file of the controller's (decisions.md 4, control.md B).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import garcon
from garcon.contract import operations
from garcon.test.live.strict import StrictTestCase
from garcon.testing.fleet import eventually

KEY = "sk-live-0123456789-the-key-of-an-agent"
AGENT = """
[agents.keyed]
command = [{python}, "-P", "-m", "garcon.testing.scripted_agent"]
models = ["scripted"]

[agents.keyed.environment]
PYTHONPATH = {path}

[agents.keyed.endpoint]
protocol = "openai-compatible"
url = "AT"
key = "KEYED"
"""
TELLS = [
    'run echo "plain $KEYED"',
    'run printf "%s" "user:$KEYED" | base64 -w0',
    'run echo "<$KEYED>" >&2; exit 1',
]
STAYS = (
    "run echo $$ > ids; (setsid sleep 34568 & echo $! >> ids); cat /dev/zero | head -c 1; sleep 600"
)
FAILS = "run sh -c 'echo \"last words $KEYED\" > /proc/'$PPID'/fd/2'\nexit 3"
# Of what it prints there the last 8 KiB are told, and those begin within the key.
FAILS_LONGER = FAILS.replace("last words $KEYED", "$KEYED$(printf %8180s words)")


class KeyTests(StrictTestCase):
    """A pair whose machines both have one agent, pointed at endpoints by its environment."""

    def setUp(self) -> None:
        super().setUp()
        endpoint = {
            "protocol": "openai-compatible",
            "baseUrl": "http://127.0.0.1:9/v1",
            "apiKey": KEY,
            "defaultModel": "scripted",
        }
        both = ["local", self.executor_id]
        body = {"label": "Keyed", "endpoint": endpoint, "executorIds": both}
        profile = self.direct.asked(operations.CREATE_PROVIDER, body)
        chosen = profile.endpoints[0].id
        self.selection = {
            "agentId": "acp-keyed",
            "agentSettings": {"ownerId": "acp-keyed", "schemaVersion": 1, "values": {}},
            "model": f"{chosen}:scripted",
            "apiProviderId": profile.id,
            "modelEndpointId": chosen,
            "modelProtocol": "openai-compatible",
        }

    def prepare(self) -> None:
        text = AGENT.format(
            python=json.dumps(sys.executable),
            path=json.dumps(str(Path(garcon.__file__).parents[1])),
        )
        for name in ("controller", "worker"):
            config = self.fleet.root / name
            config.mkdir()
            (config / "agents.toml").write_text(text)

    def holders(self, part: str) -> set[int]:
        """Return the processes of this machine that have the key in their environment or their
        arguments.
        """
        found = set()
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if KEY.encode() in Path(f"/proc/{name}/{part}").read_bytes():
                    found.add(int(name))
            except OSError:
                continue  # it has ended
        return found

    def is_nowhere_else(self) -> None:
        """Neither in what is kept nor in what was printed."""
        files = [
            str(path.relative_to(self.fleet.root))
            for path in self.fleet.root.rglob("*")
            if path.is_file() and KEY.encode() in path.read_bytes()
        ]
        self.assertEqual(files, ["controller/api-providers.json"])
        for service in (self.controller, self.worker):
            self.assertNotIn(KEY, service.output.text())

    def on(self, executor_id: str) -> None:
        command = "\n".join(TELLS)
        chat, view, receipt = self.begun(self.direct, executor_id, command, **self.selection)
        self.assertEqual(receipt.state, "completed", receipt)
        shown = self.direct.ask(operations.SNAPSHOT, None, {"chatId": chat}).body.decode()
        for words in ("plain [secret]", "<[secret]>"):
            self.assertIn(words, shown)
        # What base64 has before and behind it: the name, and part of a letter.
        self.assertIn('"dXNlcjp[secret]', shown)
        self.assertNotIn(KEY, shown)
        self.is_nowhere_else()
        accepted = self.direct.run(self.direct.run_body(view, chat, STAYS))
        ids = Path(self.project, "ids")
        eventually("the tools", lambda: ids.exists() and len(ids.read_text().split()) == 2)
        tools = {int(pid) for pid in ids.read_text().split()}
        having = self.holders("environ")
        self.assertLessEqual(tools, having)
        for service in (self.controller, self.worker):
            self.assertNotIn(service.process.pid, having)
        mark = self.mark_of(min(tools))
        self.assertEqual({self.mark_of(pid) for pid in having}, {mark})
        self.assertEqual(self.holders("cmdline"), set())
        self.direct.asked(operations.STOP_CHAT, {"chatId": chat, "clientRequestId": "stop-1"})
        self.direct.settled(chat, accepted.turn_id)
        ids.unlink()
        accepted = self.direct.run(self.direct.run_body(view, chat, FAILS))
        receipt = self.direct.settled(chat, accepted.turn_id)
        self.assertEqual(receipt.state, "failed", receipt)
        self.assertIn("last words [secret]", str(receipt.error))
        accepted = self.direct.run(self.direct.run_body(view, chat, FAILS_LONGER))
        receipt = self.direct.settled(chat, accepted.turn_id)
        self.assertIn("[secret]", str(receipt.error))
        self.assertNotIn(KEY[-8:], str(receipt.error))
        self.is_nowhere_else()

    def mark_of(self, pid: int) -> bytes:
        """Return whose a process is."""
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return next(one for one in variables if one.startswith(b"GARCON_AGENT_TREE="))

    def test_on_local(self) -> None:
        """On the controller's own machine."""
        self.on("local")

    def test_on_a_worker(self) -> None:
        """On a worker, which was told over its link."""
        self.on(self.executor_id)
