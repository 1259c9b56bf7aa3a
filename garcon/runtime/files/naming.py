"""The names of a directory: which are shown, and in which order."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

from garcon.runtime.files.failures import is_text
from garcon.runtime.files.stopping import Stop

SKIPPED = frozenset({"node_modules", "dist", "build", ".git", ".svn", ".hg"})
"""What project listings and browsing do not show (server.md D.2)."""
_CHECK_EVERY = 256


def sort_key(name: str) -> tuple[str, str, str, str]:
    """Order names as people read them: marks and capitals count only between equals.

    Two names that differ in nothing but their Unicode form keep a fixed order.
    """
    plain = unicodedata.normalize("NFKD", name)
    bare = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return bare.casefold(), plain.casefold(), plain.swapcase(), name


class Names:
    """Reads one open directory, entry by entry.  `omitted` counts the names that are not UTF-8."""

    def __init__(self, fd: int, stop: Stop) -> None:
        self._fd = fd
        self._stop = stop
        self.omitted = 0

    def __iter__(self) -> Iterator[os.DirEntry[str]]:
        with _scanned(self._fd) as entries:
            for number, entry in enumerate(entries):
                if number % _CHECK_EVERY == 0:
                    self._stop.check()
                if is_text(entry.name):
                    yield entry
                else:
                    self.omitted += 1


@contextmanager
def _scanned(fd: int) -> Iterator[Iterator[os.DirEntry[str]]]:
    with os.scandir(fd) as entries:
        yield entries
