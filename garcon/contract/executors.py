"""Executors as the API shows and changes them, and a command's context (control.md E, F)."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

Direction = Literal["executor-connects", "controller-connects"]
Availability = Literal["ready", "reconnecting", "offline"]


class CliContext(Struct, frozen=True, rename="camel"):
    """Which controller an endpoint leads to now (control.md F.2)."""

    server_instance_id: str
    default_executor_id: str
    workspace_name: str | None


class RuntimeProof(Struct, frozen=True, rename="camel"):
    schema_version: int
    instance_id: str
    proof: str


class ChallengeQuery(Struct, frozen=True, rename="camel"):
    challenge: str = ""


class LastError(Struct, frozen=True, rename="camel"):
    code: str
    message: str


class BulkState(Struct, frozen=True, rename="camel"):
    availability: Literal["connecting", "ready", "reconnecting", "offline"]
    last_error: LastError | None


class MachineServices(Struct, frozen=True, rename="camel"):
    files: bool
    git: bool
    gh: bool
    terminals: bool


class ExecutorSnapshot(Struct, frozen=True, rename="camel", kw_only=True):
    """One executor; exactly these keys and no credential (control.md E.2)."""

    id: str
    label: str
    kind: Literal["local", "remote"]
    enabled: bool
    allow_controller_cli: bool
    allow_executor_management: bool
    direction: Direction | None
    availability: Availability
    bulk: BulkState | None
    instance_id: str | None
    project_base_path: str | None
    last_error: LastError | None
    machine_services: MachineServices


class ExecutorList(Struct, frozen=True, rename="camel"):
    executors: list[ExecutorSnapshot]


class CreateExecutor(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    label: str
    direction: Direction
    advertised_url: str | UnsetType = UNSET
    connection_url: str | UnsetType = UNSET
    no_tls: bool = False
    allow_unverified_tls: bool = False
    allow_controller_cli: bool = False
    allow_executor_management: bool = False

    def __repr__(self) -> str:
        # Never the connection URL: it holds the secret, here and below.
        return f"<CreateExecutor {self.label!r} {self.direction}>"


class CreatedExecutor(Struct, frozen=True, rename="camel"):
    id: str
    connection_url: str
    no_tls: bool
    allow_unverified_tls: bool

    def __repr__(self) -> str:
        return f"<CreatedExecutor {self.id}>"


class ConnectionEdit(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    direction: Direction
    no_tls: bool
    allow_unverified_tls: bool | UnsetType = UNSET
    connection_url: str | UnsetType = UNSET

    def __repr__(self) -> str:
        return f"<ConnectionEdit {self.direction}>"


class UpdateExecutor(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    label: str | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    allow_controller_cli: bool | UnsetType = UNSET
    allow_executor_management: bool | UnsetType = UNSET
    connection: ConnectionEdit | UnsetType = UNSET


class Connection(Struct, frozen=True, rename="camel"):
    connection_url: str
    no_tls: bool
    allow_unverified_tls: bool

    def __repr__(self) -> str:
        return f"<Connection no_tls={self.no_tls}>"
