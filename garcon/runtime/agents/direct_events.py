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
    """Join what a connection delivers into events.  What is kept of one takes no more than its
    bytes, however many lines and pieces they come in.

    `limit` is how many bytes the lines of one event may have together, line ends apart.
    """

    _limit: int
    _begun: bytearray = field(factory=bytearray)
    """What has come of the line that is not complete."""
    _data: bytearray | None = None
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
                self._begun += line
                continue
            if self._begun:
                self._begun += bare
                bare, self._begun = bytes(self._begun), bytearray()
            self._line(bare, events)
        return events

    def end(self) -> list[ServerEvent]:
        """The stream ended as it should: return what lacked no more than its last line end."""
        return self.feed(b"\n\n") if self._begun else self.feed(b"\n")

    def _line(self, line: bytes, events: list[ServerEvent]) -> None:
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(_MARK)
        if not line:
            if self._data is not None:
                name = self._name.decode("utf-8", "replace")
                events.append(ServerEvent(name, bytes(self._data)))
            self._data, self._name, self._size = None, b"", 0
            return
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"data":
            if self._data is None:
                self._data = bytearray(value)
            else:
                self._data += b"\n" + value
        elif key == b"event":
            self._name = value
        else:
            # A comment, or a field that means nothing here: it is not kept and does not count.
            self._size -= len(line)
