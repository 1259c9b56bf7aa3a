"""A built browser client, served from its directory (``--browser-dir``, server.md F.9)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from garcon.controller.http.files import Files, KeptFile, tag_of
from garcon.controller.http.pages import KeptAnswer, Page
from garcon.controller.http.shell import AppTitle, manifest, page_policy, titled
from garcon.deferreds import returns_deferred
from garcon.errors import validation
from garcon.web.exchange import Incoming, Outgoing

_SHELL = re.compile(r"/(?:index\.html|setup|login|chat/?|chat/[^/]+|shared/[A-Za-z0-9_-]+)?")
_FILES = frozenset(
    {
        "/favicon.ico",
        "/icon.svg",
        "/favicon-16x16.png",
        "/favicon-32x32.png",
        "/apple-touch-icon.png",
        "/icon-192.png",
        "/icon-512.png",
        "/service-worker.js",
    }
)
_MANIFEST = "/site.webmanifest"
_APP = "/_app/"

_NEVER = "no-cache, no-store, must-revalidate"
_ALWAYS = "public, max-age=31536000, immutable"
_HOUR = "public, max-age=3600, must-revalidate"

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "json": "application/json",
    "map": "application/json",
    "webmanifest": "application/manifest+json; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "ico": "image/x-icon",
    "woff": "font/woff",
    "woff2": "font/woff2",
    "ttf": "font/ttf",
    "otf": "font/otf",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "wav": "audio/wav",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "wasm": "application/wasm",
}
"""By what a name ends in; everything else is bytes."""

_KEPT_FOR_AN_HOUR = frozenset(
    ending
    for ending, kind in TYPES.items()
    if kind.startswith(("text/javascript", "text/css", "application/json", "image/", "font/"))
)


class Browser:
    """The pages of a browser client.  `app` says what it is called at this moment."""

    def __init__(self, reactor: Any, directory: str, app: Callable[[], AppTitle]) -> None:
        self._files = Files(reactor, directory)
        self._app = app

    def page(self, path: str) -> Page | None:
        """Return what is at a path: the client's own page, its files, or nothing."""
        if _SHELL.fullmatch(path):
            return Page("page", self._shell)
        if path == _MANIFEST:
            return Page("manifest", self._manifest)
        if path in _FILES or path.startswith(_APP):
            return Page("asset", self._file)
        return None

    def _shell(self, incoming: Incoming) -> Deferred[Outgoing]:
        return self._titled("/index.html", TYPES["html"], titled)

    def _manifest(self, incoming: Incoming) -> Deferred[Outgoing]:
        return self._titled(
            _MANIFEST,
            TYPES["webmanifest"],
            lambda content, app: (manifest(content, app), page_policy()),
        )

    @returns_deferred
    async def _titled(
        self, path: str, kind: str, make: Callable[[bytes, AppTitle], tuple[bytes, str]]
    ) -> Outgoing:
        file = _found(await self._files.read(path))
        app = self._app()
        if file.made is None or file.made[0] != app:
            body, policy = make(file.body, app)
            headers = _headers(kind, _NEVER, tag_of(body), policy)
            file.made = (app, KeptAnswer(200, body, headers))
        answer: Outgoing = file.made[1]
        return answer

    @returns_deferred
    async def _file(self, incoming: Incoming) -> Outgoing:
        path = incoming.path
        file = _found(await self._files.read(path))
        ending = path.rpartition("/")[2].rpartition(".")[2].lower()
        kind = TYPES.get(ending, "application/octet-stream")
        headers = _headers(kind, _caching(path, ending), file.tag, page_policy())
        return KeptAnswer(200, file.body, headers, coded=file.coded)


def _caching(path: str, ending: str) -> str | None:
    if path == "/service-worker.js" or ending == "html":
        return _NEVER
    if path.startswith("/_app/immutable/"):
        return _ALWAYS
    return _HOUR if ending in _KEPT_FOR_AN_HOUR else None


def _headers(kind: str, caching: str | None, tag: str, policy: str) -> dict[str, str]:
    headers = {
        "Content-Type": kind,
        "ETag": tag,
        "Accept-Ranges": "bytes",
        "Content-Security-Policy": policy,
    }
    if caching is not None:
        headers["Cache-Control"] = caching
    return headers


def _found(file: KeptFile | None) -> KeptFile:
    if file is None:
        raise validation("There is no such file.", status=404)
    return file
