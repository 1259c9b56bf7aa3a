"""Saves files on a disk that has no room left, and says what came of it.

Run as ``python -m garcon.testing.full_disk DIRECTORY`` in a mount namespace where the directory is
a small file system of its own; the answer is JSON on standard output.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from garcon.contract.files import SaveFile
from garcon.errors import GarconError
from garcon.runtime.files import saving
from garcon.runtime.files.stopping import Stop

LARGE = b"y" * (3 * 1024 * 1024)


def save(base: str, name: str, data: bytes) -> str:
    """Save a file; return the code of the failure, or ``saved``."""
    wanted = SaveFile(base, name, data, None, "overwrite")
    try:
        saving.save_file(base, wanted, saving.key_of(base, wanted), Stop())
    except GarconError as error:
        return error.code
    return "saved"


def main(base: str) -> dict[str, Any]:
    """Try what there is to try; `base` is an empty file system smaller than 3 MiB."""
    path = os.path.join(base, "file")
    old = b"x" * 200_000
    told: dict[str, Any] = {"made": save(base, "file", old)}
    told["longer"] = save(base, "file", LARGE)
    told["kept"] = _is(path, old)
    told["new"] = save(base, "other", LARGE)
    told["names"] = sorted(os.listdir(base))
    with open(os.path.join(base, "filler"), "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"z" * 4096)
        except OSError as error:
            told["full"] = error.strerror
    told["same size"] = save(base, "file", b"w" * len(old))
    told["written"] = _is(path, b"w" * len(old))
    told["shorter"] = save(base, "file", b"short")
    told["cut"] = _is(path, b"short")
    return told


def _is(path: str, content: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read() == content


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
