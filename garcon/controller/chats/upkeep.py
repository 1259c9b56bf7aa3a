"""Everything that lists, describes and looks after chats, as one part of their service."""

from __future__ import annotations

from collections.abc import Callable

from garcon.contract import operations
from garcon.controller.chats.delete import Deletions
from garcon.controller.chats.details import Details
from garcon.controller.chats.lanes import Lanes
from garcon.controller.chats.listing import Lists
from garcon.controller.chats.moves import Moves, PinsAt
from garcon.controller.chats.naming import Names
from garcon.controller.chats.project import Projects
from garcon.controller.chats.reads import Reads
from garcon.controller.chats.rows import ChatRows
from garcon.controller.chats.settings import ChatSettings
from garcon.controller.chats.state import State
from garcon.controller.chats.tags import Tags
from garcon.controller.handlers import Handlers


def register(handlers: Handlers, state: State, pins_at: Callable[[], PinsAt]) -> None:
    """Serve it; `pins_at` says where a chat goes that is pinned now."""
    lists, tags, rows = Lists(state), Tags(state), ChatRows(state)
    settings, projects, details = ChatSettings(state), Projects(state), Details(state)
    moves = Moves(state, Lanes(state.tasks), pins_at)
    for operation, handler in (
        (operations.LIST_CHATS, lists.list),
        (operations.SELECT_CHAT, lists.select),
        (operations.DELETE_CHAT, Deletions(state).delete),
        (operations.TOGGLE_PIN, moves.toggle_pin),
        (operations.TOGGLE_ARCHIVE, moves.toggle_archive),
        (operations.PIN, moves.pin),
        (operations.ARCHIVE, moves.archive),
        (operations.REORDER_CHAT, moves.reorder),
        (operations.MARK_READ, Reads(state).read),
        (operations.READ_TAGS, tags.read),
        (operations.SET_TAGS, tags.set),
        (operations.CHANGE_TAGS, tags.change),
        (operations.SESSION_NAME, Names(state).name),
        (operations.CHANGE_EXECUTION_SETTINGS, settings.change_execution),
        (operations.CHANGE_MODEL, settings.change_model),
        (operations.CHANGE_PROJECT_PATH, projects.change),
        (operations.VALIDATE_START, projects.validate),
        (operations.READ_ROWS, rows.view),
        (operations.ADD_ROW, rows.add),
        (operations.RUNNING_CHATS, details.running),
        (operations.CHAT_DETAILS, details.details),
        (operations.LOOKUP_NATIVE_SESSION, details.find_native_session),
    ):
        handlers.register(operation, handler)
