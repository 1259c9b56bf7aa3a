"""Commands that a worker's own terminals and tools start, while controllers come and go."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from garcon.contract import operations
from garcon.test.live.authority.cast import Workshop, reactor
from garcon.test.live.shells import Screen

START = "garcon start --agent scripted --model scripted"


class WorkerDials(Workshop):
    """A worker that dials its controller."""

    async def typed(self, screen: Screen, command: str, until: str) -> str:
        """Type a command and return what it said, up to its exit status."""
        screen.text = ""
        await self.enter(screen, f"{command}; echo status $?.", "status ")
        await self.eventually(
            lambda: re.search(r"status \d+\.", screen.text), "its end", screen=screen
        )
        said = screen.text.replace("\r\n", "\n")
        self.assertIn(until, said)
        return said

    async def chat(self, said: str) -> Any:
        """Return the chat that a command's output names."""
        found = re.search(r"chat id: (\d{16})", said)
        assert found is not None, said
        return next(one for one in await self.chats() if one["id"] == found[1])

    async def test_a_shell_that_outlives_its_controller(self) -> None:
        """Its commands run on its own executor; one that waits over the restart is over, and with
        the next controller they work again, in the same process; with the grant taken they are
        denied, and the shell goes on.
        """
        info, screen = await self.shell()
        said = await self.typed(screen, f"{START} 'say I am here'; echo $$ is it", "I am here\n")
        chat = await self.chat(said)
        self.assertEqual(chat["executorId"], self.executor_id)
        shell = re.findall(r"(\d+) is it", said)
        await self.typed(screen, "echo $GARCON_RUNTIME $GARCON_CONFIG_DIR", "executor ")

        await self.enter(screen, f"{START} 'sleep 60' 2>&1; echo wai''ted $?", "turn id: ")
        gateway = self.worker.descriptor()
        await self.restart()
        await self.linked()
        self.assertEqual(self.worker.descriptor(), gateway)
        screen = await self.attach(info)
        await self.seen(screen, "waited 3", 60)
        self.assertIn("Garcon restarted while the turn was running", screen.text)

        said = await self.typed(screen, f"{START} 'say again'; echo $$ is it", "again\n")
        self.assertEqual(re.findall(r"(\d+) is it", said), shell)
        self.assertEqual((await self.chat(said))["executorId"], self.executor_id)

        await self.grant(False)
        said = await self.typed(screen, "garcon list agents", "CLI_ACCESS_DENIED")
        self.assertIn("status 3.", said)
        said = await self.typed(screen, "echo $$ is it", "is it")
        self.assertEqual(re.findall(r"(\d+) is it", said), shell)
        await self.grant(True)
        await self.typed(screen, "garcon list agents", "scripted")

    async def test_a_tool_of_an_agent(self) -> None:
        """What an agent runs is a command of its own executor; the turn and what it has begun
        outlive the grant that they were started under, and nothing new comes of it.
        """
        script = f"run {START} 'say from inside'\nask true\nrun {START} 'say no' || true\nsay over"
        project = str(self.fleet.project("tool"))
        words = ("--agent", "scripted", "--model", "scripted", "--cwd", project, script)
        done = await self.command(self.worker, "start-async", *words)
        outer, turn = done.handle()
        while len(await self.chats()) < 2:
            await deferLater(reactor, 0.05)
        (row,) = await self.asked(outer)
        await self.grant(False)
        await self.ask(operations.PERMISSION_DECISION, self.decision(outer, row))
        settled = await self.receipt(outer, turn)
        self.assertEqual((settled["state"], settled["output"]["text"]), ("completed", "over"))
        listed = await self.chats()
        self.assertEqual([one["executorId"] for one in listed], [self.executor_id] * 2)

    async def test_capabilities_are_local_to_their_endpoints(self) -> None:
        """Over the network, where accounts are asked for, a worker's capability is no token, and
        neither is the secret of its link; at the gateway nothing of the controller's is.
        """
        gateway = self.worker.descriptor()
        record = self.controller.executors.registry.get(self.executor_id)
        assert record is not None
        own = gateway["localCapability"], self.controller._capability
        controller = f"http://127.0.0.1:{self.port}"
        self.assertEqual(await self.status(controller, own[1]), 200)
        self.assertEqual(await self.status(gateway["baseUrl"], own[0]), 200)
        for foreign in (own[0], record.secret, self.executor_id, ""):
            self.assertEqual(await self.status(controller, foreign), 401)
        for foreign in (own[1], record.secret, self.executor_id, ""):
            self.assertEqual(await self.status(gateway["baseUrl"], foreign), 403)

    async def status(self, base: str, token: str) -> int:
        """Ask an endpoint for its chats with a token, and return how it answers."""
        headers = {"X-Garcon-Server-Instance": self.controller.instance_id}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(f"{base}/api/v1/chats", headers=headers)

        def ask() -> int:
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as error:
                with error:
                    return error.code

        d: Deferred[int] = deferToThread(ask)
        return await d


class ControllerDials(WorkerDials):
    """A worker that listens for its controller."""

    worker_dials = False
