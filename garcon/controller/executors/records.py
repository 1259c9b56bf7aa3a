"""What is remembered of each remote executor, and the rules for making and changing it, as values.

Pure (control.md E.3-E.6, E.9): requests and records in, records out; nothing here saves or
connects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, structs

from garcon.contract.connection_url import (
    Address,
    expand,
    format_connection_url,
    inbound_address,
    is_secret,
    parse_address,
    parse_connection_url,
    require_tls_choice,
)
from garcon.contract.executors import (
    Connection,
    ConnectionEdit,
    CreateExecutor,
    Direction,
    UpdateExecutor,
)
from garcon.contract.ids import is_uuid4
from garcon.contract.limits import LABEL_CHARACTERS, URL_CHARACTERS
from garcon.errors import GarconError, validation

LOCAL_LABEL = "Local"
SHOWN = 3
"""How many chats a refusal names."""

NO_ADDRESS = (
    "No address is known that a worker could dial: start the controller with --public-url, "
    "or give the executor an advertised URL."
)
PLAIN_BASE = (
    "Others reach this controller by http:, so the worker would dial a ws: address, which needs "
    "the explicit choice of --no-tls true; otherwise start the controller with an https: "
    "--public-url, or give the executor a wss: --advertise-url."
)


class Inbound(Struct, frozen=True, rename="camel", tag_field="kind", tag="executor-connects"):
    """The worker dials; None inherits the address from the public base at each reveal."""

    advertised_url: str | None


class Outbound(Struct, frozen=True, rename="camel", tag_field="kind", tag="controller-connects"):
    """The controller dials."""

    target_url: str


class ExecutorRecord(Struct, frozen=True, rename="camel", kw_only=True):
    """One entry of ``executors.json``.  Holds the secret, so it never shows itself."""

    id: str
    label: str
    enabled: bool
    secret: str
    no_tls: bool
    allow_controller_cli: bool = False
    allow_executor_management: bool = False
    allow_unverified_tls: bool = False
    connection: Inbound | Outbound

    @property
    def direction(self) -> Direction:
        return "executor-connects" if isinstance(self.connection, Inbound) else OUTBOUND

    @property
    def address(self) -> str | None:
        """The saved address, without the secret; None when it is inherited."""
        if isinstance(self.connection, Inbound):
            return self.connection.advertised_url
        return self.connection.target_url

    def __repr__(self) -> str:
        return f"<ExecutorRecord {self.id}>"


OUTBOUND: Literal["controller-connects"] = "controller-connects"


def check_record(record: ExecutorRecord) -> None:
    """Check one saved entry; raises ``VALIDATION_FAILED``."""
    if not is_uuid4(record.id):
        raise validation("an executor's id is malformed")
    if not record.label.strip() or len(record.label) > LABEL_CHARACTERS:
        raise validation("an executor's label is malformed")
    if not is_secret(record.secret):
        raise validation("an executor's secret is malformed")
    address = None if record.address is None else parse_address(record.address)
    if address is not None:
        require_tls_choice(address, record.no_tls)
    if record.allow_unverified_tls and record.direction != OUTBOUND:
        raise validation("allowUnverifiedTls is only for executors that the controller dials")


def check_all(records: Iterable[ExecutorRecord]) -> None:
    """Check a whole saved list; old duplicate labels stay readable."""
    ids: set[str] = set()
    secrets: set[str] = set()
    for record in records:
        check_record(record)
        if record.id in ids or record.secret in secrets:
            raise validation("two executors share an id or a secret")
        ids.add(record.id)
        secrets.add(record.secret)


def create(
    request: CreateExecutor,
    executor_id: str,
    new_secret: str,
    others: Iterable[ExecutorRecord],
    public_base: str | None,
) -> ExecutorRecord:
    """Return the record of a new executor (E.3).  `new_secret` is for one that dials us."""
    others = list(others)
    label = _label(request.label, others)
    secret, connection = new_secret, _connection_of(request, executor_id)
    if isinstance(connection, Outbound):
        secret, connection = _dialled(request.connection_url, others)
    record = ExecutorRecord(
        id=executor_id,
        label=label,
        enabled=True,
        secret=secret,
        no_tls=request.no_tls,
        allow_controller_cli=request.allow_controller_cli,
        allow_executor_management=request.allow_executor_management,
        allow_unverified_tls=request.allow_unverified_tls,
        connection=connection,
    )
    return _settled(record, public_base)


def update(
    record: ExecutorRecord,
    request: UpdateExecutor,
    others: Iterable[ExecutorRecord],
    public_base: str | None,
) -> ExecutorRecord:
    """Return what `record` becomes (E.4); `others` are all but itself."""
    others = list(others)
    if all(value is UNSET for value in structs.asdict(request).values()):
        raise validation("An update names at least one thing to change.")
    changed = record
    if not isinstance(request.label, UnsetType) and request.label.strip() != record.label.strip():
        changed = structs.replace(changed, label=_label(request.label, others))
    for name in ("enabled", "allow_controller_cli", "allow_executor_management"):
        value = getattr(request, name)
        if value is not UNSET:
            changed = structs.replace(changed, **{name: value})
    if not isinstance(request.connection, UnsetType):
        changed = _settled(_edited(changed, request.connection, others), public_base)
    return changed


def needs_idle(old: ExecutorRecord, new: ExecutorRecord) -> bool:
    """Whether a change replaces the connector, and so may not happen under running work (E.4)."""
    return (
        old.enabled != new.enabled
        or old.secret != new.secret
        or old.no_tls != new.no_tls
        or old.allow_unverified_tls != new.allow_unverified_tls
        or old.direction != new.direction
        or (new.direction == OUTBOUND and old.connection != new.connection)
    )


def grants_differ(old: ExecutorRecord, new: ExecutorRecord) -> bool:
    """Whether a change ends the authority that was given before (E.7)."""
    return (
        old.allow_controller_cli != new.allow_controller_cli
        or old.allow_executor_management != new.allow_executor_management
    )


def revealed(record: ExecutorRecord, public_base: str | None) -> Connection:
    """Return the connection to show on purpose; 400 when no address can be formed."""
    address = _address(record, public_base)
    if address is None:
        raise validation(NO_ADDRESS)
    _require_tls_choice(record, address)
    return Connection(
        connection_url=format_connection_url(address.url, record.secret),
        no_tls=record.no_tls,
        allow_unverified_tls=record.allow_unverified_tls,
    )


def _label(text: str, others: list[ExecutorRecord]) -> str:
    label = text.strip()
    if not label or len(label) > LABEL_CHARACTERS:
        raise validation(f"A label has 1 to {LABEL_CHARACTERS} characters and is not blank.")
    key = label.casefold()
    if key == LOCAL_LABEL.casefold():
        raise validation("The label Local is taken by the controller's own executor.")
    if any(other.label.strip().casefold() == key for other in others):
        raise validation("Another executor has this label already.")
    return label


def _connection_of(request: CreateExecutor, executor_id: str) -> Inbound | Outbound:
    if request.direction == OUTBOUND:
        if request.advertised_url is not UNSET:
            raise validation("advertisedUrl is only for executors that dial the controller.")
        return Outbound("")
    if request.connection_url is not UNSET:
        raise validation("connectionUrl is only for executors that the controller dials.")
    if isinstance(request.advertised_url, UnsetType):
        return Inbound(None)
    if not 1 <= len(request.advertised_url) <= URL_CHARACTERS:
        raise validation(f"advertisedUrl has 1 to {URL_CHARACTERS} characters.")
    if "#" in request.advertised_url:
        raise validation("advertisedUrl carries no secret; the controller makes it.")
    return Inbound(parse_address(expand(request.advertised_url, executor_id)).url)


def _dialled(text: str | UnsetType, others: list[ExecutorRecord]) -> tuple[str, Outbound]:
    if isinstance(text, UnsetType):
        raise validation("connectionUrl is needed: it carries the worker's address and secret.")
    url = parse_connection_url(text)
    _require_own_secret(url.secret, others)
    return url.secret, Outbound(url.address.url)


def _require_own_secret(secret: str, others: list[ExecutorRecord]) -> None:
    if any(other.secret == secret for other in others):
        raise validation("Another executor has this secret already.")


def _edited(
    record: ExecutorRecord, edit: ConnectionEdit, others: list[ExecutorRecord]
) -> ExecutorRecord:
    secret, connection = record.secret, record.connection
    if not isinstance(edit.connection_url, UnsetType):
        url = parse_connection_url(edit.connection_url)
        _require_own_secret(url.secret, others)
        secret = url.secret
        connection = (
            Outbound(url.address.url) if edit.direction == OUTBOUND else Inbound(url.address.url)
        )
    elif edit.direction != record.direction:
        raise validation("Changing the direction needs a connectionUrl.")
    unverified = edit.allow_unverified_tls
    if isinstance(unverified, UnsetType):
        unverified = record.allow_unverified_tls and edit.direction == OUTBOUND
    return structs.replace(
        record,
        secret=secret,
        connection=connection,
        no_tls=edit.no_tls,
        allow_unverified_tls=unverified,
    )


def _settled(record: ExecutorRecord, public_base: str | None) -> ExecutorRecord:
    """Check the TLS choices together with the address they are for."""
    if record.allow_unverified_tls and record.direction != OUTBOUND:
        raise validation("allowUnverifiedTls is only for executors that the controller dials.")
    address = _address(record, public_base)
    if address is None:
        return record
    _require_tls_choice(record, address)
    return structs.replace(
        record, allow_unverified_tls=record.allow_unverified_tls and address.is_tls
    )


def _require_tls_choice(record: ExecutorRecord, address: Address) -> None:
    """Of an address that nobody typed, say where it comes from."""
    if record.address is None and not address.is_tls and not record.no_tls:
        raise validation(PLAIN_BASE)
    require_tls_choice(address, record.no_tls)


def _address(record: ExecutorRecord, public_base: str | None) -> Address | None:
    if record.address is not None:
        return parse_address(record.address)
    if public_base is None:
        return None
    return parse_address(inbound_address(public_base, record.id))


def not_found() -> GarconError:
    """``EXECUTOR_NOT_FOUND`` (E.8)."""
    return GarconError("EXECUTOR_NOT_FOUND", "There is no such executor.", status=404)


def local_not_managed() -> GarconError:
    """``EXECUTOR_NOT_FOUND`` of Local, in the words that a worker's gateway has for it."""
    return GarconError(
        "EXECUTOR_NOT_FOUND", "The Local executor is not managed this way.", status=404
    )


def in_use(chats: Sequence[str]) -> GarconError:
    """``EXECUTOR_IN_USE``: this change has to wait for the work of some chats (E.8)."""
    named = ", ".join(chats[:SHOWN])
    more = f" and {len(chats) - SHOWN} more" if len(chats) > SHOWN else ""
    return GarconError(
        "EXECUTOR_IN_USE",
        f"Work is going on here in chat {named}{more}; stop it first, or wait for it to end.",
        status=409,
    )


def executor_unavailable(text: str = "The executor is not connected.") -> GarconError:
    """``EXECUTOR_UNAVAILABLE`` (E.8)."""
    return GarconError("EXECUTOR_UNAVAILABLE", text, status=503, retryable=True)
