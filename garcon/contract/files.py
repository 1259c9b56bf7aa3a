"""Files of an executor: what its file routes exchange (server.md D), and what crosses the link for
them (control.md J.9 ``files.*``).

Sizes are bytes, times ISO, permissions nine characters such as ``rwxr-xr-x``.  On the link contents
are base64, as a text of 4 MiB could need six times as much room in JSON.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from garcon.contract.ids import LOCAL
from garcon.contract.limits import KIB, MIB

CONTENT_BYTES = 4 * MIB
"""Of one read or save (control.md J.4)."""
CONTENT_OPERATIONS = 8
LIST_ENTRIES, LIST_BYTES = 10_000, MIB
"""Of a tree or a browse; the bytes are those of its JSON."""
LIST_FILES, LIST_DEPTH = 10_000, 10
PATH_CHARACTERS = 4_096
NAME_BYTES = 255
SAVE_BODY_BYTES = 32 * MIB
"""Of a request that saves: JSON may need six bytes for one of the content."""
UPLOAD_BYTES = 31_457_280
UPLOAD_FIELDS = ("attachments", "images")
"""The fields of a form that hold files, in the order in which they are answered."""
CALL_TIME = 30.0
"""Of one file call to a remote executor."""

REVISION = re.compile(r"v1:[A-Za-z0-9_-]+")

OUTSIDE = "outside_project_base"
TOO_LARGE = "FILE_TOO_LARGE"
LIST_TOO_LARGE = "FILE_LIST_TOO_LARGE"
REVISION_CONFLICT = "FILE_REVISION_CONFLICT"
CHANGED_DURING_READ = "FILE_CHANGED_DURING_READ"
NOT_A_FILE = "FILE_PATH_MUST_IDENTIFY_FILE"
NOT_FOUND = "FILE_NOT_FOUND"
DENIED = "FILE_PERMISSION_DENIED"
TREE_DIRECTORY_REQUIRED = "FILE_TREE_DIRECTORY_REQUIRED"
TREE_DENIED = "FILE_TREE_PERMISSION_DENIED"
TREE_NOT_FOUND = "FILE_TREE_DIRECTORY_NOT_FOUND"
EXISTS = "FILE_ALREADY_EXISTS"
NO_SPACE = "FILE_NO_SPACE"
"""The disk is full or a quota is reached; the old content is there."""
SAVE_INCOMPLETE = "FILE_SAVE_INCOMPLETE"
"""Writing failed and the old content could not be put back: the file holds a mixture."""
SAVE_OUTCOME_UNKNOWN = "FILE_SAVE_OUTCOME_UNKNOWN"
"""Nobody confirmed: it may have been saved or not.  Never retried here."""
DIRECTORY_OUTCOME_UNKNOWN = "FILE_DIRECTORY_OUTCOME_UNKNOWN"
BUSY = "FILE_OPERATIONS_BUSY"
TIMEOUT = "FILE_OPERATION_TIMEOUT"
FAILED = "FILE_OPERATION_FAILED"
UNSUPPORTED = "FILES_UNSUPPORTED"

Kind = Literal["file", "directory"]
ConflictResolution = Literal["reject", "overwrite"]

# Queries


class DirectoryQuery(Struct, frozen=True, rename="camel"):
    """A directory of an executor; without a path its base."""

    path: str = ""
    executor_id: str = LOCAL


class ProjectQuery(Struct, frozen=True, rename="camel"):
    """A project: a chat's, or a directory of an executor."""

    chat_id: str = ""
    project_path: str = ""
    executor_id: str | None = None


class FileQuery(ProjectQuery, frozen=True, rename="camel"):
    """A file of a project; its path is relative to it or absolute."""

    path: str = ""


# Answers


class Breadcrumb(Struct, frozen=True):
    name: str
    path: str


class HomeDirectory(Struct, frozen=True):
    """Where the account that the executor runs under is at home."""

    path: str
    breadcrumbs: list[Breadcrumb]


class Directory(Struct, frozen=True, rename="camel"):
    """`relative_path` is empty and `parent_path` None exactly for the base."""

    path: str
    relative_path: str
    parent_path: str | None
    breadcrumbs: list[Breadcrumb]


class Entry(Struct, frozen=True, rename="camel"):
    """One name of a directory; what it is follows symbolic links."""

    name: str
    path: str
    relative_path: str
    type: Kind
    size: int
    modified: str | None
    permissions_rwx: str


