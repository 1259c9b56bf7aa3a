"""Many clients at once, who do whatever comes to their minds: every socket hears the same, which is
what HTTP shows in the end, and every turn ends once (server.md A.11; chats.md 5).
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from garcon.test.live.foreign import ForeignCase
from garcon.testing.fleet import eventually
from garcon.testing.foreign_client import ForeignClient, command, message
from garcon.testing.foreign_socket import ForeignSocket

CLIENTS, STEPS, CHATS = 5, 40, 5
TEXTS = ("slow one", "slow two", "quick", "bad")
SCRIPT = {
    "sides_take_turns": True,
    "rules": [
        {"match": "slow", "turn": [{"text": "part"}, {"sleep": 0.05}]},
        {"match": "bad", "turn": [{"text": "half"}, {"stream_error": "x", "message": "broken"}]},
    ],
}
ENDS = {
    "completed": "agent-run-finished",
    "failed": "agent-run-failed",
    "interrupted": "agent-run-finished",
}


class Person(ForeignClient):
    """One of the clients.  `turns` are those that it was told were accepted."""

    def begin(self, case: ManyTests, seed: int) -> Person:
        """Be somebody in particular."""
        self.case, self.random = case, random.Random(seed)
        self.turns: list[dict[str, Any]] = []
        return self

    def live(self, steps: int) -> Person:
        """Do so many things."""
        for _ in range(steps):
            chats = [one["id"] for one in self.chats()]
            if len(chats) < CHATS:
                provider = self.random.choice(self.case.providers)
                self.send("POST", "/chats/start", self.case.start_body(provider, self.text()))
            else:
                self.act(self.random.choice(chats))
        return self

    def text(self) -> str:
        """Say something."""
        return self.random.choice(TEXTS)

    def send(self, method: str, path: str, body: dict[str, Any]) -> None:
        """Send a command, which may well be refused, but by nothing that went wrong."""
        reply = self.ask(method, path, body)
        assert reply.status < 500, reply
        if reply.status == 202 and "turnId" in reply.json and reply.json["commandType"] != "steer":
            self.turns.append(reply.json)

    def act(self, chat_id: str) -> None:
        """Do one thing with a chat."""
        said = self.ask("GET", "/chats/rows", chatId=chat_id)
        if said.status != 200:
            return  # somebody has deleted it
        here = {"chatId": chat_id, "transcriptViewId": said.json["transcriptViewId"]}
        fork = {"sourceChatId": chat_id, "chatId": self.ids.chat()}
        more = self.random.random() < 0.5
        match self.random.randrange(12):
            case 0 | 1:
                self.send("POST", "/chats/run", message(**here, command=self.text()))
            case 2 | 3 | 4:
                self.send("POST", "/chats/queue/entries", message(**here, content=self.text()))
            case 5:
                self.send("POST", "/chats/steer", message(**here, content="more"))
            case 6:
                path = "/chats/stop" if more else "/chats/interrupt-and-send"
                self.send("POST", path, command(chatId=chat_id))
            case 7:
                self.queue_changes(chat_id)
            case 8:
                row = message(**here, type="notice", content="note")
                self.send("POST", "/chats/rows", row)
            case 9:
                path = "/chats/fork-run" if more else "/chats/handoff-run"
                self.send("POST", path, message(**fork, command=self.text()))
            case 10:
                self.hand_over(here)
            case 11:
                self.send("DELETE", "/chats", {"chatId": chat_id})

    def queue_changes(self, chat_id: str) -> None:
        """Change what waits, or let it go on."""
        said = self.ask("GET", "/chats/queue", chatId=chat_id)
        if said.status != 200:
            return
        queue = said.json["control"]["queue"]
        if queue["pause"]:
            body = {"chatId": chat_id, "pauseId": queue["pause"]["id"]}
            self.send("POST", "/chats/queue/resume", body)
        elif queue["entries"] and self.random.random() < 0.5:
            entry = queue["entries"][-1]
            body = command(chatId=chat_id, entryId=entry["id"], content="edited")
            edit = body | {"expectedRevision": entry["revision"]}
            self.send("PUT", "/chats/queue/entries", edit)
        else:
            self.send("POST", "/chats/queue/pause", {"chatId": chat_id})

    def hand_over(self, here: dict[str, Any]) -> None:
        """Hand a chat to another agent."""
        snapshot = self.ask("GET", "/chats/snapshot", chatId=here["chatId"], limit=0)
        if snapshot.status != 200:
            return
        chat = snapshot.json["chat"]
        target = next(one for one in self.case.providers if one.agent != chat["agentId"])
        epoch = chat["agentOwnershipEpoch"]
        handoff = {"expectedAgentOwnershipEpoch": epoch, "target": target.chosen()}
        body = message(**here, command=self.text())
        self.send("POST", "/chats/run", body | {"handoff": handoff})


class ManyTests(ForeignCase):
    """What is so when they have gone."""

    def test_whatever_they_do(self) -> None:
        """See above."""
        for model in self.models:
            model.control("", SCRIPT)
        sockets = [self.socket, self.open_socket(), self.open_socket(protocols=["garcon-v1"])]
        people = [
            Person(self.client.url, ids=self.client.ids).begin(self, seed)
            for seed in range(CLIENTS)
        ]
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda person: person.live(STEPS), people))
        for entry in self.client.chats():
            self.client.do("POST", "/chats/queue/clear", {"chatId": entry["id"]})
        eventually(
            "the end of all turns",
            lambda: not any(one["isProcessing"] for one in self.client.chats()),
        )
        chats = [one["id"] for one in self.client.chats()]
        turns = [turn for person in people for turn in person.turns]
        self.assertGreater(len(turns), CLIENTS)
        receipts = [self.client.settled(turn) for turn in turns]
        heard = []
        for socket in sockets:
            socket.ping()
            heard.append([one for one in socket.messages if one["type"] != "ws-pong"])
        self.assertEqual(heard[0], heard[1])
        self.assertEqual(heard[0], heard[2])
        for turn, receipt in zip(turns, receipts, strict=True):
            self.ended_once(turn, receipt, chats)
        for chat_id in chats:
            self.as_it_was_told(self.socket, chat_id)

    def ended_once(self, turn: dict[str, Any], receipt: dict[str, Any], chats: list[str]) -> None:
        """A turn's end is told once, as its receipt says, unless its chat was deleted."""
        ends = [
            one
            for one in self.socket.of(turn["chatId"], *ENDS.values())
            if one["turnId"] == turn["turnId"]
        ]
        if turn["chatId"] in chats:
            self.assertEqual(len(ends), 1, turn)
        for end in ends:
            self.assertEqual(end["clientRequestId"], turn["clientRequestId"])
            if receipt.get("reason") != "chat-deleted":
                self.assertEqual(end["type"], ENDS[receipt["state"]])

    def as_it_was_told(self, socket: ForeignSocket, chat_id: str) -> None:
        """Rows, phase and control of a chat are those that its listeners were told last."""
        rows = self.client.rows(chat_id)
        live = socket.rows(chat_id)
        if live:
            self.assertEqual(live[-len(rows) :], rows[-len(live) :])
        page = self.client.history(chat_id)
        names = [
            row["message"]["metadata"]["clientMessageId"]
            for row in page["messages"]
            if row["message"]["type"] == "user-message"
        ]
        self.assertEqual(len(names), len(set(names)))
        phases = [one["phase"] for one in socket.of(chat_id, "chat-processing-updated")]
        self.assertEqual(phases[-1:], [None] if phases else [])
        controls = [one["control"] for one in socket.of(chat_id, "chat-execution-control-updated")]
        if controls:
            self.assertEqual(controls[-1], self.client.control(chat_id))
        versions = [one["version"] for one in controls]
        self.assertEqual(versions, list(range(1, len(versions) + 1)))
