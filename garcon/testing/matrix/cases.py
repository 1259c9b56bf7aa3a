"""One question to both doors, and one operation with all of its questions: as data.

Texts in a case hold names in braces, which a scene fills in: ``{chat}`` is a chat of the door that
is asked, ``{new chat}`` an id that nobody has used.  What a name stands for is a name again in the
answer, so that two doors can be asked about two things alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from garcon.contract.routes import Route
from garcon.testing.matrix.differences import Allowed, Instead, Members

_NAME = re.compile(r"\{([a-z][a-z ]*)\}")


@frozen(kw_only=True)
class Case:
    """What every question has.  `before` names what a scene must prepare, in order, and `also`
    what may differ because each door has that for itself.  `heavy` ones are left out of the quick
    form.
    """

    name: str = field(kw_only=False)
    before: tuple[str, ...] = ()
    instead: Instead | None = None
    also: Members = field(factory=dict)
    heavy: bool = False


@frozen(kw_only=True)
class Asked(Case):
    """A request of the row's operation, and the status and code that direct HTTP answers it with.

    A `body` of text or bytes is sent as it is.  With `again` the very same request is sent twice
    and the second answer counts.
    """

    status: int = 200
    code: str = ""
    body: Any = None
    query: tuple[tuple[str, str], ...] = ()
    executor: str = ""
    headers: dict[str, str] = field(factory=dict)
    again: bool = False


@frozen(kw_only=True)
class Typed(Case):
    """A ``garcon`` command that emits the row's operation, and its exit status beside the
    controller.
    """

    words: tuple[str, ...]
    status: int = 0


@frozen(kw_only=True)
class Row:
    """One operation.  `is_served` is false where its handler comes later."""

    route: Route = field(kw_only=False)
    asked: tuple[Asked, ...]
    typed: tuple[Typed, ...] = ()
    allowed: Allowed = field(factory=Allowed)
    is_served: bool = True


@frozen
class Whole:
    """A name in a body that stands for a whole number."""

    name: str


def filled(template: Any, value_of: Callable[[str], str]) -> Any:
    """Return a template with every name replaced, at whatever depth."""
    if isinstance(template, Whole):
        return int(value_of(template.name))
    if isinstance(template, str):
        return _NAME.sub(lambda found: value_of(found[1]), template)
    if isinstance(template, dict):
        return {name: filled(value, value_of) for name, value in template.items()}
    if isinstance(template, list | tuple):
        return [filled(value, value_of) for value in template]
    return template
