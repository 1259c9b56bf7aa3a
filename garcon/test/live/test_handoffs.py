"""Chats that change hands as strict clients see them: to another agent, to another executor and
back, over crashes; and compaction (chats.md 3.5, 3.9, 5.9; contract/README.md).
"""

from __future__ import annotations

import json
from typing import Any

from garcon.contract import operations
from garcon.contract.events import ListRefreshRequested, RunFailed
from garcon.test.live.test_direct_fleet import Provider
from garcon.test.live.test_forks import ForkCase
from garcon.test.runtime.agents.direct_cast import CASES, KEY
from garcon.testing.strict_client import StrictClient

STALE = (409, "STALE_CHAT_OWNERSHIP", False)
SCRIPTED = {"agentId": "scripted", "model": "scripted"}


class HandoffCase(ForkCase):
    """What the tests of hand-offs ask again and again."""

    def handed_body(
        self, client: StrictClient, chat_id: str, command: str, target: dict[str, Any], **more: Any
    ) -> dict[str, Any]:
        """Return a run in order that hands a chat over."""
        snapshot = client.snapshot(chat_id, 1)
        handoff = {
            "expectedAgentOwnershipEpoch": snapshot.chat.agent_ownership_epoch,
            "target": target,
        }
        view = client.messages(chat_id).transcript_view_id
        body: dict[str, Any] = client.run_body(view, chat_id, command, handoff=handoff)
        return body | more

    def hand_over(
        self, client: StrictClient, chat_id: str, command: str, target: dict[str, Any], **more: Any
    ) -> Any:
        """Hand a chat over and wait for its turn; returns the answer and the receipt."""
        accepted = client.run(self.handed_body(client, chat_id, command, target, **more))
        return accepted, client.settled(chat_id, accepted.turn_id)

    def kinds(self, client: StrictClient, chat_id: str) -> list[str]:
        return [kind for kind, _ in self.contents(client, chat_id)]

    def refreshed(self, chat_id: str) -> list[str]:
        """Why lists were to be read again for a chat, as the socket was told by now."""
        self.socket.ping()
        return [event.reason for event in self.socket.heard(ListRefreshRequested, chat_id)]


class ExecutorTests(HandoffCase):
    """The same agent on another executor is another owner."""

    def test_there_and_back(self) -> None:
        """New epoch, a row that says so, one event; the view stays, and the turn runs there."""
        for client, executor_id in self.everywhere():
            other = self.executor_id if executor_id == "local" else "local"
            chat, view, _ = self.begun(client, executor_id, "say one")
            epochs = {client.snapshot(chat).chat.agent_ownership_epoch}
            for place in (other, executor_id):
                target = SCRIPTED | {"executorId": place}
                accepted, receipt = self.hand_over(client, chat, "run pwd", target)
                self.assertEqual(receipt.state, "completed")
                self.assertEqual(accepted.chat.executor_id, place)
                shown = client.snapshot(chat)
                self.assertEqual(shown.chat.executor_id, place)
                epochs.add(shown.chat.agent_ownership_epoch)
            self.assertEqual(len(epochs), 3)
            self.assertEqual(self.kinds(client, chat).count("agent-switch"), 2)
            self.assertEqual(client.messages(chat).transcript_view_id, view)
            reasons = ["chat-added", "agent-handoff", "agent-handoff"]
            self.assertEqual(self.refreshed(chat), reasons)

    def test_a_directory_is_that_executors(self) -> None:
        """It may be named, and is refused by whoever is to run there."""
        project = str(self.fleet.project("elsewhere"))
        for client in (self.direct, self.gateway):
            chat, _, _ = self.begun(client, "local", "say one")
            target = SCRIPTED | {"executorId": self.executor_id, "projectPath": project}
            _, receipt = self.hand_over(client, chat, "run pwd", target)
            self.assertEqual(receipt.state, "completed")
            self.assertEqual(client.snapshot(chat).chat.project_path, project)
            target = SCRIPTED | {"executorId": "local", "projectPath": f"{project}/none"}
            body = self.handed_body(client, chat, "say two", target)
            failure = (404, "PROJECT_PATH_NOT_FOUND", False)
            self.assertEqual(client.refused(operations.RUN_CHAT, body), failure)
            self.assertEqual(client.snapshot(chat).chat.executor_id, self.executor_id)

    def test_an_executor_that_is_away(self) -> None:
        """Takes nothing over, and Local does not in its place; its chats can leave it."""
        client = self.direct
        mine, _, _ = self.begun(client, "local", "say one")
        its, _, _ = self.begun(client, self.executor_id, "say one")
        self.assertEqual(self.worker.stop(), 0)
        body = self.handed_body(
            client, mine, "say two", SCRIPTED | {"executorId": self.executor_id}
        )
        failure = (503, "EXECUTOR_UNAVAILABLE", True)
        self.assertEqual(client.refused(operations.RUN_CHAT, body), failure)
        self.assertEqual(client.snapshot(mine).chat.executor_id, "local")
        _, receipt = self.hand_over(client, its, "say two", SCRIPTED | {"executorId": "local"})
        self.assertEqual(receipt.output.text, "two")


