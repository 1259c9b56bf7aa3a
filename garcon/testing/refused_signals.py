"""A process that became another user's, as far as signals go: the kernel refuses them."""

from __future__ import annotations

import os

from twisted.trial.unittest import TestCase


def refuse_signals(case: TestCase, pid: int) -> None:
    """Refuse signals to the id of a process, as to another user's, until the test's clean-up."""
    kill = os.kill

    def refused(to: int, number: int) -> None:
        if to == pid:
            raise PermissionError("another user's")
        kill(to, number)

    case.patch(os, "kill", refused)
