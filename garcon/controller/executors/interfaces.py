"""What the controller's other parts ask of its executors, and what the executors ask back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from zope.interface import Interface

from garcon.contract.executors import ExecutorSnapshot
from garcon.runtime.interfaces import IExecutorRuntime

Availability = Literal["ready", "reconnecting", "offline"]


class IExecutors(Interface):
    """All executors of one workspace, Local first."""

    def runtime(executor_id: str) -> IExecutorRuntime:
        """Return the runtime to start new work on.

        Raises ``EXECUTOR_NOT_FOUND`` (404) or, when it is not ready, ``EXECUTOR_UNAVAILABLE`` (503,
        retryable).
        """

    def existing(executor_id: str) -> IExecutorRuntime:
        """Return the runtime of a known executor in any state, to abort or decide what already runs
        there.
        """

    def availability(executor_id: str) -> Availability:
        """An unknown executor is ``offline``."""

    def snapshots() -> list[ExecutorSnapshot]:
        """All of them as the API shows them."""


class IExecutorWatcher(Interface):
    """Whoever keeps something by executor."""

    def availability_changed(executor_id: str) -> None:
        """The executor became ready, perhaps as another process, is being waited for, or is
        gone.
        """

    def executor_removed(executor_id: str) -> None:
        """It was deleted; `IExecutors` does not know it any more."""


class IExecutorUse(Interface):
    """Whether an executor may be changed: the chats' side of the idle check (control E.4, E.8)."""

    def running_on(executor_id: str) -> Sequence[str]:
        """Return the ids of the chats of this executor that own live execution."""

    def availability_changed(executor_id: str) -> None:
        """The executor became ready, is being waited for, or is gone; tell who watches its
        chats.
        """
