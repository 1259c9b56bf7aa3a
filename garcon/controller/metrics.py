"""What a controller has done and holds, as figures for Prometheus (decisions.md 5).

No label holds an id, a path or a name that grows with use: figures of a busy controller are as many
as those of an idle one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from attrs import frozen
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from garcon.contract.version import PROTOCOL_REVISION, VERSION
from garcon.controller.http.pages import Page
from garcon.web.exchange import Incoming, Outgoing

PREFIX = "garcon_"

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)

Kind = Literal["gauge", "counter"]
Read = Callable[[], "float | Mapping[str, float]"]


@frozen
class _Watched:
    """A figure that is read when it is asked for; with a `label`, one for each of its values."""

    name: str
    text: str
    read: Read
    label: str | None
    kind: Kind

    def family(self) -> Metric:
        """Read it."""
        labels = [] if self.label is None else [self.label]
        made = GaugeMetricFamily if self.kind == "gauge" else CounterMetricFamily
        family = made(PREFIX + self.name, self.text, labels=labels)
        value = self.read()
        if isinstance(value, Mapping):
            for name, one in sorted(value.items()):
                family.add_metric([name], one)
        else:
            family.add_metric([], value)
        return family


class _Watching(Collector):
    def __init__(self, watched: list[_Watched]) -> None:
        self._watched = watched

    def collect(self) -> Iterator[Metric]:
        """Read everything."""
        build = {"version": VERSION, "protocol": str(PROTOCOL_REVISION)}
        yield InfoMetricFamily(f"{PREFIX}build", "The running version.", build)
        for one in self._watched:
            yield one.family()


class Metrics:
    """Counts what the doors answer, and shows that with what others hold."""

    def __init__(self) -> None:
        self._watched: list[_Watched] = []
        self._registry = CollectorRegistry()
        self._registry.register(_Watching(self._watched))
        # All of this process: its memory, time, descriptors and start.
        ProcessCollector(namespace="garcon", registry=self._registry)
        self._requests = Counter(
            f"{PREFIX}http_requests",
            "Requests answered, by operation and class of status.",
            ("operation", "status"),
            registry=self._registry,
        )
        self._request_seconds = Histogram(
            f"{PREFIX}http_request_seconds",
            "From a request's last byte to its answer.",
            ("operation",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._calls = Counter(
            f"{PREFIX}bridge_requests",
            "Requests of workers' commands answered, by operation and class of status.",
            ("operation", "status"),
            registry=self._registry,
        )
        self._call_seconds = Histogram(
            f"{PREFIX}bridge_request_seconds",
            "From a request over a link to its answer.",
            ("operation",),
            buckets=_BUCKETS,
            registry=self._registry,
        )

    def watch(
        self, name: str, text: str, read: Read, label: str | None = None, kind: Kind = "gauge"
    ) -> None:
        """Show a figure of somebody else's.  `read` must be quick; with a `label` it returns one
        value for each of a few names.
        """
        self._watched.append(_Watched(name, text, read, label, kind))

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """An HTTP request was answered."""
        self._requests.labels(operation, f"{status // 100}xx").inc()
        self._request_seconds.labels(operation).observe(seconds)

    def refused(self, operation: str, status: int) -> None:
        """An HTTP request was refused by its headers, which takes no time."""
        self._requests.labels(operation, f"{status // 100}xx").inc()

    def called(self, operation: str, status: int, seconds: float) -> None:
        """A request over a link was answered, by its registry key."""
        self._calls.labels(operation, f"{status // 100}xx").inc()
        self._call_seconds.labels(operation).observe(seconds)

    def page(self, path: str) -> Page | None:
        """Return the page of figures: for a principal only."""
        return Page("metrics", self._show, open=False) if path == "/metrics" else None

    def _show(self, incoming: Incoming) -> Outgoing:
        headers = {"Content-Type": CONTENT_TYPE_LATEST, "Cache-Control": "no-store"}
        return Outgoing(200, generate_latest(self._registry), headers)
