"""The peer of the chat list: a resource of twisted.web that serves the bytes of one file, and
nothing else: ``python -m garcon.testing.bench.bare_site FILE``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from twisted.web.resource import Resource
from twisted.web.server import Request, Site


class Bytes(Resource):
    """Answers every GET with the same."""

    isLeaf = True

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self._content = content

    def render_GET(self, request: Request) -> bytes:
        """Answer."""
        request.setHeader(b"content-type", b"application/json")
        return self._content


def main(file: str) -> None:
    """Serve until ended."""
    from twisted.internet import reactor as installed

    reactor: Any = installed
    site = Site(Bytes(Path(file).read_bytes()))
    port = reactor.listenTCP(0, site, interface="127.0.0.1")
    print(f"Started at http://127.0.0.1:{port.getHost().port}", flush=True)
    reactor.run()


if __name__ == "__main__":
    main(sys.argv[1])
