"""Commands and their options as a table, and the parser that reads it.

One declaration serves parsing, help and completions; argparse alone would cost each start 9 ms.
"""

from __future__ import annotations

from garcon.cli.failures import CommandFailure, bad_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

VALUE, MANY, FLAG, TRUTH = "value", "many", "flag", "truth"


class Option:
    """One option.  `kind` says what it takes: a text, texts (repeatable), nothing, or true|false.

    `choices` are the only texts accepted, when there are any.
    """

    __slots__ = ("choices", "help", "kind", "metavar", "name")

    def __init__(
        self,
        name: str,
        help: str,
        metavar: str = "",
        kind: str = VALUE,
        choices: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.help = help
        self.kind = kind if metavar or choices or kind != VALUE else FLAG
        self.choices = ("true", "false") if kind == TRUTH else choices
        self.metavar = metavar or "|".join(self.choices)


class Command:
    """One command: its words, what follows them, and the module that runs it.

    `operands` names the positional arguments; one ending in ``...`` takes all that are left, one in
    brackets need not be there.
    """

    __slots__ = ("function", "module", "notes", "operands", "options", "summary", "words")

    def __init__(
        self,
        words: str,
        operands: str,
        summary: str,
        module: str,
        function: str = "run",
        options: tuple[Option, ...] = (),
        notes: str = "",
    ) -> None:
        self.words = words
        self.operands = tuple(operands.split())
        self.summary = summary
        self.module = module
        self.function = function
        self.options = options
        self.notes = notes


CONNECTION = (
    Option("--config-dir", "config root (or GARCON_CONFIG_DIR; default ~/.garcon)", "DIR"),
    Option(
        "--runtime",
        "which running process to use (or GARCON_RUNTIME; default auto)",
        choices=("auto", "controller", "executor"),
    ),
    Option("--server", "fail unless the selected process has exactly this URL", "URL"),
)
"""Options of every command that talks to a running process."""


class Parsed:
    """What was typed: option values by name without dashes, and the positional arguments.

    `literal` is the number of operands that came after ``--``, and so are never special.
    """

    __slots__ = ("command", "help", "literal", "operands", "values", "version")

    def __init__(self) -> None:
        self.command: Command | None = None
        self.values: dict[str, Any] = {}
        self.operands: list[str] = []
        self.literal = 0
        self.help = False
        self.version = False

    def text(self, name: str) -> str | None:
        """Return a single-valued option, or None."""
        value: str | None = self.values.get(name)
        return value

    def texts(self, name: str) -> list[str]:
        """Return a repeatable option's values, in order."""
        values: list[str] = self.values.get(name, [])
        return values

    def flag(self, name: str) -> bool:
        """Return whether a flag was given."""
        return self.values.get(name) is True

    def truth(self, name: str) -> bool | None:
        """Return a true|false option, or None."""
        value = self.text(name)
        return None if value is None else value == "true"


def parse(argv: Sequence[str], commands: dict[str, Command], groups: frozenset[str]) -> Parsed:
    """Parse a command line, or raise exit 2.  Help and version win over what is merely missing."""
    parsed = Parsed()
    words: list[str] = []
    rest = list(argv)
    # Connection options may stand before the command's own words.
    while rest and (parsed.command is None):
        token = rest.pop(0)
        if token == "--":
            raise bad_arguments("a command must come before --")
        if token.startswith("-") and token != "-":
            _option(parsed, token, rest, CONNECTION)
            continue
        words.append(token)
        name = " ".join(words)
        parsed.command = commands.get(name)
        if parsed.command is None and name not in groups:
            hint = _meant(name, commands) or " (try `garcon --help`)"
            raise bad_arguments(f"unknown command {name!r}{hint}")
    if parsed.command is None:
        if parsed.help or parsed.version:
            parsed.operands = words
            return parsed
        missing = f"a command after `{words[0]}`" if words else "a command"
        raise bad_arguments(f"{missing} is missing (try `garcon {' '.join([*words, '--help'])}`)")
    _arguments(parsed, rest, (*parsed.command.options, *CONNECTION))
    if not (parsed.help or parsed.version):
        _check_operands(parsed)
    return parsed


def _arguments(parsed: Parsed, rest: list[str], options: tuple[Option, ...]) -> None:
    while rest:
        token = rest.pop(0)
        if token == "--":
            parsed.operands += rest
            parsed.literal = len(rest)
            return
        if token.startswith("-") and token != "-":
            _option(parsed, token, rest, options)
        else:
            parsed.operands.append(token)


def _option(parsed: Parsed, token: str, rest: list[str], options: tuple[Option, ...]) -> None:
    name, equals, value = token.partition("=")
    if name in ("--help", "-h", "--version"):
        if equals:
            raise bad_arguments(f"{name} takes no value")
        _once(parsed, "help" if name != "--version" else "version")
        return
    for option in options:
        if option.name == name:
            break
    else:
        raise _unknown(parsed, name, [option.name for option in options])
    key = option.name[2:]
    if option.kind == FLAG:
        if equals:
            raise bad_arguments(f"{name} takes no value")
        if key in parsed.values:
            raise bad_arguments(f"{name} is given twice")
        parsed.values[key] = True
        return
    if not equals:
        # A value that looks like an option is more often one that was forgotten.
        if not rest or rest[0].startswith("--"):
            raise bad_arguments(f"{name} needs a value ({name}=VALUE if it begins with --)")
        value = rest.pop(0)
    if option.choices and value not in option.choices:
        raise bad_arguments(f"{name} must be one of: {', '.join(option.choices)}")
    if option.kind == MANY:
        parsed.values.setdefault(key, []).append(value)
        return
    if key in parsed.values:
        raise bad_arguments(f"{name} is given twice")
    parsed.values[key] = value


def _once(parsed: Parsed, name: str) -> None:
    if getattr(parsed, name):
        raise bad_arguments(f"--{name} is given twice")
    setattr(parsed, name, True)


def _unknown(parsed: Parsed, name: str, names: list[str]) -> CommandFailure:
    command = parsed.command
    if command is None:
        return bad_arguments(f"{name} is not an option{_meant(name, names)}")
    hint = _meant(name, names)
    if not hint and command.operands and command.operands[-1] in ("<prompt>...", "[prompt]..."):
        hint = "; put -- before text that begins with a dash"
    if not hint:
        hint = f" (try `garcon {command.words} --help`)"
    return bad_arguments(f"{name} is not an option of `garcon {command.words}`{hint}")


def _meant(typed: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(typed, names, 1, 0.75)
    return f" (did you mean {found[0]}?)" if found else ""


def _check_operands(parsed: Parsed) -> None:
    command = parsed.command
    assert command is not None
    names = command.operands
    given = len(parsed.operands)
    open_ended = bool(names) and names[-1].endswith("...")
    if given < sum(not name.startswith("[") for name in names):
        missing = names[given].strip("<>.")
        if "|" in missing:
            raise bad_arguments(
                f"`garcon {command.words}` needs one of: {', '.join(missing.split('|'))}"
            )
        article = "an" if missing[0] in "aeiou" else "a"
        raise bad_arguments(f"`garcon {command.words}` needs {article} {missing}")
    if given > len(names) and not open_ended:
        extra = parsed.operands[len(names)]
        raise bad_arguments(f"`garcon {command.words}` does not take {extra!r}")
