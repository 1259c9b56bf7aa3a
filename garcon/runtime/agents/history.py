"""What an agent with sessions of its own is told of a conversation that it was no part of: a chat
that was forked, or that has changed hands (chats.md 5.8, 5.9).
"""

from __future__ import annotations

from garcon.contract.runs import Launch

CHARACTERS = 400_000
"""Of the earlier conversation at most, the newest; more would leave a model no room to work."""

_HEAD = (
    "Below is the conversation of this chat so far, which you have not seen: it was held with"
    " another agent or in another session. Take it as what you and the user have said already, and"
    " answer only the message that follows it."
)
_OMITTED = "[Earlier messages are left out.]"
_SPEAKERS = {"user": "User", "assistant": "Assistant"}


def preface(launch: Launch) -> str | None:
    """Return what to say ahead of the prompt of a fresh session, or None where nothing was said."""
    if launch.agent_session_id is not None or not launch.history:
        return None
    said: list[str] = []
    left = CHARACTERS
    for message in reversed(launch.history):
        text = f"{_SPEAKERS[message.role]}:\n{message.content}"
        if len(text) > left:
            said.append(_OMITTED)
            break
        left -= len(text)
        said.append(text)
    return "\n\n".join((_HEAD, *reversed(said)))


def is_preface(text: str) -> bool:
    """Whether a text is what was said ahead of a prompt so."""
    return text.startswith(_HEAD)
