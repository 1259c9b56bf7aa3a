"""What many chats cost: their list, taking input in, growth, and a start with ten thousand of them.

Each round measures everything once, peers in turn with what they are compared to.  Inputs are taken
in by a whole controller over HTTP, whose agent begins each turn at once and says nothing; a peer
commits one row at a time, each to the disk, in a file beside the controllers' own.

A virtual machine's disk takes a flush in a fraction of a millisecond where its host's cache answers
for it, which is less than a request takes.  So inputs are taken in once more where each commit
takes `FLUSH_MS` longer, for the controller and for its peer: about what a disk itself needs.
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
BURSTS, SETTLING = 3, 0.1
NEW = 50_000_000
"""The number of the first chat that is made."""

LIST, BARE = "1,000 chats", "bare twisted.web"
FEW, MANY = "few chats", "many chats"
COMMITS = "FULL commits one by one"
FLUSHED, FLUSHED_COMMITS = "few chats, flushed", "FULL commits, flushed"
FLUSH_MS = 2.0
STARTED = "start, 10,000 chats"
EMPTY = "start, no chats"
AIMS: tuple[Aim | Bound, ...] = (
    Aim("chats.list_1000_rate", LIST, BARE, "list /s", "/s", 0.5, least=True),
    Aim("chats.list_1000_p50", LIST, BARE, "list p50 ms", "ms", 2.0),
    Aim("chats.accept_rate_32", FEW, COMMITS, "accepted /s", "/s", 4.0, least=True),
    Aim("chats.accept_p50", FEW, COMMITS, "accepted p50 ms", "ms", 3.0),
    Aim(
        "chats.accept_rate_32_flushed",
        FLUSHED,
        FLUSHED_COMMITS,
        "accepted /s",
        "/s",
        4.0,
        least=True,
    ),
    Aim("chats.accept_p50_flushed", FLUSHED, FLUSHED_COMMITS, "accepted p50 ms", "ms", 3.0),
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

    def run(self, number: int, end: str = "hold") -> bytes:
        """Return a request for a turn of a chat, which goes on until it is stopped."""
        return post(
            "/api/v1/chats/run",
            {
                **self._input(end),
                "chatId": chat_id(number),
                "transcriptViewId": view_id(number),
            },
        )

    def answered(self, number: int) -> bytes:
        """Return a request for a turn that is over at once: what was said before is answered."""
        return self.run(number, "done")

    def start(self, number: int) -> bytes:
        """Return a request for a new chat, whose turn goes on until the chat is deleted."""
        return post(
            "/api/v1/chats/start",
            {
                **self._input(),
                "chatId": chat_id(number),
                "agentId": QUICK,
                "projectPath": str(self.project),
                "model": QUICK,
                "agentSettings": {"ownerId": QUICK, "schemaVersion": 1, "values": {}},
            },
        )

    def _input(self, end: str = "hold") -> dict[str, str]:
        self._next += 1
        name = f"bench-{self._next}"
        text = f"Do number {self._next} as well, and say when it is done.\n{end}"
        return {"clientRequestId": name, "clientMessageId": name, "command": text}

    def stop(self, number: int) -> bytes:
        """Return a request that ends a chat's turn."""
        self._next += 1
        body = {"clientRequestId": f"stop-{self._next}", "chatId": chat_id(number)}
        return post("/api/v1/chats/stop", body)

    def delete(self, number: int) -> bytes:
        """Return a request that takes a chat away."""
        return post("/api/v1/chats", {"chatId": chat_id(number)}, "DELETE")


