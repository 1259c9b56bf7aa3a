"""`terminal list|new|attach|rename|kill`: the terminals that every executor keeps (server.md C).

They belong to the controller's account, so that these commands act for the user who logged in.
They are no agent's tools: a worker's gateway does not carry them.
"""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.failures import (
    DONE,
    TERMINAL,
    CommandFailure,
    TransportFailure,
    bad_arguments,
    failure_of,
)
from garcon.cli.render import table
from garcon.cli.terminals import (
    change,
    checked_title,
    find,
    is_terminal,
    killed,
    listed,
    named,
    renamed,
    session_of,
    user_client,
    wished_executor,
)
from garcon.contract.routes import CREATE_TERMINAL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.attachment import Ended
    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation
    from garcon.cli.keyboard import DetachKey


def list_terminals(invocation: Invocation) -> int:
    """List the terminals of one executor."""
    wished = wished_executor(invocation)
    client = user_client(invocation)
    executor = wished or client.context.default_executor_id
    found = listed(invocation, client, executor)
    if invocation.json:
        invocation.print_json({"executorId": executor, "terminals": found})
        return DONE
    rows = [
        [
            str(one["displaySequence"]),
            session_of(one)[:8],
            one["title"] or "",
            _status(one),
            one["attachmentStatus"],
            one["initialWorkingDirectory"],
            one["createdAt"],
        ]
        for one in found
    ]
    headers = ("NUMBER", "TERMINAL", "TITLE", "STATUS", "CLIENT", "DIRECTORY", "CREATED")
    invocation.system.out(table(headers, rows))
    return DONE


def new(invocation: Invocation) -> int:
    """Start a shell, and attach to it unless that is not wanted."""
    parsed = invocation.parsed
    stays = parsed.flag("detached")
    if invocation.json and not stays:
        raise bad_arguments("--json goes with --detached")
    title = parsed.text("title")
    title = None if title is None else checked_title(title, "--title")
    wished = wished_executor(invocation)
    directory = inputs.optional(parsed, "cwd")
    key = None if stays else _attachable(invocation)
    client = user_client(invocation)
    executor = wished or client.context.default_executor_id
    if directory is not None and executor == client.context.default_executor_id:
        directory = invocation.directory(directory)
    elif directory is not None and not inputs.is_absolute_anywhere(directory):
        raise bad_arguments("--cwd must be an absolute path there on another executor")
    body = {
        "requestId": client.system.uuid(),
        "requestedInitialWorkingDirectory": directory,
        "executorId": executor,
    }

    def wrong(reply: dict[str, Any]) -> str | None:
        return None if is_terminal(reply.get("terminal"), executor) else "terminal"

    what = "the request for a terminal"
    reply = change(invocation, client, CREATE_TERMINAL, body, wrong, what, executor)
    terminal: dict[str, Any] = reply["terminal"]
    if title:
        try:
            terminal["title"] = renamed(invocation, client, terminal["terminalId"], title)
        except CommandFailure as e:
            invocation.system.err(f"warning: the terminal has no title: {e.text}")
    if key is not None:
        return _attach(invocation, client, terminal["terminalId"], False, key, is_ours=True)
    if invocation.json:
        invocation.print_json(terminal)
    else:
        invocation.print(f"{terminal['terminalId']}\n")
    return DONE


def attach(invocation: Invocation) -> int:
    """Attach the terminal that this runs in."""
    name, executor = named(invocation)
    key = _attachable(invocation)
    client = user_client(invocation)
    found = find(invocation, client, name, executor)
    return _attach(invocation, client, found, invocation.parsed.flag("take-over"), key)


def rename(invocation: Invocation) -> int:
    """Give a terminal a title, or none."""
    name, executor = named(invocation)
    title = checked_title(invocation.parsed.operands[1], "the title")
    client = user_client(invocation)
    found = find(invocation, client, name, executor)
    shown = renamed(invocation, client, found, title)
    if invocation.json:
        invocation.print_json({"terminalId": found, "title": shown})
    else:
        invocation.print(f"{found}: {shown}\n" if shown else f"{found} has no title now\n")
    return DONE


def kill(invocation: Invocation) -> int:
    """End a terminal's processes and forget it.  One that is not there is none already."""
    name, executor = named(invocation)
    client = user_client(invocation)
    found = find(invocation, client, name, executor)
    reply = killed(invocation, client, found)
    if invocation.json:
        invocation.print_json({"terminalId": found, "terminal": reply["terminal"]})
    else:
        was = "killed" if reply["terminal"] is not None else "there is no terminal"
        invocation.print(f"{was} {found}\n")
    return DONE


def _status(terminal: dict[str, Any]) -> str:
    if terminal["processStatus"] != "exited":
        return str(terminal["processStatus"])
    return "exited" if terminal["exitCode"] is None else f"exited {terminal['exitCode']}"


def _attachable(invocation: Invocation) -> DetachKey:
    """Return the key that detaches, after making sure that there is a terminal to lend."""
    from garcon.cli.keyboard import detach_key

    key = detach_key(inputs.optional(invocation.parsed, "detach-key"))
    if invocation.system.terminal() is None:
        raise bad_arguments(
            "there is no terminal to attach: standard input and output must both be one"
        )
    return key


def _attach(
    invocation: Invocation,
    client: GarconClient,
    terminal_id: str,
    takes_over: bool,
    key: DetachKey,
    *,
    is_ours: bool = False,
) -> int:
    again = invocation.command("terminal", "attach", terminal_id)
    invocation.interruption = f"interrupted; the terminal goes on (attach again with: {again})"
    goes_on = f"; the terminal goes on: {again}"
    try:
        ended = _lend(invocation, client, terminal_id, takes_over, key)
    except CommandFailure as e:
        e.text += goes_on if is_ours else ""
        raise
    if ended.has_exited and is_ours:
        # It was made for this window, and ends with it.
        try:
            killed(invocation, client, terminal_id)
        except CommandFailure as e:
            invocation.system.err(f"warning: the terminal is still listed: {e.text}")
    if ended.phase:
        # Where nothing was said of the terminal itself, it is as it was.
        text = ended.text + (goes_on if ended.phase != TERMINAL else "")
        raise CommandFailure(ended.phase, text, ended.status)
    invocation.system.err(f"[{ended.text}{'' if ended.has_exited else goes_on}]")
    return ended.status


def _lend(
    invocation: Invocation,
    client: GarconClient,
    terminal_id: str,
    takes_over: bool,
    key: DetachKey,
) -> Ended:
    from garcon.cli.attaching import Attaching
    from garcon.cli.attachment import Attachment
    from garcon.cli.door import Door
    from garcon.cli.keyboard import Keyboard
    from garcon.cli.terminal import LocalTerminal

    system = client.system
    descriptors = system.terminal()
    assert descriptors is not None
    door = Door(client.endpoint, invocation.root.descriptor("controller"), client.token, system)
    attachment = Attachment(terminal_id, system.uuid(), takes_over, system.uuid)
    with LocalTerminal(*descriptors) as terminal:
        try:
            return Attaching(system, terminal, attachment, door, Keyboard(key)).run()
        except TransportFailure as e:
            raise failure_of(e, TERMINAL) from None
