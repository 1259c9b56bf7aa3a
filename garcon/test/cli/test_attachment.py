"""A client's hold on a terminal, as values; what the controller says is made from the contract."""

from __future__ import annotations

import itertools
import random
from base64 import b64encode
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from garcon.cli import attachment
from garcon.cli.attachment import Attached, Attachment, Ended, Event, Lost, Shown, Told
from garcon.cli.websocket import ProtocolError
from garcon.contract import terminals
from garcon.contract.terminals import (
    AttachedMessage,
    ClientMessage,
    EncodedChunk,
    ErrorMessage,
    OutputFragmentMessage,
    OutputMessage,
    ReplayBatchMessage,
    ReplayTruncatedMessage,
    StatusMessage,
    TakenOverMessage,
    Terminal,
    TerminalChunk,
    TerminatedMessage,
)

ID = "local/7c9e6679-7425-40de-944b-e07fc1f90ae7/16fd2706-8baf-433b-82eb-8c7fada847da"


def described(latest: int, exit_code: int | None = None, *, exited: bool = False) -> Terminal:
    return Terminal(
        terminal_id=ID,
        display_sequence=1,
        title=None,
        initial_working_directory="/",
        process_status="exited" if exited or exit_code is not None else "running",
        attachment_status="attached",
        created_at="2026-01-31T00:00:00.000Z",
        exit_code=exit_code,
        latest_output_sequence=latest,
    )


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


class AttachmentCase(SynchronousTestCase):
    """An attachment that has been asked for once, as ``a-1``."""

    def setUp(self) -> None:
        self.ids = (f"a-{number}" for number in itertools.count(1))
        self.attachment = Attachment(ID, "client", False, lambda: next(self.ids))
        self.asked = self.attachment.attach()

    def hear(self, message: Any) -> list[Event]:
        """Let it receive a message of the contract."""
        return self.attachment.received(msgspec.json.encode(message).decode())

    def attached(self, *replay: tuple[int, str], latest: int, **more: Any) -> list[Event]:
        """Let it be attached."""
        chunks = [TerminalChunk(sequence=number, data=data) for number, data in replay]
        terminal = described(latest, **more)
        return self.hear(AttachedMessage(terminal=terminal, replay=chunks))

    def output(self, sequence: int, data: str) -> list[Event]:
        """Let output come."""
        return self.hear(OutputMessage(terminal_id=ID, sequence=sequence, data=data))

    def error(self, code: str, terminal_id: str | None = ID) -> list[Event]:
        """Let it hear of an error."""
        named = {} if terminal_id is None else {"terminal_id": terminal_id}
        return self.hear(ErrorMessage(code=code, message="why", **named))

    def ended(self, events: list[Event]) -> Ended:
        """Return the one event, which is an end."""
        (event,) = events
        assert isinstance(event, Ended), event
        return event


class SayingTests(AttachmentCase):
    """What it says is of the contract."""

    def test_messages(self) -> None:
        """Each names the terminal and the present attachment."""
        self.attached(latest=0)
        said = [
            self.asked,
            *self.attachment.typed("é\n"),
            self.attachment.resized(80, 24),
            self.attachment.detach(),
        ]
        kinds = []
        for message in said:
            read = msgspec.convert(message, ClientMessage, strict=True)
            self.assertEqual((read.terminal_id, read.attachment_id), (ID, "a-1"))
            kinds.append(type(read).__name__)
        self.assertEqual(kinds, ["AttachMessage", "InputMessage", "ResizeMessage", "DetachMessage"])

    def test_from_where_it_attaches(self) -> None:
        """At first from the beginning, then from what was shown, each time under another id."""
        self.assertEqual((self.asked["afterSequence"], self.asked["intent"]), (0, "restore"))
        self.attached((1, "a"), (2, "b"), latest=2)
        self.output(3, "c")
        again = self.attachment.attach()
        self.assertEqual((again["afterSequence"], again["attachmentId"]), (3, "a-2"))
        self.assertEqual(again["clientId"], self.asked["clientId"])

    def test_it_takes_over_once(self) -> None:
        """Attaching again only restores: meanwhile another may have taken it rightly."""
        self.attachment = Attachment(ID, "client", True, lambda: "a")
        self.assertEqual(self.attachment.attach()["intent"], "takeover")
        self.assertEqual(self.attachment.attach()["intent"], "takeover")
        self.attached(latest=0)
        self.assertEqual(self.attachment.attach()["intent"], "restore")


