"""What many chats cost: their list, taking input in, growth, and a start with ten thousand of them.

Each round measures everything once, peers in turn with what they are compared to.  Inputs are taken
in by a whole controller over HTTP, whose agent ends each turn at once; a peer commits one row at a
time, each to the disk, in a file beside the controllers' own.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

from attrs import define, field

from garcon.contract.limits import MIB
from garcon.testing.bench.keep_alive import Connection, at_once, get, one_by_one, post
from garcon.testing.bench.processes import memory
from garcon.testing.bench.report import Aim, Bound, Samples, percentile, report
from garcon.testing.bench.stores import chat_id, fill, view_id
from garcon.testing.bench.tunnel import say
from garcon.testing.fleet import Fleet, Service
from garcon.testing.quick_agent import QUICK

CLIENTS = 32
LIST_CLIENTS = 4
PAGE = 100

LIST, BARE = "1,000 chats", "bare twisted.web"
FEW, MANY = "few chats", "many chats"
COMMITS = "FULL commits one by one"
STARTED = "start, 10,000 chats"
EMPTY = "start, no chats"
AIMS: tuple[Aim | Bound, ...] = (
    Aim("chats.list_1000_rate", LIST, BARE, "list /s", "/s", 0.5, least=True),
    Aim("chats.list_1000_p50", LIST, BARE, "list p50 ms", "ms", 2.0),
    Aim("chats.accept_rate_32", FEW, COMMITS, "accepted /s", "/s", 4.0, least=True),
    Aim("chats.accept_p50", FEW, COMMITS, "accepted p50 ms", "ms", 3.0),
    Aim("chats.accept_rate_growth", MANY, FEW, "accepted /s", "/s", 0.8, least=True),
    Aim("chats.accept_p50_growth", MANY, FEW, "accepted p50 ms", "ms", 1.25),
    Aim("chats.page_growth", MANY, FEW, "page p50 ms", "ms", 1.25),
    Aim("chats.list_growth", MANY, FEW, "list ms/MiB", "ms", 1.25),
    Bound("chats.start_time_10k", STARTED, "s", "s", 2.0),
    Bound("chats.rss_10k", STARTED, "MiB", "MiB", 150.0),
)


@define(eq=False)
class Served:
    """A controller that serves so many chats of a filled store."""

    service: Service
    project: Path
    chats: int
    _next: int = 0
    _chats: Iterator[int] = field(init=False)

    @_chats.default
    def _in_turn(self) -> Iterator[int]:
        while True:
            yield from range(min(self.chats, 1_000))

    @property
    def url(self) -> str:
        return self.service.url

    def listing(self) -> bytes:
        """Return a request for the list."""
        return get("/api/v1/chats")

    def page(self) -> bytes:
        """Return a request for a page of the next chat."""
        query = urlencode({"chatId": chat_id(next(self._chats)), "limit": PAGE})
        return get(f"/api/v1/chats/messages?{query}")

    def run(self) -> bytes:
        """Return a request for a turn of the next chat."""
        self._next += 1
        number = next(self._chats)
        return post(
            "/api/v1/chats/run",
            {
                "clientRequestId": f"run-{self._next}",
                "clientMessageId": f"run-{self._next}",
                "chatId": chat_id(number),
                "transcriptViewId": view_id(number),
                "command": f"Do number {self._next} as well, and say when it is done.",
            },
        )

    def start(self) -> bytes:
        """Return a request for a chat of its own."""
        self._next += 1
        return post(
            "/api/v1/chats/start",
            {
                "clientRequestId": f"start-{self._next}",
                "clientMessageId": f"start-{self._next}",
                "chatId": chat_id(50_000_000 + self._next),
                "agentId": QUICK,
                "projectPath": str(self.project),
                "model": QUICK,
                "agentSettings": {"ownerId": QUICK, "schemaVersion": 1, "values": {}},
                "command": f"Do number {self._next} as well, and say when it is done.",
            },
        )


@define(eq=False)
class Commits:
    """One file, one connection, one row a commit."""

    _db: sqlite3.Connection

    @classmethod
    def beside(cls, folder: Path) -> Commits:
        """Make the file."""
        db = sqlite3.connect(folder / "peer.sqlite", isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE inputs (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)")
        return cls(db)

    def one_by_one(self, count: int) -> list[float]:
        """Return how long each of so many commits took, in milliseconds."""
        payload, taken = b"x" * 300, []
        for _ in range(count):
            began = time.perf_counter()
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("INSERT INTO inputs (payload) VALUES (?)", (payload,))
            self._db.execute("COMMIT")
            taken.append((time.perf_counter() - began) * 1e3)
        return taken

    def close(self) -> None:
        """Shut the file."""
        self._db.close()


def run(
    file: str | None,
    rounds: int = 7,
    *,
    few: int = 100,
    many: int = 10_000,
    rows_each: int = 100,
    requests: int = 400,
) -> int:
    """Measure and report; 0 whatever the verdict."""
    samples = Samples()
    with Fleet(scripted=False) as fleet:
        bench = Bench(fleet, samples, requests)
        bench.prepare(few, many, rows_each)
        for number in range(rounds + 1):
            say(f"round {number} of {rounds}" if number else "warming up")
            bench.samples = samples if number else Samples()
            bench.measure(number)
        bench.commits.close()
    print(
        f"{rounds} rounds; {FEW}: {few:,} of {rows_each:,} rows, {MANY}: {many:,} of"
        f" {rows_each:,}; {requests} requests of a kind in each"
    )
    commit = samples.median(COMMITS, "accepted p50 ms")
    if commit is not None and commit < 1:
        print(f"a FULL commit takes {commit:.2f} ms here: a cache takes the flushes, not a disk")
    report("chats", samples, AIMS, file)
    return 0


@define(eq=False)
class Bench:
    """Everything that is measured, and what it is measured with."""

    fleet: Fleet
    samples: Samples
    requests: int
    commits: Commits = field(init=False)
    few: Served = field(init=False)
    many: Served = field(init=False)
    listed: Served = field(init=False)
    bare: Service = field(init=False)

    def prepare(self, few: int, many: int, rows_each: int) -> None:
        """Fill the stores and start whoever serves them."""
        say("filling stores")
        root = self.fleet.root
        project = self.fleet.project("bench")
        fill(root / "starting", project, many, rows_each)
        self.few = self._served("few", few, rows_each)
        self.many = self._served("many", many, rows_each)
        self.listed = self._served("listed", 1_000, 4)
        connection = Connection(self.listed.url)
        content = connection.ask(self.listed.listing())
        connection.close()
        (root / "list.json").write_bytes(content)
        say(f"the list of 1,000 chats is {len(content) / MIB:.2f} MiB")
        argv = [sys.executable, "-m", "garcon.testing.bench.bare_site", str(root / "list.json")]
        self.bare = self.fleet.await_ready(self.fleet.start("bare", root, argv))
        self.commits = Commits.beside(root)

    def _served(self, name: str, chats: int, rows_each: int) -> Served:
        root, project = self.fleet.root, self.fleet.project("bench")
        fill(root / name, project, chats, rows_each)
        config = root / f"{name}-config"
        argv = [
            *(sys.executable, "-m", "garcon.testing.quick_controller"),
            *("--config-dir", str(config), "--workspace-dir", str(root / name)),
            *("--project-base-dir", str(self.fleet.projects)),
        ]
        service = self.fleet.start(name, config, argv)
        return Served(self.fleet.await_ready(service), project, chats)

    def measure(self, number: int) -> None:
        """Make one round."""
        lists = [(LIST, self.listed.url), (BARE, self.bare.url)]
        for target, url in lists if number % 2 else lists[::-1]:
            self._list(target, url)
        served = [(FEW, self.few), (MANY, self.many)]
        for target, controller in served if number % 2 else served[::-1]:
            self._accept(target, controller)
        self._commit()
        for target, controller in served if number % 2 else served[::-1]:
            self._read(target, controller)
        self._start()

    def _list(self, target: str, url: str) -> None:
        request, count = self.listed.listing(), self.requests
        connection = Connection(url)
        taken = one_by_one(connection, iter([request] * count))
        connection.close()
        self.samples.add(target, "list p50 ms", percentile(taken, 0.5))
        left = iter([request] * count)
        rate = at_once(url, LIST_CLIENTS, lambda: next(left, None), lambda status, _: status == 200)
        self.samples.add(target, "list /s", rate)

    def _accept(self, target: str, controller: Served) -> None:
        connection = Connection(controller.url)
        taken = one_by_one(
            connection, (controller.start() for _ in range(self.requests // 2)), status=202
        )
        connection.close()
        self.samples.add(target, "accepted p50 ms", percentile(taken, 0.5))
        left = self.requests * 2

        def following() -> bytes | None:
            nonlocal left
            left -= 1
            return controller.run() if left >= 0 else None

        # A turn whose last row is still on its way keeps its chat busy: that was not taken in.
        rate = at_once(controller.url, CLIENTS, following, lambda status, _: status == 202)
        self.samples.add(target, "accepted /s", rate)

    def _commit(self) -> None:
        taken = self.commits.one_by_one(self.requests * 2)
        self.samples.add(COMMITS, "accepted p50 ms", percentile(taken, 0.5))
        self.samples.add(COMMITS, "accepted /s", len(taken) / sum(taken) * 1e3)

    def _read(self, target: str, controller: Served) -> None:
        connection = Connection(controller.url)
        pages = (controller.page() for _ in range(self.requests))
        self.samples.add(target, "page p50 ms", percentile(one_by_one(connection, pages), 0.5))
        size = len(connection.ask(controller.listing()))
        lists = iter([controller.listing()] * 20)
        taken = percentile(one_by_one(connection, lists), 0.5)
        connection.close()
        self.samples.add(target, "list ms/MiB", taken * MIB / size)

    def _start(self) -> None:
        for target, options in (
            (EMPTY, ()),
            (STARTED, ("--workspace-dir", str(self.fleet.root / "starting"))),
        ):
            began = time.perf_counter()
            service = self.fleet.controller(*options)
            took = time.perf_counter() - began
            connection = Connection(service.url)
            connection.ask(get("/api/v1/chats"))
            connection.close()
            self.samples.add(target, "s", took)
            self.samples.add(target, "MiB", memory(service.process.pid) / MIB)
            service.stop()
            self.fleet.services.remove(service)
