"""What a client says about terminals on its socket, and what is wrong with it (values only;
server.md C.3).
"""

from __future__ import annotations

import msgspec

from garcon.contract.limits import CLIENT_ID_BYTES, TERMINAL_INPUT
from garcon.contract.terminals import (
    VALIDATION,
    AttachMessage,
    ClientMessage,
    InputMessage,
    terminal_error,
)
from garcon.controller.terminals.wording import Id
from garcon.errors import GarconError
from garcon.runtime.terminals.text import size_of

_decode = msgspec.json.Decoder(ClientMessage).decode


def read(payload: bytes) -> ClientMessage:
    """Read a message; raises ``terminal-validation`` for one that is not as it has to be."""
    try:
        message: ClientMessage = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _wrong(f"The message does not fit: {error}") from None
    _require_short(message.terminal_id)
    _require_short(message.attachment_id)
    if isinstance(message, InputMessage):
        if size_of(message.data) > TERMINAL_INPUT:
            raise _wrong(f"One input may have {TERMINAL_INPUT} bytes; nothing of it was typed.")
    elif isinstance(message, AttachMessage):
        _require_short(message.client_id)
        _require_short(message.attachment_epoch)
    return message


def _require_short(text: Id) -> None:
    if not isinstance(text, str) or len(text) * 4 <= CLIENT_ID_BYTES:
        return
    if size_of(text) > CLIENT_ID_BYTES:
        raise _wrong(f"An id has 1 to {CLIENT_ID_BYTES} bytes.")


def _wrong(text: str) -> GarconError:
    return terminal_error(VALIDATION, text)
