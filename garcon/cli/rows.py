"""The whole text of a turn whose receipt was cut on its way (decisions.md 23)."""

from __future__ import annotations

from garcon.cli.failures import (
    OPERATIONAL,
    POLLING,
    ApiError,
    BadAnswer,
    CommandFailure,
    RuntimeReplaced,
    TransportFailure,
    failure_of,
)
from garcon.cli.receipts import join_messages, may_retry, output_text
from garcon.contract.notices import RECEIPT_CUT
from garcon.contract.routes import MESSAGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.receipts import Turn

PAGE = 200
ATTEMPTS = 3
_TAIL = 1_024


def complete(client: GarconClient, turn: Turn, receipt: dict[str, Any]) -> None:
    """Put the turn's whole text into its receipt if that was cut; fail rather than lose any."""
    output = receipt["output"]
    if output["availability"] != "available":
        return
    cut = output_text(output)
    if not cut.startswith(RECEIPT_CUT):
        return
    try:
        text = _find(_backwards(client, turn.chat_id), turn.message_id, cut[len(RECEIPT_CUT) :])
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        failure = failure_of(e, POLLING)
        failure.exit_status = OPERATIONAL
        raise failure from None
    if text is None:
        raise CommandFailure(
            POLLING,
            f"the answer was cut on its way and is no longer found in chat {turn.chat_id}",
            OPERATIONAL,
        )
    output["text"] = text
    output["completeness"] = "complete" if receipt["state"] == "completed" else "best-effort"
    output.pop("assistantMessages", None)


def _find(backwards: Iterator[dict[str, Any]], message_id: str | None, tail: str) -> str | None:
    """Return the turn's text, given the chat's messages from the newest back.

    With its message id the turn starts at its own row, and later inputs that joined it belong to
    it.  Without, it is the stretch between two user rows that ends as the cut text does.
    """
    ending = tail[-_TAIL:]
    stretch: list[str] = []
    stretches: list[list[str]] = []
    for message in backwards:
        content = message.get("content")
        if message.get("type") == "assistant-message" and isinstance(content, str):
            stretch.append(content)
        if message.get("type") != "user-message":
            continue
        stretches.append(stretch[::-1])
        stretch = []
        if message_id is None:
            text = join_messages(stretches[-1])
            if text.endswith(ending):
                return text
        elif _identity(message) == message_id:
            return _grown(stretches[::-1], ending)
    return None


def _grown(stretches: list[list[str]], ending: str) -> str | None:
    """Return the shortest text that begins with the first stretch and ends as it must."""
    messages: list[str] = []
    for stretch in stretches:
        messages += stretch
        text = join_messages(messages)
        if text.endswith(ending):
            return text
    return None


def _identity(message: dict[str, Any]) -> object:
    metadata = message.get("metadata")
    return metadata.get("clientMessageId") if isinstance(metadata, dict) else None


def _backwards(client: GarconClient, chat_id: str) -> Iterator[dict[str, Any]]:
    """Yield a chat's messages from the newest to the oldest, in pages as large as they can be."""
    limit, before, view = PAGE, None, ""
    while True:
        query = [("chatId", chat_id), ("limit", str(limit))]
        if before is not None:
            query += [("beforeOrdinal", str(before)), ("transcriptViewId", view)]
        try:
            page = _read(client, query)
        except ApiError as e:
            if e.code != "CLI_RESULT_TOO_LARGE" or limit == 1:
                raise
            limit = max(limit // 4, 1)
            continue
        rows, following = page.get("messages"), page.get("nextBeforeOrdinal")
        if not isinstance(rows, list) or not isinstance(page.get("transcriptViewId"), str):
            raise BadAnswer("the chat's messages cannot be read")
        view = page["transcriptViewId"]
        for row in reversed(rows):
            message = row.get("message") if isinstance(row, dict) else None
            if not isinstance(message, dict):
                raise BadAnswer("the chat's messages are malformed")
            yield message
        if following is None:
            return
        if not isinstance(following, int) or (before is not None and following >= before):
            raise BadAnswer("the chat's pages do not end")
        before = following


def _read(client: GarconClient, query: list[tuple[str, str]]) -> dict[str, Any]:
    attempt = 1
    while True:
        try:
            if attempt > 1:
                client.verify()
            return client.call(MESSAGES, query)
        except (ApiError, TransportFailure) as e:
            if attempt == ATTEMPTS or not may_retry(e):
                raise
            client.system.sleep(max(0.25 * attempt, float(e.retry_after or 0)))
            attempt += 1
