"""`executor connection-url`: reveal what the worker on this machine listens with.

It reads two private files and prints; no process is asked, started or changed.
"""

from __future__ import annotations

from garcon.cli.failures import DONE, EXECUTORS, OPERATIONAL, CommandFailure, bad_arguments
from garcon.cli.inputs import optional
from garcon.contract.connection_url import format_connection_url, parse_address
from garcon.errors import GarconError
from garcon.local.listener import NoListener, read_listener, read_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from garcon.cli.invocation import Invocation


def connection_url(invocation: Invocation) -> int:
    """Print the connection URL of the last listen, or fail if there never was one."""
    for name in ("runtime", "server"):
        if invocation.parsed.text(name) is not None:
            raise bad_arguments(f"`garcon executor connection-url` takes no --{name}")
    advertised = optional(invocation.parsed, "advertise-url")
    advertised = advertised or invocation.system.environ.get("GARCON_EXECUTOR_ADVERTISE_URL")
    root = invocation.root
    try:
        secret = read_secret(root.executor_secret)
        address = advertised or read_listener(root.executor_listener)
        url = format_connection_url(parse_address(address).url, secret)
    except NoListener as e:
        raise CommandFailure(EXECUTORS, e.text, OPERATIONAL) from None
    except GarconError as e:
        hint = "" if advertised else "; name the address others reach it at with --advertise-url"
        raise CommandFailure(EXECUTORS, e.text + hint, OPERATIONAL) from None
    except OSError as e:
        text = f"cannot read the listener's files: {e.strerror or e}"
        raise CommandFailure(EXECUTORS, text, OPERATIONAL) from None
    invocation.print(f"{url}\n")
    return DONE
