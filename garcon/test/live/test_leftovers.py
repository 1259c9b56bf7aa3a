"""What is left when a service is killed in the midst of its work, and how an operator gets rid of
it: real services, real orphans.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fleet import Finished, Service, eventually
from garcon.testing.local_runtimes import runs

# The tool's own session, out of reach of every signal to the agent's.
DAEMON = "run setsid sh -c 'echo $$ > {file}; exec sleep 34567'"
UNMARKED = "run setsid env -i sh -c 'sleep 34567 & echo $! > {file}'"
"""Takes its mark away, and has no parent but the service when it has ended."""


class LeftoverCase(FleetTestCase):
    controller: Service

    def doctor(self, executor_id: str, *more: str, check: bool = True) -> Finished:
        return self.fleet.garcon(
            self.controller, "executor", "doctor", executor_id, *more, check=check
        )

    def left(self, executor_id: str) -> dict[int, dict[str, Any]]:
        """Return what is left over there, by id."""
        told = self.doctor(executor_id, "--json").json["diagnostics"]["leftovers"]
        self.assertEqual(told["count"], len(told["processes"]))
        return {one["pid"]: one for one in told["processes"]}

    def begin(self, service: Service, command: str) -> int:
        """Start a turn whose tool writes a process id, and return that."""
        file = self.fleet.projects / f"pid-{os.urandom(4).hex()}"
        self.start(service, command.format(file=file), wait=False)
        text = eventually("the tool's process", lambda: file.exists() and file.read_text().strip())
        return int(text)

    def everything_is_listed(self, executor_id: str) -> None:
        """Check that nothing of the fleet is left that the doctor does not name, but for what a
        service that has just started is asking its agents.
        """
        eventually(
            "everything is listed",
            lambda: set(self.fleet.left_over()) <= set(self.left(executor_id)),
        )

    def see_and_end(self, executor_id: str, pid: int) -> None:
        """Check what the doctor says of a process that a crash left, and have it ended."""
        one = self.left(executor_id)[pid]
        self.assertEqual(set(one), {"pid", "started", "name", "origin", "seconds"})
        self.assertEqual((one["name"], one["origin"]), ("sleep", "earlier"))
        said = self.doctor(executor_id)
        self.assertIn(f"left over: process {pid} (sleep), for ", said.out)
        self.assertIn(f"garcon executor doctor {executor_id} --end PID", said.out)
        # Neither its arguments nor its environment.
        self.assertNotIn("34567", said.out + str(one))
        self.assertTrue(runs(pid))
        ended = self.doctor(executor_id, "--end", str(pid))
        self.assertEqual(ended.out, f"ended process {pid} (sleep)\n")
        self.assertFalse(runs(pid))
        self.assertNotIn(pid, self.left(executor_id))

    def end_all(self, executor_id: str) -> None:
        """End everything that is listed, and see that this was everything there was."""
        while found := self.left(executor_id):
            self.doctor(executor_id, "--end", str(next(iter(found))), check=False)
        self.assertEqual(self.fleet.left_over(), [])


class WorkerTests(LeftoverCase):
    """A worker with its controller."""

    def setUp(self) -> None:
        super().setUp()
        self.controller, self.worker, self.executor_id = self.fleet.pair()
        connection = ("executor", "connection", self.executor_id)
        self.url = self.fleet.garcon(self.controller, *connection).out.strip()

    def test_after_a_kill_everything_is_listed_and_can_be_ended(self) -> None:
        """The tool, and what it started in a session of its own, outlive the worker; its successor
        names each of them.
        """
        pid = self.begin(self.worker, DAEMON)
        self.assertEqual(self.left(self.executor_id), {})
        self.worker.kill()
        self.assertTrue(runs(pid))
        self.worker = self.fleet.worker("--no-tls", url=self.url)
        self.fleet.await_executor(self.controller, self.executor_id)
        self.everything_is_listed(self.executor_id)
        self.see_and_end(self.executor_id, pid)
        self.end_all(self.executor_id)

    def test_what_is_in_use_is_no_leftover(self) -> None:
        """Nor can it be ended; and after an orderly stop there is nothing."""
        pid = self.begin(self.worker, DAEMON)
        self.assertEqual(self.left(self.executor_id), {})
        done = self.doctor(self.executor_id, "--end", str(pid), check=False)
        self.assert_refused(done, 2, f"no process {pid} is left over there")
        for wrong in ("0", "1", "-5", "x", str(2**31)):
            done = self.doctor(self.executor_id, "--end", wrong, check=False)
            self.assert_refused(done, 2, "--end")
        self.assertTrue(runs(pid))
        self.worker.stop()
        self.controller.stop()
        self.assertEqual(self.fleet.left_over(), [])

    def test_an_orphan_without_a_mark_comes_home(self) -> None:
        """It is listed, can be ended, and nothing of it stays in the system's list."""
        pid = self.begin(self.worker, UNMARKED)
        one = eventually("it comes home", lambda: self.left(self.executor_id).get(pid))
        self.assertEqual(one["origin"], "orphan")
        stat = Path(f"/proc/{pid}/stat")
        parent = stat.read_text().rpartition(")")[2].split()[1]
        self.assertEqual(int(parent), self.worker.process.pid)
        self.doctor(self.executor_id, "--end", str(pid))
        eventually("its end is collected", lambda: not stat.exists())

    def test_an_orphan_without_a_mark_outlives_the_worker(self) -> None:
        """It was noted while it hung on the worker, so its successor names it, and that one's."""
        pid = self.begin(self.worker, UNMARKED)
        noted = self.worker.config / "executor-processes.json"
        eventually("it is noted", lambda: noted.exists() and f"[{pid}," in noted.read_text())
        self.assertEqual(noted.stat().st_mode & 0o777, 0o600)
        for _ in range(2):
            self.worker.kill()
            self.worker = self.fleet.worker("--no-tls", url=self.url)
            self.fleet.await_executor(self.controller, self.executor_id)
            self.assertIn(pid, self.left(self.executor_id))
        self.see_and_end(self.executor_id, pid)
        self.end_all(self.executor_id)
        self.worker.stop()
        self.assertFalse(noted.exists())

    def test_an_orphan_that_ends_by_itself_is_collected(self) -> None:
        """Without anybody asking."""
        pid = self.begin(self.worker, UNMARKED)
        os.kill(pid, signal.SIGKILL)
        eventually("its end is collected", lambda: not Path(f"/proc/{pid}").exists())

    def test_who_may_end(self) -> None:
        """A worker's own commands need the management grant."""
        done = self.fleet.garcon(
            self.worker, "executor", "doctor", self.executor_id, "--end", "4711", check=False
        )
        self.assert_refused(done, 3, "CLI_ACCESS_DENIED")


