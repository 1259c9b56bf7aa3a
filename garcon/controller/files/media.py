"""The media type of a file, by its name."""

from __future__ import annotations

from mimetypes import MimeTypes

DEFAULT = "application/octet-stream"
_KNOWN = MimeTypes(filenames=())
"""The types that Python knows by itself: what a machine has configured would differ from it."""
_MORE = {
    "md": "text/markdown",
    "markdown": "text/markdown",
    "webp": "image/webp",
    "avif": "image/avif",
    "mjs": "text/javascript",
    "js": "text/javascript",
    "mkv": "video/x-matroska",
    "m4v": "video/mp4",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "ttf": "font/ttf",
    "otf": "font/otf",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "toml": "application/toml",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
}
_PACKED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}


def content_type(path: str) -> str:
    """Return the ``Content-Type`` of a file.  Text is said to be UTF-8."""
    name = path.rpartition("/")[2]
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    found, packing = _KNOWN.guess_type(f"x.{extension}")
    if extension in _MORE:
        found = _MORE[extension]
    elif packing is not None:
        found = _PACKED.get(packing, DEFAULT)
    found = found or DEFAULT
    return f"{found}; charset=utf-8" if found.startswith("text/") else found
