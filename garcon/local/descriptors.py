"""Runtime descriptors: how the command finds a running process and proves it is the one.

Published with 0600 when a process listens, removed by the same process only (server.md B.6-B.8,
control.md F.1).
"""

from __future__ import annotations

import binascii
import json
import os

from garcon.errors import StartupError
from garcon.local.files import private_directory, read_private, remove_if_there, write_private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from garcon.local.files import Path

    Role = Literal["controller", "executor"]

SCHEMA_VERSION = 1
GATEWAY_KIND = "executor-cli"
CAPABILITY_PREFIX = "garcon_local_"
PROOF_PREFIX = b"garcon-runtime-proof-v1"

_LARGEST = 64 * 1024
_BASE64URL = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


class BadDescriptor(StartupError):
    """A descriptor file does not say what it must."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "BAD_DESCRIPTOR")


class Descriptor:
    """Where one process listens and which secret opens it.  `started_at` is milliseconds since the
    epoch.

    A controller's has `workspace_dir`; a worker gateway's has not, and has its own `kind` in the
    file.
    """

    __slots__ = (
        "base_url",
        "instance_id",
        "local_capability",
        "pid",
        "role",
        "started_at",
        "workspace_dir",
    )

    def __init__(
        self,
        *,
        role: Role,
        instance_id: str,
        started_at: int | float,
        pid: int,
        base_url: str,
        local_capability: str,
        workspace_dir: str | None = None,
    ) -> None:
        self.role: Role = role
        self.instance_id = instance_id
        self.started_at = started_at
        self.pid = pid
        self.base_url = base_url
        self.local_capability = local_capability
        self.workspace_dir = workspace_dir

    def __repr__(self) -> str:
        # Never the capability.
        return f"<Descriptor {self.role} {self.instance_id} at {self.base_url}>"

    def fields(self) -> dict[str, Any]:
        """Return the file's content."""
        fields: dict[str, Any] = {
            "schemaVersion": SCHEMA_VERSION,
            "instanceId": self.instance_id,
            "startedAt": self.started_at,
            "pid": self.pid,
            "baseUrl": self.base_url,
            "localCapability": self.local_capability,
        }
        if self.role == "executor":
            fields["kind"] = GATEWAY_KIND
        else:
            fields["workspaceDir"] = self.workspace_dir
        return fields


def publish(path: Path, descriptor: Descriptor) -> None:
    """Write a descriptor; call it only once the listener is bound."""
    _publish(path, descriptor.fields())


def publish_older(path: Path, descriptor: Descriptor) -> None:
    """Write the older form of a named workspace: its time is an ISO string
    (existing-clients.md).
    """
    fields = descriptor.fields()
    fields["startedAt"] = iso_time(descriptor.started_at)
    _publish(path, fields)


def _publish(path: Path, fields: dict[str, Any]) -> None:
    private_directory(os.path.dirname(os.fspath(path)) or ".")
    write_private(path, json.dumps(fields, indent=2).encode() + b"\n")


def clear(path: Path) -> None:
    """Remove a predecessor's descriptor; a start that cannot do so must fail, which `StartupError`
    says.
    """
    try:
        remove_if_there(path)
    except OSError as e:
        raise StartupError(f"cannot remove {os.fspath(path)}: {e.strerror or e}") from e


def remove_if_ours(path: Path, instance_id: str) -> bool:
    """Remove a descriptor, of either form, only if it names this process; return whether it did.

    One that was opened to others meanwhile is ours all the same, and all the more to be removed.
    """
    try:
        fields = json.loads(read_private(path, _LARGEST, secure=False))
    except (OSError, StartupError, ValueError, RecursionError):
        return False
    if not isinstance(fields, dict) or fields.get("instanceId") != instance_id:
        return False
    return remove_if_there(path)


def read(path: Path, role: Role) -> Descriptor:
    """Return the descriptor of a role; `FileNotFoundError` only when the file is absent.

    An insecure file is `InsecureFile`, a malformed one `BadDescriptor`; neither may be taken for
    absence.
    """
    name = os.fspath(path)
    content = read_private(path, _LARGEST)
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        raise BadDescriptor(f"{name} is not valid JSON") from None
    if not isinstance(fields, dict):
        raise BadDescriptor(f"{name} is not a descriptor")
    wrong = _wrong_field(fields, role)
    if wrong:
        raise BadDescriptor(f"{name} has no valid {wrong}")
    return Descriptor(
        role=role,
        instance_id=fields["instanceId"],
        started_at=_milliseconds(fields["startedAt"]) or 0,
        pid=fields["pid"],
        base_url=fields["baseUrl"],
        local_capability=fields["localCapability"],
        workspace_dir=fields.get("workspaceDir"),
    )


