"""The files of one directory, read beside the reactor and kept while they do not change."""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from hashlib import blake2b
from typing import Any
from urllib.parse import unquote

from attrs import define, field
from twisted.internet.defer import DeferredLock
from twisted.internet.threads import deferToThreadPool

from garcon.contract.limits import MIB
from garcon.deferreds import returns_deferred

LARGEST_FILE = 64 * MIB
KEPT = 64 * MIB
"""Bytes of all kept bodies; their coded forms are smaller and come on top."""


@define(eq=False)
class KeptFile:
    """One file as it was read.  `coded` keeps its body in the codings it was sent in, `made` what
    was made of it.
    """

    body: bytes
    tag: str
    state: tuple[int, ...]
    coded: dict[str, bytes] = field(factory=dict)
    made: Any = None


class Files:
    """Serves what lies in a directory, and nothing that a path leads to outside of it.

    Each file is in memory once, however many wait for it: a page is large, and readers are slow.
    """

    def __init__(self, reactor: Any, directory: str, kept: int = KEPT) -> None:
        self._reactor = reactor
        self._root = os.path.realpath(directory)
        self._most = kept
        self._files: OrderedDict[str, KeptFile] = OrderedDict()
        self._size = 0
        self._reading = DeferredLock()

    def __len__(self) -> int:
        return len(self._files)

    @returns_deferred
    async def read(self, path: str) -> KeptFile | None:
        """Return the file at a path as it was sent (``/a%20b``), None where there is none."""
        name = _safe(path)
        if name is None:
            return None
        await self._reading.acquire()
        try:
            known = self._files.get(name)
            d = deferToThreadPool(
                self._reactor, self._reactor.getThreadPool(), self._load, name, known
            )
            found: KeptFile | None = await d
            self._keep(name, found)
            return found
        finally:
            self._reading.release()

    def _keep(self, name: str, found: KeptFile | None) -> None:
        earlier = self._files.pop(name, None)
        if earlier is not None:
            self._size -= len(earlier.body)
        if found is None or len(found.body) > self._most:
            return
        self._files[name] = found
        self._size += len(found.body)
        while self._size > self._most:
            _, oldest = self._files.popitem(last=False)
            self._size -= len(oldest.body)

    def _load(self, name: str, known: KeptFile | None) -> KeptFile | None:
        """Read a file, unless it is known as it is.  This blocks."""
        path = os.path.realpath(os.path.join(self._root, name))
        if os.path.commonpath((self._root, path)) != self._root:
            return None
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
                return None
            state = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
            if known is not None and known.state == state:
                return known
            with open(descriptor, "rb", closefd=False) as file:
                body = file.read(LARGEST_FILE)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return KeptFile(body, tag_of(body), state)


def tag_of(body: bytes) -> str:
    """Return the strong tag of a body."""
    return f'"{blake2b(body, digest_size=16).hexdigest()}"'


def _safe(path: str) -> str | None:
    """Return a relative name, None for what cannot be a file's."""
    try:
        name = unquote(path, errors="strict").removeprefix("/")
        name.encode()
    except UnicodeError:
        return None
    if "\0" in name or "\\" in name:
        return None
    if any(part in ("", ".", "..") for part in name.split("/")):
        return None
    return name
