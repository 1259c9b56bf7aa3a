"""Which terminals there are, on this machine and behind a link alike (server.md C.2)."""

from __future__ import annotations

import os
from typing import Any

from garcon.contract.ids import is_uuid4
from garcon.contract.limits import TERMINAL_TITLE_CHARACTERS, TERMINALS
from garcon.contract.terminals import (
    INTERNAL,
    LIMIT,
    NOT_ATTACHED,
    NOT_FOUND,
    RUNTIME_CHANGED,
    TAKEOVER_REQUIRED,
    VALIDATION,
    TerminalChanged,
    TerminalGone,
    TerminalInfo,
    TerminalRenaming,
    TerminalSize,
    TerminalTermination,
)
from garcon.test.controller.executors.terminal_cast import (
    ALICE,
    BOB,
    Asking,
    HeldCase,
    LinkedCase,
    LocalCase,
)
from garcon.testing.fake_pty import AT, RecordingTerminalSink


class Keeping(Asking):
    """Creating, naming and ending terminals."""

    def test_a_new_terminal(self) -> None:
        """Runs the shell in the project base, 80 by 24, and is in the list."""
        info = self.new()
        self.assertTrue(is_uuid4(info.session_id))
        self.assertEqual(
            info,
            TerminalInfo(
                session_id=info.session_id,
                display_sequence=1,
                title=None,
                initial_working_directory=os.path.realpath(self.base),
                process_status="running",
                attachment_status="detached",
                created_at=AT,
                exit_code=None,
                latest_output_sequence=0,
            ),
        )
        pty = self.ptys.last
        self.assertEqual(pty.sizes, [TerminalSize(cols=80, rows=24)])
        self.assertEqual(pty.directory, os.path.realpath(self.base))
        listed = self.listed()
        self.assertEqual(listed.terminals, [info])
        self.assertTrue(is_uuid4(listed.terminal_runtime_id))
        self.assertTrue(0 < len(listed.attachment_epoch.encode()) <= 256)

    def test_a_terminal_of_another_process(self) -> None:
        """Is none of this one's, whatever it is called: not to be had, named or ended."""
        info = self.new()
        other = "00000000-0000-4000-8000-ffffffffffff"
        _, d = self.attach_call(info.session_id, RecordingTerminalSink(), terminal_runtime_id=other)
        self.fails(d, NOT_FOUND)
        fields = {"principal_key": ALICE, "session_id": info.session_id}
        for runtime_id in (other, self.listed().terminal_runtime_id):
            fields["terminal_runtime_id"] = runtime_id
            renamed = self.terminals.rename(TerminalRenaming(title="t", **fields))
            ended = self.terminals.terminate(TerminalTermination(request_id="r", **fields))
            if runtime_id == other:
                self.fails(renamed, NOT_FOUND)
                self.assertIsNone(self.result(ended))
                self.assertEqual(self.ids(), [info.session_id])
            else:
                self.assertEqual(self.result(ended), self.result(renamed))

    def test_each_principal_has_its_own(self) -> None:
        """Numbers, list and rights; another's terminal is none."""
        mine = self.new()
        theirs = self.new(BOB)
        self.assertEqual((theirs.display_sequence, self.ids(BOB)), (1, [theirs.session_id]))
        self.fails(self.attach_call(theirs.session_id, RecordingTerminalSink())[1], NOT_FOUND)
        self.fails(
            self.terminals.rename(
                TerminalRenaming(principal_key=BOB, session_id=mine.session_id, title="x")
            ),
            NOT_FOUND,
        )
        self.assertIsNone(self.result(self.terminate_call(mine.session_id, BOB)))
        self.assertEqual(self.ids(), [mine.session_id])

    def test_eight_and_nine(self) -> None:
        """Eight may be had, exited ones counted; a number is never used again."""
        infos = [self.new() for _ in range(TERMINALS)]
        self.ptys.last.exit(0)
        self.fails(self.create_call(), LIMIT)
        self.new(BOB)
        self.assertIsInstance(self.result(self.terminate_call(infos[0].session_id)), TerminalInfo)
        self.assertEqual(self.new().display_sequence, TERMINALS + 1)
        self.fails(self.create_call(), LIMIT)
        self.assertEqual(
            [info.display_sequence for info in self.listed().terminals],
            list(range(2, TERMINALS + 2)),
        )

    def test_nine_at_once(self) -> None:
        """Are eight."""
        calls = [self.create_call() for _ in range(TERMINALS + 1)]
        self.settle()
        for d in calls[:-1]:
            self.successResultOf(d)
        self.fails(calls[-1], LIMIT)
        self.assertEqual(len(self.ptys.opened), TERMINALS)

    def test_the_same_request_again(self) -> None:
        """Gets the same answer and starts nothing, also while the first is under way, and also a
        refusal.
        """
        first, second = (self.create_call(request_id="same") for _ in range(2))
        self.assertEqual(self.result(first), self.result(second))
        self.assertEqual(self.new(request_id="same").display_sequence, 1)
        self.assertEqual(len(self.ptys.opened), 1)
        self.assertEqual(self.new(BOB, request_id="same").display_sequence, 1)
        for _ in range(2):
            self.fails(self.create_call(request_id="bad", directory="/"), VALIDATION, 422)
        for _ in range(TERMINALS - 1):
            self.new()
        self.fails(self.create_call(request_id="full"), LIMIT)
        self.result(self.terminate_call(self.ids()[0]))
        self.fails(self.create_call(request_id="full"), LIMIT)

    def test_directories(self) -> None:
        """Inside the base and there, links followed; anything else is 422 and starts nothing."""
        os.mkdir(os.path.join(self.base, "inside"))
        os.symlink("inside", os.path.join(self.base, "link"))
        os.symlink("/", os.path.join(self.base, "out"))
        with open(os.path.join(self.base, "file"), "w"):
            pass
        inside = os.path.realpath(os.path.join(self.base, "inside"))
        for name in ("inside", os.path.join(self.base, "link"), inside):
            info = self.new(directory=name)
            self.assertEqual(info.initial_working_directory, inside)
        for name in ("", "missing", "file", "out", "/", "..", "in\0side"):
            self.fails(self.create_call(directory=name), VALIDATION, 422)
        self.assertEqual(len(self.ptys.opened), 3)

    def test_a_process_that_was_expected(self) -> None:
        """Must be the one there is; else nothing is started, and a later request may start it."""
        runtime_id = self.listed().terminal_runtime_id
        other = "00000000-0000-4000-8000-00000000ffff"
        self.fails(
            self.create_call(request_id="r", expected_terminal_runtime_id=other), RUNTIME_CHANGED
        )
        self.assertEqual(self.ptys.opened, [])
        self.new(request_id="r", expected_terminal_runtime_id=runtime_id)

    def test_a_machine_that_has_no_terminal_left(self) -> None:
        """Is an internal failure, told again to the same request."""
        self.ptys.error = OSError(28, "No space left on device")
        self.fails(self.create_call(request_id="r"), INTERNAL)
        self.ptys.error = None
        self.fails(self.create_call(request_id="r"), INTERNAL)
        self.new()
        self.assertEqual(len(self.flushed()), 1)

    def flushed(self) -> list[Any]:
        """Return what was logged of failures."""
        flush: Any = self
        found: list[Any] = flush.flushLoggedErrors(OSError)
        return found

    def test_ids(self) -> None:
        """Up to 256 bytes."""
        self.new(request_id="é" * 128)
        self.fails(self.create_call(request_id="é" * 128 + "x"), VALIDATION)
        self.fails(self.create_call(request_id=""), VALIDATION)

    def test_titles(self) -> None:
        """Are trimmed, and a blank one is none; whoever is attached hears of each."""
        info = self.new()
        _, sink, _ = self.attach(info.session_id)
        for title, kept in (("  build \n", "build"), ("漢字", "漢字"), (" \t", None), (None, None)):
            self.assertEqual(self.result(self.rename_call(info, title)).title, kept)
            self.settle()
            last = sink.events[-1]
            assert isinstance(last, TerminalChanged)
            self.assertEqual(last.terminal.title, kept)
            self.assertEqual(self.listed().terminals[0].title, kept)

    def test_titles_that_are_refused(self) -> None:
        """One character too many, counted as a browser counts them, or a control character."""
        info = self.new()
        most = TERMINAL_TITLE_CHARACTERS
        for title in ("x" * most, "🙂" * (most // 2)):
            self.assertEqual(self.result(self.rename_call(info, title)).title, title)
        for title in ("x" * (most + 1), "🙂" * (most // 2) + "x", "a\nb", "a\x7fb", "a\x1bb"):
            self.fails(self.rename_call(info, title), VALIDATION)

    def test_terminating(self) -> None:
        """Ends the process and tells everybody who follows; it is unknown from then on."""
        info = self.new()
        owned, owner, _ = self.attach(info.session_id, client_id="one")
        follower = RecordingTerminalSink()
        self.fails(
            self.attach_call(info.session_id, follower, client_id="two")[1], TAKEOVER_REQUIRED
        )
        self.say("a")
        last = self.result(self.terminate_call(info.session_id))
        assert last is not None
        self.assertEqual((last.session_id, last.latest_output_sequence), (info.session_id, 1))
        self.assertEqual(self.ptys.last.ends, 1)
        for sink in (owner, follower):
            self.assertEqual(sink.events[-1], TerminalGone())
        self.fails(self.terminals.input(owned, "x"), NOT_ATTACHED)
        self.assertEqual(self.ids(), [])
        self.fails(self.attach_call(info.session_id, RecordingTerminalSink())[1], NOT_FOUND)

    def test_terminating_again(self) -> None:
        """The same request has the same answer, another one finds nothing."""
        info = self.new()
        for _ in range(2):
            last = self.result(self.terminate_call(info.session_id, request_id="r"))
            assert last is not None
            self.assertEqual(last.session_id, info.session_id)
        self.assertIsNone(self.result(self.terminate_call(info.session_id)))
        self.assertEqual(self.ptys.last.ends, 1)

    def test_an_unknown_one_is_terminated(self) -> None:
        """Already."""
        self.assertIsNone(self.result(self.terminate_call("unknown", request_id="r")))
        self.assertIsNone(self.result(self.terminate_call("unknown", request_id="r")))


class LocalKeeping(Keeping, LocalCase):
    """On this machine."""


class HeldKeeping(Keeping, HeldCase):
    """The tests' double."""


class RemoteKeeping(Keeping, LinkedCase):
    """Behind a link."""
