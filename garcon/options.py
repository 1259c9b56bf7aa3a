"""What a service can be told: settings with a flag, a variable or both, how their values are read,
and help for whoever types.

Nothing here knows a role; each names its own settings beside the common ones.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from getopt import GetoptError
from typing import Any, ClassVar

from attrs import frozen
from twisted.python import usage

from garcon.contract.version import VERSION
from garcon.process import fail_to_start, say


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a parser of decimal digits within bounds."""
    bounds = f"from {least} to {most}" if most is not None else f"of at least {least}"

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f"must be a whole number {bounds}")
        value = int(text)
        if value < least or (most is not None and value > most):
            raise ValueError(f"must be a whole number {bounds}")
        return value

    return parse


def boolean(text: str) -> bool:
    """Parse the words of a switch."""
    word = text.lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ValueError("must be one of 1, true, yes, on, 0, false, no, off")


def non_empty(text: str) -> str:
    """Parse any text but a blank one."""
    if not text.strip() or "\0" in text:
        raise ValueError("must not be empty")
    return text


def directory(text: str) -> str:
    """Parse a directory's path: absolute from here on, with ``~`` expanded."""
    return os.path.abspath(os.path.expanduser(non_empty(text)))


@frozen
class Setting:
    """One thing a service can be told: flag, else non-empty variable, else default (server.md F.1).

    `name` is the option without dashes, also where only a variable can set it (`flag` False).  A
    `switch` takes no value; a `repeated` one may come often and becomes a list.
    """

    name: str
    text: str
    variable: str | None = None
    parse: Callable[[str], Any] = non_empty
    default: Any = None
    flag: bool = True
    switch: bool = False
    repeated: bool = False

    @property
    def help(self) -> str:
        """What the help says of it."""
        return f"{self.text} [{self.variable}]" if self.variable else self.text


COMMON = (
    Setting("config-dir", "where this machine's Garcon files lie", "GARCON_CONFIG_DIR", directory),
    Setting(
        "project-base-dir",
        "projects must lie in this directory (default: the home directory)",
        "GARCON_PROJECT_BASE_DIR",
        directory,
    ),
    Setting("enable-scripted-agent", "offer the scripted agent, for tests", switch=True),
    Setting(
        "agent-output-limit",
        "most bytes an agent may write in one turn, 0 for no limit (1073741824)",
        "GARCON_AGENT_OUTPUT_LIMIT",
        whole_number(0),
        1_073_741_824,
    ),
    Setting(
        "agent-time-limit",
        "most seconds a turn may take, 0 for no limit (0)",
        "GARCON_AGENT_TIME_LIMIT",
        whole_number(0),
        0,
    ),
    Setting(
        "agent-memory-limit",
        "most bytes of memory an agent may use with its tools, 0 for no limit (0);"
        " needs a control group of the service's own",
        "GARCON_AGENT_MEMORY_LIMIT",
        whole_number(0),
        0,
    ),
    Setting(
        "agent-process-limit",
        "most processes an agent may have with its tools, 0 for no limit (0); each thread is one;"
        " without such a group they are counted once a second",
        "GARCON_AGENT_PROCESS_LIMIT",
        whole_number(0),
        0,
    ),
    Setting(
        "log-level",
        "how much is logged: debug, info (the default), warn, error or silent; not for twistd",
        "GARCON_LOG_LEVEL",
        flag=False,
    ),
)
"""What both roles can be told."""


class ServiceOptions(usage.Options):
    """The options of a service; subclasses name their `settings`.

    A mistake is one line on standard error and status 1, under twistd as well (which would print
    the whole help on standard output).
    """

    optFlags: ClassVar[list[list[str | None]]]
    optParameters: ClassVar[list[list[str | None]]]

    settings: ClassVar[tuple[Setting, ...]] = COMMON
    scope: ClassVar[str] = "server"
    command: ClassVar[str] = "service"
    """The word after ``garcon`` that runs this service in the foreground."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.optFlags = [[s.name, None, s.help] for s in cls.settings if s.flag and s.switch]
        cls.optParameters = [
            [s.name, None, None, s.help]
            for s in cls.settings
            if s.flag and not s.switch and not s.repeated
        ]

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._environment = os.environ if environment is None else environment
        self._given: dict[str, list[str]] = {}
        for setting in self.settings:
            if setting.repeated:
                self._add_repeated(setting)

    def _add_repeated(self, setting: Setting) -> None:
        def dispatch(name: str, value: str) -> None:
            self._given.setdefault(setting.name, []).append(value)

        self.longOpt.append(setting.name + "=")
        self.docs[setting.name] = setting.help
        self.synonyms[setting.name] = setting.name
        self._dispatch[setting.name] = usage.CoerceParameter(self, str)
        self._dispatch[setting.name].dispatch = dispatch

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Parse, or end the process with the mistake."""
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            # Of a name that is mistyped Twisted knows only that it is none of these.
            mistyped = isinstance(error.__context__, GetoptError)
            fail_to_start(f"{error}{self._help_hint() if mistyped else ''}", self.scope)

    def parseArgs(self, *arguments: str) -> None:
        """Refuse what is no option."""
        if arguments:
            raise usage.UsageError(f"unexpected argument {arguments[0]!r}{self._help_hint()}")

    def _help_hint(self) -> str:
        typed = f"garcon {self.command}" if self.parent is None else f"twistd garcon-{self.command}"
        return f" (try `{typed} --help`)"

    def getSynopsis(self) -> str:
        """Name the command that was typed: twistd's with its subcommand, or our own."""
        if self.parent is None:
            return f"Usage: garcon {self.command} [options]"
        return str(super().getSynopsis())

    def getUsage(self, width: int | None = None) -> str:
        """List the options, then what only variables can set."""
        text = str(super().getUsage(width)).rstrip("\n")
        lines = ["", "Variables without an option:"]
        for setting in self.settings:
            if not setting.flag:
                lines.append(f"      {setting.variable}")
                lines += textwrap.wrap(
                    setting.text, 79, initial_indent=" " * 10, subsequent_indent=" " * 10
                )
        return "\n".join([text, *lines, ""])

    def opt_help(self) -> None:
        """Show this help and exit."""
        say(str(self))
        raise SystemExit(0)

    def opt_version(self) -> None:
        """Show the version and exit."""
        say(f"garcon {VERSION}")
        raise SystemExit(0)

    def postOptions(self) -> None:
        """Resolve every setting, then check what belongs together."""
        for setting in self.settings:
            self[setting.name] = self._resolve(setting)
        self.check()

    def check(self) -> None:
        """Raise `usage.UsageError` for settings that do not go together."""

    def _resolve(self, setting: Setting) -> Any:
        if setting.switch and self.get(setting.name):
            return True
        if setting.repeated:
            if given := self._given.get(setting.name):
                return [_parse(setting, f"--{setting.name}", value) for value in given]
            return list(setting.default or ())
        given = self.get(setting.name)
        if given is not None and not setting.switch:
            return _parse(setting, f"--{setting.name}", given)
        variable = setting.variable
        if variable and (value := self._environment.get(variable, "").strip()):
            if setting.switch:
                return _parse(setting, variable, value, boolean)
            return _parse(setting, variable, value)
        return False if setting.switch else setting.default


def _parse(
    setting: Setting, where: str, value: str, parse: Callable[[str], Any] | None = None
) -> Any:
    try:
        return (parse or setting.parse)(value)
    except ValueError as error:
        raise usage.UsageError(f"{where} {error}") from None