class RefusalTests(HandoffCase):
    """What is refused changes nothing."""

    def test_each_by_its_code(self) -> None:
        """At both endpoints, on either executor."""
        for client, executor_id in self.everywhere():
            other = self.executor_id if executor_id == "local" else "local"
            chat, _, _ = self.begun(client, executor_id, "say one")
            before = client.snapshot(chat)
            good = self.handed_body(client, chat, "say two", SCRIPTED | {"executorId": other})
            epoch = good["handoff"]["expectedAgentOwnershipEpoch"]
            invalid, unfit = (400, "VALIDATION_FAILED", False), (422, "VALIDATION_FAILED", False)
            for target, failure in (
                (SCRIPTED, invalid),
                (SCRIPTED | {"executorId": executor_id}, invalid),
                ({"agentId": "nobody", "model": "m"}, (422, "UNSUPPORTED_AGENT", False)),
                (SCRIPTED | {"executorId": other, "permissionMode": "rude"}, invalid),
                (SCRIPTED | {"executorId": other, "modelProtocol": "openai-compatible"}, unfit),
                (SCRIPTED | {"executorId": other, "modelEndpointId": "e"}, invalid),
                ({"model": "scripted", "executorId": other}, invalid),
            ):
                handoff = {"expectedAgentOwnershipEpoch": epoch, "target": target}
                body = good | {"handoff": handoff, "clientRequestId": client.request_id()}
                self.assertEqual(client.refused(operations.RUN_CHAT, body), failure, target)
            stale = {"expectedAgentOwnershipEpoch": "old", "target": good["handoff"]["target"]}
            body = good | {"handoff": stale}
            self.assertEqual(client.refused(operations.RUN_CHAT, body), STALE)
            body = good | {"model": "scripted"}
            self.assertEqual(client.refused(operations.RUN_CHAT, body), invalid)
            self.assertEqual(self.refreshed(chat), ["chat-added"])
            after = client.snapshot(chat)
            self.assertEqual((after.chat, after.transcript), (before.chat, before.transcript))

    def test_a_chat_that_is_not_idle(self) -> None:
        """Shows why by its control; the pause stays."""
        for client, executor_id in self.everywhere():
            other = self.executor_id if executor_id == "local" else "local"
            started = client.start(client.start_body(executor_id, self.project, "sleep 60"))
            chat = started.chat_id
            target = SCRIPTED | {"executorId": other}
            body = self.handed_body(client, chat, "say two", target, excludedResendOrdinals=[1])
            failure = (409, "AGENT_HANDOFF_REQUIRES_IDLE", True)
            self.assertEqual(client.refused(operations.RUN_CHAT, body), failure)
            view = self.direct.messages(chat).transcript_view_id
            self.direct.create(self.direct.entry_body(view, chat, "later"))
            client.stop({"clientRequestId": client.request_id(), "chatId": chat})
            pause = self.direct.queue(chat).queue.pause
            said = client.ask(operations.RUN_CHAT, body)
            self.assertEqual((said.status, said.json["errorCode"]), failure[:2])
            self.assertEqual(said.json["control"]["queue"]["pause"]["kind"], "manual")
            self.assertEqual(self.direct.queue(chat).queue.pause, pause)
            self.direct.hold(operations.CLEAR_QUEUE, chat)
            accepted = client.run(body)
            self.assertEqual(client.settled(chat, accepted.turn_id).state, "completed")


