"""A prompt of Pi: one text, whatever is put ahead of it, and pictures."""

from __future__ import annotations

from garcon.contract.runs import Launch
from garcon.runtime.agents.history import is_preface, preface
from garcon.runtime.agents.pi_wire import Message, picture

_NOW = "\n\nThe message that follows it:\n\n"
"""Between what was said before and the prompt, by which they can be told apart again."""


def prompt(launch: Launch, *, is_fork: bool) -> Message:
    """Return the members of the command that begins a turn.  A fork remembers what was said."""
    earlier = None if is_fork else preface(launch)
    text = launch.prompt if earlier is None else f"{earlier}{_NOW}{launch.prompt}"
    pictures = [one for i in launch.images if (one := picture(i)) is not None]
    return {"message": text, **({"images": pictures} if pictures else {})}


def without_preface(text: str) -> str:
    """Return what the user has said of a prompt."""
    return text.rpartition(_NOW)[2] if is_preface(text) else text
