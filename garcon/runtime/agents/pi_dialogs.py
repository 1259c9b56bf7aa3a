"""What other extensions of Pi show and ask: each dialog is a question to the user, whatever the
permission mode, and gets an answer.  Between turns there is nobody to ask.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field, frozen
from msgspec import UNSET

from garcon.contract.messages import (
    AskUserQuestionToolUse,
    Question,
    QuestionOption,
    ToolResult,
    TranscriptNotice,
)
from garcon.contract.runs import PermissionRequested, PermissionResponse, RowProduced
from garcon.runtime.agents.conversation import Emit, Output, Unknown
from garcon.runtime.agents.pi_known import DIALOGS, SHOWN
from garcon.runtime.agents.pi_wire import (
    Message,
    an_object,
    cancelled,
    confirmed,
    entered,
    objects,
    text_of,
)
from garcon.runtime.agents.stamps import Stamp

OPEN = 64
"""Dialogs that may wait in one process; what is asked beyond them is answered at once."""
CHOICES, CHARACTERS = 200, 10_000
"""Of one dialog that are shown."""
_YES = ("Yes", "No")
_QUESTION = "question-1"


@frozen
class Dialog:
    """One that waits for its answer."""

    request_id: Any
    method: str
    values: dict[str, str]
    """What can be chosen, by the ids of the options."""
    prefill: str
    tool: AskUserQuestionToolUse

    @classmethod
    def read(cls, message: Message, now: str) -> Dialog:
        """Read what is asked."""
        method, given = text_of(message.get("method")), message.get("options")
        choices = [one for one in given if isinstance(one, str)] if isinstance(given, list) else []
        choices = list(_YES) if method == "confirm" else choices[:CHOICES]
        values = {f"option-{number}": one for number, one in enumerate(choices, 1)}
        prefill = text_of(message.get("prefill"))
        more = text_of(message.get("message")) or text_of(message.get("placeholder")) or prefill
        prompt = "\n\n".join(one for one in (text_of(message.get("title")), more) if one)
        question = Question(
            id=_QUESTION,
            prompt=prompt[:CHARACTERS],
            options=[
                QuestionOption(id=name, label=value[:CHARACTERS]) for name, value in values.items()
            ],
            allow_multiple=False if values else UNSET,
        )
        request_id = message.get("id")
        tool = AskUserQuestionToolUse(
            timestamp=now, tool_id=f"dialog-{request_id}", questions=[question]
        )
        return cls(request_id, method, values, prefill, tool)

    def said(self, response: PermissionResponse | None) -> str | None:
        """Return the words of an answer, None where there are none.  An option's id stands for the
        option, all else is the user's own text.  A dialog that was just allowed has the answer
        that it proposes.
        """
        if response is None or not response.allow:
            return None
        given = an_object(response.response)
        if given.get("outcome") == "skipped":
            return None
        for answer in objects(given.get("answers")):
            chosen = answer.get("selectedOptionIds")
            if answer.get("questionId") == _QUESTION and isinstance(chosen, list) and chosen:
                return self.values.get(str(chosen[0]), str(chosen[0]))
        return _YES[0] if self.method == "confirm" else self.prefill or None

    def settled(self, said: str | None) -> Output:
        """Return what is answered to Pi."""
        if self.method == "confirm":
            return confirmed(self.request_id, said == _YES[0])
        is_choice = self.method != "select" or said in self.values.values()
        if said is None or not is_choice:
            return cancelled(self.request_id)
        return entered(self.request_id, said)

    def told(self, said: str | None, now: str) -> Output:
        """Return the row of an answer."""
        text = "Nobody answered." if said is None else said
        result = ToolResult(
            timestamp=now, tool_id=self.tool.tool_id, content={"text": text}, is_error=said is None
        )
        return Emit(RowProduced(message=result))


@define(eq=False)
class Dialogs:
    """Those of one process."""

    _open: dict[str, Dialog] = field(factory=dict)
    """By the occurrence that the user knows them by."""

    def take(self, message: Message, stamp: Stamp, *, in_turn: bool) -> list[Output]:
        """Take what an extension shows or asks; `in_turn`: there is somebody to see it."""
        request_id, method = message.get("id"), message.get("method")
        if not isinstance(method, str) or method not in DIALOGS | SHOWN | {"notify"}:
            return [cancelled(request_id), Unknown(f"extension_ui_request.{method}", message)]
        if method in DIALOGS:
            if in_turn and len(self._open) < OPEN:
                return self._ask(Dialog.read(message, stamp.now), stamp)
            return [cancelled(request_id)]
        told = text_of(message.get("message"))
        if not (in_turn and method == "notify" and told):
            return []
        notice = TranscriptNotice(timestamp=stamp.now, content=told)
        return [Emit(RowProduced(message=notice))]

    def _ask(self, dialog: Dialog, stamp: Stamp) -> list[Output]:
        self._open[stamp.fresh_id] = dialog
        asked = PermissionRequested(
            permission_occurrence_id=stamp.fresh_id,
            requested_tool=dialog.tool,
            options=[],
            timestamp=stamp.now,
        )
        return [Emit(RowProduced(message=dialog.tool)), Emit(asked)]

    def decide(self, response: PermissionResponse, stamp: Stamp) -> list[Output] | None:
        """Answer one as the user decided; None for one that is not open."""
        dialog = self._open.pop(response.permission_occurrence_id, None)
        if dialog is None:
            return None
        said = dialog.said(response)
        return [dialog.settled(said), dialog.told(said, stamp.now)]

    def close(self, stamp: Stamp) -> list[Output]:
        """Answer all that are open: the turn is over, or to be."""
        outputs: list[Output] = []
        for dialog in self._open.values():
            outputs += [dialog.settled(None), dialog.told(None, stamp.now)]
        self._open.clear()
        return outputs