class CrashTests(HandoffCase):
    """A controller that is killed."""

    def test_it_survives_and_is_not_repeated(self) -> None:
        """Owner, row and input are there; the same command again is a duplicate (5.9.3, 5.9.5)."""
        chat, view, _ = self.begun(self.direct, "local", "say one")
        target = SCRIPTED | {"executorId": self.executor_id}
        body = self.handed_body(self.direct, chat, "say two", target)
        accepted = self.direct.run(body)
        self.direct.settled(chat, accepted.turn_id)
        before = self.contents(self.direct, chat)
        epoch = self.direct.snapshot(chat).chat.agent_ownership_epoch
        self.crash()
        for client in (self.direct, self.gateway):
            shown = client.snapshot(chat)
            self.assertEqual(shown.chat.agent_ownership_epoch, epoch)
            self.assertEqual(shown.chat.executor_id, self.executor_id)
            again = client.run(body | {"clientRequestId": client.request_id()}, "duplicate")
            self.assertEqual(again.chat.executor_id, self.executor_id)  # type: ignore[union-attr]
            self.assertEqual(client.settled(chat, again.turn_id).state, "completed")
            self.assertEqual(self.contents(client, chat), before)
        self.assertEqual(self.go_on(self.gateway, chat, "say three").output.text, "three")
        self.assertEqual(self.direct.messages(chat).transcript_view_id, view)

    def test_a_crash_leaves_the_whole_or_nothing(self) -> None:
        """At whatever moment: owner, row and input go together, and the same command sees it
        through, once.
        """
        chat, _, _ = self.begun(self.direct, "local", "say one")
        for number in range(6):
            places = ("local", self.executor_id)
            here = self.direct.snapshot(chat).chat.executor_id
            there = places[1 - places.index(here)]
            switches = self.kinds(self.direct, chat).count("agent-switch")
            body = self.handed_body(
                self.direct, chat, f"say n{number}", SCRIPTED | {"executorId": there}
            )
            answered = self.crash_during(body, operations.RUN_CHAT)
            shown = self.direct.snapshot(chat).chat
            has_moved = shown.executor_id == there
            found = self.contents(self.direct, chat)
            kinds = [kind for kind, _ in found]
            self.assertEqual(kinds.count("agent-switch"), switches + has_moved)
            self.assertEqual(("user-message", f"say n{number}") in found, has_moved)
            if answered is not None:
                self.assertEqual((answered, has_moved), (202, True))
            again = self.direct.run(body, "duplicate" if has_moved else "accepted")
            self.direct.settled(chat, again.turn_id)
            found = self.contents(self.direct, chat)
            self.assertEqual(found.count(("user-message", f"say n{number}")), 1)
            self.assertEqual(self.direct.snapshot(chat).chat.executor_id, there)