@define(eq=False)
class Commits:
    """One file, one connection, one row a commit."""

    _db: sqlite3.Connection
    flush: float = 0.0
    """How many seconds each commit takes longer."""

    @classmethod
    def beside(cls, file: Path, flush: float = 0.0) -> Commits:
        """Make the file."""
        db = sqlite3.connect(file, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE inputs (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)")
        return cls(db, flush)

    def one_by_one(self, count: int) -> list[float]:
        """Return how long each of so many commits took, in milliseconds."""
        payload, taken = b"x" * 300, []
        for _ in range(count):
            began = time.perf_counter()
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("INSERT INTO inputs (payload) VALUES (?)", (payload,))
            self._db.execute("COMMIT")
            if self.flush:
                time.sleep(self.flush)
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
        bench.flushed_commits.close()
    print(
        f"{rounds} rounds; {FEW}: {few:,} of {rows_each:,} rows, {MANY}: {many:,} of"
        f" {rows_each:,}; {requests} requests of a kind in each"
    )
    commit = samples.median(COMMITS, "accepted p50 ms")
    if commit is not None and commit < 1:
        print(f"a FULL commit takes {commit:.2f} ms here: a cache answers for the disk")
    report("chats", samples, AIMS, file)
    return 0


@define(eq=False)
class Bench:
    """Everything that is measured, and what it is measured with."""

    fleet: Fleet
    samples: Samples
    requests: int
    commits: Commits = field(init=False)
    flushed_commits: Commits = field(init=False)
    few: Served = field(init=False)
    many: Served = field(init=False)
    flushed: Served = field(init=False)
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
        self.flushed = self._served("flushed", few, rows_each, {"QUICK_FLUSH_MS": str(FLUSH_MS)})
        self.listed = self._served("listed", 1_000, 4)
        connection = Connection(self.listed.url)
        content = connection.ask(self.listed.listing())
        connection.close()
        (root / "list.json").write_bytes(content)
        say(f"the list of 1,000 chats is {len(content) / MIB:.2f} MiB")
        argv = [sys.executable, "-m", "garcon.testing.bench.bare_site", str(root / "list.json")]
        self.bare = self.fleet.await_ready(self.fleet.start("bare", root, argv))
        self.commits = Commits.beside(root / "peer.sqlite")
        self.flushed_commits = Commits.beside(root / "flushed-peer.sqlite", FLUSH_MS / 1e3)

    def _served(
        self, name: str, chats: int, rows_each: int, environment: dict[str, str] | None = None
    ) -> Served:
        root, project = self.fleet.root, self.fleet.project("bench")
        fill(root / name, project, chats, rows_each)
        config = root / f"{name}-config"
        argv = [
            *(sys.executable, "-m", "garcon.testing.quick_controller"),
            *("--config-dir", str(config), "--workspace-dir", str(root / name)),
            *("--project-base-dir", str(self.fleet.projects)),
        ]
        service = self.fleet.start(name, config, argv, environment)
        return Served(self.fleet.await_ready(service), project, chats)

    def measure(self, number: int) -> None:
        """Make one round."""
        lists = [(LIST, self.listed.url), (BARE, self.bare.url)]
        for target, url in lists if number % 2 else lists[::-1]:
            self._list(target, url)
        served = [(FEW, self.few), (MANY, self.many)]
        for target, controller in served if number % 2 else served[::-1]:
            self._accept(target, controller)
        self._commit(COMMITS, self.commits)
        self._accept(FLUSHED, self.flushed)
        self._commit(FLUSHED_COMMITS, self.flushed_commits)
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
        numbers = range(NEW, NEW + self.requests // 2)
        connection = Connection(controller.url)
        taken = one_by_one(connection, map(controller.start, numbers), status=202)
        self.samples.add(target, "accepted p50 ms", percentile(taken, 0.5))
        one_by_one(connection, map(controller.delete, numbers))
        connection.close()
        rates = []
        for _ in range(BURSTS):
            chats = range(min(controller.chats, self.requests))
            rates.append(self._all_at_once(controller, map(controller.run, chats)))
            self._all_at_once(controller, map(controller.stop, chats))
            self._all_at_once(controller, map(controller.answered, chats))
            time.sleep(SETTLING)
        self.samples.add(target, "accepted /s", percentile(rates, 0.5))

    def _all_at_once(self, controller: Served, requests: Iterator[bytes]) -> float:
        """Return how many were answered well in a second, which all have to be."""
        wrong: list[bytes] = []

        def counts(status: int, body: bytes) -> bool:
            if status not in (200, 202):
                wrong.append(body)
            return True

        rate = at_once(controller.url, CLIENTS, lambda: next(requests, None), counts)
        assert not wrong, wrong[0]
        return rate

    def _commit(self, target: str, commits: Commits) -> None:
        taken = commits.one_by_one(self.requests)
        self.samples.add(target, "accepted p50 ms", percentile(taken, 0.5))
        self.samples.add(target, "accepted /s", len(taken) / sum(taken) * 1e3)

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
