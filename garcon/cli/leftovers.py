"""What is left over on an executor's machine, in words, and which of it is meant (pure)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ORIGINS = {
    "earlier": "an earlier process of this executor started it",
    "orphan": "what it belonged to has ended",
}


def lines(told: dict[str, Any] | None) -> list[str]:
    """Return what an executor said of its leftovers; `KeyError` and `TypeError` mean that it is
    malformed.
    """
    if told is None:
        return ["left over: not known now, as the machine does not say"]
    found = [
        f"left over: process {one['pid']} ({one['name']}), for {age(one['seconds'])};"
        f" {_ORIGINS.get(one['origin'], one['origin'])}"
        for one in told["processes"]
    ]
    more = told["count"] - len(found)
    if more > 0:
        found.append(f"left over: {more} more processes")
    return found


def advice(executor_id: str, told: dict[str, Any] | None) -> list[str]:
    """Return what to do about them."""
    if not told or not told["processes"]:
        return []
    return [
        "What is left over goes on by itself, whether somebody wants it or not. End one with"
        f" `garcon executor doctor {executor_id} --end PID`."
    ]


def pick(told: dict[str, Any], pid: int) -> dict[str, Any] | None:
    """Return the one with this id."""
    return next((one for one in told["processes"] if one["pid"] == pid), None)


def age(seconds: float) -> str:
    """Return a time as a person would say it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
