"""One worker put together: order, descriptor, lease, and the link's events."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Raw
from msgspec.json import decode as json_decode
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from garcon.contract import rpc
from garcon.contract.executors import CliContext
from garcon.contract.limits import NEWER_GRACE
from garcon.contract.runs import Launched, RelayedEvent, RunEnded
from garcon.link.interfaces import CallContext, Handler, ICapturedLink, ILink, ILinkEvents
from garcon.link.link import ControllerLink, WorkerLink
from garcon.link.memory import MemoryDialler, MemoryNetwork
from garcon.local.descriptors import clear, read
from garcon.local.leases import Lease, LeaseHeld
from garcon.local.listener import new_secret
from garcon.local.roots import ConfigRoot
from garcon.test.worker.doubles import EXECUTOR, OTHER, HeldRuntime
from garcon.test.worker.test_gateway import Client
from garcon.test.worker.test_serving import launch, row
from garcon.web.site import BoundedSite
from garcon.worker.service import LAST_WORDS, Worker


class Machine(MemoryReactorClock):
    """A machine whose free port is always the same."""

    def listenTCP(self, port: int, *args: Any, **kwargs: Any) -> Any:
        """Listen on a port that a descriptor can name."""
        return super().listenTCP(port or 4242, *args, **kwargs)


class NoNetwork(MemoryReactorClock):
    """A machine on which nothing can listen."""

    def listenTCP(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse."""
        raise CannotListenError("127.0.0.1", 0, OSError("not here"))


@implementer(ILinkEvents)
class Controller:
    """A controller's end of the link, with a dispatcher that answers at once."""

    def __init__(
        self, reactor: MemoryReactorClock, secret: str, executor_id: str = EXECUTOR
    ) -> None:
        self.requests: list[Any] = []
        self.frames: list[tuple[str, int, Any]] = []
        self.captured: ICapturedLink | None = None
        self.acknowledges = True
        handlers: dict[str, Handler] = {
            rpc.CLI_DESCRIBE.name: self.describe,
            rpc.CLI_REQUEST.name: self.request,
        }
        self.link = ControllerLink(
            reactor, executor_id, secret, "controller-runtime", self, handlers, None
        )
        self.link.start()

    def describe(self, request: None, context: CallContext) -> Deferred[CliContext]:
        """Answer as this controller's generation."""
        return succeed(CliContext("controller-1", context.peer.executor_id, None))

    def request(self, request: Any, context: CallContext) -> Deferred[rpc.BridgedReply]:
        """Echo what was asked and how it travelled."""
        self.requests.append(request)
        body = json.dumps({"operation": request.http.operation, "lane": context.lane.value})
        return succeed(rpc.BridgedReply(200, Raw(body.encode())))

    def primary_installed(self, captured: ICapturedLink) -> None:
        """Note it."""
        self.captured = captured

    def primary_lost(self, captured: ICapturedLink, cause: str) -> None:
        """Note it."""
        self.captured = None

    def bulk_changed(self, phase: str) -> None:
        """Not looked at."""

    def link_failed(self, kind: str, text: str) -> None:
        """Not looked at."""

    def producer_received(self, binding_id: str, seq: int, frame: Any) -> None:
        """Keep and acknowledge."""
        event = json_decode(frame.event, type=RelayedEvent)
        self.frames.append((binding_id, seq, event))
        if self.acknowledges:
            self.link.acknowledge({binding_id: seq})

    def producer_acknowledged(self, acknowledgements: dict[str, int]) -> None:
        """Only a worker hears this."""


class Cast(SynchronousTestCase):
    """A worker on a machine of its own."""

    def setUp(self) -> None:
        self.reactor = Machine()
        self.root = ConfigRoot(self.mktemp())
        self.runtime = HeldRuntime()
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.network = MemoryNetwork()
        self.secret = new_secret()
        self.controller = Controller(self.reactor, self.secret)
        self.lease = Lease.acquire(self.root.executor_lease, role="worker")
        self.addCleanup(self.lease.release)

    def open_link(self, events: ILinkEvents, handlers: Mapping[str, Handler]) -> ILink:
        """Dial the controller in memory."""
        self.dialler = MemoryDialler(self.network, self.controller.link)
        link = WorkerLink(self.reactor, self.secret, "worker-1", events, handlers, self.dialler)
        link.start()
        return link

    def start_runtime(self) -> None:
        """Note that it was asked for."""
        self.begun.append("runtime")

    def end_runtime(self) -> Deferred[None]:
        """Note that it was asked for."""
        self.ended.append("runtime")
        return succeed(None)

    def worker(self, reactor: MemoryReactorClock | None = None) -> Worker:
        """Compose a worker."""
        return Worker(
            reactor or self.reactor,
            self.lease,
            self.root.executor_descriptor,
            lambda: 1700000000.25,
            self.runtime,
            self.start_runtime,
            self.end_runtime,
            self.open_link,
        )

    def started(self) -> Worker:
        """Start a worker and let it link."""
        worker = self.worker()
        self.successResultOf(worker.start_up())
        self.reactor.advance(0)
        return worker

    def is_leased(self) -> bool:
        """Whether the worker's folder is still taken."""
        try:
            Lease.acquire(self.root.executor_lease).release()
        except LeaseHeld:
            return True
        return False


