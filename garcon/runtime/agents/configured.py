"""``agents.toml``: further agents of the Agent Client Protocol on this machine, by configuration
alone (decisions.md 34).

Read once, at start, and strictly: whatever is not understood is told with the file and the key, and
nothing starts.  No message repeats a value, as variables may hold secrets.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args

from garcon.contract.catalogs import (
    PERMISSION_MODES,
    THINKING_MODES,
    Model,
    Protocol,
    ThinkingMode,
)
from garcon.contract.limits import KIB
from garcon.errors import StartupError
from garcon.runtime.agents.acp import AcpManifest
from garcon.runtime.agents.acp_history import REPLAYED
from garcon.runtime.agents.endpoint_variables import PLACES, EndpointVariables

PREFIX = "acp-"
SIZE = 256 * KIB
AGENTS = 64
MODEL = Model(value="default", label="Default")
"""What an agent is asked for whose models are not listed: its own choice."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS = frozenset(
    {
        *("command", "environment", "modes", "endpoint", "label", "description", "models"),
        *("efforts", "images", "compact", "fork", "history"),
    }
)
_ENDPOINT_KEYS = frozenset({"protocol", "url", "key", "model", "headers", "template"})
_PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)


def read(path: str) -> list[AcpManifest]:
    """Return the agents that a file names, none without it; `StartupError` for a wrong one."""
    try:
        with open(path, "rb") as file:
            content = file.read(SIZE + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StartupError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > SIZE:
        raise StartupError(f"{path} is larger than {SIZE} bytes")
    try:
        document = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise StartupError(f"{path} is not UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        # Where, but not what: the text may quote a value.
        place = re.search(r"at line \d+, column \d+|at end of document", str(error))
        raise StartupError(f"{path} is not TOML{': ' + place[0] if place else ''}") from None
    return _Reader(path).agents(document)


class _Reader:
    """Reads one file's document, telling each mistake with its key."""

    def __init__(self, path: str) -> None:
        self._path = path

    def agents(self, document: Mapping[str, Any]) -> list[AcpManifest]:
        self._only(document, frozenset({"agents"}), "")
        agents = self._table(document.get("agents", {}), "agents")
        if len(agents) > AGENTS:
            raise self._wrong("agents", f"names more than {AGENTS} agents")
        return [self._agent(name, agents[name]) for name in agents]

    def _agent(self, name: str, value: object) -> AcpManifest:
        where = f"agents.{name}"
        if not _NAME.fullmatch(name):
            raise self._wrong(
                where, "is no name: at most 40 small letters, digits and dashes between them"
            )
        given = self._table(value, where)
        self._only(given, _KEYS, f"{where}.")
        if "command" not in given:
            raise self._wrong(f"{where}.command", "is missing")
        models = self._texts(given.get("models", []), f"{where}.models")
        if len(set(models)) != len(models):
            raise self._wrong(f"{where}.models", "names a model twice")
        compact = given.get("compact")
        return AcpManifest(
            id=PREFIX + name,
            label=self._text(given.get("label", name), f"{where}.label"),
            description=self._text(
                given.get("description", "An agent of this machine's agents.toml"),
                f"{where}.description",
            ),
            command=self._command(given["command"], f"{where}.command"),
            models=[Model(value=model, label=model) for model in models] or [MODEL],
            environment=self._variables(given.get("environment", {}), f"{where}.environment"),
            modes=self._modes(given.get("modes", {}), f"{where}.modes"),
            endpoint=self._endpoint(given.get("endpoint"), f"{where}.endpoint"),
            thinking_modes=self._efforts(given.get("efforts"), f"{where}.efforts"),
            supports_images=self._truth(given, "images", where),
            compact=None if compact is None else self._text(compact, f"{where}.compact"),
            native_fork="session" if self._truth(given, "fork", where) else "none",
            history=REPLAYED if self._truth(given, "history", where) else None,
            learns_models=not models,
            is_wanted=True,
        )

    def _command(self, value: object, where: str) -> list[str]:
        if not isinstance(value, list):
            raise self._wrong(where, 'must be a list of texts, such as ["my-agent", "--acp"]')
        command = self._texts(value, where)
        if not command:
            raise self._wrong(where, "is empty")
        program = os.path.expanduser(command[0])
        if "/" in program and not os.path.isabs(program):
            raise self._wrong(where, "must begin with a name on the PATH, or with a whole path")
        return [program, *command[1:]]

    def _efforts(self, value: object, where: str) -> Sequence[ThinkingMode]:
        if value is None:
            return THINKING_MODES
        efforts = self._texts(value, where)
        if not efforts:
            raise self._wrong(where, "is empty")
        for effort in efforts:
            if effort not in THINKING_MODES:
                raise self._wrong(where, f"may name {', '.join(THINKING_MODES)} only")
        return [effort for effort in THINKING_MODES if effort in efforts]

    def _truth(self, given: Mapping[str, Any], key: str, where: str) -> bool:
        value = given.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(f"{where}.{key}", "must be true or false")
        return value

    def _modes(self, value: object, where: str) -> dict[str, str]:
        modes = self._table(value, where)
        self._only(modes, frozenset(PERMISSION_MODES), f"{where}.")
        named = {mode: self._text(own, f"{where}.{mode}") for mode, own in modes.items()}
        if named and "default" not in named:
            # A session that is taken up may still be in the mode of an earlier turn.
            raise self._wrong(
                f"{where}.default", "is missing: write the agent's mode in which it asks"
            )
        return named

    def _variables(self, value: object, where: str) -> dict[str, str]:
        given = self._table(value, where)
        return {
            self._variable(name, f"{where}.{name}"): self._content(text, f"{where}.{name}")
            for name, text in given.items()
        }

    def _endpoint(self, value: object, where: str) -> EndpointVariables | None:
        if value is None:
            return None
        given = self._table(value, where)
        self._only(given, _ENDPOINT_KEYS, f"{where}.")
        protocol = given.get("protocol")
        if protocol not in _PROTOCOLS:
            raise self._wrong(f"{where}.protocol", f"must be one of {', '.join(_PROTOCOLS)}")
        templates = self._variables(given.get("template", {}), f"{where}.template")
        for place in PLACES:
            key = place.strip("{}")
            if key in given:
                name = self._variable(given[key], f"{where}.{key}")
                if name in templates:
                    raise self._wrong(f"{where}.{key}", "names a variable that is set already")
                templates[name] = place
        if not any("{url}" in text for text in templates.values()):
            raise self._wrong(where, "passes the endpoint's address nowhere: give url or template")
        return EndpointVariables((cast(Protocol, protocol),), templates)

    def _variable(self, name: object, where: str) -> str:
        if not (isinstance(name, str) and _VARIABLE.fullmatch(name)):
            raise self._wrong(where, "must be the name of a variable")
        if name.startswith("GARCON_"):
            raise self._wrong(where, "is a variable of Garcon's own")
        return name

    def _texts(self, value: object, where: str) -> list[str]:
        if not isinstance(value, list):
            raise self._wrong(where, "must be a list of texts")
        return [self._text(one, where) for one in value]

    def _text(self, value: object, where: str) -> str:
        if not self._content(value, where).strip():
            raise self._wrong(where, "must not be blank")
        return cast(str, value)

    def _content(self, value: object, where: str) -> str:
        if not isinstance(value, str) or "\0" in value:
            raise self._wrong(where, "must be a text")
        return value

    def _table(self, value: object, where: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(where, "must be a table")
        return value

    def _only(self, given: Mapping[str, Any], known: frozenset[str], where: str) -> None:
        for key in given:
            if key not in known:
                raise self._wrong(f"{where}{key}", f"is not known (there is {_listed(known)})")

    def _wrong(self, key: str, text: str) -> StartupError:
        return StartupError(f"{self._path}: {key} {text}")


def _listed(words: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(sorted(words))


def path_in(config_dir: str) -> str:
    """Return where the file is."""
    return os.path.join(config_dir, "agents.toml")