class OutputTests(AttachmentCase):
    """Output is shown once and in order."""

    def test_replay_then_output(self) -> None:
        """What was there before is marked as such, what comes is not."""
        events = self.attached((1, "a"), (2, "é"), latest=2)
        expected = [Attached(True), Shown(b"a", True), Shown("é".encode(), True)]
        self.assertEqual(events, expected)
        self.assertEqual(self.output(3, "c"), [Shown(b"c", False)])

    def test_what_was_missed_is_no_replay(self) -> None:
        """A program that asked the terminal something meanwhile waits for the answer."""
        self.attached((1, "a"), latest=1)
        self.attachment.attach()
        self.assertEqual(self.attached((2, "b"), latest=2), [Attached(False), Shown(b"b", False)])

    def test_duplicates_are_dropped(self) -> None:
        """In a replay and after it."""
        self.attached((1, "a"), latest=1)
        self.attachment.attach()
        events = self.attached((1, "a"), (2, "b"), latest=2)
        self.assertEqual(events, [Attached(False), Shown(b"b", False)])
        self.assertEqual(self.output(2, "b"), [])

    def test_a_gap_is_not_shown(self) -> None:
        """Whoever reads on would lose something; attaching again brings it."""
        self.attached((1, "a"), latest=1)
        self.assertRaises(ProtocolError, self.output, 3, "c")
        self.assertEqual(self.attachment.attach()["afterSequence"], 1)

    def test_a_truncated_replay(self) -> None:
        """Is told, and goes on at what is kept."""
        truncated = ReplayTruncatedMessage(terminal_id=ID, first_sequence=5)
        (told,) = self.hear(truncated)
        self.assertIsInstance(told, Told)
        self.assertEqual(self.attached((5, "e"), latest=5)[1:], [Shown(b"e", True)])
        # Nothing is missing here.
        self.assertEqual(self.hear(truncated), [])
        self.assertEqual(self.output(6, "f"), [Shown(b"f", False)])

    def test_nothing_is_kept_at_all(self) -> None:
        """A piece that was larger than what is kept is gone, and so is all before it."""
        self.hear(ReplayTruncatedMessage(terminal_id=ID, first_sequence=6))
        self.attached(latest=5)
        self.assertEqual(self.output(6, "f"), [Shown(b"f", False)])

    def test_batches(self) -> None:
        """A long replay follows its attachment."""
        self.attached(latest=3)
        chunks = [EncodedChunk(sequence=n, data_base64=encoded(b"%d" % n)) for n in (1, 2, 3)]
        events = self.hear(ReplayBatchMessage(terminal_id=ID, chunks=chunks))
        self.assertEqual(events, [Shown(b"1", True), Shown(b"2", True), Shown(b"3", True)])

    def fragment(self, index: int, data: bytes, count: int = 2, sequence: int = 1) -> list[Event]:
        """Let one part of an output come."""
        return self.hear(
            OutputFragmentMessage(
                terminal_id=ID,
                sequence=sequence,
                fragment_index=index,
                fragment_count=count,
                data_base64=encoded(data),
            )
        )

    def test_fragments(self) -> None:
        """They are shown when all are there, wherever they were cut."""
        self.attached(latest=0)
        self.assertEqual(self.fragment(0, b"a\xc3"), [])
        self.assertEqual(self.attachment.last, 0)
        self.assertEqual(self.fragment(1, b"\xa9"), [Shown("aé".encode(), False)])
        self.assertEqual(self.output(2, "b"), [Shown(b"b", False)])

    def test_fragments_that_do_not_fit(self) -> None:
        """A hole, another count, another sequence, one too many."""
        for wrong in ((2, 3, 1), (1, 2, 1), (1, 3, 2), (3, 3, 1)):
            self.setUp()
            self.attached(latest=0)
            self.fragment(0, b"a", 3)
            self.assertRaises(ProtocolError, self.fragment, wrong[0], b"b", *wrong[1:])

    def test_fragments_begin_anew_with_each_attachment(self) -> None:
        """What came of a cut off output does not count."""
        self.attached(latest=0)
        self.fragment(0, b"a")
        self.attachment.attach()
        self.attached(latest=1)
        self.fragment(0, b"A")
        self.assertEqual(self.fragment(1, b"B"), [Shown(b"AB", False)])

    def test_the_largest_output(self) -> None:
        """Fragments make at most `LARGEST_CHUNK` bytes."""
        self.patch(attachment, "LARGEST_CHUNK", 4)
        self.attached(latest=0)
        self.fragment(0, b"aa")
        self.assertEqual(self.fragment(1, b"aa"), [Shown(b"aaaa", False)])
        self.fragment(0, b"aa", 2, 2)
        self.assertRaises(ProtocolError, self.fragment, 1, b"aaa", 2, 2)

    def test_of_others(self) -> None:
        """Other terminals, earlier attachments, chats, and messages of later versions."""
        self.attached(latest=0)
        self.attachment.attach()
        self.attached(latest=0)
        other = OutputMessage(terminal_id=ID[:-1] + "b", sequence=1, data="a")
        late = OutputMessage(terminal_id=ID, sequence=1, data="a", attachment_id="a-1")
        others: tuple[Any, ...] = (other, late, {"type": "chat-messages"}, {"type": 1}, [])
        for message in others:
            self.assertEqual(self.hear(message), [], message)

    def test_what_cannot_be(self) -> None:
        """No JSON, and messages of this terminal without what they need."""
        self.attached(latest=0)
        wrong = (
            "{",
            f'{{"type": "terminal-output", "terminalId": "{ID}", "data": "x"}}',
            f'{{"type": "terminal-output", "terminalId": "{ID}", "sequence": -1, "data": "x"}}',
            f'{{"type": "terminal-output", "terminalId": "{ID}", "sequence": true, "data": "x"}}',
            f'{{"type": "terminal-replay-batch", "terminalId": "{ID}", "chunks": 1}}',
            f'{{"type": "terminal-replay-batch", "terminalId": "{ID}",'
            ' "chunks": [{"sequence": 1, "dataBase64": "*"}]}',
            '{"type": "terminal-error"}',
        )
        for text in wrong:
            self.assertRaises(ProtocolError, self.attachment.received, text)