class Tree(Struct, frozen=True, rename="camel"):
    """One directory.  `omitted_names` counts the names that are not UTF-8, which no JSON can hold
    (decisions.md 41).
    """

    file_root_path: str
    directory: Directory
    entries: list[Entry]
    home_directory: HomeDirectory | None
    omitted_names: int = 0


class ListedFile(Struct, frozen=True, rename="camel"):
    name: str
    path: str
    relative_path: str
    type: Literal["file"] = "file"


class ListedDirectory(Struct, frozen=True):
    name: str
    path: str
    type: Literal["directory"] = "directory"


class FileIdentity(Struct, frozen=True, rename="camel"):
    """Which file is meant, however it was named."""

    executor_id: str
    canonical_file_root_path: str
    normalized_relative_path: str


class IdentityReply(Struct, frozen=True):
    success: Literal[True]
    identity: FileIdentity


class RevisionReply(Struct, frozen=True, omit_defaults=True):
    """`revision` is there exactly when the status is ``ready``."""

    status: Literal["ready", "missing"]
    revision: str | UnsetType = UNSET


class TextReply(Struct, frozen=True):
    """`path` is the resolved one; what is not UTF-8 is replaced in `content`."""

    content: str
    path: str
    revision: str


class SaveText(Struct, frozen=True, rename="camel"):
    """Body of ``PUT /files/text``.  Which file is meant belongs in the URL: it is refused here."""

    content: str
    expected_revision: str | None
    conflict_resolution: ConflictResolution
    executor_id: Any = UNSET
    chat_id: Any = UNSET
    project_path: Any = UNSET
    file_path: Any = UNSET


class TextSaved(Struct, frozen=True):
    success: Literal[True]
    path: str
    message: str
    revision: str


class NameDirectory(Struct, frozen=True):
    """Body of ``POST /files/directories``: one name, no path."""

    name: str


class DirectoryMade(Struct, frozen=True):
    success: Literal[True]
    directory: ListedDirectory


class UploadedFile(Struct, frozen=True, rename="camel"):
    """`data` is a ``data:`` URL in base64, `size` that of the file itself."""

    name: str
    data: str
    size: int
    mime_type: str


class Uploaded(Struct, frozen=True):
    """The same list twice, for clients of either name."""

    attachments: list[UploadedFile]
    images: list[UploadedFile]


# Over the link, and between the controller and an executor's files


class FileTarget(Struct, frozen=True, rename="camel"):
    """A file: its project's directory, and its path in there, relative or absolute."""

    project_path: str
    path: str


class IdentifiedFile(Struct, frozen=True, rename="camel"):
    """See `FileIdentity`; the executor knows itself by no id."""

    canonical_file_root_path: str
    normalized_relative_path: str


class FoundRevision(Struct, frozen=True):
    """None: there is no such file."""

    revision: str | None


class FileContent(Struct, frozen=True):
    path: str
    revision: str
    data: bytes


class SaveFile(Struct, frozen=True, rename="camel"):
    """``reject`` wants the file to be at `expected_revision`; ``overwrite`` wants nothing, and
    makes a file that is missing.
    """

    project_path: str
    path: str
    data: bytes
    expected_revision: str | None
    conflict_resolution: ConflictResolution


class FileSaved(Struct, frozen=True):
    path: str
    revision: str


class DirectoryPath(Struct, frozen=True):
    """None: the executor's base."""

    path: str | None = None


class ProjectPath(Struct, frozen=True, rename="camel"):
    project_path: str


class ProjectFiles(Struct, frozen=True, rename="camel"):
    """The files below a project, as paths relative to it.  `truncated`: there are more."""

    project_path: str
    relative_paths: list[str]
    truncated: bool
    omitted_names: int = 0


class Browsed(Struct, frozen=True, rename="camel"):
    """The directories of a directory."""

    directories: list[ListedDirectory]
    omitted_names: int = 0


class MakeDirectory(Struct, frozen=True):
    """`path` is the directory it is made in; None: the executor's base."""

    path: str | None
    name: str


LARGEST_LISTING = 8 * MIB
"""The JSON of a project's files as the route answers it: deep projects are cut by this."""
ENTRY_OVERHEAD = KIB // 16
"""What one of them needs beside its names."""
