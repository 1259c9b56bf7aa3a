"""Links over real sockets keep every promise, both ways round, plain and over TLS."""

from __future__ import annotations

from garcon.test.link.promises import LinkPromises
from garcon.test.live.linked import Linked


class WorkerDials(Linked, LinkPromises):
    """A worker dials the controller's port."""

    timeout = 20


class ControllerDials(Linked, LinkPromises):
    """The controller dials a listening worker."""

    timeout = 20
    worker_dials = False


class WorkerDialsOverTls(WorkerDials):
    """A worker dials over TLS and trusts a private authority."""

    uses_tls = True


class ControllerDialsOverTls(ControllerDials):
    """The controller dials over TLS and trusts a private authority."""

    uses_tls = True
