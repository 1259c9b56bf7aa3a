"""Random orders of everything that can happen to a request, and what must hold in each of them."""

from __future__ import annotations

from random import Random
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred

from garcon.contract import limits, operations
from garcon.controller.handlers import Call
from garcon.test.authority.cast import START, STOP, WholeBridge
from garcon.test.controller.executors.cast import INSTANCE
from garcon.test.worker.test_gateway import Client

SEEDS, STEPS = 60, 60

DEFINITE = frozenset(
    {
        "CLI_ACCESS_DENIED",
        "CLI_CONTROLLER_CHANGED",
        "CLI_CONTROLLER_UNAVAILABLE",
        "CLI_SERVICE_BUSY",
    }
)
"""What says of a mutation that it has not run and never will."""


@define(eq=False)
class Asked:
    """One mutation, and the controller that its command had found."""

    id: str
    client: Client
    expected: str


@define(eq=False)
class Handled:
    """One call of a handler, with what held when it came."""

    instance: str
    may: bool
    end: Deferred[Any]


class Interleavings(WholeBridge):
    """Mutations on both lanes, under a life that does what it likes."""

    def begin_anew(self) -> None:
        """Make everything new, so that a seed alone says what happens."""
        self.instance = self.expected = INSTANCE
        super().setUp()
        self.asked: list[Asked] = []
        self.handled: dict[str, list[Handled]] = {}
        self.may = True
        self.restarts = 0
        self.serve()

    def serve(self) -> None:
        for operation in (operations.START_CHAT, operations.STOP_CHAT):
            self.handlers.register(operation, self.handle)

    def handle(self, call: Call[Any, Any]) -> Deferred[Any]:
        handled = Handled(self.instance, self.may, Deferred())
        self.handled.setdefault(call.body.client_request_id, []).append(handled)
        self.assertLessEqual(self.used(), limits.POOL_SHORT)
        self.assertLessEqual(self.dispatcher.pools.used["", "short-bulk"], limits.POOL_SHORT_BULK)
        return handled.end

    # -- what may happen --

    def step(self, chance: Random) -> None:
        ways = [self.send_one] * 8 + [self.end_one] * 6 + [self.wait] * 3
        ways += [self.go_away, self.cut, self.block, self.block_bulk, self.unblock, self.unblock]
        ways += [self.hold_network, self.release, self.release, self.grant, self.grant]
        if chance.random() < 0.04:
            self.start_anew()
        else:
            chance.choice(ways)(chance)
        if not self.network.held:
            self.settle(0.05)

    def send_one(self, chance: Random) -> None:
        name = f"request-{len(self.asked)}"
        path, body = chance.choice((("/chats/start", START), ("/chats/stop", STOP)))
        client = self.http("POST", path, body | {"clientRequestId": name})
        self.asked.append(Asked(name, client, self.expected))

    def open_handlers(self) -> list[tuple[str, Handled]]:
        return [(n, h) for n, calls in self.handled.items() for h in calls if not h.end.called]

    def end_one(self, chance: Random) -> None:
        if running := self.open_handlers():
            name, handled = chance.choice(running)
            handled.end.callback({"done": name})

    def wait(self, chance: Random) -> None:
        self.settle(chance.choice((0.2, 3.0, 12.0)))

    def go_away(self, chance: Random) -> None:
        if waiting := [one for one in self.asked if one.client.is_waiting]:
            chance.choice(waiting).client.vanish()

    def cut(self, chance: Random) -> None:
        self.network.cut()

    def block(self, chance: Random) -> None:
        self.dialler.is_blocked = True
        self.network.cut()

    def block_bulk(self, chance: Random) -> None:
        self.dialler.is_blocked = True
        for wire in self.bulk_wires():
            wire.close()

    def unblock(self, chance: Random) -> None:
        self.dialler.is_blocked = False

    def hold_network(self, chance: Random) -> None:
        self.network.hold()

    def release(self, chance: Random) -> None:
        self.network.release()

    def grant(self, chance: Random) -> None:
        self.may = not self.may
        self.updated(self.executor_id, allowControllerCli=self.may)

    def start_anew(self) -> None:
        """Replace the controller; a new invocation finds it only later, or never."""
        self.network.release()
        self.dialler.is_blocked = False
        self.restarts += 1
        self.restart(f"controller {self.restarts}")
        self.serve()
        if self.restarts % 2:
            self.expected = self.instance

    # -- what must hold --

    def calm_down(self) -> None:
        """Let everything end."""
        self.network.release()
        self.dialler.is_blocked = False
        if not self.may:
            self.grant(Random(0))
        for _ in range(3):
            for name, handled in self.open_handlers():
                handled.end.callback({"done": name})
            self.settle(20)

    def check(self, one: Asked) -> str:
        calls = self.handled.get(one.id, [])
        self.assertLessEqual(len(calls), 1, "it ran twice")
        for handled in calls:
            self.assertEqual(handled.instance, one.expected, "it ran in another controller")
            self.assertTrue(handled.may, "it ran without a grant")
        if one.client.is_gone and one.client.is_waiting:
            return "gave up"
        self.assertFalse(one.client.is_waiting, "it was never answered")
        answer = one.client.answer
        if answer.status == 200 or answer.status == 202:
            self.assertEqual(answer.json, {"done": one.id})
            self.assertEqual(len(calls), 1)
            return "done"
        code: str = answer.json["errorCode"]
        if code in DEFINITE:
            self.assertEqual(calls, [], f"it ran, and was told {code}")
        else:
            self.assertEqual(code, "CLI_OUTCOME_UNKNOWN")
        return code

    def test_whatever_happens(self) -> None:
        """Nothing runs twice, in another controller or without a grant; what is said not to have
        run has not; what is said to be done is that very request's; in the end every slot is free.
        """
        seen: set[str] = set()
        for seed in range(SEEDS):
            chance = Random(seed)
            self.begin_anew()
            try:
                for _ in range(STEPS):
                    self.step(chance)
                self.calm_down()
                seen |= {self.check(one) for one in self.asked}
                self.assertFalse(any(self.dispatcher.pools.used.values()), "a slot is left")
                self.assertEqual(self.slots.taken, 0, "a place is left")
            except BaseException as error:
                error.add_note(f"with seed {seed}")
                raise
        self.assertEqual(seen, DEFINITE | {"CLI_OUTCOME_UNKNOWN", "done", "gave up"})
