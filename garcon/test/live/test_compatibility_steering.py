"""Interruption and steering as clients of others see them (chats.md 3.10 to 3.12, 3.19, 5.6, 5.11;
server.md I, stop).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from garcon.test.live.foreign import GONE, INVALID, STALE
from garcon.test.live.foreign_queue import (
    ENTRIES,
    NOT_FOUND,
    REORDER,
    REVISION,
    SENT,
    QueueCase,
)
from garcon.testing.foreign_client import command, message

UNKNOWN = "1700000000000000"
UNAVAILABLE = (409, "STEER_TURN_UNAVAILABLE", False)


class InterruptionTests(QueueCase):
    """What a stop does to what waits."""

    def test_a_stop_keeps_the_queue_standing(self) -> None:
        """By a manual pause, until somebody resumes it (5.6.1, 5.6.2)."""
        turn, chat_id = self.held_with("a", "b")
        stopped = self.client.stop(chat_id)
        self.assertEqual(stopped["outcome"], "interrupt-requested")
        pause = stopped["control"]["queue"]["pause"]
        self.assertEqual(pause["kind"], "manual")
        self.providers[0].model.await_hang_up(1)
        self.assertEqual(self.ended(turn)[0], "interrupted")
        self.assertEqual(self.client.stop(chat_id)["outcome"], "already-idle")
        self.assertEqual(self.client.queue(chat_id)["pause"], pause)
        self.assertEqual((self.users(chat_id), self.contents(chat_id)), (["first"], ["a", "b"]))
        self.client.do("POST", "/chats/queue/resume", {"chatId": chat_id, "pauseId": pause["id"]})
        self.await_idle(chat_id)
        self.assertEqual(
            [one["last_user"] for one in self.providers[0].model.asked()],
            ["first", "first\n\na", "b"],
        )

    def test_a_stop_of_a_queued_turn_does_not_put_it_back(self) -> None:
        """What is behind it stays (5.6.3)."""
        model = self.providers[0].model
        model.push("x", [{"hold": "never"}])
        chat_id = self.chat()
        self.client.enqueue(chat_id, "a")
        model.await_request(2)
        self.client.enqueue(chat_id, "b")
        stopped = self.client.stop(chat_id)
        self.assertEqual(stopped["control"]["queue"]["pause"]["kind"], "manual")
        self.assertEqual(self.contents(chat_id), ["b"])
        self.assertEqual(self.users(chat_id), ["hello", "a"])

    def test_two_stops_at_once(self) -> None:
        """One interrupts, the other finds the chat idle; the request is aborted once (5.6.1)."""
        turn = self.held("first", "never")
        with ThreadPoolExecutor(2) as pool:
            stops = list(pool.map(self.client.stop, [turn["chatId"]] * 2))
        outcomes = sorted(one["outcome"] for one in stops)
        self.assertEqual(outcomes, ["already-idle", "interrupt-requested"])
        again = command(chatId=turn["chatId"]) | {"clientRequestId": stops[0]["clientRequestId"]}
        replay = self.client.do("POST", "/chats/stop", again)
        self.assertEqual((replay["status"], replay["outcome"]), ("duplicate", stops[0]["outcome"]))
        self.assertEqual(self.client.refused("POST", "/chats/stop", command(chatId=UNKNOWN)), GONE)

    def test_interrupt_and_send(self) -> None:
        """The next one goes at once, nothing is paused, nothing has failed, and what the old one
        had said is not the new one's (3.11, 5.6.4).
        """
        for provider in self.providers:
            turn, chat_id = self.held_with("a", provider=provider)
            model = provider.model
            model.push("answer")
            reply = self.client.ask("POST", "/chats/interrupt-and-send", command(chatId=chat_id))
            said = reply.json
            self.assertEqual((reply.status, said["outcome"]), (200, "interrupt-requested"))
            self.assertEqual(said["commandType"], "agent-interrupt-and-send")
            self.assertIsNone(said["control"]["queue"]["pause"])
            self.assertEqual(self.ended(turn)[0], "interrupted")
            self.await_idle(chat_id)
            self.assertEqual(model.told(), [("user", "first\n\na")])
            self.assertEqual(
                self.client.said(chat_id),
                [
                    ("user-message", "first"),
                    ("user-message", "a"),
                    ("assistant-message", "answer"),
                ],
            )
            self.assertEqual(self.socket.of(chat_id, "agent-run-failed"), [])
            [stopped] = self.socket.of(chat_id, "chat-session-stopped")
            self.assertEqual(stopped["intent"], "interrupt-and-send")


class SteeringTests(QueueCase):
    """Input for a turn that runs."""

    def steer_body(self, chat_id: str, content: str, **more: Any) -> dict[str, Any]:
        """Return the body of a steer."""
        view = self.client.view(chat_id)
        return message(chatId=chat_id, transcriptViewId=view, content=content) | more

    def test_a_steer_joins_the_turn(self) -> None:
        """Its turn's id, its row at once, one delivery, the control as it was (5.11.1)."""
        for provider in self.providers:
            model = provider.model
            turn, chat_id = self.held_with("queued", provider=provider)
            model.push("steered reply", "queued reply")
            control = self.client.control(chat_id)
            body = self.steer_body(chat_id, "more")
            steered = self.client.ask("POST", "/chats/steer", body)
            self.assertEqual((steered.status, steered.json["commandType"]), (202, "steer"))
            self.assertEqual(steered.json["turnId"], turn["turnId"])
            self.assertEqual(self.users(chat_id), ["first", "more"])
            self.assertEqual(self.client.control(chat_id), control)
            again = self.client.do("POST", "/chats/steer", body)
            self.assertEqual((again["status"], again["turnId"]), ("duplicate", turn["turnId"]))
            model.release("go")
            receipt = self.client.settled(turn)
            self.assertEqual(receipt["output"]["assistantMessages"], ["part", "steered reply"])
            self.await_idle(chat_id)
            self.assertEqual(
                model.told(2), [("user", "first"), ("assistant", "part"), ("user", "more")]
            )
            refused = self.client.refused("POST", "/chats/steer", self.steer_body(chat_id, "late"))
            self.assertEqual(refused, UNAVAILABLE)
            self.assertNotIn("late", self.users(chat_id))

    def test_steers_at_once_arrive_in_their_order(self) -> None:
        """And all of them (5.11.2)."""
        turn, chat_id = self.held_with()
        model = self.providers[0].model
        view = self.client.view(chat_id)
        bodies = [
            message(chatId=chat_id, transcriptViewId=view, content=f"s{number}")
            for number in range(6)
        ]
        with ThreadPoolExecutor(6) as pool:
            answers = list(
                pool.map(lambda one: self.client.do("POST", "/chats/steer", one), bodies)
            )
        self.assertEqual({one["turnId"] for one in answers}, {turn["turnId"]})
        model.release("go")
        self.assertEqual(self.ended(turn)[0], "completed")
        shown = [text for text in self.users(chat_id) if text.startswith("s")]
        self.assertEqual(sorted(shown), [f"s{number}" for number in range(6)])
        told = [text for role, text in model.told() if role == "user"]
        self.assertEqual("\n\n".join(told).split("\n\n"), ["first", *shown])

    def test_what_is_wrong_with_a_steer(self) -> None:
        """Is refused with the code that clients act on, and has no effect (3.12)."""
        turn, chat_id = self.held_with()
        for change, refusal in (
            ({"transcriptViewId": "other"}, STALE),
            ({"content": " "}, INVALID),
            ({"chatId": UNKNOWN}, GONE),
        ):
            body = self.steer_body(chat_id, "x") | change
            self.assertEqual(self.client.refused("POST", "/chats/steer", body), refusal)
        self.assertEqual(self.users(chat_id), ["first"])
        self.providers[0].model.release("go")
        self.ended(turn)
        body = self.steer_body(chat_id, "x")
        for _ in range(2):
            self.assertEqual(self.client.refused("POST", "/chats/steer", body), UNAVAILABLE)

    def test_the_head_of_a_paused_queue_is_steered(self) -> None:
        """It is consumed, the pause and the others stay; another entry, another revision or no
        turn is refused with what became of it (3.19, 5.11.5).
        """
        turn, chat_id = self.held_with("a", "b")
        pause = self.client.do("POST", "/chats/queue/pause", {"chatId": chat_id})["control"][
            "queue"
        ]
        found = self.entries(chat_id)

        def body(text: str, **more: Any) -> dict[str, Any]:
            return (
                command(chatId=chat_id, transcriptViewId=self.client.view(chat_id))
                | {"entryId": found[text]["id"], "expectedRevision": 1}
                | {"expectedReorderRevision": 0}
                | more
            )

        path = f"{ENTRIES}/steer"
        for change, refusal in (
            (body("b"), REORDER),
            (body("a", expectedRevision=2), REVISION),
            (body("a", expectedReorderRevision=1), REORDER),
            (body("a", entryId="nobody"), NOT_FOUND),
        ):
            reply = self.client.ask("POST", path, change)
            self.assertEqual((reply.status, reply.json["errorCode"]), refusal[:2])
            self.assertFalse(reply.json["retryable"])
            self.assertEqual(reply.json["deliveryOutcome"], "not-sent")
            self.assertEqual(reply.json["control"]["queue"]["entries"], pause["entries"])
            self.assertEqual(reply.json["serverInstanceId"], self.socket.instance or "")
        stale = self.client.ask("POST", path, body("a", transcriptViewId="other"))
        self.assertEqual(stale.json["errorCode"], "STALE_TRANSCRIPT_VIEW")
        self.assertNotIn("deliveryOutcome", stale.json)
        good = body("a")
        steered = self.client.ask("POST", path, good)
        self.assertEqual((steered.status, steered.json["commandType"]), (202, "steer"))
        self.assertEqual(steered.json["turnId"], turn["turnId"])
        queue = steered.json["control"]["queue"]
        self.assertEqual(queue["pause"], pause["pause"])
        self.assertEqual([one["content"] for one in queue["entries"]], ["b"])
        self.assertEqual(
            [(one["entryId"], one["revision"]) for one in queue["recentlyDispatched"]],
            [(found["a"]["id"], 1)],
        )
        self.assertEqual(self.client.do("POST", path, good)["status"], "duplicate")
        self.assertEqual(self.users(chat_id), ["first", "a"])
        reply = self.client.ask("POST", path, body("a"))
        self.assertEqual((reply.status, reply.json["errorCode"]), SENT[:2])
        self.providers[0].model.release("go")
        self.assertEqual(self.ended(turn)[0], "completed")
        reply = self.client.ask("POST", path, body("b"))
        self.assertEqual((reply.status, reply.json["errorCode"]), UNAVAILABLE[:2])
        self.assertEqual(reply.json["deliveryOutcome"], "not-sent")
        self.assertEqual(self.contents(chat_id), ["b"])

    def test_a_steers_row_survives_a_stop(self) -> None:
        """And is carried by the next run (5.11.6)."""
        turn, chat_id = self.held_with()
        self.client.do("POST", "/chats/steer", self.steer_body(chat_id, "more"))
        self.client.stop(chat_id)
        self.assertEqual(self.ended(turn)[0], "interrupted")
        candidates = self.client.history(chat_id)["resendCandidates"]
        self.assertEqual([one["content"] for one in candidates], ["first", "more"])
        self.providers[0].model.push("done")
        self.assertEqual(self.ended(self.client.run(chat_id, "next")), ("completed", ["done"]))
        self.assertEqual(self.providers[0].model.told(), [("user", "first\n\nmore\n\nnext")])

    def test_files_that_a_steer_mentions_are_read_for_the_agent(self) -> None:
        """The row keeps what was written (5.11.7)."""
        (Path(self.project) / "notes.txt").write_text("forty-two")
        turn, chat_id = self.held_with()
        self.client.do("POST", "/chats/steer", self.steer_body(chat_id, "see @notes.txt"))
        self.providers[0].model.push("seen")
        self.providers[0].model.release("go")
        self.ended(turn)
        self.assertEqual(self.users(chat_id)[-1], "see @notes.txt")
        [steered] = [text for role, text in self.providers[0].model.told() if "see" in text]
        self.assertIn("forty-two", steered)