class LocalTests(LeftoverCase):
    """A controller alone."""

    def setUp(self) -> None:
        super().setUp()
        self.controller = self.fleet.controller()

    def test_after_a_kill_everything_is_listed_and_can_be_ended(self) -> None:
        """As on a worker."""
        pid = self.begin(self.controller, DAEMON)
        self.assertEqual(self.left("local"), {})
        self.controller.kill()
        self.controller = self.fleet.controller()
        self.everything_is_listed("local")
        self.see_and_end("local", pid)
        self.end_all("local")

    def test_an_orphan_without_a_mark_outlives_the_controller(self) -> None:
        """As on a worker: it was noted while it hung on the controller."""
        pid = self.begin(self.controller, UNMARKED)
        noted = self.controller.config / "controller-processes.json"
        eventually("it is noted", lambda: noted.exists() and f"[{pid}," in noted.read_text())
        for _ in range(2):
            self.controller.kill()
            self.controller = self.fleet.controller()
            self.assertIn(pid, self.left("local"))
        self.see_and_end("local", pid)
        self.end_all("local")
        self.controller.stop()
        self.assertFalse(noted.exists())

    def test_another_config_root_s_are_none_of_ours(self) -> None:
        """Two services of one account do not name, and cannot end, each other's."""
        pid = self.begin(self.controller, DAEMON)
        self.controller.kill()
        other = self.fleet.controller(config=self.fleet.root / "other")
        done = self.fleet.garcon(
            other, "executor", "doctor", "local", "--end", str(pid), check=False
        )
        self.assert_refused(done, 2, "is left over there")
        self.assertTrue(runs(pid))
