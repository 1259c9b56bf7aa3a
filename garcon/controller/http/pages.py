"""What the door serves beside the operations of the table: health, figures, a browser's page."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from garcon.web.exchange import Incoming, Outgoing


@frozen
class Page:
    """Something to be read with GET or HEAD.

    Unless it is `open` it needs a principal; `survives` says that it is served to the very end.
    `name` stands for it in figures.
    """

    name: str
    answer: Callable[[Incoming], Outgoing | Deferred[Outgoing]]
    open: bool = True
    survives: bool = False


@frozen
class KeptAnswer(Outgoing):
    """An answer that is sent often: `coded` keeps its body in each coding it was sent in."""

    coded: dict[str, bytes] = field(factory=dict, kw_only=True)


PageSource = Callable[[str], "Page | None"]
"""Returns the page at a path, as sent and without its query."""


@define(eq=False)
class Pages:
    """All pages, each source asked in turn."""

    sources: list[PageSource]

    def find(self, path: str) -> Page | None:
        """Return the page at a path."""
        for source in self.sources:
            page = source(path)
            if page is not None:
                return page
        return None
