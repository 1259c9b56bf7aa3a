"""The command's entry: parse, run one command's module, end with its exit status.

Only what the typed command needs is imported: agents start this thousands of times.
"""

from __future__ import annotations

import os
import sys

from garcon.cli.failures import INTERRUPTED, OPERATIONAL, CommandFailure, diagnostic
from garcon.cli.invocation import Invocation
from garcon.cli.options import parse
from garcon.cli.system import OutputLost, System
from garcon.cli.table import COMMANDS, GROUPS, SERVICES
from garcon.contract.version import VERSION
from garcon.errors import GarconError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    service = _service(words)
    if service is not None:
        return service
    return run(words, System.real())


def _service(words: list[str]) -> int | None:
    """Run a service if that is what was asked for; its options are its own."""
    before: list[str] = []
    rest = words
    # The one option that commands and services share may also stand first.
    while rest and rest[0].partition("=")[0] == "--config-dir":
        length = 1 if "=" in rest[0] else 2
        before, rest = before + rest[:length], rest[length:]
    if not rest or rest[0] not in SERVICES:
        return None
    from importlib import import_module

    module = import_module(SERVICES[rest[0]][0])
    status: int = module.main(before + rest[1:])
    return status


def run(words: list[str], system: System) -> int:
    """Run a command line of the client, with everything it touches handed in."""
    invocation = None
    try:
        parsed = parse(words, COMMANDS, GROUPS)
        if parsed.help:
            from garcon.cli.help import text_for

            system.out(text_for(parsed.operands, parsed.command))
            return 0
        if parsed.version:
            system.out(f"garcon {VERSION}\n")
            return 0
        assert parsed.command is not None
        invocation = Invocation(parsed, system)
        # Quicker than importlib, which this interpreter has not loaded yet.
        module = __import__(f"garcon.cli.commands.{parsed.command.module}", fromlist=["*"])
        status: int = getattr(module, parsed.command.function)(invocation)
        return status
    except CommandFailure as e:
        system.err(e.line())
        return e.exit_status
    except GarconError as e:
        system.err(f"garcon: {diagnostic(e.text)}")
        return OPERATIONAL
    except KeyboardInterrupt:
        system.err(invocation.interruption if invocation is not None else "interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output is gone.
        _abandon_output()
        return OPERATIONAL
    except OutputLost as e:
        system.err(f"garcon: the output could not be written: {e.strerror or e}")
        _abandon_output()
        return OPERATIONAL
    except Exception:
        # A fault of ours; the interpreter's own status for it would say that a turn has failed.
        from traceback import format_exc

        system.err(format_exc().rstrip())
        return OPERATIONAL


def _abandon_output() -> None:
    """Keep the interpreter from complaining at its end about what it could not write."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    sys.exit(main())
