"""The peer of terminals: Jupyter's terminado as its documentation serves it, a shell for each
WebSocket: ``python -m garcon.testing.bench.terminado_site SHELL``.
"""

from __future__ import annotations

import asyncio
import sys

from terminado.management import UniqueTermManager
from terminado.websocket import TermSocket
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application


async def main(shell: str) -> None:
    """Serve until ended."""
    manager = UniqueTermManager(shell_command=[shell])
    (socket,) = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(Application([(r"/ws", TermSocket, {"term_manager": manager})]))
    server.add_socket(socket)
    print(f"Started at http://127.0.0.1:{socket.getsockname()[1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
