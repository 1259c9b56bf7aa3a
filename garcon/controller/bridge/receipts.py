"""Cutting a turn receipt that is too large for the primary lane (control.md F.4, decisions.md 23).

Pure.  The outcome stays whole; of the output the copy in `assistantMessages` goes first, then the
beginning of `text`.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType, structs

from garcon.contract.chats import TurnReceipt
from garcon.contract.notices import RECEIPT_CUT

_ERROR_CHARACTERS = 2_048


def cut_receipt(body: bytes, limit: int) -> bytes | None:
    """Return a receipt of at most `limit` encoded bytes, or None when `body` is no receipt."""
    try:
        receipt = msgspec.json.decode(body, type=TurnReceipt)
    except msgspec.DecodeError:
        return None
    if not isinstance(receipt.output, UnsetType):
        output = receipt.output
        if isinstance(output.text, UnsetType) and not isinstance(
            output.assistant_messages, UnsetType
        ):
            output = structs.replace(output, text="\n\n".join(output.assistant_messages))
        receipt = structs.replace(receipt, output=structs.replace(output, assistant_messages=UNSET))
    content = msgspec.json.encode(receipt)
    if len(content) > limit and not isinstance(receipt.error, UnsetType):
        receipt = structs.replace(receipt, error=receipt.error[:_ERROR_CHARACTERS])
        content = msgspec.json.encode(receipt)
    if len(content) > limit:
        content = _cut_text(receipt, limit)
    return content if len(content) <= limit else None


def _cut_text(receipt: TurnReceipt, limit: int) -> bytes:
    """Keep as much of the end of the text as fits, in the escaped form that counts."""
    output = receipt.output
    if isinstance(output, UnsetType) or isinstance(output.text, UnsetType):
        return msgspec.json.encode(receipt)
    whole = output.text

    def encoded(kept: int) -> bytes:
        text = RECEIPT_CUT + whole[len(whole) - kept :]
        cut = structs.replace(output, text=text, completeness="best-effort")
        return msgspec.json.encode(structs.replace(receipt, output=cut))

    fits, too_many = 0, min(len(whole), limit) + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if len(encoded(middle)) <= limit:
            fits = middle
        else:
            too_many = middle
    return encoded(fits)
