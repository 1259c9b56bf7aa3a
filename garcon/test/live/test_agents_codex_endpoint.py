"""The real Codex with the model of a profile's endpoint, on a second pretend server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import structs

from garcon.contract.providers import Capabilities, ResolvedEndpoint
from garcon.contract.runs import RunEnded, SessionStarted
from garcon.test.live.codex_cases import CodexCase, runs_command
from garcon.test.runtime.agents.direct_shell import FakeCredentials
from garcon.testing.agent_runs import a_launch
from garcon.testing.codex_cli import MODEL
from garcon.testing.models.script import Fail, Script, Turn, said

KEY, TEAM = "sk-profile-key-1", "team-token-2"
ROUTED: dict[str, Any] = {
    "model": f"end:{MODEL}",
    "api_provider_id": "profile",
    "model_endpoint_id": "end",
    "model_protocol": "openai-compatible",
}


class EndpointTests(CodexCase):
    def setUp(self) -> None:
        super().setUp()
        self.elsewhere = Script()
        port = self.a_model_server(self.elsewhere)
        self.credentials = FakeCredentials(
            ResolvedEndpoint(
                protocol="openai-compatible",
                base_url=f"http://127.0.0.1:{port}/v1",
                api_key=KEY,
                headers={"X-Team": TEAM},
                capabilities=Capabilities(responses=True),
                revision=1,
            )
        )
        self.profiles = self.credentials
        self.codex = self.a_runtime()

    def process(self, what: str) -> bytes:
        """Read the command line or the environment of the agent's process."""
        return Path(f"/proc/{self.agent_pid()}/{what}").read_bytes()

    async def test_the_model_is_reached_there(self) -> None:
        """With the key and the headers of the profile, which only that process has been told."""
        (entry,) = await self.codex.catalog("codex")
        self.assertTrue(entry.accepts_api_provider_endpoints)
        self.elsewhere.push("from there")
        sink = await self.whole("hi", **ROUTED)
        self.assertEqual(sink.texts, ["from there"])
        self.assertEqual(self.credentials.asked, [("profile", "end")])
        (asked,) = self.elsewhere.asked
        self.assertEqual(asked.model, MODEL)
        self.assertEqual(asked.headers["authorization"], f"Bearer {KEY}")
        self.assertEqual(asked.headers["x-team"], TEAM)
        self.assertEqual(self.script.asked, [])
        for secret in (KEY, TEAM):
            self.assertNotIn(secret.encode(), self.process("cmdline"))
            self.assertIn(secret.encode(), self.process("environ"))
        await self.whole("hi", chat_id="1700000000000002")
        pids = [pid.process_id for pid in self.sessions()]
        environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in pids]
        self.assertEqual([KEY.encode() in one for one in environments], [True, False])

    def sessions(self) -> list[Any]:
        """The sessions that are kept."""
        return [slot.session for slot in self.codex._sessions._slots.values()]

    async def test_nothing_secret_comes_back(self) -> None:
        """Neither from a command that prints it, nor from a failure that repeats it."""
        self.elsewhere.push(
            said(runs_command("echo $GARCON_CODEX_KEY; env | grep HEADER")), f"it is {KEY}"
        )
        sink = await self.whole("show me", **ROUTED)
        self.assertEqual(
            sink.results[0][0], "[secret]\nGARCON_CODEX_HEADER_1=[secret]\n", sink.results
        )
        self.assertEqual(sink.texts, ["it is [secret]"])
        self.elsewhere.push(Turn((Fail(400, message=f"bad key {KEY}"),)))
        failed = await self.whole("again", agent_session_id=sink.session_id, **ROUTED)
        error = failed.of(RunEnded)[0].error
        assert error is not None
        self.assertIn("bad key [secret]", error.message)
        for said_of in (sink.events, failed.events):
            self.assertNotIn(KEY, repr(said_of))
            self.assertNotIn(TEAM, repr(said_of))

    async def test_a_chat_goes_there_and_back(self) -> None:
        """What was said is known at each place; the session is another one after each change, and
        remembers each thing once.
        """
        self.script.push("one", "three")
        self.elsewhere.push("two")
        first = await self.whole("turn 1")
        second = await self.whole("turn 2", agent_session_id=first.session_id, **ROUTED)
        self.assertEqual(second.texts, ["two"])
        self.assertNotEqual(second.session_id, first.session_id)
        self.assertTrue(second.of(SessionStarted)[0].is_fork)
        self.assertIn("turn 1", str(self.elsewhere.asked[-1].body["input"]))
        third = await self.whole("turn 3", agent_session_id=second.session_id)
        self.assertEqual(third.texts, ["three"])
        for text in ("turn 1", "turn 2", "two"):
            self.assertIn(text, str(self.asked["input"]))
        said = [getattr(row, "content", None) for row in await self.remembered(third.session_id)]
        self.assertEqual(said, ["turn 1", "one", "turn 2", "two", "turn 3", "three"])

    async def test_a_changed_profile_takes_another_process(self) -> None:
        """In the same session; an unchanged one keeps the process."""
        first = await self.whole("turn 1", **ROUTED)
        pid, session = self.agent_pid(), first.session_id
        await self.whole("turn 2", agent_session_id=session, **ROUTED)
        self.assertEqual(self.agent_pid(), pid)
        changed = structs.replace(self.credentials.endpoint, api_key="sk-other-key", revision=2)
        self.credentials.endpoint = changed
        third = await self.whole("turn 3", agent_session_id=session, **ROUTED)
        self.assertNotEqual(self.agent_pid(), pid)
        self.assertEqual(third.of(SessionStarted), [])
        asked = self.elsewhere.asked[-1]
        self.assertEqual(asked.headers["authorization"], "Bearer sk-other-key")

    async def test_an_endpoint_of_another_kind_is_refused(self) -> None:
        """Before anything is started."""
        chat_only = Capabilities(chat_completions=True, responses=False)
        self.credentials.endpoint = structs.replace(
            self.credentials.endpoint, capabilities=chat_only
        )
        launch = a_launch("hi", agent_id="codex", project_path=str(self.project), **ROUTED)
        error = await self.refused(self.codex, launch)
        self.assertIn("does not offer the Responses API", error.text)
