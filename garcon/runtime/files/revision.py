"""The name of a file's state (server.md D.3)."""

from __future__ import annotations

import base64
import hashlib
import os


def revision(status: os.stat_result) -> str:
    """Return the revision of a file, by its identity, size and times."""
    parts = (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
    digest = hashlib.sha256(":".join(map(str, parts)).encode()).digest()
    return "v1:" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