class AgentTests(HandoffCase):
    """Other agents; the pretend providers judge what they are sent."""

    def setUp(self) -> None:
        super().setUp()
        script = self.fleet.root / "script.json"
        script.write_text(json.dumps({"sides_take_turns": True}))
        wires = dict(zip(CASES, ("openai-chat", "openai-responses", "anthropic"), strict=True))
        self.providers: list[Provider] = []
        for case in (CASES[0], CASES[2]):
            service = self.fleet.model_server(script, "--wire", wires[case], "--strict", KEY)
            both = "local", self.executor_id
            self.providers.append(Provider(case, service, self.direct, *both))
        self.addCleanup(self.judged)

    def judged(self) -> None:
        """Whatever a test was about, its requests were right."""
        for provider in self.providers:
            self.assertEqual(provider.control("violations"), [])

    def test_an_agent_with_sessions_and_one_without(self) -> None:
        """A, B and A again: B is sent all that was said, and A takes it up (5.9.2, 5.9.3)."""
        provider = self.providers[0]
        for client, executor_id in self.everywhere():
            provider.push("from b", "more from b")
            chat, view, _ = self.begun(client, executor_id, "say from a")
            accepted, receipt = self.hand_over(client, chat, "and you?", provider.chosen())
            self.assertEqual(receipt.output.text, "from b")
            self.assertEqual(accepted.chat.agent_id, provider.case.agent_id)
            said = [("user", "say from a"), ("assistant", "from a"), ("user", "and you?")]
            self.assertEqual(provider.said_to_it(), said)
            self.assertEqual(self.go_on(client, chat, "go on").output.text, "more from b")
            said += [("assistant", "from b"), ("user", "go on")]
            self.assertEqual(provider.said_to_it(), said)
            accepted, receipt = self.hand_over(client, chat, "say back", SCRIPTED)
            self.assertEqual((accepted.chat.agent_id, receipt.output.text), ("scripted", "back"))
            self.assertIsNone(accepted.chat.api_provider_id)
            self.assertEqual(
                self.kinds(client, chat),
                [
                    *("user-message", "assistant-message"),
                    *("agent-switch", "user-message", "assistant-message"),
                    *("user-message", "assistant-message"),
                    *("agent-switch", "user-message", "assistant-message"),
                ],
            )
            self.assertEqual(client.messages(chat).transcript_view_id, view)

    def test_two_agents_without_sessions(self) -> None:
        """Each is sent the whole conversation each time, over a crash and to another executor."""
        first, second = self.providers
        first.push("one", "three")
        second.push("two")
        body = self.direct.start_body("local", self.project, "a", **first.chosen())
        started = self.direct.start(body)
        self.direct.settled(started.chat_id, started.turn_id)
        chat = started.chat_id
        self.hand_over(self.direct, chat, "b", second.chosen())
        said = [("user", "a"), ("assistant", "one"), ("user", "b")]
        self.assertEqual(second.said_to_it(), said)
        self.crash()
        target = first.chosen() | {"executorId": self.executor_id}
        accepted, receipt = self.hand_over(self.gateway, chat, "c", target)
        self.assertEqual((receipt.state, receipt.output.text), ("completed", "three"))
        self.assertEqual(accepted.chat.executor_id, self.executor_id)
        said += [("assistant", "two"), ("user", "c")]
        self.assertEqual(first.said_to_it(), said)

    def test_what_nobody_answered_goes_along(self) -> None:
        """With the new input, as in every turn (5.2.4)."""
        provider = self.providers[0]
        provider.push("both")
        started = self.direct.start(self.direct.start_body("local", self.project, "sleep 60"))
        chat = started.chat_id
        self.direct.stop({"clientRequestId": self.direct.request_id(), "chatId": chat})
        _, receipt = self.hand_over(self.direct, chat, "or this", provider.chosen())
        self.assertEqual(receipt.output.text, "both")
        self.assertEqual(provider.said_to_it(), [("user", "sleep 60\n\nor this")])

    def test_forks_of_an_agent_without_sessions(self) -> None:
        """Are sent what was copied, once, and the new input (5.8.5)."""
        provider = self.providers[1]
        for client, executor_id in self.everywhere():
            provider.push("one", "two")
            body = client.start_body(executor_id, self.project, "a", **provider.chosen())
            started = client.start(body)
            client.settled(started.chat_id, started.turn_id)
            asked = len(provider.asked())
            body = client.made_body(started.chat_id, "b")
            accepted = client.make(operations.FORK_RUN, body)
            receipt = client.settled(body["chatId"], accepted.turn_id)
            self.assertEqual(receipt.output.text, "two")  # type: ignore[union-attr]
            client.make(operations.FORK_RUN, body, "duplicate")
            self.assertEqual(len(provider.asked()), asked + 1)
            said = [("user", "a"), ("assistant", "one"), ("user", "b")]
            self.assertEqual(provider.said_to_it(), said)


class CompactionTests(HandoffCase):
    """No agent of this release compacts: the command is accepted, and its turn fails."""

    def test_the_turn_fails(self) -> None:
        """With a reason, and without a row; a chat that runs is refused, and other content under
        the id conflicts.
        """
        client = self.direct
        for executor_id in ("local", self.executor_id):
            chat, view, _ = self.begun(client, executor_id, "say one")
            before = self.contents(client, chat)
            body = {"clientRequestId": client.request_id(), "chatId": chat, "instructions": " x "}
            accepted = client.asked(operations.COMPACT, body)
            self.assertEqual(
                (accepted.command_type, accepted.status), ("agent-compact", "accepted")
            )
            receipt = client.settled(chat, accepted.turn_id)
            self.assertEqual(receipt.state, "failed")
            self.assertIn("compact", receipt.error)
            self.assertIsInstance(self.socket.turn_ended(chat, accepted.turn_id), RunFailed)
            self.assertEqual(self.contents(client, chat), before)
            again = client.asked(operations.COMPACT, body)
            self.assertEqual((again.status, again.turn_id), ("duplicate", accepted.turn_id))
            conflict = (409, "IDEMPOTENCY_CONFLICT", False)
            other = body | {"instructions": "y"}
            self.assertEqual(client.refused(operations.COMPACT, other), conflict)
            running = client.run(client.run_body(view, chat, "sleep 60"))
            body = {"clientRequestId": client.request_id(), "chatId": chat}
            busy = (409, "VALIDATION_FAILED", False)
            self.assertEqual(client.refused(operations.COMPACT, body), busy)
            client.stop({"clientRequestId": client.request_id(), "chatId": chat})
            client.settled(chat, running.turn_id)
        denied = (403, "CLI_ACCESS_DENIED", False)
        self.assertEqual(self.gateway.refused(operations.COMPACT, body), denied)
