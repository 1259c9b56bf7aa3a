"""Every command of `garcon`, declared once."""

from __future__ import annotations

from garcon.cli.options import MANY, TRUTH, Command, Option

PERMISSION_MODES = ("default", "acceptEdits", "manualBypass", "bypassPermissions", "plan")
BYPASS_MODES = frozenset({"manualBypass", "bypassPermissions"})
REASONING_EFFORTS = ("none", "low", "medium", "high", "xhigh", "max", "ultra")
STYLES = ("info", "notice", "error", "custom")
ROW_TYPES = STYLES[:3]

CLI_ACCESS = (
    "CLI access means command execution: who may use the command from a worker may start agents,"
    " and so run commands, on every machine of the workspace, the controller's own included."
)
MANAGEMENT = (
    "Executor management, on top of CLI access, also lets that worker's account create, change and"
    " delete executors, read their connection secrets, have the keys of API providers told to them,"
    " and end processes that are left over on them."
)

JSON = Option("--json", "print one JSON document")
PRESENTATION = (
    Option("--message-title", "show the message under this title", "TEXT"),
    Option("--message-style", "show the message in this style", choices=STYLES),
    Option("--color", "own colours for light and dark (implies custom)", "HEX[,HEX]"),
    Option("--collapsible", "show the message's body collapsed"),
)
MODEL = "model: its value, or its raw name"
CHOICES = (
    Option("--provider", "API provider: id or exact label", "PROVIDER"),
    Option("--endpoint", "endpoint of that provider", "ENDPOINT"),
    Option("--permissions", "permission mode", choices=PERMISSION_MODES),
    Option("--reasoning-effort", "reasoning effort", choices=REASONING_EFFORTS),
)
AGENT = "agent (see `garcon list agents`)"
EXECUTOR = Option("--executor", "where to run: local or an executor's UUID", "ID")
EXECUTOR_OF = Option("--executor", "whose: local or an executor's UUID", "ID")
START = (
    Option("--agent", f"{AGENT}; needed", "AGENT"),
    Option("--model", f"{MODEL}; needed", "MODEL"),
    *CHOICES,
    EXECUTOR,
    Option("--cwd", "project directory (default: the current one)", "DIR"),
    Option("--title", "title of the chat", "TEXT"),
    Option("--tag", "tag of the chat (repeatable; cli is always set)", "TAG", MANY),
    Option("--parent", "chat that delegates this one", "CHAT"),
    Option("--preamble", "preamble to use (repeatable, in order)", "ID", MANY),
    Option("--no-preamble", "use no preamble"),
    *PRESENTATION,
    JSON,
)
START_NOTES = (
    "The prompt `-` is read from standard input; put -- before a prompt that begins with a dash."
    " On an executor other than the one this command belongs to, --cwd must be an absolute path"
    " there."
)
ALLOW_HANDOFF_FORK = Option(
    "--allow-handoff-fork",
    "begin a new agent session where the agent's own cannot be forked",
)
FORK_NOTES = (
    "The fork has the conversation up to now, the source's agent, model, modes, tags and project,"
    " and goes on by itself; the source may be running and stays as it is. With a prompt, fork and"
    " turn are one command that is repeated safely; a fork without one is never repeated."
)
GRANTS = (
    Option("--allow-controller-cli", "let the worker use this command", kind=TRUTH),
    Option("--allow-executor-management", "let it manage executors too", kind=TRUTH),
)
DIRECTIONS = ("executor-connects", "controller-connects")
CONNECTION_URL = Option("--connection-url", "read the worker's URL from standard input", "-")
NO_TLS = Option("--no-tls", "allow a ws: address", kind=TRUTH)
UNVERIFIED = Option("--allow-unverified-tls", "accept any certificate when dialling", kind=TRUTH)

