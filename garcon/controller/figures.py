"""Which figures of a controller's parts are shown, and where each is read (`metrics.py` shows
them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from garcon.controller.chats.service import Chats
from garcon.controller.executors.interfaces import IExecutors
from garcon.controller.http.listener import Listeners
from garcon.controller.metrics import Metrics
from garcon.controller.ws.hub import Sockets
from garcon.store.sqlite import SqliteStore

_PHASES = ("running", "stopping", "reconnecting")
_LINKS = ("disabled", "offline", "reconnecting", "ready")


def watch_parts(
    metrics: Metrics,
    *,
    chats: Chats,
    executors: IExecutors,
    listeners: Listeners,
    store: SqliteStore,
    sockets: Sockets,
    stalls: Callable[[], Mapping[str, float]],
) -> None:
    """Have `metrics` show what these parts hold and have done."""

    def phases() -> Mapping[str, float]:
        return {**dict.fromkeys(_PHASES, 0.0), **chats.phases()}

    def links() -> Mapping[str, float]:
        found = Counter(
            one.availability if one.enabled else "disabled"
            for one in executors.snapshots()
            if one.kind == "remote"
        )
        return {**dict.fromkeys(_LINKS, 0.0), **found}

    metrics.watch("chats", "Chats of the workspace.", lambda: len(chats))
    metrics.watch("turns", "Turns that have not ended, by phase.", phases, "phase")
    metrics.watch("executor_links", "Remote executors, by the state of their link.", links, "state")
    metrics.watch("http_connections", "Open HTTP connections.", lambda: listeners.connections)
    metrics.watch("http_uploads_bytes", "Bodies in memory.", lambda: listeners.uploading)
    metrics.watch("browser_sockets", "Open sockets of browsers.", lambda: len(sockets))
    metrics.watch("store_commits", "Commits of the store.", lambda: store.commits, kind="counter")
    metrics.watch(
        "store_failed_commits",
        "Commits of the store that failed.",
        lambda: store.failed_commits,
        kind="counter",
    )
    metrics.watch(
        "agent_unknown_events",
        "Messages and fields of agents that this version does not know.",
        chats.unknown_events,
        "agent",
        "counter",
    )
    metrics.watch(
        "event_loop_stalls",
        "Steps of 50 ms and turns of 250 ms in which nothing else could run.",
        stalls,
        "kind",
        "counter",
    )