class CutTests(AttachmentCase):
    """Output over many connections."""

    def test_nothing_is_lost_and_nothing_comes_twice(self) -> None:
        """Wherever the connection is cut, in whatever form output comes."""
        for seed in range(300):
            chance = random.Random(seed)
            log = [bytes(chance.choices(b"abc", k=chance.randint(1, 9))) for _ in range(40)]
            self.setUp()
            shown = b""
            while self.attachment.last < len(log):
                after = self.attachment.attach()["afterSequence"]
                # As much as there is at that moment comes as a replay, the rest as it is printed.
                there = chance.randint(after, len(log))
                replay = [(n, log[n - 1].decode()) for n in range(after + 1, there + 1)]
                messages: list[Any] = [
                    AttachedMessage(
                        terminal=described(there),
                        replay=[TerminalChunk(sequence=n, data=data) for n, data in replay],
                    )
                ]
                if chance.random() < 0.5:
                    messages = [AttachedMessage(terminal=described(there), replay=[])]
                    messages += self.said(chance, log, range(after + 1, there + 1))
                messages += self.said(chance, log, range(there + 1, len(log) + 1))
                for message in messages[: chance.randint(1, len(messages))]:
                    for event in self.hear(message):
                        shown += event.data if isinstance(event, Shown) else b""
            self.assertEqual(shown, b"".join(log), seed)

    def said(self, chance: random.Random, log: list[bytes], numbers: range) -> list[Any]:
        """Return some chunks in messages of any form."""
        messages: list[Any] = []
        for number in numbers:
            data = log[number - 1]
            form = chance.randrange(3)
            if form == 0:
                messages.append(OutputMessage(terminal_id=ID, sequence=number, data=data.decode()))
            elif form == 1:
                chunk = EncodedChunk(sequence=number, data_base64=encoded(data))
                messages.append(ReplayBatchMessage(terminal_id=ID, chunks=[chunk]))
            else:
                messages += [
                    OutputFragmentMessage(
                        terminal_id=ID,
                        sequence=number,
                        fragment_index=index,
                        fragment_count=len(data),
                        data_base64=encoded(data[index : index + 1]),
                    )
                    for index in range(len(data))
                ]
        return messages


