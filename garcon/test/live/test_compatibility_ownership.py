"""Forks, hand-offs and continuations between the three direct agents as clients of others see them
(chats.md 3.6 to 3.9, 5.8 to 5.10; server.md I, fork).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from garcon.test.live.foreign import CONFLICT, GONE, INVALID, STALE, ForeignCase, Provider
from garcon.testing.foreign_client import command, message

UNKNOWN = "1700000000000000"
CONVERSATION = [
    ("user", "q1"),
    ("assistant", "a1"),
    ("user", "q2"),
    ("assistant", "a2"),
]


class OwnershipCase(ForeignCase):
    """Chats with two turns."""

    def conversation(self, provider: Provider, **more: Any) -> str:
        """Make a chat that says what `CONVERSATION` has."""
        provider.model.push("a1", "a2")
        chat_id = self.chat("q1", provider, **more)
        self.assertEqual(self.ended(self.client.run(chat_id, "q2")), ("completed", ["a2"]))
        return chat_id

    def kinds(self, chat_id: str) -> list[str]:
        """The types of a chat's rows."""
        return [kind for kind, _ in self.client.said(chat_id)]


class ForkTests(OwnershipCase):
    """Copies of a chat."""

    def fork(self, source: str, **more: Any) -> dict[str, Any]:
        """Fork a chat; returns the entry of the copy."""
        body = {"sourceChatId": source, "chatId": self.client.ids.chat()} | more
        forked = self.client.do("POST", "/chats/fork", body)
        self.assertEqual(forked["chat"]["id"], body["chatId"])
        entry: dict[str, Any] = forked["chat"]
        return entry

    def test_a_copy_is_a_chat_of_its_own(self) -> None:
        """With the source's agent, model, modes, tags and project, a name that counts, the top of
        the list, and the source's conversation as its model's (5.8.1, 5.8.4).
        """
        for provider in self.providers:
            source = self.conversation(provider, tags=["x"], thinkingMode="high")
            self.client.do("PUT", "/app/session-name", {"chatId": source, "title": "named"})
            view = self.client.view(source)
            self.client.do(
                "POST",
                "/chats/rows",
                message(chatId=source, transcriptViewId=view, type="notice", content="n"),
            )
            was, rows = self.client.entry(source), self.client.rows(source)
            heard = len(self.socket.of(source))
            first, second = self.fork(source), self.fork(source)
            self.assertEqual([first["title"], second["title"]], ["named (1)", "named (2)"])
            for name in ("agentId", "model", "apiProviderId", "modelEndpointId", "modelProtocol"):
                self.assertEqual(first[name], was[name])
            for name in ("permissionMode", "thinkingMode", "agentSettings", "tags", "projectPath"):
                self.assertEqual(first[name], was[name])
            self.assertNotEqual(first["agentOwnershipEpoch"], was["agentOwnershipEpoch"])
            self.assertEqual(first["orderGroup"], "normal")
            self.assertEqual(self.client.chats()[0]["id"], second["id"])
            self.assertEqual(
                self.client.said(first["id"]),
                [
                    ("user-message", "q1"),
                    ("assistant-message", "a1"),
                    ("user-message", "q2"),
                    ("assistant-message", "a2"),
                ],
            )
            self.assertNotEqual(self.client.view(first["id"]), view)
            provider.model.push("a3")
            self.ended(self.client.run(first["id"], "q3"))
            self.assertEqual(provider.model.told(), [*CONVERSATION, ("user", "q3")])
            self.assertEqual(self.client.rows(source), rows)
            self.socket.ping()
            self.assertEqual(self.socket.of(source)[heard:], [])
            again = self.fork(first["id"])
            self.assertEqual(again["title"], "named (1) (1)")
            self.assertEqual(len(self.client.said(again["id"])), 6)

    def test_a_copy_up_to_a_point(self) -> None:
        """That one included; another view is stale, and may be tried again (3.6, 5.8.2)."""
        source = self.conversation(self.providers[0])
        page = self.client.history(source)
        view, point = page["transcriptViewId"], page["messages"][1]["ordinal"]
        entry = self.fork(source, upToOrdinal=point, transcriptViewId=view)
        self.assertEqual(self.kinds(entry["id"]), ["user-message", "assistant-message"])
        body = {"sourceChatId": source, "chatId": self.client.ids.chat()}
        for change, refusal in (
            ({"sourceChatId": UNKNOWN}, GONE),
            ({"chatId": source}, INVALID),
            ({"chatId": entry["id"]}, CONFLICT),
            ({"upToOrdinal": 1}, INVALID),
            ({"transcriptViewId": view}, INVALID),
            ({"upToOrdinal": 0, "transcriptViewId": view}, INVALID),
            ({"upToOrdinal": 1, "transcriptViewId": "other"}, (409, STALE[1], True)),
            (
                {"upToOrdinal": 99, "transcriptViewId": view},
                (422, "TRANSCRIPT_UNAVAILABLE", False),
            ),
            ({"allowHandoffFork": "yes"}, INVALID),
        ):
            self.assertEqual(
                self.client.refused("POST", "/chats/fork", body | change), refusal, change
            )
        self.assertNotIn(body["chatId"], [one["id"] for one in self.client.chats()])

    def test_a_running_chat_is_copied_as_it_is(self) -> None:
        """It does not show; the copy is idle, and its next prompt carries what its source was not
        answered (5.2.4, 5.4).
        """
        turn = self.held("parent", "go")
        model = self.providers[0].model
        before = [one["phase"] for one in self.socket.of(turn["chatId"], "chat-processing-updated")]
        entry = self.fork(turn["chatId"])
        self.assertEqual((entry["processingPhase"], entry["isProcessing"]), (None, False))
        candidates = self.client.history(entry["id"])["resendCandidates"]
        self.assertEqual([one["content"] for one in candidates], ["parent"])
        model.push("answer")
        self.assertEqual(
            self.ended(self.client.run(entry["id"], "child")), ("completed", ["answer"])
        )
        self.assertEqual(model.told(), [("user", "parent\n\nchild")])
        model.release("go")
        self.assertEqual(self.ended(turn), ("completed", ["part"]))
        self.socket.ping()
        after = [one["phase"] for one in self.socket.of(turn["chatId"], "chat-processing-updated")]
        self.assertEqual((before, after), (["running"], ["running", None]))

    def test_a_copy_of_an_idle_chat_never_shows_it_as_processing(self) -> None:
        """Not even for a moment (server.md I, fork)."""
        source = self.chat()
        heard = len(self.socket.messages)
        entry = self.fork(source)
        self.socket.ping()
        after = self.socket.messages[heard:]
        self.assertEqual([one for one in after if one.get("chatId") == source], [])
        added = [one for one in after if one["type"] == "chat-list-refresh-requested"]
        self.assertEqual(
            [(one["chatId"], one["reason"]) for one in added], [(entry["id"], "chat-added")]
        )

    def test_fork_run_is_one_unit(self) -> None:
        """One request, no `Location`; the same again is a duplicate, another command by that name a
        conflict (3.7, 5.8.5).
        """
        for provider in self.providers:
            source = self.conversation(provider)
            provider.model.push("forked")
            body = message(sourceChatId=source, chatId=self.client.ids.chat(), command="go on")
            reply = self.client.ask("POST", "/chats/fork-run", body)
            self.assertEqual((reply.status, reply.json["commandType"]), (202, "fork-run"))
            self.assertNotIn("location", reply.headers)
            turn = reply.json
            self.assertEqual(turn["chat"]["id"], body["chatId"])
            self.assertEqual(self.ended(turn), ("completed", ["forked"]))
            self.assertEqual(provider.model.told(), [*CONVERSATION, ("user", "go on")])
            asked = len(provider.model.asked())
            consenting = body | {"allowHandoffFork": True}
            again = self.client.do("POST", "/chats/fork-run", consenting)
            self.assertEqual((again["status"], again["turnId"]), ("duplicate", turn["turnId"]))
            self.assertEqual(again["chat"]["id"], body["chatId"])
            self.assertEqual(
                self.client.refused("POST", "/chats/fork-run", body | {"command": "x"}), CONFLICT
            )
            self.assertEqual(
                self.client.refused("POST", "/chats/fork-run", body | message()), CONFLICT
            )
            self.assertEqual(len(provider.model.asked()), asked)
            self.assertEqual(len(self.client.rows(source)), 4)
        unknown = message(sourceChatId=UNKNOWN, chatId=self.client.ids.chat(), command="x")
        self.assertEqual(self.client.refused("POST", "/chats/fork-run", unknown), GONE)


