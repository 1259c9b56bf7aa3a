"""A door with a small browser client."""

from __future__ import annotations

from pathlib import Path

from garcon.controller.http.browser import Browser
from garcon.controller.http.shell import AppTitle
from garcon.controller.service import SECURITY_HEADERS
from garcon.test.controller.http.cast import DoorCase, Response
from garcon.web.exchange import DoorLimits
from garcon.web.site import BoundedSite

PAGE = """<!doctype html><html><head>
<title>Built</title>
<meta name="apple-mobile-web-app-title" content="Built">
<script type="module" src="/_app/start.js"></script>
<script>window.first = 1;</script>
</head><body><script nonce>window.second = 2;</script></body></html>
"""


class BrowserCase(DoorCase):
    """A door with a small client."""

    def setUp(self) -> None:
        super().setUp()
        self.root = Path(self.mktemp())
        self.app = AppTitle()
        self.write("index.html", PAGE)
        self.write("service-worker.js", "self.skipWaiting();")
        self.write("icon.svg", "<svg>" + " " * 2_000 + "</svg>")
        self.write("icon-192.png", "P" * 2_000)
        self.write("site.webmanifest", '{"name": "Built", "display": "standalone"}')
        self.write("_app/immutable/chunk.js", "let a = 1;" * 500)
        self.write("_app/version.json", '{"version": "1"}')
        self.write("_app/notes.txt", "text")
        self.write("_app/a b.css", "a{}")
        self.write("secret.txt", "not listed")
        browser = Browser(self.reactor, str(self.root), lambda: self.app)
        self.pages.sources.append(browser.page)
        policy = self.site.policy
        self.site = BoundedSite(
            self.reactor, policy, self.door.answer, DoorLimits(), SECURITY_HEADERS
        )

    def write(self, name: str, content: str) -> None:
        """Put a file into the client's directory."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def get(self, path: str, **headers: str) -> Response:
        """Ask without a token."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("GET", path, {"Authorization": "", **sent})

    def assert_not_there(self, path: str) -> None:
        """Assert that a path of the client leads to nothing."""
        self.assert_error(self.get(path), 404, "VALIDATION_FAILED", False)