def _wrong_field(fields: dict[str, Any], role: Role) -> str | None:
    """Return the name of the first field that breaks control.md F.1."""
    version = fields.get("schemaVersion")
    pid = fields.get("pid")
    checks = (
        ("schemaVersion", version == SCHEMA_VERSION and not isinstance(version, bool)),
        ("instanceId", _is_instance(fields.get("instanceId"))),
        ("startedAt", _milliseconds(fields.get("startedAt")) is not None),
        ("pid", isinstance(pid, int) and not isinstance(pid, bool) and pid > 0),
        ("baseUrl", loopback_address(fields.get("baseUrl")) is not None),
        ("localCapability", is_capability(fields.get("localCapability"))),
    )
    for name, fine in checks:
        if not fine:
            return name
    if role == "executor":
        if fields.get("kind") != GATEWAY_KIND:
            return "kind"
        return "workspaceDir" if "workspaceDir" in fields else None
    if fields.get("kind") is not None:
        return "kind"
    return None if _is_text(fields.get("workspaceDir"), 65_536) else "workspaceDir"


def _is_instance(value: object) -> bool:
    """Whether this can name a process: a lone surrogate, for one, could not be proven."""
    return isinstance(value, str) and _is_text(value, 128) and value.isprintable()


def _is_text(value: object, most: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= most and value.strip() == value


def _milliseconds(value: object) -> int | float | None:
    """Return a start time in milliseconds; older files carry an ISO string."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        # The comparison also refuses NaN, which json accepts.
        return value if 0 <= value < 1e15 else None
    if not isinstance(value, str):
        return None
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return None if moment.tzinfo is None else moment.timestamp() * 1000


def iso_time(milliseconds: int | float) -> str:
    """Return a time as ISO text with milliseconds and ``Z``."""
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_capability() -> str:
    """Return a fresh local capability (server.md B.7)."""
    return CAPABILITY_PREFIX + base64url(os.urandom(32))


def is_capability(text: object) -> bool:
    """Whether `text` has the form of a local capability."""
    return (
        isinstance(text, str)
        and text.startswith(CAPABILITY_PREFIX)
        and is_challenge(text[len(CAPABILITY_PREFIX) :])
    )


def is_challenge(text: object) -> bool:
    """Whether `text` is 43 base64url characters."""
    return isinstance(text, str) and len(text) == 43 and _BASE64URL.issuperset(text)


def base64url(data: bytes) -> str:
    """Return unpadded base64url."""
    coded = binascii.b2a_base64(data, newline=False)
    return coded.decode("ascii").rstrip("=").replace("+", "-").replace("/", "_")


def proof(capability: str, instance_id: str, challenge: str) -> str:
    """Return what only the holder of `capability` can answer to `challenge` (server.md B.8)."""
    message = b"\0".join((PROOF_PREFIX, instance_id.encode(), challenge.encode()))
    return base64url(_hmac_sha256(capability.encode(), message))


def _hmac_sha256(key: bytes, message: bytes) -> bytes:
    # hmac.digest loads OpenSSL; where the interpreter has its own SHA-256 the command starts 4 ms
    # sooner without it.
    sha256 = _sha256()
    if len(key) > 64:
        key = sha256(key).digest()
    key = key.ljust(64, b"\0")
    inner: bytes = sha256(bytes(b ^ 0x36 for b in key) + message).digest()
    outer: bytes = sha256(bytes(b ^ 0x5C for b in key) + inner).digest()
    return outer


def _sha256() -> Any:
    for name in ("_sha256", "_sha2"):
        try:
            return __import__(name).sha256
        except (ImportError, AttributeError):
            continue
    from hashlib import sha256

    return sha256


def loopback_address(url: object) -> tuple[str, str, int] | None:
    """Return scheme, host and port of a base URL on loopback, or None when it is anything else.

    No path, query, fragment or credentials; the host is ``localhost``, in 127.0.0.0/8, or
    ``[::1]``.
    """
    if not isinstance(url, str) or not url.isascii() or not url.isprintable():
        return None
    scheme, mark, rest = url.partition("://")
    if not mark or scheme not in ("http", "https"):
        return None
    if rest.startswith("[::1]"):
        host, rest = "::1", rest[5:]
    else:
        host, colon, port = rest.partition(":")
        rest = colon + port
    if not (host in ("localhost", "::1") or _is_ipv4_loopback(host)):
        return None
    if not rest:
        return scheme, host, 80 if scheme == "http" else 443
    digits = rest[1:]
    if rest[0] != ":" or not digits.isdigit() or len(digits) > 5 or not 0 < int(digits) < 65_536:
        return None
    return scheme, host, int(digits)


def _is_ipv4_loopback(host: str) -> bool:
    parts = host.split(".")
    return (
        len(parts) == 4
        and parts[0] == "127"
        and all(p.isdigit() and len(p) <= 3 and int(p) < 256 for p in parts)
    )
