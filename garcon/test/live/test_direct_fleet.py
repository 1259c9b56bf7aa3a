"""Direct agents through a controller's whole door, on Local and on a worker, for each of the three
APIs; the pretend providers judge every request (existing-clients.md; chats.md 5).
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.request import Request, urlopen

from garcon.contract import operations
from garcon.test.live.strict import StrictTestCase
from garcon.test.runtime.agents.direct_cast import CASES, KEY, PNG, Case
from garcon.testing.fleet import Service, eventually
from garcon.testing.strict_client import StrictClient

_WIRES = ("openai-chat", "openai-responses", "anthropic")


class Provider:
    """One pretend provider, which another process is, and its profile in the controller."""

    def __init__(self, case: Case, service: Service, client: StrictClient, *executors: str) -> None:
        self.case = case
        self._service = service
        endpoint: dict[str, Any] = {
            "protocol": case.wire.speech,
            "baseUrl": service.url + case.base,
            "apiKey": KEY,
            "defaultModel": "scripted",
            "models": [{"value": "scripted", "label": "Scripted"}],
            "supportsImages": True,
        }
        if case.wire.speech == "openai-compatible":
            is_chat = case.route == "/chat/completions"
            endpoint["capabilities"] = {"chatCompletions": is_chat, "responses": not is_chat}
        made = client.asked(
            operations.CREATE_PROVIDER,
            {"templateId": "custom", "label": case.route[1:], "executorIds": list(executors)}
            | {"endpoint": endpoint},
        )
        self.id: str = made.id
        self.endpoint_id: str = made.endpoints[0].id

    def control(self, path: str, body: Any = None) -> Any:
        """Ask the server's own routes."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._service.url}/_script/{path}", data)
        with urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def push(self, *turns: Any) -> None:
        """Append turns to its script."""
        self.control("turns", list(turns))

    def asked(self) -> list[dict[str, Any]]:
        """The requests so far."""
        found: list[dict[str, Any]] = self.control("asked")
        return found

    def await_request(self, number: int) -> None:
        """Wait until it has been asked so often."""
        eventually(f"request {number}", lambda: len(self.asked()) >= number)

    def await_hang_up(self) -> None:
        """Wait until whoever asked last has hung up."""
        eventually("the hang-up", lambda: self.asked()[-1]["outcome"] == "client hung up")

    def said_to_it(self, number: int = -1) -> list[tuple[str, Any]]:
        """The messages of a request, as roles and contents."""
        body = self.control("bodies")[number]
        return [(one["role"], one["content"]) for one in body[self.case.messages]]

    def chosen(self) -> dict[str, Any]:
        """What a start says to use it."""
        agent = self.case.agent_id
        return {
            "agentId": agent,
            "agentSettings": {"ownerId": agent, "schemaVersion": 1, "values": {}},
            "model": f"{self.endpoint_id}:scripted",
            "apiProviderId": self.id,
            "modelEndpointId": self.endpoint_id,
            "modelProtocol": self.case.wire.speech,
        }