DETACH_KEY = Option("--detach-key", "key that detaches (default ^]; none: no key does)", "^X")
TERMINAL_ACCESS = (
    "Terminals belong to the controller's account: log in with `garcon login` first, or name a"
    " private file that holds a token in GARCON_TOKEN_FILE, which comes first. They are reached"
    " from the controller's machine only."
)
TERMINAL_NAMES = (
    "A terminal is named by its number, by the beginning of what `garcon terminal list` shows for"
    " it (both on local unless --executor says another), or by its whole id."
)
ATTACHED = (
    "Ctrl-] detaches: the shell goes on, and attaching again shows what it has printed. It is"
    " never sent to the shell; choose another key with --detach-key if a program needs it. The exit"
    " status is 0 after detaching or when the shell has ended with 0, 1 when it has ended"
    " otherwise, 4 when the terminal was killed. When the connection drops, it is made again for"
    " two minutes."
)

_SECRET_NOTES = (
    "The connection URL holds a secret: pass it on standard input (--connection-url -), because"
    " arguments can be seen by other users of the machine."
)

_ALL = (
    Command(
        "start",
        "<prompt>...",
        "Start a chat, wait for its first turn and print the answer",
        "start",
        options=START,
        notes=START_NOTES,
    ),
    Command(
        "start-async",
        "<prompt>...",
        "Start a chat and return at once",
        "start",
        "run_async",
        START,
        START_NOTES,
    ),
    Command(
        "resume",
        "<chat> <prompt>...",
        "Run another turn in a chat, wait and print the answer",
        "resume",
        options=(
            Option("--agent", AGENT, "AGENT"),
            Option("--model", MODEL, "MODEL"),
            *CHOICES,
            Option("--title", "new title of the chat", "TEXT"),
            *PRESENTATION,
            JSON,
        ),
        notes="The chat stays on its executor. Naming another --agent hands the chat over to it.",
    ),
    Command(
        "resume-async",
        "<chat> <message>",
        "Send a message to a chat and return at once",
        "resume_async",
        options=(
            Option("--allow-steer", "let it join the turn that runs, if one does"),
            *PRESENTATION,
            JSON,
        ),
        notes="The message becomes a turn of its own if the chat is idle. It is never queued: a"
        " busy chat, or one with paused or queued messages, refuses it.",
    ),
    Command(
        "fork",
        "<chat> [prompt]...",
        "Fork a chat; with a prompt, run a turn in the fork, wait and print the answer",
        "fork",
        options=(ALLOW_HANDOFF_FORK, JSON),
        notes=FORK_NOTES,
    ),
    Command(
        "fork-async",
        "<chat> <prompt>...",
        "Fork a chat, run a turn in the fork and return at once",
        "fork",
        "run_async",
        (ALLOW_HANDOFF_FORK, JSON),
        FORK_NOTES,
    ),
    Command(
        "wait",
        "<chat>",
        "Wait for a turn and print its answer",
        "wait",
        options=(Option("--turn", "the turn to wait for; needed", "TURN"), JSON),
        notes="`garcon start-async` prints the turn. Interrupting the wait stops nothing.",
    ),
    Command(
        "status",
        "<chat>",
        "Show a chat, its newest messages and what waits for a decision",
        "status",
        options=(Option("--messages", "how many messages, 0 to 200 (default 10)", "N"), JSON),
    ),
    Command("stop", "<chat>", "Stop a chat's running turn", "stop", options=(JSON,)),
    Command(
        "permission-decision",
        "<chat> <occurrence> <allow|deny>",
        "Answer an agent's permission request",
        "permission",
        options=(
            Option("--run", "the run that asks; needed", "RUN"),
            Option("--server-instance", "the controller that asks; needed", "INSTANCE"),
            JSON,
        ),
        notes="`garcon status` prints this command ready to use for each open request.",
    ),
    Command(
        "chats",
        "",
        "Find chats, the most recently active first",
        "chats",
        options=(
            Option("--filter", "only chats that pass it", "FILTER"),
            Option("--limit", "how many, 1 to 100 (default 20)", "N"),
            Option("--offset", "how many to leave out first", "N"),
            JSON,
        ),
        notes="A filter has terms, which the title, the project, the first or last message or a"
        " tag must contain, and clauses: title: tag: agent: model: project: id: parent:"
        " created-before: created-after: updated-before: updated-after: status:active|unread"
        " is:pinned|normal|archived is:!pinned and so on. A | parts alternatives, double quotes"
        " keep words together. Dates are 2026-01-31, or times with Z or an offset.",
    ),
    Command("pin", "<chat>", "Pin a chat", "upkeep", "pin", (JSON,)),
    Command("unpin", "<chat>", "Put a pinned chat back", "upkeep", "unpin", (JSON,)),
    Command("archive", "<chat>", "Archive a chat", "upkeep", "archive", (JSON,)),
    Command("unarchive", "<chat>", "Put an archived chat back", "upkeep", "unarchive", (JSON,)),
    Command("rename", "<chat> <title>", "Give a chat another title", "upkeep", "rename", (JSON,)),
    Command(
        "set-tags",
        "<chat>",
        "Give a chat these tags and no others",
        "upkeep",
        "set_tags",
        (
            Option("--tag", "tag of the chat (repeatable)", "TAG", MANY),
            Option("--clear", "take all tags away"),
            JSON,
        ),
    ),
    Command(
        "add-row",
        "<chat> <content>",
        "Put a row into a chat's transcript that no agent reads",
        "add_row",
        options=(
            Option("--type", "how it looks", choices=ROW_TYPES),
            Option("--color", "own colours for light and dark instead", "HEX[,HEX]"),
            Option("--title", "title of the row, one line", "TEXT"),
            Option("--markdown", "show the content as Markdown"),
            Option("--collapsible", "show the content collapsed"),
            JSON,
        ),
        notes="The content `-` is read from standard input and kept to the byte.",
    ),
    Command(
        "lookup-native-session",
        "<id>",
        "Print the chat that an agent's own session belongs to",
        "native_session",
        options=(Option("--agent", AGENT, "AGENT"), EXECUTOR_OF),
    ),
    Command(
        "list",
        "<agents|preambles|providers|endpoints|models|permissions|reasoning-efforts>",
        "List what can be chosen on an executor",
        "listing",
        options=(
            Option("--agent", AGENT, "AGENT"),
            Option("--provider", "API provider: id or exact label", "PROVIDER"),
            Option("--endpoint", "endpoint of that provider", "ENDPOINT"),
            EXECUTOR_OF,
            JSON,
        ),
        notes="models, permissions and reasoning-efforts are an agent's and need --agent; endpoints"
        " are a provider's and need --provider.",
    ),
    Command(
        "login",
        "",
        "Sign in at the controller and keep the token",
        "login",
        options=(
            Option("--username", "whose account (default: the controller's own)", "NAME"),
            Option("--stdin", "read the password from standard input"),
            JSON,
        ),
        notes="Asks for the password. The token goes into a private file below the config root;"
        " only `garcon terminal` needs one.",
    ),
    Command(
        "logout",
        "",
        "Give the token of a login back and forget it",
        "login",
        "logout",
        (JSON,),
    ),
    Command("executor list", "", "List executors", "executor", "list_executors", options=(JSON,)),
    Command("executor show", "<id>", "Show one executor", "executor", "show", options=(JSON,)),
    Command(
        "executor create",
        "",
        "Register a worker",
        "executor_changes",
        "create",
        (
            Option("--label", "its name; needed", "TEXT"),
            Option("--direction", "who dials; needed", choices=DIRECTIONS),
            Option(
                "--advertise-url", "address the worker dials ({executorId} is filled in)", "URL"
            ),
            CONNECTION_URL,
            NO_TLS,
            UNVERIFIED,
            *GRANTS,
            JSON,
        ),
        f"{CLI_ACCESS} {MANAGEMENT} {_SECRET_NOTES}",
    ),
    Command(
        "executor update",
        "<id>",
        "Change an executor's name, grants or connection",
        "executor_changes",
        "update",
        (
            Option("--label", "its new name", "TEXT"),
            *GRANTS,
            Option("--direction", "who dials", choices=DIRECTIONS),
            CONNECTION_URL,
            NO_TLS,
            UNVERIFIED,
            JSON,
        ),
        "A connection edit names --direction, --connection-url and --no-tls together."
        f" {CLI_ACCESS} {MANAGEMENT} {_SECRET_NOTES}",
    ),
    Command(
        "executor enable",
        "<id>",
        "Let an executor connect",
        "executor_changes",
        "enable",
        (JSON,),
    ),
    Command(
        "executor disable",
        "<id>",
        "Disconnect an idle executor",
        "executor_changes",
        "disable",
        (JSON,),
    ),
    Command("executor delete", "<id>", "Forget an executor", "executor_changes", "delete", (JSON,)),
    Command(
        "executor connection",
        "<id>",
        "Reveal an executor's connection URL, secret included",
        "executor",
        "connection",
        (Option("--output", "write it to a new private file instead", "FILE"), JSON),
    ),
    Command(
        "executor wait",
        "<id>",
        "Wait until an executor is ready",
        "executor",
        "wait",
        (
            Option("--ready", "wait for it to be ready; needed"),
            Option("--timeout", "seconds, 1 to 3600 (default 30)", "SECONDS"),
            JSON,
        ),
    ),
    Command(
        "executor doctor",
        "<id>",
        "Explain why an executor's link is down, and list what is left over there",
        "executor_doctor",
        options=(Option("--end", "end this process, which is left over there", "PID"), JSON),
        notes="Exit status 0 when the executor is ready, or the process ended; 3 otherwise. No"
        " address and no secret is shown. Left over are processes that an executor started and that"
        " outlived their agent or terminal, or the executor itself when it was killed.",
    ),
    Command(
        "executor connection-url",
        "",
        "Reveal the connection URL of the worker that listens on this machine",
        "executor_local",
        "connection_url",
        (
            Option(
                "--advertise-url",
                "address others reach it at (or GARCON_EXECUTOR_ADVERTISE_URL)",
                "URL",
            ),
        ),
        "Nothing is started and nothing is made: the worker must have listened before.",
    ),
    Command(
        "terminal list",
        "",
        "List the terminals of an executor",
        "terminal",
        "list_terminals",
        (EXECUTOR_OF, JSON),
        TERMINAL_ACCESS,
    ),
    Command(
        "terminal new",
        "",
        "Start a shell on an executor and attach this terminal to it",
        "terminal",
        "new",
        (
            EXECUTOR,
            Option(
                "--cwd", "where it begins: the project base there (the default), or below", "DIR"
            ),
            Option("--title", "title of the terminal", "TEXT"),
            Option("--detached", "print its id instead of attaching"),
            DETACH_KEY,
            JSON,
        ),
        f"{ATTACHED} A terminal that was made and left this way is removed when its shell ends;"
        " one that was detached from stays. On an executor other than local, --cwd must be an"
        f" absolute path there. {TERMINAL_ACCESS}",
    ),
    Command(
        "terminal attach",
        "<terminal>",
        "Attach this terminal to one of an executor",
        "terminal",
        "attach",
        (
            Option("--take-over", "take it from another client that is attached"),
            DETACH_KEY,
            EXECUTOR_OF,
        ),
        f"{ATTACHED} {TERMINAL_NAMES} {TERMINAL_ACCESS}",
    ),
    Command(
        "terminal rename",
        "<terminal> <title>",
        "Give a terminal a title; an empty one takes it away",
        "terminal",
        "rename",
        (EXECUTOR_OF, JSON),
        f"{TERMINAL_NAMES} {TERMINAL_ACCESS}",
    ),
    Command(
        "terminal kill",
        "<terminal>",
        "End a terminal's processes and forget it",
        "terminal",
        "kill",
        (EXECUTOR_OF, JSON),
        f"{TERMINAL_NAMES} {TERMINAL_ACCESS}",
    ),
)

COMMANDS = {command.words: command for command in _ALL}
GROUPS = frozenset({"executor", "terminal"})
SERVICES = {
    "controller": ("garcon.controller.tap", "Run the controller in the foreground"),
    "worker": ("garcon.worker.tap", "Run a worker in the foreground"),
    "demo": ("garcon.demo", "Show a controller, a worker and two turns, then clean up"),
}
"""Commands that are services of their own: the rest of the command line is theirs."""
