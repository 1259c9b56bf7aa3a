"""Executors and the bridge over whole links, encryption included, with the worker's own serving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import define
from msgspec import Struct
from twisted.internet.defer import Deferred
from zope.interface import implementer

from garcon.contract import operations, routes, rpc
from garcon.contract.executors import CliContext
from garcon.contract.rpc import BridgedHttp, BridgedReply, BridgedRequest, Lane
from garcon.contract.runs import PermissionResponse, RunEnded
from garcon.controller.bridge.dispatcher import Dispatcher
from garcon.controller.executors.records import ExecutorRecord
from garcon.errors import CallError, GarconError
from garcon.link.causes import Cause
from garcon.link.interfaces import Handler, ICapturedLink, ILink, ILinkEvents
from garcon.link.link import ControllerLink, WorkerLink
from garcon.link.memory import MemoryDialler, MemoryNetwork, MemoryWire
from garcon.link.wire import IAttempt, IWireUser
from garcon.test.controller.bridge.cast import Held
from garcon.test.controller.executors.cast import INSTANCE, ExecutorsCase, Sink
from garcon.test.controller.executors.test_remote import launch
from garcon.testing.fake_runtime import FakeRuntime
from garcon.worker.serving.serving import Serving


@define(eq=False)
class Dialler(MemoryDialler):
    """Dials in memory, unless nothing answers."""

    is_blocked: bool = False

    def dial(self, reactor: Any, user: IWireUser, close_time: float) -> IAttempt:
        if not self.is_blocked:
            return super().dial(reactor, user, close_time)
        wire = MemoryWire(self.network, user, is_over=True)
        reactor.callLater(0, user.wire_closed, Cause.CONNECT_FAILED, "nothing answers")
        return wire


@implementer(ILinkEvents)
@define(eq=False)
class WorkerSide:
    """What a worker does with its link's events."""

    serving: Serving | None = None

    def primary_installed(self, captured: ICapturedLink) -> None:
        assert self.serving is not None
        self.serving.session_started(captured)

    def primary_lost(self, captured: ICapturedLink, cause: str) -> None:
        assert self.serving is not None
        self.serving.session_lost(captured)

    def bulk_changed(self, phase: str) -> None:
        """Nothing to do."""

    def link_failed(self, kind: str, text: str) -> None:
        """Nothing to do."""

    def producer_received(self, binding_id: str, seq: int, frame: Any) -> None:
        raise AssertionError("a worker gets none")

    def producer_acknowledged(self, acknowledgements: dict[str, int]) -> None:
        assert self.serving is not None
        self.serving.acknowledged(acknowledgements)


class OverLinks(ExecutorsCase):
    """Executors whose links are whole ones."""

    controller: ControllerLink

    def open_link(  # type: ignore[override]
        self, record: ExecutorRecord, events: ILinkEvents, handlers: Mapping[str, Handler]
    ) -> ILink:
        self.controller = ControllerLink(
            self.clock, record.id, record.secret, INSTANCE, events, handlers, None
        )
        self.controller.start()
        return self.controller


class OverALink(OverLinks):
    """One worker, linked and ready, with command access; its runtime is a fake."""

    def setUp(self) -> None:
        super().setUp()
        self.network = MemoryNetwork()
        self.dispatcher = Dispatcher(self.clock, self.handlers, self.executors, INSTANCE, None)
        self.executors.reverse_handlers.update(self.dispatcher.reverse_handlers())
        self.dispatcher.open()
        self.executor_id = self.create(allowControllerCli=True)
        self.runtime = self.make_runtime()
        self.sink = Sink()
        self.worker = self.make_worker()
        self.settle()

    def make_runtime(self) -> FakeRuntime:
        """Make what the worker lends."""
        return FakeRuntime()

    def make_worker(self, process: str = "worker-runtime") -> WorkerLink:
        """Start a worker process: its link, and nothing that ran before."""
        record = self.executors.registry.get(self.executor_id)
        assert record is not None
        side = WorkerSide()

        def offer(seq: int, frame: Struct) -> bool:
            return worker.send_producer(seq, frame)

        side.serving = self.serving = Serving(self.clock, self.runtime, offer)
        self.dialler = Dialler(self.network, self.controller)
        worker = WorkerLink(
            self.clock,
            record.secret,
            process,
            side,
            self.serving.handlers(),
            self.dialler,
        )
        worker.start()
        return worker

    def settle(self, seconds: float = 1.0) -> None:
        """Let everything that is due happen."""
        self.clock.pump([seconds / 20] * 20)

    def ask_controller(
        self, route: routes.Route, body: dict[str, Any] | None = None, instance: str = INSTANCE
    ) -> Deferred[BridgedReply]:
        """Send a request as the gateway does."""
        captured = self.worker.current()
        assert captured is not None
        request = BridgedRequest(instance, BridgedHttp(route.key, [], body))
        d: Deferred[BridgedReply] = captured.call(
            rpc.CLI_REQUEST, request, lane=Lane(route.lane), deadline=route.deadline
        )
        self.settle(0.1)
        return d

    def lost(self, d: Deferred[Any], code: str, outcome: str) -> None:
        error = self.failureResultOf(d, CallError).value
        assert isinstance(error, CallError)
        self.assertEqual((error.code, error.outcome), (code, outcome))


