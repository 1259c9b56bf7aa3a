"""Processes whose parents are gone come home to this one, and their ends are collected here.

Without that they would hang on the machine's first process, out of sight of whoever looks below
this one, and in a container whose first process collects nobody their remains would stay for ever.
Twisted collects the children that it started and no others.  Ours are collected one by one, by
their ids, and never by waiting for just anybody: that would take from Twisted what is its own.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from twisted.internet import process
from twisted.logger import Logger

LOOK_EVERY = 1.0
AT_ONCE = 256
"""Collected in one turn of the reactor at most."""
_SET_CHILD_SUBREAPER = 36

_log = Logger()


def adopt(reactor: Any) -> None:
    """Take orphans in from now on, until the process ends.  Called by the process that will do the
    work, once it runs: a daemon's child does not inherit it.
    """
    if not _become_subreaper():
        _log.warn("this system keeps no orphans of ours; they are found by their marks alone")
        return
    _look(reactor)


def _look(reactor: Any) -> None:
    collect()
    reactor.callLater(LOOK_EVERY, _look, reactor)


def collect() -> int:
    """Collect the orphans that have ended and return how many there were.  Call it in the reactor's
    thread, where Twisted knows each of its children by the time that they can end.
    """
    for collected in range(AT_ONCE):
        pid = _next_ended()
        # What Twisted started it collects itself, told by a signal, and then the next is seen.
        if pid is None or pid in process.reapProcessHandlers:
            return collected
        os.waitpid(pid, os.WNOHANG)
    return AT_ONCE


def _next_ended() -> int | None:
    """Return a child that has ended, and leave it as it is."""
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if ended is None else ended.si_pid


def _become_subreaper() -> bool:
    try:
        library = ctypes.CDLL(None, use_errno=True)
        return bool(library.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False
