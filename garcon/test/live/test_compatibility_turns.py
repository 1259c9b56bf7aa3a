"""Turns of the three direct agents as clients of others see them (server.md I; chats.md 5.1, 5.2,
5.3, 5.6, 5.7; existing-clients.md).
"""

from __future__ import annotations

from typing import Any

from garcon.test.live.foreign import GONE, INVALID, KEY, STALE, ForeignCase
from garcon.testing.fleet import eventually
from garcon.testing.foreign_client import message
from garcon.testing.foreign_socket import ForeignSocket

UNKNOWN = "1700000000000000"


class TurnTests(ForeignCase):
    """One chat at a time."""

    def kinds(self, socket: ForeignSocket, chat_id: str) -> list[Any]:
        """What a socket was told of a turn, in short."""
        found: list[Any] = []
        for one in socket.of(chat_id):
            match one["type"]:
                case "chat-messages":
                    found += [row["message"]["type"] for row in one["messages"]]
                case "chat-processing-updated":
                    found.append(one["phase"])
                case "chat-list-refresh-requested":
                    found.append(one["reason"])
                case kind:
                    found.append(kind)
        return found

    def test_the_turn_contract(self) -> None:
        """Running, the user's row, the reply, idle, the end with the command's ids: on every
        socket; there is one user's row and nothing to send again.
        """
        other = self.open_socket()
        for provider in self.providers:
            provider.model.push("reply")
            body = self.start_body(provider, "hello")
            turn = self.client.do("POST", "/chats/start", body)
            chat_id = turn["chatId"]
            for socket in (self.socket, other):
                ended = socket.turn_ended(turn)
                self.assertEqual(ended["type"], "agent-run-finished")
                self.assertEqual(ended["clientRequestId"], body["clientRequestId"])
            heard = self.kinds(self.socket, chat_id)
            self.assertEqual(heard, self.kinds(other, chat_id))
            self.assertEqual(heard.count("user-message"), 1)
            self.assertEqual(heard.count("chat-added"), 1)
            story = [one for one in heard if one not in ("chat-added", "chat-session-created")]
            self.assertEqual(
                story, ["running", "user-message", "assistant-message", None, "agent-run-finished"]
            )
            first, *_, last = self.socket.of(chat_id, "chat-messages")
            self.assertNotIn("turnId", first)
            self.assertNotIn("clientRequestId", first)
            self.assertEqual(last["turnId"], turn["turnId"])
            self.assertEqual(last["resendCandidates"], [])
            metadata = first["messages"][0]["message"]["metadata"]
            self.assertEqual(metadata, {"clientMessageId": body["clientMessageId"]})
            page = self.client.history(chat_id)
            self.assertEqual(page["resendCandidates"], [])
            self.assertEqual(self.socket.rows(chat_id), self.client.rows(chat_id))

    def test_a_start_is_answered_with_its_chat_and_its_receipts_place(self) -> None:
        """202, `Location`, the entry at the top of the list and processing (chats.md 3.4)."""
        old = self.chat()
        self.providers[0].model.push([{"hold": "gate"}, "reply"])
        body = self.start_body(self.providers[0], "  hello  ", tags=["Review Needed", "a", "a"])
        reply = self.client.ask("POST", "/chats/start", body)
        self.assertEqual(reply.status, 202)
        turn, chat_id = reply.json, body["chatId"]
        place = f"/api/v1/chats/turn-receipt?chatId={chat_id}&turnId={turn['turnId']}"
        self.assertEqual(reply.headers["location"], place)
        self.assertEqual((turn["commandType"], turn["status"]), ("chat-start", "accepted"))
        entry = turn["chat"]
        self.assertEqual((entry["title"], entry["tags"]), ("hello", ["a", "review-needed"]))
        self.assertTrue(entry["isProcessing"] and entry["isActive"])
        self.assertEqual((entry["processingPhase"], entry["orderGroup"]), ("running", "normal"))
        self.assertEqual([one["id"] for one in self.client.chats()], [chat_id, old])
        self.assertEqual(self.client.said(chat_id), [("user-message", "hello")])
        self.assertEqual(self.client.receipt(turn)["state"], "pending")
        self.providers[0].model.release("gate")
        self.assertEqual(self.ended(turn), ("completed", ["reply"]))

    def test_run_answers_as_start_does(self) -> None:
        """202, `Location`, the ids of the command, and no chat."""
        chat_id = self.chat()
        body = message(chatId=chat_id, transcriptViewId=self.client.view(chat_id), command="more")
        reply = self.client.ask("POST", "/chats/run", body)
        self.assertEqual((reply.status, reply.json["commandType"]), (202, "agent-run"))
        self.assertIn(reply.json["turnId"], reply.headers["location"])
        self.assertNotIn("chat", reply.json)
        self.assertEqual(self.ended(reply.json)[0], "completed")

    def test_a_conversation_is_sent_whole_and_as_it_was_said(self) -> None:
        """User and assistant alone, in order; of rows and failures nothing (5.1.4, 5.13)."""
        for provider in self.providers:
            model = provider.model
            model.push("one", {"error": 400, "message": "no"}, "three")
            chat_id = self.chat("first", provider)
            self.row(chat_id, "between")
            self.assertEqual(self.ended(self.client.run(chat_id, "second"))[0], "failed")
            self.row(chat_id, "again", type="error")
            self.assertEqual(
                self.ended(self.client.run(chat_id, "third")), ("completed", ["three"])
            )
            self.assertEqual(
                model.told(),
                [("user", "first"), ("assistant", "one"), ("user", "second"), ("user", "third")],
            )

    def row(self, chat_id: str, content: str, **more: Any) -> dict[str, Any]:
        """Add a row."""
        view = self.client.view(chat_id)
        body = message(chatId=chat_id, transcriptViewId=view, type="notice", content=content)
        added: dict[str, Any] = self.client.do("POST", "/chats/rows", body | more)
        return added

    def test_replies_that_go_wrong_leave_no_row(self) -> None:
        """Failed, truncated, empty: one failure event with the provider's number or words, a
        receipt with the same, and nothing to send again (5.1.5, 5.2.2, 5.7.3).
        """
        for provider in self.providers:
            for answer, words in (
                ({"error": 403, "message": "forbidden fruit"}, "403"),
                ([{"text": "half"}, {"stream_error": "x", "message": "gone wrong"}], "gone wrong"),
                ([{"text": "half"}, {"stop": True}], ""),
                ([{"text": "half"}, {"sleep": 0.05}, {"cut": True}], ""),
                ([], ""),
            ):
                provider.model.push(answer)
                turn = self.begin("question", provider)
                event = self.socket.turn_ended(turn)
                receipt = self.client.settled(turn)
                self.assertEqual((event["type"], receipt["state"]), ("agent-run-failed", "failed"))
                self.assertIn(words, event["error"])
                self.assertEqual(receipt["error"], event["error"])
                self.assertEqual(receipt["output"]["completeness"], "best-effort")
                page = self.client.history(turn["chatId"])
                self.assertNotIn(
                    "assistant-message", [row["message"]["type"] for row in page["messages"]]
                )
                self.assertEqual(page["resendCandidates"], [])
                failures = self.socket.of(turn["chatId"], "agent-run-failed")
                self.assertEqual(len(failures), 1)

    def test_a_stop_aborts_the_request_and_its_input_goes_along(self) -> None:
        """The stop is told before idle, the turn's end is no failure, and what was not answered is
        in the next prompt unless that says otherwise (5.2, 5.6; server.md A.11.4).
        """
        for provider in self.providers:
            model = provider.model
            turn = self.held("stop-a", "never", provider)
            chat_id = turn["chatId"]
            stopped = self.client.stop(chat_id)
            self.assertEqual(stopped["outcome"], "interrupt-requested")
            self.assertEqual(stopped["commandType"], "agent-stop")
            model.await_hang_up(len(model.asked()))
            self.assertEqual(self.socket.turn_ended(turn)["type"], "agent-run-finished")
            receipt = self.client.settled(turn)
            self.assertEqual((receipt["state"], receipt["reason"]), ("interrupted", "user-stop"))
            self.assertEqual(receipt["output"]["completeness"], "best-effort")
            again = self.client.stop(chat_id)
            self.assertEqual(again["outcome"], "already-idle")
            self.socket.ping()
            told = [
                one.get("outcome", one.get("phase"))
                for one in self.socket.of(
                    chat_id, "chat-session-stopped", "chat-processing-updated"
                )
            ]
            wanted = ["running", "stopping", "interrupt-requested", None, None, "already-idle"]
            self.assertEqual(told, wanted)
            candidates = self.client.history(chat_id)["resendCandidates"]
            self.assertEqual([one["content"] for one in candidates], ["stop-a"])
            model.push([{"hold": "never"}])
            next_turn = self.client.run(chat_id, "stop-b")
            model.await_request(len(model.asked()))
            eventually(
                "the composed prompt",
                lambda m=model: m.told() == [("user", "stop-a\n\nstop-b")],  # type: ignore[misc]
            )
            self.assertEqual(self.client.history(chat_id)["resendCandidates"], [])
            self.client.stop(chat_id)
            self.client.settled(next_turn)
            candidates = self.client.history(chat_id)["resendCandidates"]
            self.assertEqual([one["content"] for one in candidates], ["stop-a", "stop-b"])
            model.push("done")
            last = self.client.run(
                chat_id, "stop-c", excludedResendOrdinals=[candidates[0]["ordinal"]]
            )
            self.assertEqual(self.ended(last), ("completed", ["done"]))
            sent = model.told()
            self.assertEqual(sent[-1], ("user", "stop-b\n\nstop-c"))
            self.assertEqual(self.client.history(chat_id)["resendCandidates"], [])

    def test_a_run_with_another_model(self) -> None:
        """Is that turn's alone (3.5, overrides)."""
        for provider in self.providers:
            chat_id = self.chat("one", provider)
            before = self.client.entry(chat_id)
            route = {"apiProviderId": provider.id, "modelEndpointId": provider.endpoint_id}
            other = route | {"model": f"{provider.endpoint_id}:other"}
            self.ended(self.client.run(chat_id, "two", **other))
            self.ended(self.client.run(chat_id, "three"))
            models = [one["model"] for one in provider.model.asked()]
            self.assertEqual(models, ["scripted", "other", "scripted"])
            after = self.client.entry(chat_id)
            self.assertEqual(after["model"], before["model"])
            self.client.do("PATCH", "/chats/model", {"chatId": chat_id, **other})
            self.ended(self.client.run(chat_id, "four"))
            self.assertEqual(provider.model.asked()[-1]["model"], "other")

    def test_pictures_and_documents(self) -> None:
        """Are in the row as they were sent, in the model's own parts, and go along with what was
        not answered; what nobody takes is refused (4.17, 4.8, 5.2.3).
        """
        picture = {"data": "data:image/png;base64,iVBORw0KGgo=", "name": "a.png"}
        nameless = {"data": "data:text/plain;base64,aGVsbG8gdGhlcmU="}
        for provider in self.providers:
            model = provider.model
            model.push([{"hold": "never"}], "seen")
            turn = self.begin("look", provider, images=[picture, nameless])
            chat_id = turn["chatId"]
            model.await_request(1)
            self.client.stop(chat_id)
            page = self.client.history(chat_id)
            [candidate] = page["resendCandidates"]
            self.assertEqual(candidate["attachmentNames"], ["a.png", "attachment-2"])
            images = page["messages"][0]["message"]["images"]
            self.assertEqual([one["data"] for one in images], [picture["data"], nameless["data"]])
            self.ended(self.client.run(chat_id, "again"))
            [(_, parts)] = model.told()
            self.assertIn("look\n\nagain", [part.get("text") for part in parts])
            self.assertIn("iVBORw0KGgo=", str(parts))
            self.assertIn("hello there", str(parts))
            only = self.begin("", provider, images=[picture])
            self.assertEqual(
                (self.ended(only)[0], only["chat"]["title"]), ("completed", "New Session")
            )
            body = self.start_body(provider, "x", images=[{"data": "data:video/mp4;base64,AAAA"}])
            self.assertEqual(
                self.client.refused("POST", "/chats/start", body),
                (422, "UNSUPPORTED_AGENT", False),
            )
        many = self.start_body(self.providers[0], "x", images=[picture] * 6)
        self.assertEqual(self.client.refused("POST", "/chats/start", many), INVALID)
        large = {"data": f"data:image/png;base64,{'A' * 14_000_000}"}
        body = self.start_body(self.providers[0], "x", images=[large])
        self.assertEqual(
            self.client.refused("POST", "/chats/start", body), (413, "VALIDATION_FAILED", False)
        )

    def test_a_long_conversation_is_cut(self) -> None:
        """To the newest 199 messages and the prompt (5.1.4)."""
        chat_id = self.chat("q0")
        model = self.providers[0].model
        for number in range(1, 101):
            self.client.settled(self.client.run(chat_id, f"q{number}"))
            if number == 99:
                self.assertEqual(len(model.told()), 199)
        told = model.told()
        self.assertEqual(len(told), 200)
        self.assertEqual((told[0], told[1]), (("assistant", "ok"), ("user", "q1")))
        self.assertEqual(told[-1], ("user", "q100"))

    def test_pages_of_two_walk_back(self) -> None:
        """Every message once, in one view; a cursor beyond the end is that of the end (5.3)."""
        chat_id = self.chat("q1")
        for number in range(2, 6):
            self.ended(self.client.run(chat_id, f"q{number}"))
        everything = self.client.rows(chat_id)
        page = self.client.history(chat_id, limit=2)
        view, found = page["transcriptViewId"], [page]
        while found[-1]["hasMore"]:
            found.append(
                self.client.history(
                    chat_id,
                    limit=2,
                    transcriptViewId=view,
                    beforeOrdinal=found[-1]["nextBeforeOrdinal"],
                )
            )
        self.assertEqual({one["transcriptViewId"] for one in found}, {view})
        walked = [
            (row["ordinal"], row["message"]["type"], row["message"]["content"])
            for one in reversed(found)
            for row in one["messages"]
        ]
        self.assertEqual(walked, everything)
        beyond = self.client.history(chat_id, limit=2, transcriptViewId=view, beforeOrdinal=10**9)
        self.assertEqual(beyond["messages"], found[0]["messages"])
        tiny = self.client.history(chat_id, limit=1)
        self.assertIsInstance(tiny["nextBeforeOrdinal"], int)
        self.assertEqual(self.client.history(chat_id, limit=900)["limit"], 200)
        for query, refusal in (
            ({"beforeOrdinal": 10**9, "transcriptViewId": "other"}, STALE),
            ({"transcriptViewId": "other"}, STALE),
            ({"beforeOrdinal": 3}, INVALID),
            ({"limit": 0}, INVALID),
            ({"limit": "x"}, INVALID),
            ({"purpose": "other"}, INVALID),
            (
                {"purpose": "activation", "beforeOrdinal": 3, "transcriptViewId": view},
                INVALID,
            ),
            ({"chatId": UNKNOWN}, GONE),
        ):
            asked = {"chatId": chat_id} | query
            self.assertEqual(self.client.refused("GET", "/chats/messages", **asked), refusal)
        self.assertEqual(
            self.client.history(chat_id, purpose="activation")["historyState"]["kind"], "complete"
        )

    def test_chats_are_independent(self) -> None:
        """One waits, one fails, one is stopped, one is answered (5.1.6)."""
        waits = self.held("waits", "gate", self.providers[0])
        stops = self.held("stops", "never", self.providers[1])
        self.providers[2].model.push({"error": 400}, "answer")
        fails = self.begin("fails", self.providers[2])
        self.assertEqual(self.ended(fails)[0], "failed")
        answered = self.begin("answered", self.providers[2])
        self.assertEqual(self.ended(answered), ("completed", ["answer"]))
        self.client.stop(stops["chatId"])
        self.assertEqual(self.ended(stops)[0], "interrupted")
        state = self.socket.reconnect(waits["chatId"])
        self.assertEqual(
            state["processing"]["chats"], [{"chatId": waits["chatId"], "phase": "running"}]
        )
        self.providers[0].model.release("gate")
        self.assertEqual(self.ended(waits), ("completed", ["part"]))

    def test_a_running_chat_is_deleted_for_good(self) -> None:
        """Its request is aborted, its receipt says why, and its pages are gone."""
        turn = self.held("delete me", "never")
        chat_id = turn["chatId"]
        self.client.do("DELETE", "/chats", {"chatId": chat_id})
        self.providers[0].model.await_hang_up(1)
        receipt = self.client.settled(turn)
        self.assertEqual((receipt["state"], receipt["reason"]), ("interrupted", "chat-deleted"))
        self.assertEqual(self.client.refused("GET", "/chats/messages", chatId=chat_id), GONE)
        self.assertEqual(self.client.refused("DELETE", "/chats", {"chatId": chat_id}), GONE)
        self.socket.ping()
        told = self.socket.of(chat_id)
        self.assertEqual(told[-1]["type"], "chat-session-deleted")
        stopped = self.socket.of(chat_id, "chat-session-stopped")
        self.assertEqual([one["intent"] for one in stopped], ["chat-deletion"])

    def test_a_turns_input_is_there_before_its_request(self) -> None:
        """And once, whoever reads while the turn runs (5.1.2, 5.3.5)."""
        turn = self.held("question", "gate")
        chat_id = turn["chatId"]
        pages = [self.client.history(chat_id) for _ in range(5)]
        self.assertEqual(len({one["transcriptViewId"] for one in pages}), 1)
        for page in pages:
            users = [r for r in page["messages"] if r["message"]["type"] == "user-message"]
            self.assertEqual(len(users), 1)
            self.assertEqual(page["resendCandidates"], [])
        snapshot = self.client.do("GET", "/chats/snapshot", chatId=chat_id)
        self.assertEqual(snapshot["processingPhase"], "running")
        self.assertEqual(
            snapshot["control"]["serverInstanceId"], self.socket.ping()["serverInstanceId"]
        )
        running = self.client.do("GET", "/chats/running")["sessions"]
        self.assertEqual(running[self.providers[0].agent], [{"id": chat_id, "status": "running"}])
        self.assertEqual(running[self.providers[1].agent], [])
        self.providers[0].model.release("gate")
        self.ended(turn)

    def test_no_answer_has_a_key(self) -> None:
        """Not the catalog, not the list of profiles, not what made or changed them."""
        catalog = self.client.do("GET", "/models")["catalog"]
        ours = {one["id"]: one for one in catalog["apiProviders"]}
        for provider in self.providers:
            [endpoint] = ours[provider.id]["endpoints"]
            self.assertTrue(endpoint["hasApiKey"])
            self.assertNotIn("apiKey", endpoint)
            self.assertIn("...", endpoint["apiKeyLabel"])
            [agent] = self.client.do("GET", "/models", agent=provider.agent)["catalog"]["agents"]
            values = [one["value"] for one in agent["models"]]
            wanted = [f"{provider.endpoint_id}:{name}" for name in ("scripted", "other")]
            self.assertEqual(values, wanted)
            self.assertTrue(agent["acceptsApiProviderEndpoints"])
        reply = self.client.ask("GET", "/models", agent="nobody")
        self.assertEqual(reply.status, 400)
        self.assertTrue(all(KEY not in answer for answer in self.client.answers))
