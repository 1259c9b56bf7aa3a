"""Every number of the contract that more than one place needs.  Bytes and seconds."""

KIB = 1024
MIB = 1024 * KIB

# Link records and messages (control.md J.1, J.4; 65519 is the most that noiseprotocol can still
# decrypt: pitfalls.md).
RECORD_PLAINTEXT = 65_519
FRAGMENT = 32 * KIB
MESSAGE = 16 * MIB
RUN_EVENT = MESSAGE - 64 * KIB
"""One fact of a run, encoded: what a message can hold beside its own frame."""
UNKNOWN_RAW = 16 * KIB
"""Kept of a message of an agent that is not known."""
HANDSHAKE_FRAME = 8_192
RECORDS_PER_KEY = 2**32

QUEUE_BYTES, QUEUE_MESSAGES = 32 * MIB, 4_096
QUEUE_BULK_BYTES, QUEUE_BULK_MESSAGES = 24 * MIB, 3_072
QUEUE_BULK_CONTROL_BYTES, QUEUE_BULK_CONTROL_MESSAGES, BULK_CONTROL_MESSAGE = 32 * KIB, 4, 8 * KIB
PRODUCER_QUEUE_BYTES, PRODUCER_QUEUE_MESSAGES = 4 * MIB, 512
TERMINAL_QUEUE_BYTES, TERMINAL_QUEUE_MESSAGES = 2 * MIB, 256
SOCKET_BUFFER = 512 * KIB
CALLS, CALLS_BULK = 256, 192
PRIMARY_CALL = 64 * KIB
PRODUCER_RETENTION, PRODUCER_SHARE = 32 * MIB, 256 * KIB
PRODUCER_WINDOW_BYTES, PRODUCER_WINDOW_FRAMES = 4 * MIB, 2_048
JOURNAL_BYTES, JOURNAL_BULK_BYTES = 64 * MIB, 48 * MIB
RECEIPT_SESSIONS = 16
ACK_IDS = 1_024

# Link times (control.md J.3, J.5).
HANDSHAKE_TIME = 5.0
PING_EVERY, DEAD_AFTER = 5.0, 15.0
REDIAL_DELAYS = (0.0, 5.0, 5.0, 10.0, 10.0, 10.0, 10.0, 10.0, 30.0)
REDIAL_RESET_AFTER = 10.0
CALL_DEADLINE = 120.0
BULK_WAIT = 20.0
BULK_STEP, BULK_RECONCILING = 5.0, 120.0
INTERACTIVE_WAIT = 20.0
INTERACTIVE_READ = INTERACTIVE_WAIT + 5.0
"""A read under a chat's lock: it waits no longer than that, but once sent it may run longer."""
DISPATCH_RESERVE = 1.0
RETRY = 0.01
LAUNCH_WAIT = 20.0
ACK_BATCH = 0.25
GRACE = 3 * 3600.0
NEWER_GRACE = 300.0

# Sockets (control.md J.3).
SOCKETS_PER_LINK = 4
ESTABLISHED_PER_LANE, PENDING_SOCKETS, SOCKETS_TOTAL = 64, 64, 192

# The bridge (control.md F.4).
BRIDGE_ENVELOPE = KIB
BRIDGE_BULK_REQUEST, BRIDGE_BULK_REPLY = MIB, 8 * MIB
BRIDGE_PRIMARY = 64 * KIB
SMALL_REPLY = 64 * KIB
REPLY_QUEUE_PRESSURE = 8 * MIB
POOL_SHORT, POOL_SHORT_BULK, POOL_LONG = 6, 4, 2
POOL_SHORT_TOTAL, POOL_SHORT_BULK_TOTAL, POOL_LONG_TOTAL = 32, 24, 8
QUERY_PAIRS, QUERY_PART = 128, 8_192
DESCRIBE_DEADLINE = 5.0
GATEWAY_CONNECTIONS, GATEWAY_RESPONSES, GATEWAY_RESPONSES_BULK = 32, 16, 12
GATEWAY_HEADERS, GATEWAY_HEADER_TIME, GATEWAY_REQUEST_TIME, GATEWAY_DRAIN_TIME = (
    32 * KIB,
    10.0,
    30.0,
    30.0,
)
GATEWAY_WRITE = 64 * KIB

# HTTP (chats.md 1.1).
HTTP_BODY = 50 * MIB
HTTP_IDLE = 120.0
CREDENTIALS_BODY = 16 * KIB
"""What somebody unknown may send; a name and a password of the longest kind are far smaller."""

# Names and texts (chats.md 1.1, control.md E).
CLIENT_ID_BYTES = 256
ENTRY_ID_BYTES = 128
TITLE_BYTES = 4 * KIB
LABEL_CHARACTERS = 100
URL_CHARACTERS = 4_096
PAGE_ROWS = 200
ROW_BYTES, ROW_TITLE_CHARACTERS = 65_536, 120
"""What a chat row holds."""

# Terminals (server.md C).
TERMINALS = 8
"""Of one principal on one executor, exited ones included."""
TERMINAL_INPUT = 64 * KIB
TERMINAL_OPERATIONS, TERMINAL_OPERATIONS_BYTES = 1_024, 16 * MIB
"""Inputs and sizes that may wait for one terminal; the bytes are our own bound."""
TERMINAL_TAIL, TERMINAL_TAIL_CHUNKS = MIB, 65_536
"""What can be replayed; the chunks are our own bound, for output that comes byte by byte."""
TERMINAL_LAG = 2 * MIB
"""So much may wait for an owner before it is detached."""
TERMINAL_WINDOW, TERMINAL_WINDOW_CHUNKS = 512 * KIB, 256
"""Given to an attachment and not taken yet."""
TERMINAL_RESULTS, TERMINAL_RESULTS_TOTAL, TERMINAL_RESULT_TIME = 256, 4_096, 600.0
TERMINAL_TITLE_CHARACTERS = 120
TERMINAL_SUBSCRIPTIONS = 256
"""Of one socket, and also of one terminal."""
TERMINAL_MESSAGE, TERMINAL_FRAGMENT = 65_536, 49_152
"""One socket message as JSON, and the base64 characters of one fragment."""
TERMINAL_SOCKET_MESSAGES, TERMINAL_SOCKET_BYTES = 256, 16 * MIB
TERMINAL_WAITING_MESSAGES, TERMINAL_WAITING_BYTES = 256, 2 * MIB
"""Queued while a socket takes no more: in all, and of one terminal."""

# Receipts (chats.md 4.11) and the command ledger (2.3).
RECEIPT_TEXT, RECEIPT_MESSAGES = 4 * MIB, 4_096
RECEIPTS_TEXT, RECEIPTS_MESSAGES = 64 * MIB, 65_536
LEDGER_TERMINAL = 1_000
SESSIONS = 50
