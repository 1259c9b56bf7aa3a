"""`wait`: the answer of a turn that was started earlier."""

from __future__ import annotations

from garcon.cli import inputs
from garcon.cli.failures import DONE
from garcon.cli.receipts import Turn, await_receipt, envelope_of, outcome
from garcon.cli.rows import complete
from garcon.cli.turns import print_answer, waiting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from garcon.cli.invocation import Invocation


def run(invocation: Invocation) -> int:
    """Wait for the turn to settle; a receipt is printed even when it ends the command badly."""
    turn = Turn(inputs.chat_id(invocation.parsed.operands[0]), inputs.turn_id(invocation.parsed))
    client = invocation.connect()
    waiting(invocation, turn)
    receipt = await_receipt(client, turn)
    ended = outcome(receipt)
    if ended is None or invocation.json:
        complete(client, turn, receipt)
    if invocation.json:
        invocation.print_json(envelope_of(receipt))
    if ended is not None:
        raise ended
    if not invocation.json:
        print_answer(invocation, receipt)
    return DONE
