"""Help texts, made from the table of commands."""

from __future__ import annotations

from garcon.cli.options import CONNECTION, FLAG, Command, Option
from garcon.cli.table import (
    CLI_ACCESS,
    COMMANDS,
    GROUPS,
    MANAGEMENT,
    SERVICES,
    TERMINAL_ACCESS,
    TERMINAL_NAMES,
)

_WIDTH = 88


def overview() -> str:
    """Return the help of `garcon` itself."""
    lines = ["usage: garcon <command> [options]", "", "Services:"]
    lines += _columns([(name, summary) for name, (_, summary) in SERVICES.items()])
    lines += ["", "Commands:"]
    lines += _columns([(c.words, c.summary) for c in COMMANDS.values()])
    lines += ["", "Connection options, of every command:", *_options(CONNECTION)]
    lines += ["", *_wrap("`garcon <command> --help` explains a command.")]
    lines += [
        "",
        *_wrap(
            "Exit status: 0 done; 1 the turn, or the attached shell, failed; 2 wrong arguments,"
            " selection or request; 3 transport, availability or unknown outcome; 4 the turn was"
            " stopped, or the attached terminal killed; 130 interrupted."
        ),
    ]
    return "\n".join(lines) + "\n"


def group(name: str) -> str:
    """Return the help of a group of commands."""
    lines = [f"usage: garcon {name} <command> [options]", ""]
    lines += _columns([(c.words, c.summary) for c in COMMANDS.values() if _in(c, name)])
    if name == "executor":
        lines += ["", *_wrap(CLI_ACCESS), "", *_wrap(MANAGEMENT)]
    if name == "terminal":
        lines += ["", *_wrap(TERMINAL_NAMES), "", *_wrap(TERMINAL_ACCESS)]
    return "\n".join(lines) + "\n"


def of(command: Command) -> str:
    """Return the help of one command."""
    operands = "".join(f" {name}" for name in command.operands)
    lines = [f"usage: garcon {command.words} [options]{operands}", "", *_wrap(command.summary)]
    if command.options:
        lines += ["", "Options:", *_options(command.options)]
    lines += ["", "Connection options:", *_options(CONNECTION)]
    if command.notes:
        lines += ["", *_wrap(command.notes)]
    return "\n".join(lines) + "\n"


def text_for(words: list[str], command: Command | None) -> str:
    """Return the help that was asked for."""
    if command is not None:
        return of(command)
    if words and words[0] in GROUPS:
        return group(words[0])
    return overview()


def _in(command: Command, name: str) -> bool:
    return command.words.startswith(name + " ")


def _options(options: tuple[Option, ...]) -> list[str]:
    return _columns(
        [(o.name if o.kind == FLAG else f"{o.name} {o.metavar}", o.help) for o in options]
    )


def _columns(pairs: list[tuple[str, str]]) -> list[str]:
    width = min(max(len(left) for left, _ in pairs), 34)
    lines = []
    for left, right in pairs:
        if len(left) > width:
            lines += [f"  {left}", f"  {'':{width}}  {right}"]
        else:
            lines.append(f"  {left:{width}}  {right}")
    return lines


def _wrap(text: str) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _WIDTH:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines
