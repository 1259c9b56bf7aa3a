"""Figures for Prometheus: who sees them, what they count, and that they stay few."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import operations
from garcon.contract.operations import OPERATIONS
from garcon.controller.handlers import Handlers, Reply
from garcon.controller.metrics import Metrics
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.errors import GarconError
from garcon.test.controller.http.cast import PATH, DoorCase

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    """Return every figure by its name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class MetricsCase(DoorCase):
    """A door that counts."""

    def figures(self) -> Samples:
        """Ask for all figures."""
        response = self.ask("GET", "/metrics")
        self.assertEqual(response.status, 200)
        return samples(response.body.decode())

    def requests(self, operation: str, status: str) -> float:
        """Return how many requests of an operation were answered so."""
        labels = (("operation", operation), ("status", status))
        return self.figures().get(("garcon_http_requests_total", labels), 0.0)


class PageTests(MetricsCase):
    """GET /metrics."""

    def test_it_needs_a_principal(self) -> None:
        """A user's token or the local capability; nothing is shown to others."""
        for value in ("", "Bearer x"):
            response = self.ask("GET", "/metrics", {"Authorization": value})
            self.assert_error(response, 401, "VALIDATION_FAILED", False)
        token = self.ask(
            "POST",
            f"{PATH}/auth/register",
            body=b'{"username":"ann","password":"password 1"}',
        ).json["token"]
        for credential in (token, self.capability):
            response = self.ask("GET", "/metrics", {"Authorization": f"Bearer {credential}"})
            self.assertEqual(response.status, 200)
            self.assertTrue(response.headers["content-type"].startswith("text/plain; version="))
            self.assertEqual(response.headers["cache-control"], "no-store")

    def test_it_is_read_only(self) -> None:
        """Other methods do not exist."""
        self.assertEqual(self.ask("POST", "/metrics").status, 404)
        self.assertEqual(self.ask("GET", "/metrics/").status, 404)

    def test_every_name_is_ours(self) -> None:
        """They begin with garcon_, the process's own too."""
        names = {name for name, _ in self.figures()}
        self.assertEqual([name for name in names if not name.startswith("garcon_")], [])
        self.assertIn("garcon_process_resident_memory_bytes", names)
        self.assertIn("garcon_build_info", names)


class RequestTests(MetricsCase):
    """What the door answers."""

    def test_by_operation_and_class_of_status(self) -> None:
        """Successes, refusals of a handler, and refusals by the headers alone."""
        for _ in range(2):
            self.ask("GET", f"{PATH}/executors")
        self.reply = GarconError("BUSY", "later", status=503)
        self.ask("GET", f"{PATH}/executors")
        self.ask("GET", f"{PATH}/executors", {"Authorization": ""})
        self.ask("HEAD", f"{PATH}/executors", {"Host": "evil.example"})
        self.assertEqual(self.requests("GET /executors", "2xx"), 2)
        self.assertEqual(self.requests("GET /executors", "5xx"), 1)
        self.assertEqual(self.requests("GET /executors", "4xx"), 2)

    def test_how_long_they_took(self) -> None:
        """Until the answer, in buckets."""
        waiting = self.reply = Deferred()
        self.begin("GET", f"{PATH}/executors")
        self.reactor.advance(2)
        waiting.callback(Reply({}))
        figures = self.figures()
        name = "garcon_http_request_seconds"
        label = ("operation", "GET /executors")
        self.assertEqual(figures[f"{name}_sum", (label,)], 2.0)
        self.assertEqual(figures[f"{name}_bucket", (("le", "1.0"), label)], 0)
        self.assertEqual(figures[f"{name}_bucket", (("le", "2.5"), label)], 1)

    def test_pages(self) -> None:
        """Probes and figures have names of their own."""
        self.ask("GET", "/livez")
        self.assertEqual(self.requests("health", "2xx"), 1)
        self.assertEqual(self.requests("metrics", "2xx"), 1)

    def test_what_does_not_exist_is_one(self) -> None:
        """However many paths somebody tries, and whatever ids are in them."""
        for number in range(50):
            self.ask("GET", f"/{number}")
            self.ask("GET", f"{PATH}/nothing/{number}")
            self.ask("PATCH", f"{PATH}/executors/{number}", body=b"{}")
        figures = self.figures()
        found = {labels for name, labels in figures if name == "garcon_http_requests_total"}
        self.assertLessEqual(len(found), 4, found)
        self.assertEqual(self.requests("other", "4xx"), 100)

    def test_figures_are_bounded(self) -> None:
        """After every operation has been answered in every way there are some thousands."""
        for operation in OPERATIONS:
            for status in (200, 404, 500):
                self.metrics.answered(operation.route.key, status, 0.1)
                self.metrics.called(operation.route.key, status, 0.1)
        self.assertLess(len(self.figures()), 60 * len(OPERATIONS))


class WatchTests(SynchronousTestCase):
    """Figures that are read when they are asked for."""

    def figures(self, metrics: Metrics) -> Samples:
        """Return all figures."""
        page: Any = metrics.page("/metrics")
        return samples(page.answer(None).body.decode())

    def test_one_and_several(self) -> None:
        """A number, or one for each of a few names; read anew each time."""
        metrics, rooms = Metrics(), {"hall": 1.0, "attic": 0.0}
        metrics.watch("rooms", "Rooms.", rooms.copy, "kind")
        metrics.watch("steps", "Steps.", lambda: 7, kind="counter")
        figures = self.figures(metrics)
        self.assertEqual(figures["garcon_rooms", (("kind", "hall"),)], 1.0)
        self.assertEqual(figures["garcon_rooms", (("kind", "attic"),)], 0.0)
        self.assertEqual(figures["garcon_steps_total", ()], 7)
        rooms["hall"] = 3.0
        self.assertEqual(self.figures(metrics)["garcon_rooms", (("kind", "hall"),)], 3.0)


class BridgeTests(SynchronousTestCase):
    """What comes over links."""

    def test_the_bridges_requests_are_counted_apart(self) -> None:
        """By the same handlers, with the time they took."""
        handlers, told, now = Handlers(), [], [0.0]
        door = handlers.observed(lambda *answer: told.append(answer), lambda: now[0])
        waiting: list[Deferred[Any]] = []

        def handle(call: Any) -> Deferred[Any]:
            waiting.append(Deferred())
            return waiting[0]

        handlers.register(operations.LIST_EXECUTORS, handle)
        answering = door.run(operations.LIST_EXECUTORS, LOCAL_PRINCIPAL)
        now[0] = 3.0
        waiting[0].errback(GarconError("NO", "no", status=409))
        self.assertEqual(self.successResultOf(answering).status, 409)
        self.assertEqual(told, [("GET /executors", 409, 3.0)])

    def test_the_other_door_is_not_counted_twice(self) -> None:
        """It counts for itself."""
        handlers, told = Handlers(), []
        handlers.observed(lambda *answer: told.append(answer), lambda: 0.0)
        handlers.register(operations.LIST_EXECUTORS, lambda call: {})
        self.successResultOf(handlers.run(operations.LIST_EXECUTORS, LOCAL_PRINCIPAL))
        self.assertEqual(told, [])
