"""What the link costs beside a plain Autobahn echo, and what many idle links cost a controller.

Each round drives both kinds once, by fresh processes against two that serve all the time; the two
ends of a socket have a processor each where there are two.  Large messages travel on bulk, the
plain socket has but one lane.  What has no peer (a loaded lane beside an idle one, a replay beside
sending as much at once) is compared within the same round of the link.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from typing import Any
from urllib.request import Request, urlopen

from garcon.contract.limits import MIB
from garcon.testing.bench.processes import memory, processor_time
from garcon.testing.bench.report import Aim, Bound, Samples, report
from garcon.testing.bench.tunnel import say
from garcon.testing.fleet import Fleet, Service, eventually, free_port

LINK, PLAIN = "link", "plain Autobahn"
LOADED, IDLE = "link, bulk saturated", "link, idle"
LESS_LOADED = "link, bulk saturated by 256 KiB"
REPLAY, AT_ONCE = "replay of 16 MiB", "16 MiB at once"
LINKS = 64
LINKED = f"controller, {LINKS} links"
SETTLING, WATCHING = 10.0, 30.0
AIMS: tuple[Aim | Bound, ...] = (
    Aim("link.rtt_128", LINK, PLAIN, "rtt p50 us", "us", 1.3),
    *(
        Aim(
            f"link.mib_{short}_{way}", LINK, PLAIN, f"{name} {way} MiB/s", "MiB/s", 0.75, least=True
        )
        for short, name in (("1m", "1 MiB"), ("16m", "16 MiB"))
        for way in ("up", "down")
    ),
    Aim("link.wait_behind_16m", LINK, PLAIN, "behind 16 MiB ms", "ms", 0.03),
    Aim("link.control_p99_loaded", LOADED, IDLE, "control p99 us", "us", 3.0),
    Aim("link.replay_16m", REPLAY, AT_ONCE, "ms", "ms", 2.0),
    Bound("link.idle_mib", LINKED, "MiB a link", "MiB", 1.0),
    Bound("link.idle_cpu", LINKED, "CPU %", "%", 2.0),
)
_OWN = {
    "idle control p99 us": (IDLE, "control p99 us"),
    "1 MiB loaded control p99 us": (LOADED, "control p99 us"),
    "1 MiB loaded control p50 us": (LOADED, "control p50 us"),
    "1 MiB load MiB/s": (LOADED, "load MiB/s"),
    "256 KiB loaded control p99 us": (LESS_LOADED, "control p99 us"),
    "256 KiB loaded control p50 us": (LESS_LOADED, "control p50 us"),
    "256 KiB load MiB/s": (LESS_LOADED, "load MiB/s"),
    "16 MiB once ms": (AT_ONCE, "ms"),
    "replay ms": (REPLAY, "ms"),
}


def run(
    file: str | None,
    rounds: int = 7,
    *,
    echoes: int = 1500,
    links: int = LINKS,
    settling: float = SETTLING,
    watching: float = WATCHING,
) -> int:
    """Measure and report; 0 whatever the verdict."""
    samples = Samples()
    with Fleet() as fleet:
        sockets(fleet, samples, rounds, echoes)
    with Fleet() as fleet:
        idle(fleet, samples, links, settling, watching)
    print(f"{rounds} rounds of {echoes} round trips, 32 messages of 1 MiB and 4 of 16 each way")
    print(f"idle: {links} links for {watching:.0f} s")
    report("link", samples, AIMS, file)
    return 0


def sockets(fleet: Fleet, samples: Samples, rounds: int, echoes: int) -> None:
    """Measure round trips, throughput, waiting and replay."""
    ports = {}
    for kind in ("link", "plain"):
        ports[kind] = free_port()
        argv = _argv("ends", "serve", kind, "--port", str(ports[kind]))
        service = fleet.start(kind, fleet.root, argv)
        fleet.await_ready(service, re.compile("Listening"))
    for number in range(rounds + 1):
        say(f"round {number} of {rounds}" if number else "warming up")
        for kind in ("link", "plain") if number % 2 else ("plain", "link"):
            found = _drive(fleet, kind, ports[kind], echoes if number else 200)
            if number:
                _keep(samples, kind, found)


def _argv(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"garcon.testing.bench.{module}", *arguments]


def _drive(fleet: Fleet, kind: str, port: int, echoes: int) -> dict[str, float]:
    argv = _argv("ends", "drive", kind, "--port", str(port), "--echoes", str(echoes))
    done = subprocess.run(
        argv,
        env=fleet.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
    )
    if done.returncode:
        raise AssertionError(f"the {kind} driver failed:\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _keep(samples: Samples, kind: str, found: dict[str, float]) -> None:
    for metric, value in found.items():
        target, name = _OWN.get(metric, (LINK if kind == "link" else PLAIN, metric))
        samples.add(target, name, value)


def idle(fleet: Fleet, samples: Samples, links: int, settling: float, watching: float) -> None:
    """Measure what a controller needs for links that do nothing."""
    say(f"linking {links} executors")
    controller = fleet.controller()
    pid = controller.process.pid
    before = memory(pid)
    urls = [_create(controller, number) for number in range(links)]
    crowd = subprocess.Popen(
        _argv("crowd"),
        env=fleet.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert crowd.stdin is not None
        with crowd.stdin as pipe:
            pipe.write("\n".join(urls))
        eventually("all are ready", lambda: _ready(controller) == links, 60, 0.5)
        time.sleep(settling)
        say(f"watching them for {watching:.0f} s")
        began, spent = time.monotonic(), processor_time(pid)
        time.sleep(watching)
        spent = processor_time(pid) - spent
        took = time.monotonic() - began
        assert _ready(controller) == links, "some have left"
        samples.add(LINKED, "MiB a link", (memory(pid) - before) / MIB / links)
        samples.add(LINKED, "CPU %", 100 * spent / took)
    finally:
        crowd.kill()
        crowd.wait()


def _ask(controller: Service, path: str, body: dict[str, Any] | None = None) -> Any:
    descriptor = controller.descriptor()
    headers = {"Authorization": f"Bearer {descriptor['localCapability']}"}
    content = None
    if body is not None:
        headers["Content-Type"] = "application/json"
        content = json.dumps(body).encode()
    request = Request(f"{descriptor['baseUrl']}/api/v1{path}", content, headers)
    with urlopen(request, timeout=20) as answer:
        return json.loads(answer.read())


def _create(controller: Service, number: int) -> str:
    body = {"label": f"idle {number}", "direction": "executor-connects", "noTls": True}
    url: str = _ask(controller, "/executors", body)["connectionUrl"]
    return url


def _ready(controller: Service) -> int:
    found = _ask(controller, "/executors")["executors"]
    return sum(
        e["kind"] == "remote"
        and e["availability"] == "ready"
        and e["bulk"]["availability"] == "ready"
        for e in found
    )
