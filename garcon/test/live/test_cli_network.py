"""What the command says where it gets no connection at all."""

from __future__ import annotations

import socket
import time
from errno import EACCES, EAFNOSUPPORT, ENETUNREACH, EPERM

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli import http
from garcon.cli.failures import NoNetwork, TransportFailure
from garcon.cli.http import exchange


class NetworkTests(SynchronousTestCase):
    def failure(self, host: str, port: int) -> TransportFailure:
        """Ask somebody who cannot be reached."""
        asked = (exchange, host, port, b"x", 5.0, time.monotonic)
        failure: TransportFailure = self.assertRaises(TransportFailure, *asked)
        return failure

    def test_no_network(self) -> None:
        """An address that leads nowhere is not a service that has ended."""
        failure = self.failure("255.255.255.255", 1)
        self.assertIsInstance(failure, NoNetwork)
        self.assertIs(failure.sent, False)
        self.assertIn("have it run with network access", failure.text)

    def test_a_sandbox_that_forbids_the_network(self) -> None:
        """Whatever its way to say no, and whether it refuses the socket or the connection."""
        for number in (EPERM, EACCES, ENETUNREACH, EAFNOSUPPORT):

            def refuse(*_: object) -> None:
                raise OSError(number, "no")  # noqa: B023

            self.patch(vars(http)["sockets"], "socket", refuse)
            self.assertIsInstance(self.failure("127.0.0.1", 1), NoNetwork)

    def test_nobody_there(self) -> None:
        """With a network, it is one."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            failure = self.failure("127.0.0.1", taken.getsockname()[1])
        self.assertNotIsInstance(failure, NoNetwork)
        self.assertEqual(
            (failure.text, failure.sent), ("cannot reach Garcon: Connection refused", False)
        )