class LifeCycle(Cast):
    """What a start makes and a stop takes away."""

    def test_the_descriptor(self) -> None:
        """It names the gateway and this process, and nothing of a controller."""
        lines = self.successResultOf(self.worker().start_up())
        descriptor = read(self.root.executor_descriptor, "executor")
        self.assertEqual(lines, [f"Started at {descriptor.base_url}"])
        self.assertEqual(descriptor.started_at, 1700000000250)
        self.assertEqual(descriptor.pid, os.getpid())
        fields = json.loads(Path(self.root.executor_descriptor).read_text())
        self.assertEqual(fields["kind"], "executor-cli")
        self.assertNotIn("workspaceDir", fields)

    def test_an_orderly_stop(self) -> None:
        """Descriptor and lease are gone, the runtime was ended, the port is closed."""
        worker = self.started()
        self.assertEqual(self.begun, ["runtime"])
        stopping = worker.shut_down()
        self.reactor.advance(2)
        self.assertTrue(self.successResultOf(stopping))
        self.assertFalse(os.path.exists(self.root.executor_descriptor))
        self.assertEqual(self.ended, ["runtime"])
        self.assertFalse(self.is_leased())
        self.assertIsNone(self.controller.captured)

    def test_a_replaced_descriptor_stays(self) -> None:
        """Only our own is removed."""
        worker = self.started()
        content = json.loads(Path(self.root.executor_descriptor).read_text())
        content["instanceId"] = "somebody-else"
        Path(self.root.executor_descriptor).write_text(json.dumps(content))
        stopping = worker.shut_down()
        self.reactor.advance(2)
        self.successResultOf(stopping)
        self.assertTrue(os.path.exists(self.root.executor_descriptor))

    def test_a_failed_step_holds_nothing_up(self) -> None:
        """The descriptor goes and the lease ends although the runtime could not be ended."""
        worker = self.worker()
        worker._end_runtime = lambda: fail(RuntimeError("stuck"))
        self.successResultOf(worker.start_up())
        stopping = worker.shut_down()
        self.reactor.advance(2)
        self.assertFalse(self.successResultOf(stopping))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertFalse(os.path.exists(self.root.executor_descriptor))
        self.assertFalse(self.is_leased())

    def test_a_cancelled_stop_still_ends_the_lease(self) -> None:
        """Whoever gives up on a stop leaves neither descriptor nor lease behind."""
        worker = self.worker()
        worker._end_runtime = Deferred
        self.successResultOf(worker.start_up())
        stopping = worker.shut_down()
        self.assertNoResult(stopping)
        self.assertFalse(os.path.exists(self.root.executor_descriptor))
        self.assertTrue(self.is_leased())
        stopping.cancel()
        self.failureResultOf(stopping)
        self.assertFalse(self.is_leased())

    def test_no_gateway_is_only_a_warning(self) -> None:
        """The worker serves without one; no descriptor leads anywhere."""
        clear(self.root.executor_descriptor)
        reactor = NoNetwork()
        worker = self.worker(reactor)
        lines = self.successResultOf(worker.start_up())
        self.assertEqual(lines, ["Started without a command gateway"])
        self.assertFalse(os.path.exists(self.root.executor_descriptor))
        stopping = worker.shut_down()
        reactor.advance(2)
        self.assertTrue(self.successResultOf(stopping))

    def test_an_unpublished_gateway_is_none(self) -> None:
        """Where the descriptor cannot be written nothing listens either."""
        os.mkdir(self.root.executor_descriptor)
        worker = self.worker()
        lines = self.successResultOf(worker.start_up())
        self.assertEqual(lines, ["Started without a command gateway"])
        self.assertIsNone(worker.gateway.base_url)


