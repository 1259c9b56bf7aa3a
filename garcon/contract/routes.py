"""Method, path, lane and bounds of every HTTP operation: plain constants that import nothing.

The command imports this module and must start without msgspec or Twisted; `operations.py` adds the
request and reply types.  Lanes, pools, deadlines, mutation and management follow control.md F.5; a
route with ``bridged = False`` is never carried by a worker's gateway.
"""

PREFIX = "/api/v1"


class Route:
    """Where one operation lives and how it may travel.

    `path` is below ``/api/v1`` and holds at most one ``:executorId`` segment.  `lane` is
    ``primary`` or ``bulk``, `pool` ``short`` or ``long``, `deadline` seconds or None for no timer
    at all.  `key` is the registry key of the bridge.
    """

    __slots__ = (
        "bridged",
        "deadline",
        "key",
        "lane",
        "management",
        "method",
        "mutation",
        "open",
        "path",
        "pool",
    )

    def __init__(
        self,
        method,  # type: str
        path,  # type: str
        bridged=True,  # type: bool
        lane="bulk",  # type: str
        pool="short",  # type: str
        deadline=30.0,  # type: float | None
        mutation=False,  # type: bool
        management=False,  # type: bool
        open=False,  # type: bool
    ):
        # type: (...) -> None
        self.method = method
        self.path = PREFIX + path
        self.key = method + " " + path
        self.bridged = bridged
        self.lane = lane
        self.pool = pool
        self.deadline = deadline
        self.mutation = mutation
        self.management = management
        self.open = open  # needs no principal

    def __repr__(self):
        # type: () -> str
        return "<Route " + self.key + ">"


RUNTIME = Route("GET", "/runtime", bridged=False, open=True)
CLI_CONTEXT = Route("GET", "/cli/context", bridged=False, lane="primary", deadline=5.0)
OPENAPI = Route("GET", "/openapi.json", bridged=False, open=True)

AUTH_STATUS = Route("GET", "/auth/status", bridged=False, open=True)
AUTH_REGISTER = Route("POST", "/auth/register", bridged=False, mutation=True, open=True)
AUTH_LOGIN = Route("POST", "/auth/login", bridged=False, mutation=True, open=True)
AUTH_USER = Route("GET", "/auth/user", bridged=False)
AUTH_LOGOUT = Route("POST", "/auth/logout", bridged=False, mutation=True)

LIST_EXECUTORS = Route("GET", "/executors")
CREATE_EXECUTOR = Route("POST", "/executors", mutation=True, management=True)
UPDATE_EXECUTOR = Route("PATCH", "/executors/:executorId", mutation=True, management=True)
DELETE_EXECUTOR = Route("DELETE", "/executors/:executorId", mutation=True, management=True)
REVEAL_CONNECTION = Route("GET", "/executors/:executorId/connection", management=True)
EXECUTOR_DIAGNOSTICS = Route("GET", "/executors/:executorId/diagnostics", management=True)
END_PROCESS = Route(
    "POST", "/executors/:executorId/diagnostics/end-process", mutation=True, management=True
)

