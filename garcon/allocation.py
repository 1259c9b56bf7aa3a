"""How this process takes its memory from the system.

glibc takes each block of 128 KiB or more from the kernel and gives it back when it is freed, so
that a message of some MiB pays for new pages at each of its copies: on the machines of today that
is more than encrypting and decoding it together.  Told to keep what is freed, within a bound, it
carries twice as much.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""``malloc.h``"""
LARGEST = 32 * 1024 * 1024
"""Blocks up to this size are kept: two messages.  glibc allows no more."""
KEPT = 2 * LARGEST
"""What may be free at the heap's end before it goes back to the system."""


def keep_freed_memory() -> bool:
    """Keep freed blocks for the next; return whether this C library can be told so."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, LARGEST)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT))
