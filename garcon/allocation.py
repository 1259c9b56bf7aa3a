"""How this process takes its memory from the system, and looks for what it can give back.

glibc takes each block of 128 KiB or more from the kernel and gives it back when it is freed, so
that a message of some MiB pays for new pages at each of its copies: on the machines of today that
is more than encrypting and decoding it together.  Told to keep what is freed, within a bound, it
carries twice as much.

The interpreter's collector looks at everything again and again while much is made, and what a
service has made by its start is there to stay.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""``malloc.h``"""
_OPERATORS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")
"""``mallopt(3)``, ``ld.so(8)``"""
LARGEST = 32 * 1024 * 1024
"""Blocks up to this size are kept: two messages.  glibc allows no more."""
KEPT = 2 * LARGEST
"""What may be free at the heap's end before it goes back to the system."""


def keep_freed_memory(environment: Mapping[str, str]) -> bool:
    """Keep freed blocks for the next; return whether this C library was told so.

    Where the operator has told it something by its own variables, that stands.
    """
    if any(name in environment for name in _OPERATORS):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, LARGEST)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT))


@contextmanager
def uncollected() -> Iterator[None]:
    """Let the collector rest while much is made that stays."""
    was_at_work = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_at_work:
            gc.enable()


def keep_what_is_there() -> None:
    """Spare the collector what there is now: it stays, however much it is."""
    gc.freeze()
