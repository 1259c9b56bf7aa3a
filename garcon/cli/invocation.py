"""One run of a command: what was typed, the machine it runs on, and the client it may make."""

from __future__ import annotations

import os

from garcon.cli.failures import ARGUMENTS, BAD_REQUEST, CommandFailure, bad_arguments, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import Context, GarconClient
    from garcon.cli.discovery import Endpoint
    from garcon.cli.options import Parsed
    from garcon.cli.system import System
    from garcon.local.roots import ConfigRoot

NOTHING_STOPPED = "interrupted; no Garcon agent was stopped"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,")
_LARGEST_TEXT = 16 * 1024 * 1024


class Invocation:
    """Handed to a command's module.  `interruption` is what Ctrl-C must say at this point."""

    def __init__(self, parsed: Parsed, system: System) -> None:
        self.parsed = parsed
        self.system = system
        self.interruption = NOTHING_STOPPED
        self.json = parsed.flag("json")
        self._root: ConfigRoot | None = None
        self._role = ""

    @property
    def root(self) -> ConfigRoot:
        """The config root that this command is about."""
        if self._root is None:
            from garcon.local.roots import ConfigRoot

            option = self.parsed.text("config-dir")
            if option is not None and not option.strip():
                # Never the default instead: that may be another root altogether.
                raise bad_arguments("--config-dir is blank")
            self._root = ConfigRoot.chosen(option, self.system.environ)
        return self._root

    def select(self, *, controller_only: bool = False) -> Endpoint:
        """Return the process that is meant; nothing is sent to it yet.

        A worker where the command is `controller_only` was named, or is all that runs here.
        """
        from garcon.cli.discovery import check_server, runtime_choice, select

        server = self.parsed.text("server")
        check_server(server)
        runtime = runtime_choice(self.parsed.text("runtime"), self.system.environ)
        endpoint = select(
            self.root, runtime, server, self.system.err, controller_only=controller_only
        )
        self._role = endpoint.role
        return endpoint

    def connect(self, endpoint: Endpoint | None = None) -> GarconClient:
        """Select, prove and return the client; diagnostics go to standard error."""
        from garcon.cli.client import GarconClient

        return GarconClient.connect(endpoint or self.select(), self.system)

    def check_selection(self) -> None:
        """Refuse a wrong selector before anything is read or sent."""
        from garcon.cli.discovery import check_server, runtime_choice

        check_server(self.parsed.text("server"))
        runtime_choice(self.parsed.text("runtime"), self.system.environ)

    def command(self, *words: str) -> str:
        """Return a follow-up command, ready to paste: it names the resolved root and the role."""
        selectors = ["--config-dir", self.root.path]
        if self._role:
            selectors += ["--runtime", self._role]
        return " ".join(shell_word(word) for word in ("garcon", *words, *selectors))

    def print(self, text: str) -> None:
        """Write a command's result: as it is, but on a terminal with control characters shown."""
        self.system.out(visible(text, "\n\t") if self.system.is_terminal() else text)

    def print_json(self, value: Any) -> None:
        """Write one JSON document."""
        from garcon.cli.render import json_text

        self.system.out(json_text(value))

    def envelope(self, command: str, context: Context, **fields: Any) -> dict[str, Any]:
        """Return an automation envelope (control.md I.7): no selector and no secret."""
        return {
            "schemaVersion": 1,
            "command": command,
            "workspace": context.workspace_name,
            "serverInstanceId": context.server_instance_id,
            **fields,
        }

    def prompt(self, words: list[str]) -> str:
        """Return the prompt of positional words; a lone ``-`` is read from standard input."""
        literal = self.parsed.literal
        special = words[: len(words) - min(literal, len(words))]
        if words == ["-"] and special:
            text = self.stdin_text()
        elif "-" in special:
            raise bad_arguments("`-` reads the prompt from standard input and stands alone")
        else:
            text = " ".join(words)
            try:
                text.encode()
            except UnicodeEncodeError:
                raise bad_arguments("the prompt is not valid UTF-8") from None
        if not text.strip():
            raise bad_arguments("the prompt is blank")
        return text

    def stdin_text(self, limit: int = _LARGEST_TEXT) -> str:
        """Return all of standard input, which must be UTF-8."""
        data = self.system.stdin.read(limit + 1)
        if len(data) > limit:
            raise bad_arguments(f"standard input is longer than {limit} bytes")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise CommandFailure(
                ARGUMENTS, "standard input is not valid UTF-8", BAD_REQUEST
            ) from None

    def directory(self, option: str | None) -> str:
        """Return an existing directory of this machine, symbolic links followed."""
        try:
            path = os.path.realpath(option if option is not None else os.getcwd())
        except OSError as e:
            raise bad_arguments(f"there is no current directory: {e.strerror}") from None
        if not os.path.isdir(path):
            raise bad_arguments(f"--cwd {option} is not a directory")
        try:
            path.encode()
        except UnicodeEncodeError:
            raise bad_arguments("the directory's name is not valid UTF-8") from None
        return path


def shell_word(word: str) -> str:
    """Quote a word for a POSIX shell."""
    if word and _PLAIN.issuperset(word):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"