class EndTests(AttachmentCase):
    """How it ends."""

    def test_the_shell_exits(self) -> None:
        """With its status: 0 is 0, everything else is 1."""
        for code, status in ((0, 0), (1, 1), (137, 1)):
            self.setUp()
            self.attached(latest=0)
            ended = self.ended(self.hear(StatusMessage(terminal=described(0, code))))
            self.assertEqual((ended.text, ended.status), (f"exited {code}", status))
            self.assertEqual((ended.phase, ended.has_exited), ("", True))

    def test_a_title_ends_nothing(self) -> None:
        """Nor any other status of a shell that runs."""
        self.attached(latest=0)
        self.assertEqual(self.hear(StatusMessage(terminal=described(0))), [])

    def test_a_shell_that_has_exited_before(self) -> None:
        """All of its output is shown first, also where it comes in batches."""
        events = self.attached((1, "a"), latest=1, exit_code=0)
        self.assertEqual([type(event) for event in events], [Attached, Shown, Ended])
        self.setUp()
        self.assertEqual(self.attached(latest=2, exit_code=0), [Attached(True)])
        chunks = [EncodedChunk(sequence=n, data_base64=encoded(b"a")) for n in (1, 2)]
        events = self.hear(ReplayBatchMessage(terminal_id=ID, chunks=chunks))
        self.assertEqual([type(event) for event in events], [Shown, Shown, Ended])

    def test_others_end_it(self) -> None:
        """Taken over: 3; killed: 4."""
        self.attached(latest=0)
        taken = TakenOverMessage(terminal_id=ID, replacement_client_id="x")
        self.assertEqual(self.ended(self.hear(taken)).status, 3)
        self.assertEqual(self.ended(self.hear(TerminatedMessage(terminal_id=ID))).status, 4)

    def test_the_login_ends(self) -> None:
        """The message names no terminal; whoever reads ours knows what to do."""
        self.attached(latest=0)
        ended = self.ended(self.error(terminals.AUTH_EXPIRED, None))
        self.assertEqual((ended.phase, ended.status), ("authentication", 3))
        self.assertIn("garcon login", ended.text)
        self.assertFalse(self.attachment.is_attached)

    def test_refused_at_first(self) -> None:
        """Each reason ends it: nothing has begun."""
        for code in (*terminals.STATUSES,):
            if code == terminals.AUTH_EXPIRED:
                continue
            self.setUp()
            ended = self.ended(self.error(code))
            self.assertEqual(ended.status, 3, code)
        self.setUp()
        self.assertIn("--take-over", self.ended(self.error(terminals.TAKEOVER_REQUIRED)).text)

    def test_what_passes(self) -> None:
        """Once it was attached, an executor that is away comes back."""
        for code in (terminals.UNAVAILABLE, terminals.NOT_ATTACHED):
            self.setUp()
            self.attached(latest=0)
            self.assertEqual(self.error(code), [Lost("why", False)])
            self.assertFalse(self.attachment.is_attached)
            self.attachment.attach()
            self.assertEqual(self.error(code), [Lost("why", False)])

    def test_falling_behind(self) -> None:
        """What it still lacks can be had at once; where that is refused, later."""
        self.attached(latest=0)
        self.assertEqual(self.error(terminals.BACKPRESSURE), [Lost("why", True)])
        self.attachment.attach()
        self.assertEqual(self.error(terminals.BACKPRESSURE), [Lost("why", False)])

    def test_gone_meanwhile(self) -> None:
        """Attaching again finds nothing, or another client."""
        for code, word in (
            (terminals.NOT_FOUND, "is gone"),
            (terminals.TAKEOVER_REQUIRED, "another client"),
            (terminals.REPLAY_SEQUENCE, "why"),
        ):
            self.setUp()
            self.attached(latest=0)
            self.attachment.attach()
            self.assertIn(word, self.ended(self.error(code)).text)

    def test_one_thing_fails(self) -> None:
        """That is told, and nothing ends; typing into what has just exited is not worth a word."""
        self.attached(latest=0)
        self.assertEqual(self.error(terminals.INTERNAL), [Told("why")])
        self.assertEqual(self.error(terminals.PROCESS_EXITED), [])
        self.assertTrue(self.attachment.is_attached)

    def test_errors_of_others(self) -> None:
        """Another terminal's are not ours."""
        self.attached(latest=0)
        self.assertEqual(self.error(terminals.UNAVAILABLE, "local/x/y"), [])
