"""Files that a text mentions as ``@path``, for an agent that is given the text while it works
(chats.md 5.11.7): what they hold is put behind the text, which stays as it is.

A path is taken from the project directory; ``@"a path"`` may hold spaces.  What is not there, not
inside the base, not a regular file or not text is left out.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from garcon.contract.limits import KIB

FILES, FILE_BYTES, ALL_BYTES = 16, 64 * KIB, 256 * KIB
"""Files of one text, and how much of one and of all together is put in; what is longer is cut."""

_MENTION = re.compile(r'(?<![^\s(\[{"\'])@(?:"([^"\n]+)"|([^\s"]+))')
_BEHIND = ".,;:!?)]}'\""
"""What ends a sentence does not belong to a path, unless there is a file of that name."""
_TICKS = re.compile(r"`+")


def expanded(text: str, project: str, base: str) -> str:
    """Return `text` with the files it mentions behind it.  Blocks on the file system."""
    inside = os.path.realpath(base)
    parts, room, seen = [text], ALL_BYTES, set[str]()
    for names in mentioned(text):
        if len(seen) == FILES or not room:
            break
        for name in names:
            path = os.path.realpath(os.path.join(project, name))
            if path in seen:
                break
            found = _read(path, inside, min(FILE_BYTES, room))
            if found is not None:
                content, size = found
                seen.add(path)
                room -= len(content.encode())
                parts.append(_shown(name, content, size))
                break
    return "\n\n".join(parts)


def mentioned(text: str) -> Iterator[tuple[str, ...]]:
    """Yield what each mention may mean, likeliest first."""
    for quoted, plain in _MENTION.findall(text):
        if quoted:
            yield (quoted,)
        elif plain.rstrip(_BEHIND):
            yield tuple(dict.fromkeys((plain, plain.rstrip(_BEHIND))))


def _read(path: str, inside: str, limit: int) -> tuple[str, int] | None:
    """Return the beginning of a file's text and the file's size; None for what is no such file."""
    if "\0" in path or os.path.commonpath([inside, path]) != inside:
        return None
    try:
        # Without waiting: a pipe of that name would never be ready.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return None
        with open(handle, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    except OSError:
        return None
    finally:
        os.close(handle)
    is_cut = len(data) > limit
    try:
        # A cut can go through a character, and that alone does not make it binary.
        text = data[:limit].decode(errors="strict" if not is_cut else "ignore")
    except UnicodeDecodeError:
        return None
    if "\0" in text or (is_cut and not _is_text(data[:limit])):
        return None
    return text, max(found.st_size, len(data))


def _is_text(data: bytes) -> bool:
    for end in range(len(data), max(len(data) - 4, 0), -1):
        try:
            data[:end].decode()
        except UnicodeDecodeError:
            continue
        return True
    return False


def _shown(name: str, content: str, size: int) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(content)), default=0))
    kept = len(content.encode())
    cut = f" (its first {kept} of {size} bytes)" if kept < size else ""
    end = "" if content.endswith("\n") else "\n"
    return f"Contents of {name}{cut}:\n\n{fence}\n{content}{end}{fence}"
