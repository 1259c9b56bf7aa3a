"""Why an executor's link is as it is, phase by phase, and what to do about it (pure).

Everything is read off the diagnostics of the controller; phases that only the worker can see are
said to be so.
"""

from __future__ import annotations

from garcon.cli.leftovers import age

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OK, FAILED, WAITING, NOT_REACHED, UNSEEN = "ok", "failed", "waiting", "not reached", "not visible"
NOTED = "noted"
"""It does no harm to the link there is, and may explain the one there is not."""

_NAMES = {
    "name": "name resolution",
    "tcp": "TCP",
    "proxy": "proxy",
    "tls": "TLS",
    "upgrade": "WebSocket upgrade",
    "noise": "encryption",
    "hello": "identity",
    "version": "version",
    "session": "session",
}


class Finding:
    """What is known of one phase."""

    __slots__ = ("name", "state", "text")

    def __init__(self, name: str, state: str, text: str = "") -> None:
        self.name = name
        self.state = state
        self.text = text

    def as_json(self) -> dict[str, str]:
        """Return it for a program."""
        return {"phase": self.name, "state": self.state, "text": self.text}

    def line(self) -> str:
        """Return it for a person."""
        return f"{self.name}: {self.state}{': ' + self.text if self.text else ''}"


class Examination:
    """All findings on one executor, and what to do: nothing when it `is_ready`."""

    __slots__ = ("advice", "findings", "is_ready")

    def __init__(self, findings: list[Finding], advice: list[str], is_ready: bool) -> None:
        self.findings = findings
        self.advice = advice
        self.is_ready = is_ready


def examine(told: dict[str, Any]) -> Examination:
    """Read an executor's diagnostics; `KeyError` and `TypeError` mean that they are malformed."""
    link = told["link"]
    is_ready = told["availability"] == "ready"
    if link is None:
        missing, what_to_do = _no_link(told)
        return Examination([missing, _grants(told)], [what_to_do], False)
    primary = link["primary"]
    phases = _phases(link, told["direction"])
    is_connected = primary["phase"] == "connected"
    if is_connected:
        findings = [Finding(_NAMES[p], OK) for p in phases]
        findings.append(_description(told, is_ready))
        advice: list[str] = [] if is_ready else [_DESCRIBE]
    else:
        findings, advice = _down(told, link, phases)
    strangers = link.get("wrongSecrets")
    # Where that is all that is known it has been said already, as a failure of the encryption.
    if strangers is not None and not any(f.state == FAILED and _is_noise(f) for f in findings):
        findings.append(_strangers(strangers))
        if not is_connected:
            advice.append(_STRANGERS.format(id=told["id"]))
    findings.append(_bulk(link["bulk"], is_connected))
    findings.append(_grants(told))
    if is_ready and not told["allowControllerCli"]:
        advice.append(
            "The garcon command on that machine may not use this controller; if it should,"
            f" `garcon executor update {told['id']} --allow-controller-cli true` lets it."
        )
    return Examination(findings, advice, is_ready)


_DESCRIBE = (
    "The worker is linked but has not said what it offers. Look at its log; restarting the worker"
    " links it anew."
)


def _no_link(told: dict[str, Any]) -> tuple[Finding, str]:
    if not told["enabled"]:
        return (
            Finding("link", FAILED, "the executor is disabled"),
            f"Enable it: `garcon executor enable {told['id']}`.",
        )
    return (
        Finding("link", FAILED, "the controller holds no link for it"),
        "A change of the executors could not be saved for certain, or the link is being replaced."
        " Try again in a few seconds; if it stays so, check the disk of the workspace and restart"
        " the controller.",
    )


def _phases(link: dict[str, Any], direction: str) -> list[str]:
    if link["dialledBy"] == "worker":
        return ["name", "tcp", "tls", "upgrade", "noise", "hello", "version"]
    way = ["proxy"] if link["throughProxy"] else ["name", "tcp"]
    return [*way, "tls", "upgrade", "noise", "hello", "version"]