MODELS = Route("GET", "/models")
AGENTS = Route("GET", "/agents", bridged=False)
AGENT_AUTH = Route("GET", "/agents/auth", bridged=False)
AGENT_READINESS = Route("GET", "/agents/readiness", bridged=False)
LAUNCH_AGENT_LOGIN = Route("POST", "/agents/auth/login", bridged=False, mutation=True)
AGENT_LOGIN_STATE = Route("GET", "/agents/auth/login", bridged=False)
COMPLETE_AGENT_LOGIN = Route("POST", "/agents/auth/login/complete", bridged=False, mutation=True)
LIST_PROVIDERS = Route("GET", "/api-providers", bridged=False)
CREATE_PROVIDER = Route("POST", "/api-providers", bridged=False, mutation=True)
UPDATE_PROVIDER = Route("PUT", "/api-providers", bridged=False, mutation=True)
DELETE_PROVIDER = Route("DELETE", "/api-providers", bridged=False, mutation=True)
TEST_PROVIDER = Route("POST", "/api-providers/test", bridged=False)
DISCOVER_MODELS = Route("POST", "/api-providers/models", bridged=False)
LIST_ASSIGNMENTS = Route("GET", "/api-provider-assignments", management=True)
ASSIGN_PROVIDER = Route("PUT", "/api-provider-assignments", mutation=True, management=True)
UNASSIGN_PROVIDER = Route("DELETE", "/api-provider-assignments", mutation=True, management=True)
READ_SETTINGS = Route("GET", "/app/settings")
CHANGE_SETTINGS = Route("PUT", "/app/settings", pool="long", deadline=None, mutation=True)
SESSION_NAME = Route("PUT", "/app/session-name", mutation=True)
LIST_PREAMBLES = Route("GET", "/preambles")
CREATE_PREAMBLE = Route("POST", "/preambles", bridged=False, mutation=True)
REPLACE_PREAMBLE = Route("PUT", "/preambles", bridged=False, mutation=True)
DELETE_PREAMBLE = Route("DELETE", "/preambles", bridged=False, mutation=True)
REORDER_PREAMBLES = Route("PUT", "/preambles/reorder", bridged=False, mutation=True)

LIST_CHATS = Route("GET", "/chats")
MESSAGES = Route("GET", "/chats/messages")
SNAPSHOT = Route("GET", "/chats/snapshot")
TURN_RECEIPT = Route("GET", "/chats/turn-receipt", lane="primary")
START_CHAT = Route("POST", "/chats/start", mutation=True)
RUN_CHAT = Route("POST", "/chats/run", mutation=True)
FORK = Route("POST", "/chats/fork", pool="long", deadline=None, mutation=True)
FORK_RUN = Route("POST", "/chats/fork-run", pool="long", deadline=None, mutation=True)
HANDOFF_RUN = Route("POST", "/chats/handoff-run", bridged=False, mutation=True)
COMPACT = Route("POST", "/chats/compact", bridged=False, mutation=True)
STOP_CHAT = Route("POST", "/chats/stop", lane="primary", mutation=True)
INTERRUPT_AND_SEND = Route("POST", "/chats/interrupt-and-send", bridged=False, mutation=True)
STEER = Route("POST", "/chats/steer", mutation=True)
READ_QUEUE = Route("GET", "/chats/queue", bridged=False)
CREATE_ENTRY = Route("POST", "/chats/queue/entries", bridged=False, mutation=True)
REPLACE_ENTRY = Route("PUT", "/chats/queue/entries", bridged=False, mutation=True)
DELETE_ENTRY = Route("DELETE", "/chats/queue/entries", bridged=False, mutation=True)
MOVE_ENTRY = Route("PUT", "/chats/queue/entries/move", bridged=False, mutation=True)
STEER_ENTRY = Route("POST", "/chats/queue/entries/steer", bridged=False, mutation=True)
PAUSE_QUEUE = Route("POST", "/chats/queue/pause", bridged=False, mutation=True)
RESUME_QUEUE = Route("POST", "/chats/queue/resume", bridged=False, mutation=True)
CLEAR_QUEUE = Route("POST", "/chats/queue/clear", bridged=False, mutation=True)
PERMISSION_DECISION = Route("POST", "/chats/permissions/decision", lane="primary", mutation=True)