class Linked(Cast):
    """A worker and a controller's end, over the whole link in memory."""

    def ask(self, worker: Worker, method: str, path: str, body: bytes = b"") -> Client:
        """Send a request to the gateway."""
        site = self.reactor.tcpServers[-1][1]
        assert isinstance(site, BoundedSite)
        client = Client(site)
        descriptor = published(self.root)
        client.send(
            (
                f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{descriptor['port']}\r\n"
                f"Authorization: Bearer {descriptor['localCapability']}\r\n"
                f"X-Garcon-Server-Instance: controller-1\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            ).encode()
            + body
        )
        return client

    def test_requests_travel_on_their_lanes(self) -> None:
        """Bulk and primary operations arrive on bulk and primary, and their answers come back."""
        worker = self.started()
        for method, path, body, lane in (
            ("GET", "/api/v1/chats", b"", "bulk"),
            ("POST", "/api/v1/chats/stop", b"{}", "primary"),
        ):
            client = self.ask(worker, method, path, body)
            self.reactor.advance(0)
            self.assertEqual(client.answer.status, 200)
            self.assertEqual(client.answer.json["lane"], lane)

    def test_context(self) -> None:
        """Discovery names the controller and the executor that the link has proven."""
        client = self.ask(self.started(), "GET", "/api/v1/cli/context")
        self.reactor.advance(0)
        self.assertEqual(
            client.answer.json,
            {
                "serverInstanceId": "controller-1",
                "defaultExecutorId": EXECUTOR,
                "workspaceName": None,
            },
        )

    def test_before_the_controller_is_there(self) -> None:
        """The gateway serves at once and says unavailable."""
        worker = self.worker()
        self.successResultOf(worker.start_up())
        for path in ("/api/v1/cli/context", "/api/v1/chats"):
            self.assertEqual(
                self.ask(worker, "GET", path).answer.outcome, (503, "CLI_CONTROLLER_UNAVAILABLE")
            )

    def test_the_first_link_decides_whose_the_shells_are(self) -> None:
        """Also when no command had asked for anything yet: a controller that takes the worker for
        another executor is not linked with, so retained shells are led nowhere; their own executor
        finds them again, and a worker that is started anew is enrolled anew.
        """
        worker = self.started()
        mine, other = self.controller, Controller(self.reactor, self.secret, OTHER)
        for controller, outcome in ((other, 503), (mine, 200), (other, 503)):
            self.dialler.target = controller.link
            self.network.cut()
            self.reactor.pump([1.0] * 40)
            for path in ("/api/v1/cli/context", "/api/v1/chats"):
                client = self.ask(worker, "GET", path)
                self.reactor.advance(0)
                self.assertEqual(client.answer.status, outcome)
        self.assertEqual(other.requests, [])
        self.assertEqual(worker.gateway.relation.executor_id, EXECUTOR)
        link = worker._link
        assert link is not None and link.last_error is not None
        self.assertIn("executor", link.last_error[1])
        self.controller = other
        stopping = worker.shut_down()
        self.reactor.pump([1.0] * 3)
        self.assertTrue(self.successResultOf(stopping))
        self.lease = Lease.acquire(self.root.executor_lease, role="worker")
        anew = self.started()
        client = self.ask(anew, "GET", "/api/v1/cli/context")
        self.reactor.advance(0)
        self.assertEqual(client.answer.json["defaultExecutorId"], OTHER)

    def run_one(self) -> Any:
        """Bind and launch as the controller does; return the run's sink."""
        captured = self.controller.captured
        assert captured is not None
        self.successResultOf(captured.call(rpc.BIND, rpc.BindingQuery("binding-1")))
        d = captured.call(rpc.START, launch())
        _, sink, started = self.runtime.launches[-1]
        started.callback(Launched("run-1"))
        self.assertEqual(self.successResultOf(d), Launched("run-1"))
        return sink

    def test_rows_reach_the_controller(self) -> None:
        """Each fact of a run arrives once, numbered, and is freed when it is acknowledged."""
        worker = self.started()
        sink = self.run_one()
        for text in ("a", "b"):
            sink.event(row(text))
        sink.event(RunEnded(outcome="finished"))
        self.reactor.advance(0)
        self.assertEqual(
            self.controller.frames,
            [
                ("binding-1", 1, row("a")),
                ("binding-1", 2, row("b")),
                ("binding-1", 3, RunEnded(outcome="finished")),
            ],
        )
        self.assertEqual(worker.serving.streams, 0)

    def test_runs_go_on_over_a_lost_session(self) -> None:
        """The next one resumes them; another one that does not has five minutes for it."""
        worker = self.started()
        sink = self.run_one()
        self.network.cut()
        sink.event(row("a"))
        self.reactor.pump([0, 5, 0])
        captured = self.controller.captured
        assert captured is not None
        self.assertEqual(self.controller.frames, [])
        wanted = rpc.ResumeProducers([rpc.ResumeBinding("binding-1", 0)])
        self.successResultOf(captured.call(rpc.PRODUCERS_RESUME, wanted))
        self.reactor.advance(0)
        self.assertEqual(self.controller.frames, [("binding-1", 1, row("a"))])
        self.network.cut()
        self.reactor.pump([0, 5, 0])
        self.reactor.advance(NEWER_GRACE)
        self.assertEqual((self.runtime.aborted, worker.serving.streams), (["run-1"], 0))

    def test_last_words(self) -> None:
        """A stopping worker lets the controller hear how its runs ended, for a moment."""
        worker = self.started()
        sink = self.run_one()
        self.controller.acknowledges = False

        def end_runtime() -> Deferred[None]:
            sink.event(RunEnded(outcome="interrupted"))
            return succeed(None)

        worker._end_runtime = end_runtime
        stopping = worker.shut_down()
        self.assertIsNotNone(self.controller.captured)
        self.reactor.advance(0)
        self.assertEqual(self.controller.frames[-1][2], RunEnded(outcome="interrupted"))
        self.assertNoResult(stopping)
        self.reactor.advance(LAST_WORDS)
        self.reactor.advance(2)
        self.assertTrue(self.successResultOf(stopping))


def published(root: ConfigRoot) -> dict[str, Any]:
    """The descriptor's fields, and its port."""
    fields: dict[str, Any] = json.loads(Path(root.executor_descriptor).read_text())
    fields["port"] = int(fields["baseUrl"].rpartition(":")[2])
    return fields