def _down(
    told: dict[str, Any], link: dict[str, Any], phases: list[str]
) -> tuple[list[Finding], list[str]]:
    primary = link["primary"]
    worker_dials = link["dialledBy"] == "worker"
    error = primary["lastError"]
    if error is None:
        findings = [Finding(_NAMES[p], UNSEEN if worker_dials else NOT_REACHED) for p in phases]
        advice = [_nobody_came(told["id"]) if worker_dials else "The first attempt is under way."]
        return [*findings, _next(primary, worker_dials)], advice
    failed = "version" if error["kind"] == "version-mismatch" else error["stage"]
    at = phases.index(failed) if failed in phases else len(phases)
    findings = []
    for number, phase in enumerate(phases):
        if number == at:
            findings.append(Finding(_NAMES[phase], FAILED, _said(error)))
        elif number > at:
            findings.append(Finding(_NAMES[phase], NOT_REACHED))
        else:
            findings.append(Finding(_NAMES[phase], OK))
    if at == len(phases):
        findings.append(Finding(_NAMES["session"], FAILED, _said(error)))
    findings.append(_next(primary, worker_dials))
    return findings, [_advice(told["id"], link, error, failed)]


def _said(error: dict[str, Any]) -> str:
    times = "once" if error["count"] == 1 else f"{error['count']} times"
    ago = age(error["secondsAgo"])
    return f"{error['message']} ({error['kind']}, {times} by now, last {ago} ago)"


def _next(primary: dict[str, Any], worker_dials: bool) -> Finding:
    if primary["phase"] == "connecting":
        stage = _NAMES.get(primary["stage"] or "", "its beginning")
        return Finding("next attempt", WAITING, f"under way, at {stage}")
    if worker_dials:
        return Finding("next attempt", WAITING, "it is the worker who dials")
    seconds = primary["redialSeconds"]
    when = "is due now" if not seconds else f"in {age(seconds)}"
    return Finding("next attempt", WAITING, when)


def _description(told: dict[str, Any], is_ready: bool) -> Finding:
    if is_ready:
        return Finding("description", OK)
    error = told["lastError"]
    return Finding("description", WAITING, error["message"] if error else "asked for")


def _bulk(bulk: dict[str, Any], is_connected: bool) -> Finding:
    if bulk["phase"] == "ready":
        return Finding("bulk lane", OK)
    if not is_connected:
        return Finding("bulk lane", NOT_REACHED)
    error = bulk["lastError"]
    why = f"{bulk['phase']}{'; ' + _said(error) if error else ''}"
    return Finding("bulk lane", WAITING, f"{why}; large requests wait for it, all else works")


def _grants(told: dict[str, Any]) -> Finding:
    if not told["allowControllerCli"]:
        return Finding("grants", OK, "the worker's machine may not use the garcon command")
    more = ", and may manage executors" if told["allowExecutorManagement"] else ""
    return Finding("grants", OK, f"the worker's machine may use the garcon command{more}")


def _is_noise(finding: Finding) -> bool:
    return finding.name == _NAMES["noise"]


def _strangers(told: dict[str, Any]) -> Finding:
    times = "once" if told["count"] == 1 else f"{told['count']} times"
    return Finding(
        "wrong secrets",
        NOTED,
        "something reached this controller's link for this executor with a wrong secret"
        f" {times}, last {age(told['secondsAgo'])} ago",
    )


def _nobody_came(executor_id: str) -> str:
    return (
        "No worker has come to this controller as this executor since its link was opened. On the"
        " worker's machine, put the URL that"
        f" `garcon executor connection {executor_id}` reveals into GARCON_CONTROLLER_URL and start"
        " `garcon worker`; its log says how far it gets. A proxy in front of the controller must"
        " pass WebSockets at /executor/."
    )


def _advice(executor_id: str, link: dict[str, Any], error: dict[str, Any], phase: str) -> str:
    worker_dials = link["dialledBy"] == "worker"
    if phase == "version":
        theirs = link["peerVersion"]
        other = f"The worker is version {theirs}" if theirs else "The worker's version differs"
        return (
            f"{other}, the controller is {link['version']}: install the same release on both"
            " machines and restart both."
        )
    if phase == "noise":
        return _secret_advice(executor_id, worker_dials, error["kind"])
    if phase == "hello":
        return _HELLO.get(error["kind"], _LOGS)
    if phase == "session":
        return _SESSION.get(error["kind"], _LOGS)
    if worker_dials:
        return _nobody_came(executor_id)
    if phase == "proxy":
        return _PROXY
    if phase == "tls":
        return _TLS
    if phase == "upgrade":
        return _UPGRADE
    return _NAME if phase == "name" else _TCP