DELETE_CHAT = Route("DELETE", "/chats", bridged=False, mutation=True)
SELECT_CHAT = Route("PUT", "/chats/last-selected", bridged=False, mutation=True)
TOGGLE_PIN = Route("POST", "/chats/pin", bridged=False, mutation=True)
TOGGLE_ARCHIVE = Route("POST", "/chats/archive", bridged=False, mutation=True)
PIN = Route("PUT", "/chats/pin", mutation=True)
ARCHIVE = Route("PUT", "/chats/archive", mutation=True)
REORDER_CHAT = Route("POST", "/chats/reorder", bridged=False, mutation=True)
MARK_READ = Route("POST", "/chats/read", bridged=False, mutation=True)
READ_TAGS = Route("GET", "/chats/tags")
SET_TAGS = Route("PUT", "/chats/tags", mutation=True)
CHANGE_TAGS = Route("PATCH", "/chats/tags", bridged=False, mutation=True)
CHANGE_EXECUTION_SETTINGS = Route(
    "PATCH", "/chats/execution-settings", bridged=False, mutation=True
)
CHANGE_MODEL = Route("PATCH", "/chats/model", bridged=False, mutation=True)
CHANGE_PROJECT_PATH = Route("PATCH", "/chats/project-path", bridged=False, mutation=True)
READ_ROWS = Route("GET", "/chats/rows")
ADD_ROW = Route("POST", "/chats/rows", mutation=True)
RUNNING_CHATS = Route("GET", "/chats/running", bridged=False)
CHAT_DETAILS = Route("GET", "/chats/details", bridged=False)
VALIDATE_START = Route("GET", "/chats/validate-start", bridged=False)
LOOKUP_NATIVE_SESSION = Route("POST", "/chats/lookup-native-session")

FILE_TREE = Route("GET", "/files/tree", bridged=False)
LIST_FILES = Route("GET", "/files/list", bridged=False)
IDENTIFY_FILE = Route("GET", "/files/identity", bridged=False)
FILE_REVISION = Route("GET", "/files/revision", bridged=False)
READ_TEXT = Route("GET", "/files/text", bridged=False)
SAVE_TEXT = Route("PUT", "/files/text", bridged=False, mutation=True)
READ_CONTENT = Route("GET", "/files/content", bridged=False)
BROWSE_FILES = Route("GET", "/files/browse", bridged=False)
MAKE_DIRECTORY = Route("POST", "/files/directories", bridged=False, mutation=True)
UPLOAD_ATTACHMENTS = Route("POST", "/files/upload-attachments", bridged=False)
UPLOAD_IMAGES = Route("POST", "/files/upload-images", bridged=False)

LIST_TERMINALS = Route("GET", "/terminals", bridged=False)
CREATE_TERMINAL = Route("POST", "/terminals", bridged=False, mutation=True)
TERMINATE_TERMINAL = Route("DELETE", "/terminals", bridged=False, mutation=True)
RENAME_TERMINAL = Route("PATCH", "/terminals", bridged=False, mutation=True)

# Registered for the bridge, their handlers come later: the gateway answers 404
# OPERATION_NOT_AVAILABLE (decisions.md 12).
EXPORT = Route("GET", "/chats/export", pool="long", deadline=120.0)
HANDOFF_ARTIFACT = Route("GET", "/chats/handoff-artifact", pool="long", deadline=120.0)
SEARCH = Route("POST", "/chats/search")
SEARCH_STATUS = Route("GET", "/chats/search/status")
SEARCH_REBUILD = Route("POST", "/chats/search/rebuild", pool="long", deadline=None, mutation=True)
TICKET_BOOTSTRAP = Route("GET", "/tickets/bootstrap")
TICKETS = Route("GET", "/tickets")
TICKET_DETAIL = Route("GET", "/tickets/detail")
TICKET_HISTORY = Route("GET", "/tickets/history")
TICKET_PROJECT_DEFAULT = Route("POST", "/tickets/project-default")
MUTATE_TICKETS = Route("POST", "/tickets/mutate", mutation=True)

ROUTES = tuple(value for value in tuple(globals().values()) if isinstance(value, Route))
BRIDGED = {route.key: route for route in ROUTES if route.bridged}
"""What a worker's gateway may forward, by registry key; the gateway serves `RUNTIME` and
`CLI_CONTEXT` itself.
"""

RUN_WITH_HANDOFF_POOL, RUN_WITH_HANDOFF_DEADLINE = "long", 600.0
"""A run whose body names a hand-off takes this pool and deadline instead (control.md F.5)."""
