"""What the bridge costs: a request through a worker's gateway, beside two other ways to the
controller.

``direct`` is the controller's own HTTP port, ``gateway`` the worker's gateway and the link behind
it (plain ``ws:``, encrypted by Noise), ``ssh -R`` a forwarded port that leads to the controller's
port. All three carry the same requests, each on a connection of its own, as the command makes them.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode

from garcon.contract.limits import BRIDGE_BULK_REPLY, MIB
from garcon.testing.bench.many import rate
from garcon.testing.bench.report import Aim, Samples, percentile, report
from garcon.testing.bench.requests import Target, throughput, times
from garcon.testing.bench.tunnel import missing, open_tunnel, say
from garcon.testing.fleet import Fleet, Service

SSH = "ssh -R"
AIMS = (
    Aim("bridge.fresh_p50", "gateway", SSH, "small p50 ms", "ms", 0.9),
    Aim("bridge.fresh_p99", "gateway", SSH, "small p99 ms", "ms", 0.5),
    Aim("bridge.rate_16", "gateway", SSH, "16 at once /s", "/s", 1.0, least=True),
    Aim("bridge.mib_1m", "gateway", SSH, "1 MiB MiB/s", "MiB/s", 4.0, least=True),
    Aim("bridge.mib_8m", "gateway", SSH, "8 MiB MiB/s", "MiB/s", 0.9, least=True),
)
CLIENTS = 16
LINE = 60_000
SLACK = 48 * 1024


def _chat(fleet: Fleet, controller: Service, project: Path, prompt: str) -> tuple[str, str]:
    done = fleet.garcon(
        controller,
        *("start", "--agent", "scripted", "--model", "scripted", "--cwd", str(project), "-"),
        stdin=prompt,
    )
    return done.handle()


def filling(size: int) -> str:
    """Return a prompt whose turn makes a transcript page of about `size` bytes.

    The page holds the prompt and what the agent says of it, so each is half of the page.
    """
    half = (size - SLACK) // 2
    lines = [LINE] * (half // LINE) + ([half % LINE] if half % LINE > 100 else [])
    return "\n".join("say " + "x" * (length - 5) for length in lines)


def _target(service: Service, name: str, instance: str, url: str | None = None) -> Target:
    descriptor = service.descriptor()
    headers = {
        "Accept": "application/json",
        "Authorization": f"Bearer {descriptor['localCapability']}",
        "X-Garcon-Server-Instance": instance,
    }
    return Target(name, url or descriptor["baseUrl"], headers)


def _messages(chat: str) -> str:
    return "/api/v1/chats/messages?" + urlencode({"chatId": chat, "limit": 200})


def run(
    file: str | None,
    rounds: int = 9,
    requests: int = 300,
    seconds: float = 1.5,
    large: int = 4,
) -> int:
    """Measure and report; 0 whatever the verdict."""
    with Fleet() as fleet:
        say("starting a controller and a worker")
        controller, worker, _ = fleet.pair()
        context = Target("direct", controller.descriptor()["baseUrl"], _bearer(controller))
        instance = json.loads(context.get("/api/v1/cli/context"))["serverInstanceId"]
        targets = [
            _target(controller, "direct", instance),
            _target(worker, "gateway", instance),
        ]
        why_not = missing()
        if why_not is None:
            targets.append(_target(controller, SSH, instance, open_tunnel(fleet, controller.port)))
        say("filling chats")
        project = fleet.project("bench")
        chat, turn = _chat(fleet, controller, project, "say done")
        small = "/api/v1/chats/turn-receipt?" + urlencode({"chatId": chat, "turnId": turn})
        big = {}
        for name, size in (("1 MiB", MIB), ("8 MiB", BRIDGE_BULK_REPLY)):
            big[name] = _messages(_chat(fleet, controller, project, filling(size))[0])
        sizes = {name: len(targets[0].get(path)) / MIB for name, path in big.items()}
        samples = Samples()
        for number in range(rounds + 1):
            say(f"round {number} of {rounds}" if number else "warming up")
            turned = targets[number % len(targets) :] + targets[: number % len(targets)]
            for target in turned:
                taken = times(target, small, requests if number else 50)
                together = rate(target, small, CLIENTS, seconds if number else seconds / 4)
                rates = {name: throughput(target, path, large) for name, path in big.items()}
                if number:
                    samples.add(target.name, "16 at once /s", together)
                    samples.add(target.name, "small p50 ms", percentile(taken, 0.5))
                    samples.add(target.name, "small p99 ms", percentile(taken, 0.99))
                    samples.add(target.name, "small /s", len(taken) / sum(taken) * 1e3)
                    for name, moved in rates.items():
                        samples.add(target.name, f"{name} MiB/s", moved)
    print(
        f"{rounds} rounds; in each, for each target, {requests} small requests one after the other,"
        f" {seconds} s of {CLIENTS} clients, and {large} large replies of each size"
    )
    print("small: GET /chats/turn-receipt of a settled turn (primary lane), a connection for each")
    shown = ", ".join(f"{name} is {size:.2f} MiB" for name, size in sizes.items())
    print(f"large: GET /chats/messages, a page of one chat (bulk lane); {shown}")
    if why_not is not None:
        print(f"no peer: {why_not}, so the aims cannot be judged here")
    report("bridge", samples, AIMS, file)
    return 0


def _bearer(service: Service) -> dict[str, str]:
    return {"Authorization": f"Bearer {service.descriptor()['localCapability']}"}