class ExecutorTests(OverALink):
    """The remote runtime keeps the runtime's promises."""

    def running(self) -> Any:
        d = self.executors.runtime(self.executor_id).launch(launch(), self.sink)
        self.settle(0.1)
        self.successResultOf(d)
        return self.runtime.last

    def test_ready(self) -> None:
        """Described, and with bulk."""
        shown = self.snapshot(self.executor_id)
        self.assertEqual((shown["availability"], shown["instanceId"]), ("ready", "fake"))
        self.assertEqual(shown["bulk"], {"availability": "ready", "lastError": None})
        self.assertEqual(shown["projectBasePath"], "/projects")

    def test_questions(self) -> None:
        """Answers and the worker's own refusals come across."""
        runtime = self.executors.runtime(self.executor_id)
        agents = runtime.catalog("scripted")
        path = runtime.inspect_project("/projects/a")
        missing, unknown = runtime.inspect_project("/projects/missing"), runtime.catalog("x")
        self.settle(0.1)
        self.assertEqual(self.successResultOf(agents), tuple(self.runtime.agents))
        self.assertEqual(self.successResultOf(path).project_path, "/projects/a")
        error = self.failureResultOf(missing, GarconError).value
        assert isinstance(error, GarconError)
        self.assertEqual((error.code, error.status), ("PROJECT_PATH_NOT_FOUND", 404))
        error = self.failureResultOf(unknown, GarconError).value
        assert isinstance(error, GarconError)
        self.assertEqual(error.code, "UNSUPPORTED_AGENT")

    def test_a_turn(self) -> None:
        """Every fact once, in order; the worker keeps nothing when it is over."""
        run = self.running()
        for n in range(100):
            run.say(f"line {n}")
        run.finish()
        self.settle()
        texts = [e.message.content for e in self.sink.events[:-1]]  # type: ignore[union-attr]
        self.assertEqual(texts, [f"line {n}" for n in range(100)])
        self.assertEqual(self.sink.events[-1], RunEnded(outcome="finished"))
        self.assertEqual(self.serving.streams, 0)

    def test_permission_and_abort(self) -> None:
        """Decisions reach the agent, and an abort ends the run as interrupted."""
        run = self.running()
        run.ask("o1")
        runtime = self.executors.runtime(self.executor_id)
        response = PermissionResponse(run_id="run-1", permission_occurrence_id="o1", allow=True)
        decided, ran = runtime.respond(response), runtime.running()
        self.settle(0.1)
        self.assertEqual(self.successResultOf(decided), "confirmed")
        self.assertEqual(self.successResultOf(ran), ("run-1",))
        aborted = runtime.abort("run-1")
        self.settle(0.1)
        self.assertIs(self.successResultOf(aborted), True)
        self.assertEqual(self.sink.events[-1], RunEnded(outcome="interrupted"))

    def test_launch_refused(self) -> None:
        """With the worker's code, and no stream left."""
        self.runtime.launch_error = GarconError("AGENT_NOT_FOUND", "no", status=422)
        d = self.executors.runtime(self.executor_id).launch(launch(), self.sink)
        self.settle(0.1)
        self.lost(d, "AGENT_NOT_FOUND", "rejected")
        self.assertEqual((self.serving.streams, self.sink.events), (0, []))

    def test_launch_too_slow(self) -> None:
        """It fails after twenty seconds, and is given up on the worker."""
        self.runtime.holds_launches = True
        d = self.executors.runtime(self.executor_id).launch(launch(), self.sink)
        self.settle(19)
        self.assertNoResult(d)
        self.settle(2)
        self.lost(d, "EXECUTOR_UNAVAILABLE", "unknown")
        self.settle()
        self.assertEqual((self.serving.streams, self.sink.events), (0, []))
        self.assertTrue(self.runtime.last.launched.called)

    def test_replaced_connector(self) -> None:
        """The old link is gone for good, and a new one waits to be dialled."""
        old = self.controller
        edit = {"direction": "executor-connects", "noTls": True}
        self.updated(self.executor_id, connection=edit)
        self.settle()
        self.assertIsNot(self.controller, old)
        self.assertFalse(old.accepts_sockets)
        self.assertTrue(self.controller.accepts_sockets)
        self.assertEqual(self.executors.availability(self.executor_id), "offline")


class BridgeTests(OverALink):
    """What a gateway gets."""

    def setUp(self) -> None:
        super().setUp()
        self.chats = Held()
        self.handlers.register(operations.LIST_CHATS, self.chats.handle)

    def test_context(self) -> None:
        """Live, with the executor that the link has proven."""
        captured = self.worker.current()
        assert captured is not None
        d = captured.call(rpc.CLI_DESCRIBE, None)
        self.settle(0.1)
        self.assertEqual(self.successResultOf(d), CliContext(INSTANCE, self.executor_id, None))

    def test_answers_and_refusals(self) -> None:
        """An answer of the application, and an outcome of the bridge."""
        d = self.ask_controller(routes.LIST_EXECUTORS)
        body = msgspec.json.decode(self.successResultOf(d).body)
        self.assertEqual([e["id"] for e in body["executors"]], ["local", self.executor_id])
        d = self.ask_controller(routes.LIST_EXECUTORS, instance="before")
        self.lost(d, "CLI_CONTROLLER_CHANGED", "rejected")

    def test_crowded_queue_decided_at_publication(self) -> None:
        """Of two large answers that complete together only one finds room."""
        first = self.ask_controller(routes.LIST_CHATS)
        second = self.ask_controller(routes.LIST_CHATS)
        self.network.hold()
        for waiting in self.chats.waiting:
            waiting.callback("x" * (5 * 1024 * 1024))
        self.network.release()
        self.settle(2)
        self.assertEqual(self.successResultOf(first).status, 200)
        self.lost(second, "CLI_SERVICE_BUSY", "not-dispatched")
