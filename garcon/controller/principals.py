"""Who asks: the identity and authority of a request, never what it claims of itself."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen


@frozen
class Principal:
    """An authenticated caller (control.md 0, server.md 0).

    ``local`` is the holder of this process's capability (or anyone, with authentication disabled),
    ``authenticated`` a signed-in user, ``executor`` a worker's OS account behind its authenticated
    link.  `key` is what authority and attribution compare: never a label.
    """

    kind: Literal["local", "authenticated", "executor"]
    key: str
    username: str
    executor_id: str | None = None
    expires_at_ms: int | None = None
    session: str | None = field(default=None, eq=False, repr=False)
    """Which login a user's request belongs to: what a logout ends, and no part of who asks."""


LOCAL_PRINCIPAL = Principal("local", "local", "local")


def delegated(executor_id: str) -> Principal:
    """Return the principal of a worker, from the id its link has proven."""
    return Principal("executor", f"executor:{executor_id}", f"executor:{executor_id}", executor_id)
