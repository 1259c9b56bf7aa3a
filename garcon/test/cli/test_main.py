"""How a command line ends, whatever happens in it."""

from __future__ import annotations

import io

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.main import run
from garcon.cli.system import OutputLost, System


class Broken(io.BytesIO):
    """A stream without a reader."""

    def flush(self) -> None:
        raise BrokenPipeError


class Full(io.BytesIO):
    """A stream onto a full disk."""

    def flush(self) -> None:
        raise OSError(28, "No space left on device")


class EndTests(SynchronousTestCase):
    def system(self, stdout: io.BytesIO, stderr: io.BytesIO) -> System:
        return System(environ={}, stdin=io.BytesIO(), stdout=stdout, stderr=stderr)

    def test_a_diagnostic_without_a_reader_changes_nothing(self) -> None:
        """The exit status is what it would have been."""
        system = self.system(io.BytesIO(), Broken())
        self.assertEqual(2, run(["nothing"], system))

    def test_lost_output_is_told_from_a_reader_that_left(self) -> None:
        """One is trouble to report, the other is not."""
        self.assertRaises(OutputLost, self.system(Full(), io.BytesIO()).out, "x")
        self.assertRaises(BrokenPipeError, self.system(Broken(), io.BytesIO()).out, "x")

    def test_a_fault_of_ours_is_no_failed_turn(self) -> None:
        """Exit 1 is said of turns alone; the traceback is there all the same."""

        class Faulty(dict[str, str]):
            def get(self, *name: object) -> str:
                raise RuntimeError("bug")

        stderr = io.BytesIO()
        system = System(environ=Faulty(), stdin=io.BytesIO(), stdout=io.BytesIO(), stderr=stderr)
        self.assertEqual(3, run(["list", "agents"], system))
        self.assertIn(b"RuntimeError: bug\n", stderr.getvalue())
