"""Which running process a command talks to, and the proof that it is the one (control.md F.2).

Exactly two files are looked at, nothing falls back, and no secret is sent before the proof.
"""

from __future__ import annotations

import json

from garcon.cli.failures import (
    ARGUMENTS,
    BAD_REQUEST,
    DISCOVERY,
    OPERATIONAL,
    ApiError,
    BadAnswer,
    CommandFailure,
    RuntimeReplaced,
    bad_arguments,
)
from garcon.cli.http import exchange, request_bytes
from garcon.contract.routes import RUNTIME
from garcon.errors import StartupError
from garcon.local.descriptors import Descriptor, base64url, loopback_address, proof, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from garcon.cli.system import System
    from garcon.local.descriptors import Role
    from garcon.local.roots import ConfigRoot

PROOF_TIME = 5.0
_LARGEST_PROOF = 64 * 1024


class Endpoint:
    """One selected process: a snapshot of its descriptor, never read again to find another."""

    def __init__(self, descriptor: Descriptor, path: str) -> None:
        self.descriptor = descriptor
        self.role: Role = descriptor.role
        self._path = path
        address = loopback_address(descriptor.base_url)
        if address is None or address[0] != "http":
            raise CommandFailure(
                DISCOVERY, f"{path}: the command's endpoint must be plain HTTP", OPERATIONAL
            )
        self.origin = descriptor.base_url
        self.host, self.port = address[1], address[2]
        self.authority = f"[{self.host}]" if ":" in self.host else self.host
        self.authority += f":{self.port}"

    def unreached(self) -> str:
        """Say what it means that nobody was reached at the address that the descriptor names."""
        service = "worker" if self.role == "executor" else self.role
        told = f"{self._path} was left by a {service} that seems to have crashed; start it again"
        if has_only_loopback():
            told += ". Or this process has a network of its own, with nobody else in it: then it"
            told += f" cannot reach the {service}, and has to be run with network access"
        return told

    def was_replaced(self) -> bool:
        """Whether a successor has published itself.

        It is asked only after the endpoint failed, to end the wait sooner; the successor is never
        used.  The role's lease guarantees that our process is gone by then.
        """
        try:
            successor = read(self._path, self.role)
        except (OSError, StartupError):
            return False
        return successor.instance_id != self.descriptor.instance_id


def runtime_choice(option: str | None, environ: Mapping[str, str]) -> str:
    """Return ``auto``, ``controller`` or ``executor``: the flag, else the variable, else auto."""
    choice = option or environ.get("GARCON_RUNTIME") or "auto"
    if choice not in ("auto", "controller", "executor"):
        where = "--runtime" if option else "GARCON_RUNTIME"
        raise CommandFailure(
            ARGUMENTS, f"{where} must be auto, controller or executor", BAD_REQUEST
        )
    return choice


def select(
    root: ConfigRoot,
    runtime: str,
    server: str | None,
    warn: Callable[[str], None],
    *,
    controller_only: bool = False,
) -> Endpoint:
    """Return the endpoint to use.  Only an absent file counts as absent.

    For what is `controller_only`, ``auto`` of the two takes the controller, however old it is.
    """
    controller = executor = None
    if runtime != "executor":
        controller = _read(root, "controller")
    if runtime != "controller":
        executor = _read(root, "executor")
    chosen = controller or executor
    if chosen is None:
        raise CommandFailure(DISCOVERY, _nothing_runs(root, runtime), OPERATIONAL)
    if controller is not None and executor is not None and not controller_only:
        chosen = executor if executor.started_at > controller.started_at else controller
        warn(
            f"warning: a controller and a worker both run on {root.path}; using the {chosen.role}"
            " (choose with --runtime controller or --runtime executor)"
        )
    if server is not None and server != chosen.base_url:
        raise CommandFailure(
            DISCOVERY,
            f"--server {server} is not the selected {chosen.role}, which is {chosen.base_url}",
            OPERATIONAL,
        )
    return Endpoint(chosen, root.descriptor(chosen.role))


def _read(root: ConfigRoot, role: Role) -> Descriptor | None:
    path = root.descriptor(role)
    try:
        return read(path, role)
    except FileNotFoundError:
        return None
    except StartupError as e:
        raise CommandFailure(DISCOVERY, e.text, OPERATIONAL, e.code) from None
    except OSError as e:
        raise CommandFailure(
            DISCOVERY, f"cannot read {path}: {e.strerror or e}", OPERATIONAL
        ) from None


def _nothing_runs(root: ConfigRoot, runtime: str) -> str:
    from garcon.cli.invocation import shell_word

    what = {"auto": "controller or worker", "executor": "worker"}.get(runtime, runtime)
    service = "worker" if runtime == "executor" else "controller"
    start = f"garcon {service} --config-dir {shell_word(root.path)}"
    return (
        f"no {what} runs on {root.path}; start one with `{start}`,"
        " or name another root with --config-dir"
    )


def prove(endpoint: Endpoint, system: System, seconds: float = PROOF_TIME) -> None:
    """Make the endpoint prove that it holds the descriptor's secret, without showing that secret.

    Raises `RuntimeReplaced` for another instance or a wrong proof, `TransportFailure` when no
    answer came, `ApiError` for an HTTP error.
    """
    descriptor = endpoint.descriptor
    challenge = base64url(system.random(32))
    request = request_bytes(
        RUNTIME.method,
        f"{RUNTIME.path}?challenge={challenge}",
        endpoint.authority,
        [("Accept", "application/json")],
        None,
    )
    answer = exchange(endpoint.host, endpoint.port, request, seconds, system.clock, _LARGEST_PROOF)
    if 300 <= answer.status < 400:
        raise BadAnswer("the endpoint redirects, which Garcon never does")
    if answer.status != 200:
        raise ApiError(answer.status, "", "the endpoint proves nothing", False, None)
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or said.get("schemaVersion") != 1:
        raise BadAnswer("the endpoint's proof is malformed")
    expected = proof(descriptor.local_capability, descriptor.instance_id, challenge)
    given = said.get("proof")
    if said.get("instanceId") != descriptor.instance_id:
        raise RuntimeReplaced("another process answers at the endpoint")
    if not isinstance(given, str) or not _equal(
        given.encode("utf-8", "surrogatepass"), expected.encode()
    ):
        raise RuntimeReplaced("the endpoint's proof is wrong: it is not the process it claims")


def _equal(one: bytes, other: bytes) -> bool:
    """Compare in constant time."""
    try:
        # What hmac.compare_digest is, without loading OpenSSL.
        from _operator import _compare_digest
    except ImportError:
        from hmac import compare_digest

        return compare_digest(one, other)
    return bool(_compare_digest(one, other))


def has_only_loopback(table: str = "/proc/net/dev") -> bool:
    """Whether the kernel lists no other network interface than the loopback one."""
    try:
        with open(table) as lines:
            names = {line.partition(":")[0].strip() for line in lines if ":" in line}
    except OSError:
        return False
    return names == {"lo"}


def check_server(server: str | None) -> None:
    """Refuse an assertion that no descriptor could ever meet."""
    if server is not None and loopback_address(server) is None:
        raise bad_arguments("--server must be an http://HOST:PORT on loopback")
