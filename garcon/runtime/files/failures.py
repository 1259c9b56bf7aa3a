"""How what goes wrong with a file is told to whoever asked for it."""

from __future__ import annotations

import errno
import os

from garcon.contract import files
from garcon.errors import GarconError, validation

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ETXTBSY})
_MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def outside(root: str) -> GarconError:
    """The path leads out of where it may lead to."""
    return GarconError(files.OUTSIDE, f"The path is outside of {shown(root)}.", status=403)


def missing(what: str = "The file") -> GarconError:
    """There is nothing there."""
    return GarconError(files.NOT_FOUND, f"{what} does not exist.", status=404)


def denied(what: str = "The file") -> GarconError:
    """The account that the executor runs under may not do this."""
    return GarconError(
        files.DENIED, f"{what} may not be accessed so by this executor's account.", status=403
    )


def not_a_file() -> GarconError:
    """Something else than a regular file is there."""
    return GarconError(files.NOT_A_FILE, "The path does not lead to a regular file.")


def too_large() -> GarconError:
    """The content passes the bound of reads and saves."""
    return GarconError(
        files.TOO_LARGE,
        f"Files of more than {files.CONTENT_BYTES} bytes are not taken.",
        status=413,
    )


def list_too_large() -> GarconError:
    """The directory passes the bound of listings."""
    return GarconError(
        files.LIST_TOO_LARGE, "The directory has too many entries to be shown.", status=413
    )


def changed() -> GarconError:
    """No moment was found at which everything fitted together."""
    return GarconError(
        files.CHANGED_DURING_READ,
        "The file kept changing while it was read.",
        status=409,
        retryable=True,
    )


def conflict(text: str = "The file is not as it was when it was read.") -> GarconError:
    """What is there is not what the saver has seen."""
    return GarconError(files.REVISION_CONFLICT, text, status=409)


def no_space(left: str) -> GarconError:
    """The disk is full; `left` says what that left."""
    return GarconError(files.NO_SPACE, f"There is no room left on the disk. {left}", status=507)


def write_failed(cause: OSError, left: str) -> GarconError:
    """A write failed and was undone; `left` says what that left."""
    if cause.errno in _FULL:
        return no_space(left)
    return GarconError(files.FAILED, f"Writing failed: {reason(cause)}. {left}", status=500)


def incomplete(cause: OSError) -> GarconError:
    """A save failed half-way and could not be undone."""
    return GarconError(
        files.SAVE_INCOMPLETE,
        f"Writing failed ({reason(cause)}), and the old content could not be put back: the file is"
        " damaged.",
        status=500,
    )


def busy() -> GarconError:
    """Too much is under way; nothing was begun."""
    return GarconError(
        files.BUSY,
        "Too many file operations are under way on this executor.",
        status=503,
        retryable=True,
        retry_after=1,
    )


def overdue() -> GarconError:
    """The file system did not answer; what was asked changes nothing."""
    return GarconError(
        files.TIMEOUT, "The file system did not answer in time.", status=504, retryable=True
    )


def save_unknown() -> GarconError:
    """Nobody can tell whether the file was saved."""
    return GarconError(
        files.SAVE_OUTCOME_UNKNOWN,
        "The save was not confirmed: read the file to see whether it happened.",
        status=503,
    )


def directory_unknown() -> GarconError:
    """Nobody can tell whether the directory was made."""
    return GarconError(
        files.DIRECTORY_OUTCOME_UNKNOWN,
        "The new directory was not confirmed: list its parent to see whether it is there.",
        status=503,
    )


def unsupported() -> GarconError:
    """The executor serves no files."""
    return GarconError(files.UNSUPPORTED, "This executor serves no files.", status=501)


def failed(error: OSError, what: str = "The file") -> GarconError:
    """Translate what the system says."""
    number = error.errno
    if number in _DENIED:
        return denied(what)
    if number in _MISSING:
        return missing(what)
    if number in _FULL:
        return no_space("Nothing was changed.")
    if number == errno.ENAMETOOLONG:
        return validation("The path, or a name in it, is too long.")
    if number == errno.EFBIG:
        return too_large()
    if number in _EXHAUSTED:
        return busy()
    return GarconError(
        files.FAILED, f"The file system failed: {reason(error)}.", status=500, retryable=True
    )


def reason(error: OSError) -> str:
    """Return the system's word for it, without a path."""
    return os.strerror(error.errno or 0)


def shown(path: str) -> str:
    """Return a path as it can be written."""
    return path.encode(errors="replace").decode()


def must_be_text(path: str) -> str:
    """Return a path that can cross the wire, or raise."""
    if not is_text(path):
        raise validation("The path leads to a name that is not valid UTF-8.")
    return path


def is_text(name: str) -> bool:
    """Whether a name is valid UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def must_be_path(path: str) -> str:
    """Return a path that can be looked up, or raise (server.md D.1)."""
    if len(path) > files.PATH_CHARACTERS or "\0" in path:
        raise validation("The path is too long or holds a NUL character.")
    return path