class DirectFleetTests(StrictTestCase):
    """A pair, three providers, and every combination of them."""

    def setUp(self) -> None:
        super().setUp()
        script = self.fleet.root / "script.json"
        script.write_text(json.dumps({"sides_take_turns": True}))
        self.providers: list[Provider] = []
        self.addCleanup(self.judged)
        for case, wire in zip(CASES, _WIRES, strict=True):
            service = self.fleet.model_server(script, "--wire", wire, "--strict", KEY)
            both = "local", self.executor_id
            self.providers.append(Provider(case, service, self.direct, *both))

    def judged(self) -> None:
        """Whatever a test was about, its requests were right."""
        for provider in self.providers:
            self.assertEqual(provider.control("violations"), [])

    def places(self) -> list[tuple[str, Provider]]:
        """Every executor with every provider."""
        both = "local", self.executor_id
        return [(executor, provider) for executor in both for provider in self.providers]

    def begin(self, executor: str, provider: Provider, command: str, **more: Any) -> Any:
        """Start a chat; its first turn runs on."""
        body = self.direct.start_body(executor, self.project, command, **provider.chosen(), **more)
        return self.direct.start(body)

    def go_on(self, chat_id: str, command: str, **more: Any) -> Any:
        """Run a turn of a chat."""
        view = self.direct.messages(chat_id).transcript_view_id
        return self.direct.run(self.direct.run_body(view, chat_id, command, **more))

    def outcome(self, accepted: Any) -> tuple[str, list[str]]:
        """Wait for a turn, and return how it ended and what was said."""
        receipt = self.direct.settled(accepted.chat_id, accepted.turn_id)
        output: Any = receipt.output
        return receipt.state, output.assistant_messages

    def types(self, chat_id: str) -> list[str]:
        """The rows of a chat, by type."""
        rows = json.loads(
            self.direct.ask(operations.MESSAGES, query={"chatId": chat_id, "limit": 200}).body
        )["messages"]
        return [row["message"]["type"] for row in rows]

    def test_conversations(self) -> None:
        """Each turn sends what was said before, and its reply is one row (5.1.4, 5.1.5)."""
        for executor, provider in self.places():
            provider.push([{"think": "well"}, {"text": "first reply", "chunks": 4}], "second reply")
            first = self.begin(executor, provider, "hello")
            self.assertEqual(self.outcome(first), ("completed", ["first reply"]))
            second = self.go_on(first.chat_id, "and?")
            self.assertEqual(self.outcome(second), ("completed", ["second reply"]))
            self.assertEqual(
                provider.said_to_it(),
                [("user", "hello"), ("assistant", "first reply"), ("user", "and?")],
            )
            self.assertEqual(
                self.types(first.chat_id),
                [
                    *("user-message", "thinking", "assistant-message"),
                    *("user-message", "assistant-message"),
                ],
            )

    def test_pictures_reach_the_model(self) -> None:
        """As the wire's own part, from either machine."""
        images = [{"data": f"data:image/png;base64,{PNG}", "name": "a.png"}]
        for executor, provider in self.places():
            accepted = self.begin(executor, provider, "what is this?", images=images)
            self.assertEqual(self.outcome(accepted), ("completed", ["ok"]))
            [(_, parts)] = provider.said_to_it()
            self.assertIn(PNG, json.dumps(parts))

    def test_a_stop_closes_the_providers_connection(self) -> None:
        """Nothing of the reply is kept, and the input goes along with the next one (5.2, 5.6)."""
        for executor, provider in self.places():
            provider.push([{"text": "half"}, {"hold": "never"}], "both")
            before = len(provider.asked())
            accepted = self.begin(executor, provider, "stop-a")
            provider.await_request(before + 1)
            stop = {"clientRequestId": self.direct.request_id(), "chatId": accepted.chat_id}
            self.assertEqual(self.direct.stop(stop).outcome, "interrupt-requested")
            provider.await_hang_up()
            self.assertEqual(self.outcome(accepted), ("interrupted", []))
            self.assertEqual(self.types(accepted.chat_id), ["user-message"])
            again = self.go_on(accepted.chat_id, "stop-b")
            self.assertEqual(self.outcome(again), ("completed", ["both"]))
            self.assertEqual(provider.said_to_it(), [("user", "stop-a\n\nstop-b")])

    def test_failures_say_their_number_or_the_providers_words(self) -> None:
        """And leave no row of the reply (5.1.5, 5.7.3)."""
        for executor, provider in self.places():
            for turn, words in (
                ({"error": 403, "message": "not for you"}, ("403", "not for you")),
                (
                    [{"text": "half"}, {"stream_error": "x", "message": "gone wrong"}],
                    ("gone wrong",),
                ),
                ([{"text": "half"}, {"stop": True}], ("broke off",)),
                ([{"stop": True}], ("broke off",)),
            ):
                provider.push(turn)
                accepted = self.begin(executor, provider, "hello")
                receipt = self.direct.settled(accepted.chat_id, accepted.turn_id)
                self.assertEqual(receipt.state, "failed")
                for text in words:
                    self.assertIn(text, str(receipt.error))
                self.assertNotIn("assistant-message", self.types(accepted.chat_id))

    def test_input_for_a_running_turn_is_answered_in_it(self) -> None:
        """The turn's receipt has both replies (5.7.2, 5.11)."""
        for number, (executor, provider) in enumerate(self.places()):
            provider.push([{"text": "first"}, {"hold": f"gate-{number}"}], "second")
            before = len(provider.asked())
            accepted = self.begin(executor, provider, "one")
            provider.await_request(before + 1)
            view = self.direct.messages(accepted.chat_id).transcript_view_id
            steered = self.direct.asked(
                operations.STEER,
                {
                    "clientRequestId": self.direct.request_id(),
                    "clientMessageId": self.direct.request_id(),
                    "chatId": accepted.chat_id,
                    "transcriptViewId": view,
                    "content": "two",
                },
            )
            self.assertEqual(steered.turn_id, accepted.turn_id)
            provider.control(f"release/gate-{number}", {})
            self.assertEqual(self.outcome(accepted), ("completed", ["first", "second"]))
            self.assertEqual(
                provider.said_to_it(), [("user", "one"), ("assistant", "first"), ("user", "two")]
            )
            self.assertEqual(
                self.types(accepted.chat_id),
                ["user-message", "user-message", "assistant-message", "assistant-message"],
            )

    def test_a_profile_is_for_the_executors_it_is_assigned_to(self) -> None:
        """Another one neither shows its models nor may use them; a chat that did fails."""
        provider = self.providers[0]
        accepted = self.begin(self.executor_id, provider, "hello")
        self.assertEqual(self.outcome(accepted)[0], "completed")
        query = {"executorId": self.executor_id, "apiProviderId": provider.id}
        self.direct.asked(operations.UNASSIGN_PROVIDER, query=query)
        body = self.direct.start_body(self.executor_id, self.project, "hello", **provider.chosen())
        self.assertEqual(self.direct.refused(operations.START_CHAT, body)[0], 422)
        self.assertEqual(len(provider.asked()), 1)
        self.assertEqual(self.outcome(self.begin("local", provider, "hello"))[0], "completed")

    def test_a_key_stays_in_the_controllers_file(self) -> None:
        """Nothing on the worker's side holds it, nor any line that either printed."""
        for executor, provider in self.places():
            self.outcome(self.begin(executor, provider, "hello"))
        holders = []
        for folder in (self.controller.config, self.worker.config):
            for path in (found for found in folder.rglob("*") if found.is_file()):
                if KEY.encode() in path.read_bytes():
                    holders.append(os.path.relpath(path, folder.parent))
        self.assertEqual(holders, ["controller/api-providers.json"])
        self.assertNotIn(KEY, self.fleet.logs())

    def test_a_conversation_survives_a_restart_of_the_controller(self) -> None:
        """Its provider, its texts and their order (5.1.7)."""
        provider = self.providers[2]
        chats = [
            self.begin(executor, provider, "hello") for executor in ("local", self.executor_id)
        ]
        for accepted in chats:
            self.assertEqual(self.outcome(accepted)[0], "completed")
        port = self.controller.port
        self.assertEqual(self.controller.stop(), 0)
        self.controller = self.fleet.controller(port=port)
        self.fleet.await_executor(self.controller, self.executor_id)
        own = self.controller.descriptor()
        self.direct = StrictClient(own["baseUrl"], own["localCapability"])
        for accepted in chats:
            again = self.go_on(accepted.chat_id, "more")
            self.assertEqual(self.outcome(again), ("completed", ["ok"]))
            self.assertEqual(
                provider.said_to_it(), [("user", "hello"), ("assistant", "ok"), ("user", "more")]
            )
