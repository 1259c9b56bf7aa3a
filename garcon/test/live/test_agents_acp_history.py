"""Histories of agents of the Agent Client Protocol, read back by a process of their own, and the
typed refusals where there is nothing to be read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed

from garcon.contract.runs import NativeRow, NativeSession
from garcon.errors import GarconError
from garcon.runtime.agents.acp import AcpAgent, AcpManifest, scripted_manifest
from garcon.runtime.agents.acp_history import REPLAYED
from garcon.runtime.agents.acp_shipped import CLAUDE_CODE_ACP, GEMINI
from garcon.runtime.executor import LocalRuntime
from garcon.testing.local_runtimes import RuntimeCase, runs

TELLS = """
import json, os, sys
def say(**message): print(json.dumps(message), flush=True)
with open('pid', 'w') as file: file.write(str(os.getpid()))
for line in sys.stdin:
    asked = json.loads(line)
    if asked['method'] == 'initialize':
        can = {'loadSession': True}
        say(id=asked['id'], result={'protocolVersion': 1, 'agentCapabilities': can})
    elif asked['method'] == 'session/load':
        if os.environ.get('ENDS'):
            sys.exit('it is broken')
        session = asked['params']['sessionId']
        for kind, text in (('user', 'hi'), ('agent', os.environ['MINE'])):
            update = {
                'sessionUpdate': f'{kind}_message_chunk',
                'content': {'type': 'text', 'text': text},
            }
            params = {'sessionId': session, 'update': update}
            say(method='session/update', params=params)
        say(id=asked['id'], result={})
    else:
        say(id=asked['id'], error={'code': -32601, 'message': 'no'})
"""


class HistoryCase(RuntimeCase):
    def a_runtime_of(self, manifest: AcpManifest) -> LocalRuntime:
        """Start a runtime with one agent."""
        runtime = LocalRuntime(
            reactor,
            "instance",
            str(self.project),
            self.environment,
            "controller",
            str(self.project / "config"),
            [AcpAgent(reactor, manifest, self.environment)],
        )
        self.addCleanup(runtime.stop)
        return runtime

    def session(self, agent_id: str, name: str = "s") -> NativeSession:
        """Return one of the project."""
        return NativeSession(agent_id, name, str(self.project))

    async def read(self, runtime: LocalRuntime, session: NativeSession) -> list[str]:
        """What the rows of a session say."""
        found: list[str] = []

        def take(rows: Sequence[NativeRow]) -> Deferred[None]:
            found.extend(str(getattr(row, "content", "")) for row in rows)
            return succeed(None)

        await runtime.read_history(session, take)
        return found

    async def refusal(self, runtime: LocalRuntime, session: NativeSession) -> GarconError:
        """Return why it cannot be read."""
        try:
            await self.read(runtime, session)
        except GarconError as error:
            self.assertEqual(error.code, "HISTORY_LOAD_FAILED")
            return error
        self.fail("there was a history")


class Replayed(HistoryCase):
    def manifest(self, **environment: str) -> AcpManifest:
        program = self.project / "agent.py"
        program.write_text(TELLS)
        return AcpManifest(
            id="acp-mine",
            label="Mine",
            command=[sys.executable, str(program)],
            models=[],
            environment={"MINE": "from the file", **environment},
            history=REPLAYED,
        )

    async def test_as_the_agent_tells_it(self) -> None:
        """By a process with its variables, in the session's directory, which is gone then."""
        runtime = self.a_runtime_of(self.manifest())
        self.assertTrue(runtime.keeps_history("acp-mine"))
        self.assertEqual(
            await self.read(runtime, self.session("acp-mine")), ["hi", "from the file"]
        )
        self.assertFalse(runs(int((self.project / "pid").read_text())))

    async def test_an_agent_that_ends(self) -> None:
        """Is told with its last words, and may be asked again."""
        error = await self.refusal(
            self.a_runtime_of(self.manifest(ENDS="1")), self.session("acp-mine")
        )
        self.assertIn("exited with status 1: it is broken", error.text)
        self.assertTrue(error.retryable)

    async def test_an_agent_that_tells_nothing(self) -> None:
        """Has no such session, whatever it says of having loaded it: the rows that are there are
        not replaced by none.
        """
        shipped = scripted_manifest(sys.executable, {})
        runtime = self.a_runtime_of(evolve(shipped, history=REPLAYED))
        error = await self.refusal(runtime, self.session("scripted"))
        self.assertEqual((error.status, error.retryable), (404, False))

    async def test_an_agent_that_keeps_none(self) -> None:
        """Is not asked."""
        runtime = self.a_runtime_of(scripted_manifest(sys.executable, {}))
        self.assertFalse(runtime.keeps_history("scripted"))
        self.assertEqual((await self.refusal(runtime, self.session("scripted"))).status, 422)
        described = await runtime.describe()
        self.assertEqual((described.agent_ids, described.history_agent_ids), (["scripted"], []))


class Stored(HistoryCase):
    """By agents whose files are read: nothing is started."""

    async def test_the_adapter_s_sessions_are_claude_s(self) -> None:
        """Where its configuration is."""
        self.environment["CLAUDE_CONFIG_DIR"] = str(self.project / "claude")
        folder = "".join(c if c.isalnum() else "-" for c in str(self.project))
        await self.reads(
            CLAUDE_CODE_ACP,
            self.project / "claude" / "projects" / folder / "s.jsonl",
            {
                "uuid": "1",
                "type": "user",
                "message": {"content": "hi"},
                "timestamp": "2026-01-01T00:00:00.000Z",
            },
        )

    async def test_gemini_s(self) -> None:
        """In its home."""
        self.environment["HOME"] = str(self.project)
        await self.reads(
            GEMINI,
            self.project / ".gemini/tmp/p/chats/session-2026-01-01T00-00-abcdefgh.jsonl",
            {"id": "1", "type": "user", "content": [{"text": "hi"}]},
            session="abcdefgh-1",
        )

    async def reads(
        self, manifest: AcpManifest, path: Path, entry: dict[str, Any], session: str = "s"
    ) -> None:
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(entry) + "\n")
        runtime = self.a_runtime_of(evolve(manifest, command=["no-such-program"]))
        self.assertTrue(runtime.keeps_history(manifest.id))
        found = await self.read(runtime, self.session(manifest.id, session))
        self.assertEqual(found, ["hi"])
        missing = self.session(manifest.id, "no-such-session")
        error = await self.refusal(runtime, missing)
        self.assertEqual((error.status, error.retryable), (404, False))
