"""How Codex is asked for its models: programs that answer, do not, or come later."""

from __future__ import annotations

from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred

from garcon.contract.catalogs import AgentEntry
from garcon.runtime.agents.codex_client import CodexClient, CodexFailed
from garcon.runtime.agents.codex_models import WELL_KNOWN
from garcon.runtime.executor import LocalRuntime
from garcon.testing.local_runtimes import RuntimeCase

ANSWERS = """#!/bin/sh
echo begun >> {begun}
read initialize; echo '{{"id":1,"result":{{"userAgent":"codex/1.0 (test)"}}}}'
read initialized
read list; echo '{{"id":"q","method":"item/tool/call","params":{{}}}}'
read refused
echo '{{"id":2,"result":{{"data":[{{"model":"m1"}}],"nextCursor":"c"}}}}'
read list; echo '{{"id":3,"result":{{"data":[{{"model":"m2","isDefault":true}}]}}}}'
cat > /dev/null
"""
REFUSES = """#!/bin/sh
echo begun >> {begun}
read initialize; echo '{{"id":1,"error":{{"message":"too old"}}}}'
cat > /dev/null
"""
ENDS = """#!/bin/sh
echo begun >> {begun}
echo broken >&2
exit 3
"""


class ModelTests(RuntimeCase):
    def setUp(self) -> None:
        super().setUp()
        self.program = self.project / "codex"
        self.begun = self.project / "begun"
        self.environment["GARCON_CODEX_CLI"] = str(self.program)

    def a_program(self, text: str) -> LocalRuntime:
        """Put a program in Codex's place."""
        path = Path(self.program)
        path.unlink(missing_ok=True)
        path.write_text(text.format(begun=self.begun))
        path.chmod(0o755)
        return self.a_runtime()

    async def entry(self, runtime: LocalRuntime) -> AgentEntry:
        """The catalog's entry of Codex."""
        (entry,) = await runtime.catalog("codex")
        return entry

    async def names(self, runtime: LocalRuntime) -> list[str]:
        """The models in it."""
        return [model.value for model in (await self.entry(runtime)).models]

    def asked(self) -> int:
        """How often the program was started."""
        return len(self.begun.read_text().splitlines())

    async def test_absent_where_there_is_none(self) -> None:
        """And there as soon as there is one."""
        runtime = self.a_runtime()
        self.assertNotIn("codex", [entry.id for entry in await runtime.catalog(None)])
        self.a_program(ANSWERS)
        self.assertIn("codex", [entry.id for entry in await runtime.catalog(None)])

    async def test_all_pages_once(self) -> None:
        """Its default first; whoever asks meanwhile or later does not start it again."""
        runtime = self.a_program(ANSWERS)
        first, second = runtime.catalog("codex"), runtime.catalog("codex")
        for d in (first, second):
            (entry,) = await d
            self.assertEqual([model.value for model in entry.models], ["m2", "m1"])
        self.assertEqual(await self.names(runtime), ["m2", "m1"])
        self.assertEqual(self.asked(), 1)

    async def test_one_that_does_not_tell(self) -> None:
        """It is shown with the models that are well known."""
        known = [model.value for model in WELL_KNOWN.models]
        for text in (REFUSES, ENDS):
            runtime = self.a_program(text)
            self.assertEqual(await self.names(runtime), known)
            self.assertEqual(await self.names(runtime), known)
            self.assertEqual(self.asked(), 1)
            self.begun.unlink()
            (auth,) = (await runtime.auth("codex")).values()
            self.assertEqual((auth.authenticated, auth.label), (False, "Codex does not say"))
            self.begun.unlink()

    async def test_another_version_is_asked_anew(self) -> None:
        """What an earlier one has told is not what this one can do."""
        runtime = self.a_program(ENDS)
        await self.names(runtime)
        self.a_program(ANSWERS)
        self.assertEqual(await self.names(runtime), ["m2", "m1"])

    async def test_those_who_wait_for_a_question_that_is_given_up(self) -> None:
        """Ask it again: nobody is told what Codex itself has not been asked."""
        hangs = "#!/bin/sh\n[ -e {begun} ] || {{ echo $$ > {begun}; exec cat > /dev/null; }}\n"
        runtime = self.a_program(hangs + ANSWERS.removeprefix("#!/bin/sh\n"))
        given_up, waits = runtime.catalog("codex"), runtime.catalog("codex")
        await self.pid_in("begun")
        given_up.addErrback(lambda _: None)
        given_up.cancel()
        (entry,) = await waits
        self.assertEqual([model.value for model in entry.models], ["m2", "m1"])

    async def test_a_question_that_is_given_up(self) -> None:
        """Nothing is left of it, and the next one asks anew."""
        runtime = self.a_program("#!/bin/sh\necho $$ > {begun}\ncat > /dev/null\n")
        d = runtime.catalog("codex")
        pid = await self.pid_in("begun")
        d.addErrback(lambda _: None)
        d.cancel()
        await d
        self.assertFalse(Path(f"/proc/{pid}").exists())
        self.a_program(ANSWERS)
        self.assertEqual(await self.names(runtime), ["m2", "m1"])


class ClientTests(RuntimeCase):
    """A talk with a program that is not what it should be."""

    def a_client(self, answer_time: float = 10.0) -> CodexClient:
        client = CodexClient(reactor, answer_time)
        self.addCleanup(client.close)
        return client

    async def failure(self, client: CodexClient, *command: str) -> str:
        """Begin the talk, and return why it failed."""
        try:
            await client.open(command, self.environment, "/")
        except CodexFailed as failure:
            return failure.text
        self.fail("it did not fail")

    async def test_silence_is_not_waited_for_long(self) -> None:
        """Each answer has its time."""
        client = self.a_client(0.2)
        text = await self.failure(client, "sleep", "60")
        self.assertEqual(text, "Codex did not answer within 0.2 seconds")

    async def test_the_end_is_the_end_of_every_question(self) -> None:
        """With what it has written last; nothing more is asked then."""
        client = self.a_client()
        text = await self.failure(client, "sh", "-c", "echo broken >&2; exit 3")
        self.assertEqual(text, "Codex exited with status 3: broken")
        try:
            await client.call("model/list", {})
        except CodexFailed as failure:
            self.assertEqual(failure.text, "Codex has ended")
        else:
            self.fail("it was asked")

    async def test_an_end_that_is_not_waited_for(self) -> None:
        """Goes on to the end, however soon the wait was given up."""
        client = self.a_client()
        command = ["sh", "-c", "echo $$ > begun; exec sleep 300"]
        opening = client.open(command, self.environment, str(self.project))
        asking = Deferred.fromCoroutine(opening)
        pid = await self.pid_in("begun")
        closing = client.close()
        closing.cancel()
        await self.assertFailure(closing, CancelledError)
        asking.cancel()
        await self.assertFailure(asking, CancelledError)
        await self.eventually(lambda: not Path(f"/proc/{pid}").exists(), "it is gone")

    async def test_an_answer_that_is_too_long(self) -> None:
        """Nothing that comes behind it is waited for."""
        client = self.a_client()
        text = await self.failure(client, "sh", "-c", "head -c 70000000 /dev/zero; sleep 60")
        self.assertIn("a line of more than", text)
