"""What was answered to requests that may come again (values only; server.md C.2).

A request is known from its beginning, so that a repetition never starts anything; its answer is
kept for ten minutes after it was given.  When all places are taken only new requests are refused:
nothing is forgotten early.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Generic, TypeVar

from attrs import define, field

from garcon.contract.limits import (
    TERMINAL_RESULT_TIME,
    TERMINAL_RESULTS,
    TERMINAL_RESULTS_TOTAL,
)
from garcon.contract.terminals import BACKPRESSURE, terminal_error

T = TypeVar("T")
Key = tuple[str, ...]
"""The principal first, then whatever tells one request from another."""


@define(eq=False)
class Request(Generic[T]):
    """One request; `answer` is None until it is settled."""

    key: Key
    answer: T | None = None
    expires: float = 0.0


@define(eq=False)
class Results(Generic[T]):
    """The requests of all principals."""

    limit: int = TERMINAL_RESULTS
    total: int = TERMINAL_RESULTS_TOTAL
    lifetime: float = TERMINAL_RESULT_TIME
    _requests: dict[Key, Request[T]] = field(factory=dict, init=False)
    _settled: OrderedDict[Key, Request[T]] = field(factory=OrderedDict, init=False)
    """Those with an answer, oldest first."""
    _counts: Counter[str] = field(factory=Counter, init=False)

    def find(self, key: Key, now: float) -> Request[T] | None:
        """Return a request that was begun and is still known."""
        self._expire(now)
        return self._requests.get(key)

    def begin(self, key: Key, now: float) -> Request[T]:
        """Note a new request, or raise ``terminal-backpressure``."""
        self._expire(now)
        if len(self._requests) >= self.total or self._counts[key[0]] >= self.limit:
            raise terminal_error(
                BACKPRESSURE, "Too many requests for terminals were made in the last ten minutes."
            )
        request = self._requests[key] = Request[T](key)
        self._counts[key[0]] += 1
        return request

    def settle(self, request: Request[T], answer: T, now: float) -> None:
        """Keep the answer of a request for whoever asks again."""
        request.answer, request.expires = answer, now + self.lifetime
        self._settled[request.key] = request

    def forget(self, request: Request[T]) -> None:
        """Nothing was done: the same request may be made anew."""
        self._remove(request.key)

    def _expire(self, now: float) -> None:
        while self._settled and next(iter(self._settled.values())).expires <= now:
            key, _ = self._settled.popitem(last=False)
            self._remove(key)

    def _remove(self, key: Key) -> None:
        del self._requests[key]
        self._counts[key[0]] -= 1
        if not self._counts[key[0]]:
            del self._counts[key[0]]
