"""Server-sent events out of bytes, as values (the WHATWG's HTML standard, 9.2.6).

Names and data only: ids and reconnection times mean nothing to an answer that is asked for once.
"""

from __future__ import annotations

from attrs import define, field, frozen

from garcon.errors import LimitExceeded

_MARK = b"\xef\xbb\xbf"


@frozen
class ServerEvent:
    """One event.  `data` is undecoded UTF-8, its lines joined by line feeds."""

    name: str
    data: bytes


@define
class EventStream:
    """Join what a connection delivers into events.  A long line costs one copy, however many pieces
    it comes in.

    `limit` is how many bytes the lines of one event may have together, line ends apart.
    """

    _limit: int
    _pieces: list[bytes] = field(factory=list)
    """What has come of the line that is not complete."""
    _data: list[bytes] = field(factory=list)
    _name: bytes = b""
    _size: int = 0
    _after_return: bool = False
    """The last byte was a carriage return: a line feed after it belongs to it."""
    _is_first: bool = True

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Take the next piece and return the events that it completes.

        Raises `LimitExceeded` for an event that is too large; nothing can be fed after that.
        """
        events: list[ServerEvent] = []
        if not data:
            return events
        if self._after_return and data.startswith(b"\n"):
            data = data[1:]
        self._after_return = data.endswith(b"\r")
        for line in data.splitlines(keepends=True):
            bare = line.rstrip(b"\r\n")
            self._size += len(bare)
            if self._size > self._limit:
                raise LimitExceeded(
                    "PROVIDER_FAILED", f"An event is larger than {self._limit} bytes."
                )
            if len(bare) == len(line):
                self._pieces.append(line)
                continue
            if self._pieces:
                self._pieces.append(bare)
                bare = b"".join(self._pieces)
                self._pieces.clear()
            self._line(bare, events)
        return events

    def end(self) -> list[ServerEvent]:
        """The stream ended as it should: return what lacked no more than its last line end."""
        return self.feed(b"\n\n") if self._pieces else self.feed(b"\n")

    def _line(self, line: bytes, events: list[ServerEvent]) -> None:
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(_MARK)
        if not line:
            if self._data:
                name = self._name.decode("utf-8", "replace")
                events.append(ServerEvent(name, b"\n".join(self._data)))
            self._data, self._name, self._size = [], b"", 0
            return
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"data":
            self._data.append(value)
        elif key == b"event":
            self._name = value
        else:
            # A comment, or a field that means nothing here: it is not kept and does not count.
            self._size -= len(line)
