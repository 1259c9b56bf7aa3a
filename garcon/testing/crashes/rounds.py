"""A workload that is cut short again and again, over one store: ``python -m
garcon.testing.crashes --rounds N --seed S``.

Each round starts a controller, judges what it shows of what was left to it, asks again for what was
never answered, lets the users of fifty chats loose, and ends the controller at a random moment, by
SIGKILL or SIGTERM.  Then the store is judged.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from random import Random

from attrs import define, field

from garcon.controller.service import STORE_FILE
from garcon.testing.crashes.judge import (
    Kept,
    ask_again,
    judge_controller,
    judge_ends,
    judge_store,
    kept_in,
)
from garcon.testing.crashes.users import Chat, Endpoint, User
from garcon.testing.fleet import STOP_TIME, Fleet, Service
from garcon.testing.strict_client import StrictClient

CHATS, USERS = 50, 10
ROUNDS = 5
"""How many one store goes through."""
LIFE = (0.02, 1.2)
"""Within how many seconds of its work the controller is ended."""


@define(eq=False)
class Crashes:
    """One store, its users and its controllers."""

    fleet: Fleet
    seed: int
    chats: list[Chat] = field(init=False)
    inputs: int = 0
    """How many were accepted."""
    _random: Random = field(init=False)
    _kept: dict[str, Kept] = field(factory=dict)

    @chats.default
    def _new_chats(self) -> list[Chat]:
        return [Chat(f"17670000{number:08}") for number in range(CHATS)]

    @_random.default
    def _seeded(self) -> Random:
        return Random(self.seed)

    def round(self, number: signal.Signals) -> list[str]:
        """Play one, ended by this signal; return what was wrong."""
        service = self._controller()
        own = service.descriptor()
        wrong = judge_controller(StrictClient(own["baseUrl"], own["localCapability"]), self._kept)
        endpoint = Endpoint(service.url)
        wrong += ask_again(endpoint, self.chats)
        endpoint.close()
        users = self._users(service.url)
        for user in users:
            user.start()
        time.sleep(self._random.uniform(*LIFE))
        service.process.send_signal(number)
        for user in users:
            user.join(STOP_TIME)
            if user.wrong is not None or user.is_alive():
                wrong.append(f"a user was let down: {user.wrong!r}")
        status = service.process.wait(STOP_TIME)
        if status != (0 if number == signal.SIGTERM else -signal.SIGKILL):
            wrong.append(f"the controller ended with {status}:\n{service.output.text()}")
        self.fleet.services.remove(service)
        before, self._kept = self._kept, kept_in(self._workspace / STORE_FILE)
        wrong += judge_store(self.chats, self._kept)
        if number == signal.SIGTERM:
            wrong += judge_ends(before, self._kept)
        self.inputs = sum(len(chat.accepted) for chat in self.chats)
        return [f"{text} (seed {self.seed}, {number.name})" for text in wrong]

    @property
    def _workspace(self) -> Path:
        return self.fleet.root / "crashes"

    def _controller(self) -> Service:
        config = self.fleet.root / "crashes-config"
        argv = [
            *(sys.executable, "-m", "garcon.testing.quick_controller"),
            *("--config-dir", str(config), "--workspace-dir", str(self._workspace)),
            *("--project-base-dir", str(self.fleet.projects)),
        ]
        return self.fleet.await_ready(self.fleet.start("crashes", config, argv))

    def _users(self, url: str) -> list[User]:
        project = str(self.fleet.project("crashes"))
        return [
            User(url, project, self.chats[n::USERS], Random(self._random.getrandbits(64)))
            for n in range(USERS)
        ]


def play(rounds: int, seed: int) -> int:
    """Play so many, half of them ended by each signal; print what was wrong, and return how much
    that was.
    """
    wrong = played = inputs = 0
    while played < rounds:
        with Fleet(scripted=False) as fleet:
            crashes = Crashes(fleet, seed + played)
            for _ in range(min(ROUNDS, rounds - played)):
                played += 1
                for text in crashes.round(signal.SIGTERM if played % 2 else signal.SIGKILL):
                    wrong += 1
                    print(text, flush=True)
            inputs += crashes.inputs
        print(f"{played} rounds, {inputs:,} inputs accepted, {wrong} wrong", flush=True)
    return wrong
