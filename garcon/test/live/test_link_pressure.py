"""A peer that asks much over a real socket and takes no answers."""

from __future__ import annotations

import socket
from typing import Any, cast
from uuid import uuid4

import msgspec
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from garcon.contract.limits import KIB
from garcon.deferreds import returns_deferred
from garcon.errors import GarconError
from garcon.link.fragments import WHOLE
from garcon.link.interfaces import CallContext
from garcon.link.outbox import MOST_SMALL
from garcon.test.link.cast import ASK, Text
from garcon.test.live.linked import Linked, reactor


class Pressure(Linked):
    """Reading pauses while too much waits to be answered, and goes on afterwards."""

    timeout = 60

    def make_listener(self) -> None:
        """Leave the proxy out of it: it takes whatever the peer does not."""
        super().make_listener()
        self.proxy_port = cast(IPv4Address, self.port.getHost()).port

    @returns_deferred
    async def test_answers_that_are_not_taken(self) -> None:
        """The answering side holds a bounded number of refusals, whatever is asked; once they are
        taken every call has got its own.
        """
        asked = 4000

        def refuse(request: Text, context: CallContext) -> Deferred[Any]:
            raise GarconError("NOT_NOW", "no", details="x" * 6 * KIB)

        handlers: Any = self.controller._shared.served.handlers
        handlers[ASK.name] = refuse
        near: Any = self.controller.current()
        far: Any = self.worker.current()
        wire, cipher = far.primary._wire, far.primary._cipher
        answered: list[str] = []
        far.primary._asking.error_received = lambda frame: answered.append(frame.id)
        wire.hold_reading(True)
        # Left to itself the kernel takes all of the answers where it may.
        wire.transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
        most = 0
        for seq in range(1, asked + 1):
            frame = {"type": "request", "id": str(uuid4()), "seq": seq, "method": ASK.name}
            wire.send(cipher.seal(WHOLE + msgspec.json.encode(frame | {"request": {"text": ""}})))
            if seq % 50 == 0:
                await deferLater(reactor, 0)
                most = max(most, near.primary._outbox.queued_messages)
        await self.until(lambda: near.primary._outbox._holds_reading)
        for _ in range(20):
            await deferLater(reactor, 0.01)
            most = max(most, near.primary._outbox.queued_messages)
        # What was read before the pause is still answered: one read of the socket.
        self.assertTrue(MOST_SMALL < most < MOST_SMALL + 1000, most)
        wire.hold_reading(False)
        await self.until(lambda: len(answered) == asked)
        self.assertEqual(near.primary._outbox.queued_messages, 0)
        self.assertEqual(self.controller_owner.lost, [])


class PressureOverTls(Pressure):
    """The same over TLS."""

    uses_tls = True


class PressureControllerDials(Pressure):
    """The same where the controller dials."""

    worker_dials = False
