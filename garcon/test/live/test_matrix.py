"""Both doors to every bridged operation, with real processes: the quick form of
``python -m garcon.testing.matrix bridge``.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

from twisted.trial.unittest import SynchronousTestCase

from garcon.testing.matrix.__main__ import main
from garcon.testing.matrix.rows import WANTED


class MatrixTests(SynchronousTestCase):
    """A controller, its worker, a scripted agent, a pretend model server."""

    timeout = 300

    def test_nothing_differs_that_may_not(self) -> None:
        """Statuses, bodies, retry metadata, and one command for each operation that has any."""
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
            status = main(["bridge", "--quick"])
        self.assertEqual(status, 0, out.getvalue())
        last = out.getvalue().splitlines()[-1]
        self.assertEqual(last, f"{len(WANTED)} operations, 2 doors, 0 differences")
