"""What other extensions of Pi show and ask: nobody looks at their screen, and each question gets an
answer.
"""

from __future__ import annotations

from garcon.contract.messages import TranscriptNotice
from garcon.contract.runs import RowProduced
from garcon.runtime.agents.conversation import Emit, Output, Unknown
from garcon.runtime.agents.pi_known import DIALOGS, SHOWN
from garcon.runtime.agents.pi_wire import Message, cancelled, text_of
from garcon.runtime.agents.stamps import Stamp


def dialog(message: Message, stamp: Stamp, *, in_turn: bool) -> list[Output]:
    """Take one; what was said or asked in a turn is shown there."""
    request_id, method = message.get("id"), message.get("method")
    if not isinstance(method, str) or method not in DIALOGS | SHOWN | {"notify"}:
        return [cancelled(request_id), Unknown(f"extension_ui_request.{method}", message)]
    outputs: list[Output] = []
    told = text_of(message.get("message")) or text_of(message.get("title"))
    if in_turn and method not in SHOWN and told:
        text = told if method == "notify" else f"An extension of Pi asked in vain: {told}"
        notice = TranscriptNotice(timestamp=stamp.now, content=text)
        outputs.append(Emit(RowProduced(message=notice)))
    return [*outputs, cancelled(request_id)] if method in DIALOGS else outputs