def _secret_advice(executor_id: str, worker_dials: bool, kind: str) -> str:
    if kind == "handshake-timeout":
        return (
            "The connection stands, but nothing came over it in time. Something between the two"
            " machines holds WebSocket messages back, or the other process hangs."
        )
    if worker_dials:
        return (
            "The worker that dialled has another secret. Reveal the right URL with"
            f" `garcon executor connection {executor_id}`, put it into GARCON_CONTROLLER_URL on the"
            " worker's machine and restart the worker."
        )
    return (
        "The worker has another secret. Reveal its URL with `garcon executor connection-url` on"
        " the worker's machine and hand it to"
        f" `garcon executor update {executor_id} --direction controller-connects"
        " --connection-url - --no-tls false` (true for a ws: address) here."
    )


_STRANGERS = (
    "If what came with a wrong secret is this executor's own worker, it has an old URL: reveal the"
    " right one with `garcon executor connection {id}`, put it into GARCON_CONTROLLER_URL on the"
    " worker's machine and restart the worker."
)
_LOGS = "The logs of the controller and of the worker say more; it is tried again by itself."
_NAME = (
    "The name in the worker's address has no address of a machine. Correct it with `garcon executor"
    " update`, or see to this machine's name service."
)
_TCP = (
    "Nothing takes a connection at the worker's address. See that the worker runs with --listen on"
    " that port and an address that is reached from here (--bind-address), and that no firewall"
    " lies between; where only a proxy leads out, name it in HTTPS_PROXY and restart the"
    " controller."
)
_PROXY = (
    "The way leads through the proxy that HTTPS_PROXY or ALL_PROXY named when the controller"
    " started. Correct its address, user name and password there, or list the worker's host in"
    " NO_PROXY, and restart the controller; the proxy must allow CONNECT to the worker's port."
)
_TLS = (
    "The TLS certificate at the worker's address is not accepted. It must name the address's host"
    " and come from an authority the controller trusts: set SSL_CERT_FILE to a file with that"
    " authority (also that of a proxy that opens TLS) and restart the controller, or correct the"
    " worker's --tls-cert."
)
_UPGRADE = (
    "Something answers at the worker's address, but not a worker. The path must be /executor on"
    " the worker's own port, or whatever a proxy in front of it maps there, and that proxy must"
    " pass WebSocket upgrades."
)
_HELLO = {
    "wrong-executor": (
        "That worker belongs to another executor already. Restart it to set it free, or link it"
        " with the executor it belongs to."
    ),
    "second-primary": (
        "Two processes link as this executor. Stop the one that should not; two workers need two"
        " executors."
    ),
    "link-full": "The controller holds as many links as it may. Disable executors not in use.",
    "handshake-timeout": (
        "The two sides share the secret, but one did not answer in time. It is overloaded or"
        " hangs; look at the load and the log of the worker's machine."
    ),
    "wrong-role": "The address leads to another controller, or a worker to another worker.",
}
_SESSION = {
    "liveness-timeout": (
        "The other side fell silent: the network between is interrupted, or the worker's machine"
        " sleeps or hangs. It is tried again by itself."
    ),
    "socket-closed": (
        "The other side closed the connection: the worker was stopped, or something between ended"
        " it. Start the worker if it does not run; else it is tried again by itself."
    ),
    "socket-error": "The network broke the connection. It is tried again by itself.",
    "record-limit": "The key was used up, which ends a connection by design; a new one follows.",
}


def figures(link: dict[str, Any]) -> list[str]:
    """Return what the lanes' counters say, in lines."""
    lines = []
    for name in ("primary", "bulk"):
        lane = link[name]
        parts = [f"{lane['attempts']} attempts, {lane['sessions']} sessions"]
        if lane["roundTripMs"] is not None:
            parts.append(f"round trip {lane['roundTripMs']:.1f} ms")
        if lane["silentSeconds"] is not None:
            parts.append(f"last heard {age(lane['silentSeconds'])} ago")
        if lane["queuedBytes"]:
            oldest = lane["oldestQueuedSeconds"] or 0.0
            parts.append(
                f"{lane['queuedBytes']} bytes in {lane['queuedMessages']} messages queued, the"
                f" oldest for {age(oldest)}"
            )
        causes = lane["causes"]
        parts += [f"{kind} {count}" for kind, count in sorted(causes.items())]
        lines.append(f"{name}: {'; '.join(parts)}")
    return lines
