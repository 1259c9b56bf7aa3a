"""What a workspace keeps of its settings, as a value: the patches it takes, and what a started chat
leaves behind (control.md C.2, C.4, A.8).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field, structs

from garcon.contract.catalogs import AgentSettings
from garcon.contract.ids import LOCAL, is_executor_id
from garcon.contract.settings import (
    AgentModes,
    ChangeSettings,
    ExecutionDefaults,
    Features,
    Paths,
    ProjectPaths,
    RecentAgent,
)
from garcon.controller.settings import ui
from garcon.controller.settings.ui import invalid

RECENT_PATHS, RECENT_AGENTS = 10, 20
PINNED_PATHS, PATH_CHARACTERS = 1_000, 4_096
SAVED_BYTES = 1_048_576
"""What all settings of a workspace may take together."""

T = TypeVar("T", bound=Struct)


class Saved(Struct, frozen=True, kw_only=True):
    """Everything durable; `version` grows with every change."""

    version: int = 0
    features: Features = Features()
    ui: dict[str, Any] = field(default_factory=dict)
    paths: Paths = Paths()
    recent_agents: list[RecentAgent] = field(default_factory=list)
    execution_defaults: ExecutionDefaults = ExecutionDefaults()


def patched(saved: Saved, patch: ChangeSettings) -> Saved:
    """Return the settings with a patch applied, whole or not at all; ``INVALID_REMOTE_SETTINGS``
    (400) for one that does not fit.  The same object comes back where nothing changes.
    """
    changed = structs.replace(
        saved,
        features=_features(saved.features, patch.features or {}),
        ui=ui.patched(saved.ui, patch.ui or {}),
        paths=_paths(saved.paths, patch.paths or {}),
        execution_defaults=_defaults(saved.execution_defaults, patch.execution_defaults or {}),
    )
    return _next(saved, changed)


def remembered(saved: Saved, recent: RecentAgent, project_path: str) -> Saved:
    """Return the settings after a chat was started with this, in that directory."""
    agents = [recent, *(one for one in saved.recent_agents if one != recent)]
    before = paths_of(saved.paths, recent.executor_id)
    there = [project_path, *(one for one in before.recent_project_paths if one != project_path)]
    paths = _placed(
        saved.paths,
        recent.executor_id,
        structs.replace(before, recent_project_paths=there[:RECENT_PATHS]),
    )
    changed = structs.replace(saved, recent_agents=agents[:RECENT_AGENTS], paths=paths)
    return _next(saved, changed)


def paths_of(paths: Paths, executor_id: str) -> ProjectPaths:
    """Return the directories of one executor."""
    if executor_id != LOCAL:
        return paths.by_executor.get(executor_id, ProjectPaths())
    return ProjectPaths(
        pinned_project_paths=paths.pinned_project_paths,
        browse_start_path=paths.browse_start_path,
        recent_project_paths=paths.recent_project_paths,
    )


def without_executor(saved: Saved, executor_id: str) -> Saved:
    """Return the settings without what is only about an executor that is gone."""
    others = {key: one for key, one in saved.paths.by_executor.items() if key != executor_id}
    changed = structs.replace(
        saved,
        paths=structs.replace(saved.paths, by_executor=others),
        recent_agents=[one for one in saved.recent_agents if one.executor_id != executor_id],
    )
    return _next(saved, changed)


def _next(saved: Saved, changed: Saved) -> Saved:
    if changed == saved:
        return saved
    if len(msgspec.json.encode(changed)) > SAVED_BYTES:
        raise invalid(f"together they would take more than {SAVED_BYTES} bytes")
    return structs.replace(changed, version=saved.version + 1)


def _features(features: Features, patch: dict[str, Any]) -> Features:
    search, commands = features.transcript_search, features.agent_commands
    for name, part in patch.items():
        if name == "transcriptSearch":
            if not isinstance(part, dict) or not isinstance(part.get("enabled"), bool):
                raise invalid("features.transcriptSearch.enabled is true or false")
            search = _merged(search, part, "features.transcriptSearch")
        elif name == "agentCommands":
            commands = _merged(commands, part, "features.agentCommands")
    return Features(transcript_search=search, agent_commands=commands)


def _paths(paths: Paths, patch: dict[str, Any]) -> Paths:
    if not patch:
        return paths
    said = dict(patch)
    executor_id = said.pop("executorId", None) or LOCAL
    if not is_executor_id(executor_id):
        raise invalid("paths.executorId is neither local nor a UUID")
    there = _merged(paths_of(paths, executor_id), said, "paths")
    pinned = sorted(set(there.pinned_project_paths))
    recent = list(dict.fromkeys(there.recent_project_paths))[:RECENT_PATHS]
    if len(pinned) > PINNED_PATHS:
        raise invalid(f"at most {PINNED_PATHS} paths can be pinned")
    for path in (*pinned, *recent, there.browse_start_path):
        if len(path) > PATH_CHARACTERS:
            raise invalid(f"a path is longer than {PATH_CHARACTERS} characters")
    if not all(path.strip() for path in (*pinned, *recent)):
        raise invalid("a path is blank")
    there = structs.replace(there, pinned_project_paths=pinned, recent_project_paths=recent)
    return _placed(paths, executor_id, there)


def _placed(paths: Paths, executor_id: str, there: ProjectPaths) -> Paths:
    if executor_id == LOCAL:
        return Paths(by_executor=paths.by_executor, **structs.asdict(there))
    return structs.replace(paths, by_executor={**paths.by_executor, executor_id: there})


def _defaults(defaults: ExecutionDefaults, patch: dict[str, Any]) -> ExecutionDefaults:
    said = dict(patch)
    common, by_agent = defaults.global_, dict(defaults.by_agent)
    if "global" in said:
        common = _merged(common, said.pop("global"), "executionDefaults.global")
        _check_envelopes(common.agent_settings_by_id)
    overrides = said.pop("byAgent", {})
    if not isinstance(overrides, dict):
        raise invalid("executionDefaults.byAgent is an object")
    for agent_id, part in overrides.items():
        if part is None:
            by_agent.pop(agent_id, None)
            continue
        own = _merged(
            by_agent.get(agent_id, AgentModes()), part, f"executionDefaults.byAgent.{agent_id}"
        )
        _check_envelopes(own.agent_settings_by_id or {})
        by_agent[agent_id] = own
    return ExecutionDefaults(global_=common, by_agent=by_agent)


def _check_envelopes(by_id: dict[str, AgentSettings]) -> None:
    """A map of envelopes is valid only if every key is its envelope's owner (control.md A.5)."""
    for agent_id, envelope in by_id.items():
        if envelope.owner_id != agent_id or envelope.schema_version < 1:
            raise invalid(f"the agent settings of {agent_id} are another agent's, or malformed")


def _merged(part: T, patch: Any, where: str) -> T:
    """Return a part with the members of `patch` in place of its own.

    Unknown ones are let pass: clients send back what they read, and know members of other versions
    (server.md 0).
    """
    if not isinstance(patch, dict):
        raise invalid(f"{where} is an object")
    try:
        return msgspec.convert(msgspec.to_builtins(part) | patch, type(part))
    except msgspec.ValidationError as error:
        raise invalid(f"{where}: {error}") from None