class HandoffTests(OwnershipCase):
    """A chat that changes its agent, and one that goes on elsewhere."""

    def handoff(self, chat_id: str, provider: Provider, text: str, **more: Any) -> dict[str, Any]:
        """Return the body of a run that hands a chat over."""
        epoch = self.client.entry(chat_id)["agentOwnershipEpoch"]
        target = provider.chosen() | more.pop("target", {})
        body = message(chatId=chat_id, transcriptViewId=self.client.view(chat_id), command=text)
        given = {"expectedAgentOwnershipEpoch": epoch, "target": target}
        return body | {"handoff": given} | more

    def test_between_the_three(self) -> None:
        """Each is sent all that was said; the chat is the new one's, in the same view, with a row
        that says so ahead of the input (5.9.2, 5.9.3).
        """
        chat_id = self.conversation(self.providers[0])
        view, told = self.client.view(chat_id), list(CONVERSATION)
        owners = [0, 1, 2, 0]
        for number, (old, new) in enumerate(pairwise(owners), 3):
            provider = self.providers[new]
            provider.model.push(f"a{number}")
            was = self.client.entry(chat_id)
            body = self.handoff(chat_id, provider, f"q{number}")
            turn = self.client.do("POST", "/chats/run", body)
            for name, value in provider.chosen().items():
                self.assertEqual(turn["chat"][name], value)
            self.assertNotEqual(turn["chat"]["agentOwnershipEpoch"], was["agentOwnershipEpoch"])
            self.assertEqual(self.ended(turn), ("completed", [f"a{number}"]))
            told += [("user", f"q{number}")]
            self.assertEqual(provider.model.told(), told)
            told += [("assistant", f"a{number}")]
            switch, user, _ = self.client.history(chat_id)["messages"][-3:]
            self.assertEqual(
                {
                    name: switch["message"].get(name)
                    for name in ("type", "fromAgentId", "toAgentId")
                },
                {
                    "type": "agent-switch",
                    "fromAgentId": self.providers[old].agent,
                    "toAgentId": provider.agent,
                },
            )
            self.assertEqual(user["message"]["content"], f"q{number}")
            again = self.client.do("POST", "/chats/run", body)
            self.assertEqual((again["status"], again["turnId"]), ("duplicate", turn["turnId"]))
            self.assertEqual(again["chat"]["agentId"], provider.agent)
        self.assertEqual(self.client.view(chat_id), view)
        reasons = [one["reason"] for one in self.socket.of(chat_id, "chat-list-refresh-requested")]
        self.assertEqual(reasons, ["chat-added", *["agent-handoff"] * 3])
        copy = self.client.ids.chat()
        self.client.do("POST", "/chats/fork", {"sourceChatId": chat_id, "chatId": copy})
        self.assertEqual(self.client.said(copy), self.client.said(chat_id))
        self.crash()
        repeated = self.client.do("POST", "/chats/run", body)
        self.assertEqual((repeated["status"], repeated["chat"]["id"]), ("duplicate", chat_id))
        self.ended(self.client.run(copy, "in the copy"))
        self.assertEqual(self.providers[0].model.told(), [*told, ("user", "in the copy")])
        told += [("user", "after")]
        self.providers[0].model.push("x")
        self.ended(self.client.run(chat_id, "after"))
        self.assertEqual(self.providers[0].model.told(), told)

    def test_a_refusal_changes_nothing(self) -> None:
        """Neither owner nor rows nor queue, pause included (5.9.1; 3.5)."""
        chat_id = self.conversation(self.providers[0])
        target = self.providers[1]
        good = self.handoff(chat_id, target, "x")
        was, rows = self.client.entry(chat_id), self.client.rows(chat_id)
        stale = dict(good["handoff"], expectedAgentOwnershipEpoch="other")
        unknown = dict(good["handoff"], target=target.chosen() | {"agentId": "nobody"})
        nobody = {"ownerId": "nobody", "schemaVersion": 1, "values": {}}
        unknown["target"]["agentSettings"] = nobody
        foreign = dict(good["handoff"], target=target.chosen() | {"agentSettings": nobody})
        bypass = target.chosen() | {"permissionMode": "plan"}
        speech = target.chosen() | {"modelProtocol": "anthropic-messages"}
        for change, refusal in (
            ({"handoff": stale}, (409, "STALE_CHAT_OWNERSHIP", False)),
            ({"handoff": self.handoff(chat_id, self.providers[0], "x")["handoff"]}, INVALID),
            ({"handoff": unknown}, (422, "UNSUPPORTED_AGENT", False)),
            ({"handoff": foreign}, INVALID),
            ({"handoff": dict(good["handoff"], target=bypass)}, (422, "VALIDATION_FAILED", False)),
            ({"handoff": dict(good["handoff"], target=speech)}, (422, "VALIDATION_FAILED", False)),
            ({"model": "x"}, INVALID),
            ({"handoff": {"target": target.chosen()}}, INVALID),
        ):
            self.assertEqual(
                self.client.refused("POST", "/chats/run", good | message() | change),
                refusal,
                change,
            )
        self.assertEqual((self.client.entry(chat_id), self.client.rows(chat_id)), (was, rows))

        self.providers[0].model.push([{"hold": "go"}, "x"])
        turn = self.client.run(chat_id, "q3")
        self.client.enqueue(chat_id, "queued")
        self.client.do("POST", "/chats/queue/pause", {"chatId": chat_id})
        control = self.client.control(chat_id)
        reply = self.client.ask("POST", "/chats/run", good | message())
        requires = (409, "AGENT_HANDOFF_REQUIRES_IDLE", True)
        self.assertEqual((reply.status, reply.json["errorCode"], reply.json["retryable"]), requires)
        self.assertEqual(reply.json["control"], control)
        self.providers[0].model.release("go")
        self.ended(turn)
        self.assertEqual(
            self.client.refused("POST", "/chats/run", good | message())[:2], requires[:2]
        )
        self.assertEqual(self.client.control(chat_id), control)
        self.assertEqual(self.client.entry(chat_id)["agentId"], self.providers[0].agent)

    def test_a_stop_before_the_first_answer_keeps_the_new_owner(self) -> None:
        """And what was asked goes along with what is asked next (5.6.3, 5.2.1)."""
        chat_id = self.conversation(self.providers[0])
        model = self.providers[2].model
        model.push([{"hold": "never"}], "done")
        turn = self.client.do("POST", "/chats/run", self.handoff(chat_id, self.providers[2], "q3"))
        model.await_request(1)
        self.client.stop(chat_id)
        self.assertEqual(self.ended(turn)[0], "interrupted")
        self.assertEqual(self.client.entry(chat_id)["agentId"], self.providers[2].agent)
        self.ended(self.client.run(chat_id, "q4"))
        self.assertEqual(model.told(), [*CONVERSATION, ("user", "q3\n\nq4")])

    def test_a_continuation_is_another_chat_with_the_same_context(self) -> None:
        """The same agent and name, no number; its source stays as it is, and may be gone when the
        command comes again (3.8, 5.10).
        """
        for provider in self.providers:
            source = self.conversation(provider, tags=["x"])
            self.client.do("PUT", "/app/session-name", {"chatId": source, "title": "named"})
            was, rows = self.client.entry(source), self.client.rows(source)
            provider.model.push("a3")
            body = message(sourceChatId=source, chatId=self.client.ids.chat(), command="q3")
            reply = self.client.ask("POST", "/chats/handoff-run", body)
            turn = reply.json
            self.assertEqual((reply.status, turn["commandType"]), (202, "fork-run"))
            entry = turn["chat"]
            self.assertEqual((entry["id"], entry["title"]), (body["chatId"], "named"))
            for name in ("agentId", "model", "modelEndpointId", "thinkingMode", "tags"):
                self.assertEqual(entry[name], was[name])
            self.assertNotEqual(entry["agentOwnershipEpoch"], was["agentOwnershipEpoch"])
            self.assertEqual(self.ended(turn), ("completed", ["a3"]))
            self.assertEqual(provider.model.told(), [*CONVERSATION, ("user", "q3")])
            self.assertEqual((self.client.entry(source), self.client.rows(source)), (was, rows))
            self.assertEqual(self.client.entry(body["chatId"])["preview"]["firstMessage"], "q1")
            self.client.do("DELETE", "/chats", {"chatId": source})
            again = self.client.do("POST", "/chats/handoff-run", body)
            self.assertEqual((again["status"], again["turnId"]), ("duplicate", turn["turnId"]))
            another = body | message()
            self.assertEqual(self.client.refused("POST", "/chats/handoff-run", another), CONFLICT)
            another |= {"chatId": self.client.ids.chat()}
            self.assertEqual(self.client.refused("POST", "/chats/handoff-run", another), GONE)
        running = self.held("busy", "go")
        body = message(sourceChatId=running["chatId"], chatId=self.client.ids.chat(), command="x")
        self.assertEqual(
            self.client.refused("POST", "/chats/handoff-run", body), (409, "SESSION_BUSY", True)
        )
        same = body | {"chatId": running["chatId"]}
        self.assertEqual(self.client.refused("POST", "/chats/handoff-run", same), INVALID)

    def test_compaction_where_the_agent_has_none(self) -> None:
        """The command is taken and its turn fails; a running turn refuses it (3.9)."""
        chat_id = self.conversation(self.providers[0])
        body = command(chatId=chat_id, instructions="short")
        reply = self.client.ask("POST", "/chats/compact", body)
        self.assertEqual((reply.status, reply.json["commandType"]), (202, "agent-compact"))
        self.assertEqual(self.ended(reply.json)[0], "failed")
        self.assertEqual(len(self.providers[0].model.asked()), 2)
        self.assertEqual(self.client.do("POST", "/chats/compact", body)["status"], "duplicate")
        other = body | {"instructions": "long"}
        self.assertEqual(self.client.refused("POST", "/chats/compact", other), CONFLICT)
        self.assertEqual(
            self.client.refused("POST", "/chats/compact", command(chatId=UNKNOWN)), GONE
        )
        turn = self.held("busy", "go")
        self.assertEqual(
            self.client.refused("POST", "/chats/compact", command(chatId=turn["chatId"])),
            (409, "VALIDATION_FAILED", False),
        )
