"""What people read: tables and JSON documents."""

from __future__ import annotations

import json

from garcon.cli.failures import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def json_text(value: Any) -> str:
    """Return a JSON document: two spaces, one newline at the end, nothing changed in it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table: upper-case headers, a line of dashes, two spaces between columns."""
    cells = [list(headers), *([one_line(cell) or "-" for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(headers))]
    cells.insert(1, ["-" * width for width in widths])
    last = len(headers) - 1
    return "".join(
        "  ".join(cell if at == last else cell.ljust(widths[at]) for at, cell in enumerate(row))
        + "\n"
        for row in cells
    )


def yes(value: object) -> str:
    """Return a truth in words."""
    return "yes" if value else "no"
