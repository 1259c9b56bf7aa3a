"""The terminals of a process: its requests, and its end.  What any executor's terminals promise is
in `garcon.test.controller.executors.test_terminals_kept` and its neighbours.
"""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import TERMINAL_RESULT_TIME, TERMINAL_RESULTS, TERMINALS
from garcon.contract.terminals import (
    BACKPRESSURE,
    UNAVAILABLE,
    TerminalAttachment,
    TerminalCreation,
    TerminalDetached,
    TerminalInfo,
    TerminalTermination,
)
from garcon.errors import GarconError
from garcon.runtime.environment import child_environment, shell_of, terminal_environment
from garcon.runtime.terminals.service import STOP_WAIT
from garcon.testing.fake_pty import FakePtys, RecordingTerminalSink, fake_terminals
from garcon.testing.inline_threads import InlinePool


class Case(SynchronousTestCase):
    """A service whose threads can stand still."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.ptys = FakePtys()
        self.pool = InlinePool()
        base = self.mktemp()
        os.makedirs(base)
        self.terminals = fake_terminals(self.clock, self.ptys, base, self.pool)

    def create(self, name: str, who: str = "p") -> Deferred[TerminalInfo]:
        return self.terminals.create(TerminalCreation(principal_key=who, request_id=name))

    def terminate(self, info: TerminalInfo, name: str = "t") -> Deferred[TerminalInfo | None]:
        wanted = TerminalTermination(principal_key="p", session_id=info.session_id, request_id=name)
        return self.terminals.terminate(wanted)

    def failed(self, d: Deferred[Any], code: str) -> None:
        error = self.failureResultOf(d, GarconError).value
        assert isinstance(error, GarconError)
        self.assertEqual(error.code, code)


class Requests(Case):
    """What was asked for and may be asked again."""

    def test_one_after_the_other(self) -> None:
        """Of one principal; another does not wait."""
        self.pool.held = True
        first, second = self.create("1"), self.create("2")
        other = self.create("1", "q")
        self.assertEqual(len(self.pool), 2)
        self.pool.run_next()
        self.successResultOf(first)
        self.assertNoResult(second)
        self.pool.run_next()
        self.assertEqual(self.successResultOf(other).display_sequence, 1)
        self.pool.run_next()
        self.assertEqual(self.successResultOf(second).display_sequence, 2)

    def test_a_place_that_becomes_free(self) -> None:
        """Is free for the next request, as soon as the process has ended."""
        infos = [self.successResultOf(self.create(str(n))) for n in range(TERMINALS)]
        self.ptys.opened[0].ending = Deferred()
        gone, created = self.terminate(infos[0]), self.create("next")
        self.assertNoResult(gone)
        self.assertNoResult(created)
        self.ptys.opened[0].ending.callback(None)
        self.successResultOf(gone)
        self.successResultOf(created)

    def test_who_gives_up_stops_nothing(self) -> None:
        """Nor does it keep others from the answer."""
        self.pool.held = True
        given_up, patient = self.create("1"), self.create("1")
        given_up.cancel()
        self.failureResultOf(given_up, CancelledError)
        self.pool.run_next()
        self.assertEqual(self.successResultOf(patient).display_sequence, 1)
        self.assertEqual(len(self.ptys.opened), 1)

    def test_too_many(self) -> None:
        """256 in ten minutes, both kinds together; a repetition is none of them."""
        info = self.successResultOf(self.create("c"))
        for number in range(TERMINAL_RESULTS - 1):
            self.successResultOf(self.terminate(info, str(number)))
        self.failed(self.create("one more"), BACKPRESSURE)
        self.failed(self.terminate(info, "one more"), BACKPRESSURE)
        self.successResultOf(self.create("c"))
        self.successResultOf(self.create("c", "q"))
        self.clock.advance(TERMINAL_RESULT_TIME)
        self.successResultOf(self.create("one more"))

    def test_a_directory_that_does_not_answer(self) -> None:
        """Holds up its principal's next request, and nothing else."""
        info = self.successResultOf(self.create("1"))
        self.pool.held = True
        self.create("2")
        waiting = self.terminate(info)
        listed = self.successResultOf(self.terminals.list("p"))
        self.assertEqual(len(listed.terminals), 1)
        self.assertNoResult(waiting)
        self.pool.run_next()
        self.successResultOf(waiting)


class Stopping(Case):
    """The end of the process."""

    def attach(self, info: TerminalInfo) -> RecordingTerminalSink:
        sink = RecordingTerminalSink()
        wanted = TerminalAttachment(
            principal_key="p",
            session_id=info.session_id,
            attachment_id=f"a-{info.session_id}",
            client_id="c",
            after_sequence=0,
            intent="restore",
        )
        self.successResultOf(self.terminals.attach(wanted, sink))
        self.clock.advance(0)
        return sink

    def test_everybody_is_let_go(self) -> None:
        """Before the shells end, which nobody is told then; nothing is started any more."""
        infos = [self.successResultOf(self.create(str(n))) for n in range(3)]
        sinks = [self.attach(info) for info in infos]
        self.successResultOf(self.terminals.stop())
        for sink in sinks:
            (end,) = sink.events
            assert isinstance(end, TerminalDetached)
            self.assertEqual(end.code, UNAVAILABLE)
        self.assertEqual([pty.ends for pty in self.ptys.opened], [1, 1, 1])
        self.failed(self.create("late"), UNAVAILABLE)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_what_is_being_created(self) -> None:
        """Is not."""
        self.pool.held = True
        created = self.create("1")
        stopped = self.terminals.stop()
        self.assertNoResult(stopped)
        self.pool.run_next()
        self.failed(created, UNAVAILABLE)
        self.successResultOf(stopped)
        self.assertEqual(self.ptys.opened, [])

    def test_what_does_not_come_to_an_end(self) -> None:
        """Is not waited for much longer."""
        self.pool.held = True
        created = self.create("1")
        stopped = self.terminals.stop()
        self.clock.advance(STOP_WAIT)
        self.successResultOf(stopped)
        self.failed(created, UNAVAILABLE)
        self.pool.run_next()
        self.assertEqual(self.ptys.opened, [])


class Environment(SynchronousTestCase):
    """What a shell starts with (decisions.md 4)."""

    def test_the_shell(self) -> None:
        """By the service's own variables, an empty one counting as none."""
        for environment, shell in (
            ({"GARCON_TERMINAL_SHELL": "/a", "SHELL": "/b"}, "/a"),
            ({"GARCON_TERMINAL_SHELL": "", "SHELL": "/b"}, "/b"),
            ({}, "/bin/bash"),
        ):
            self.assertEqual(shell_of(environment), shell)

    def test_the_variables(self) -> None:
        """The children's, the terminal's own, and the controller's address empty."""
        service = {
            "PATH": "/bin",
            "LINES": "3",
            "COLUMNS": "4",
            "TERM": "dumb",
            "GARCON_TERMINAL_SHELL": "/a",
            "GARCON_WORKSPACE": "w",
            "CLAUDECODE": "1",
            "SSH_AUTH_SOCK": "/s",
        }
        children = child_environment(service, "controller", "/c", "/nowhere/python")
        self.assertEqual(
            terminal_environment(children),
            {
                "PATH": "/bin",
                "SSH_AUTH_SOCK": "/s",
                "TERM": "xterm-256color",
                "COLORTERM": "truecolor",
                "FORCE_COLOR": "3",
                "GARCON_CONFIG_DIR": "/c",
                "GARCON_RUNTIME": "controller",
                "GARCON_CONTROLLER_URL": "",
            },
        )
