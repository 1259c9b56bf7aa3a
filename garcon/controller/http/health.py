"""Whether the process lives, and whether it can serve (decisions.md 5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from garcon.controller.http.identity import Identities
from garcon.controller.http.pages import Page
from garcon.controller.http.policy import outgoing
from garcon.errors import GarconError
from garcon.web.exchange import Incoming, Outgoing, json_answer, text_answer

_NO_STORE = {"Cache-Control": "no-store"}


class Health:
    """``/livez`` and ``/readyz``.  `reasons` names what keeps the controller from serving."""

    def __init__(self, identities: Identities, reasons: Callable[[], Sequence[str]]) -> None:
        self._identities = identities
        self._reasons = reasons

    def page(self, path: str) -> Page | None:
        """Return the probe at a path: it is answered also while the controller ends."""
        if path in ("/livez", "/readyz"):
            return Page("health", self.answer, survives=True)
        return None

    def answer(self, incoming: Incoming) -> Outgoing:
        """Answer a probe; the reasons are for a principal only."""
        if incoming.path == "/livez":
            return text_answer(200, "ok", _NO_STORE)
        reasons = list(self._reasons())
        status = 503 if reasons else 200
        if any(name == "verbose" for name, _ in incoming.query):
            try:
                self._identities.principal(incoming.header(b"authorization"))
            except GarconError as error:
                return outgoing(error)
            return json_answer(status, {"ready": not reasons, "reasons": reasons}, _NO_STORE)
        return text_answer(status, "not ready" if reasons else "ok", _NO_STORE)
