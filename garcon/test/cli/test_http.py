"""The smallest HTTP client's parser: whole answers however they are cut, and nothing else."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.cli.http import Answer, ProtocolError, ResponseParser, request_bytes


def answers(data: bytes, step: int, closed: bool = False, largest: int = 1_000) -> Answer | None:
    parser = ResponseParser(largest)
    for at in range(0, len(data), step):
        parser.feed(data[at : at + step])
    if closed:
        parser.ended()
    return parser.answer


COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nRetry-After: 3\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
)
CLOSED = b"HTTP/1.0 200\r\n\r\nhello"


class ParserTests(SynchronousTestCase):
    def test_every_cut_gives_the_same_answer(self) -> None:
        """Counted, chunked and closing answers come out whole, whatever the pieces."""
        for data, status, closed in (
            (COUNTED, 200, False),
            (CHUNKED, 503, False),
            (CLOSED, 200, True),
        ):
            for step in range(1, len(data) + 1):
                found = answers(data, step, closed)
                assert found is not None
                self.assertEqual((status, b"hello"), (found.status, found.body))

    def test_headers_are_lower_case(self) -> None:
        """Names are found whatever their case; values are trimmed."""
        found = answers(COUNTED, 7)
        assert found is not None
        self.assertEqual("3", found.headers["retry-after"])

    def test_interim_answers_are_passed_over(self) -> None:
        """A 100 is not the answer; a 204 has no body."""
        found = answers(b"HTTP/1.1 100 Continue\r\n\r\n" + COUNTED, 9)
        assert found is not None
        self.assertEqual(200, found.status)
        empty = answers(b"HTTP/1.1 204 No\r\n\r\n", 4)
        assert empty is not None
        self.assertEqual(b"", empty.body)

    def test_half_an_answer_is_none(self) -> None:
        """A close before the end is an error, wherever it comes."""
        for data in (COUNTED, CHUNKED):
            for length in range(len(data) - 1):
                parser = ResponseParser()
                parser.feed(data[:length])
                self.assertRaises(ProtocolError, parser.ended)

    def test_sizes_are_bounded(self) -> None:
        """A body of the limit passes and one byte more does not, in all three forms."""
        for body, fits in ((b"x" * 10, True), (b"x" * 11, False)):
            for data in (
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body),
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
                % (len(body), body),
                b"HTTP/1.1 200 OK\r\n\r\n" + body,
            ):
                if fits:
                    found = answers(data, 1_000, True, largest=10)
                    assert found is not None
                    self.assertEqual(body, found.body)
                else:
                    self.assertRaises(ProtocolError, answers, data, 1_000, True, 10)
        endless = b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000
        self.assertRaises(ProtocolError, answers, endless, 1_000)

    def test_ambiguous_and_malformed_answers_are_refused(self) -> None:
        """What two readers could read differently is no answer."""
        for head in (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked",
            b"HTTP/1.1 200 OK\r\nContent-Length: +1",
            b"HTTP/1.1 200 OK\r\nContent-Length: ",
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1",
            b"HTTP/1.1 200 OK\r\nX : 1",
            b"HTTP/1.1 200 OK\r\n: 1",
            b"HTTP/1.1 20 OK",
            b"HTTP/2 200 OK",
            b"hello",
        ):
            self.assertRaises(ProtocolError, answers, head + b"\r\n\r\n", 1_000)
        for chunk in (b"x\r\n", b"\r\n", b"-1\r\n", b"1\r\nxy\r\n", b"1 2\r\n"):
            data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk
            self.assertRaises(ProtocolError, answers, data, 1_000)


class RequestTests(SynchronousTestCase):
    def test_form(self) -> None:
        """A request names its host, closes, and counts its body."""
        request = request_bytes("POST", "/x", "127.0.0.1:1", [("A", "b")], b"{}")
        self.assertEqual(
            b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:1\r\nA: b\r\nContent-Type: application/json\r\n"
            b"Content-Length: 2\r\nConnection: close\r\n\r\n{}",
            request,
        )
        self.assertNotIn(b"Content", request_bytes("GET", "/x", "h", [], None))

    def test_no_header_is_smuggled(self) -> None:
        """A control character in a value is a bug of ours, and goes nowhere."""
        for value in ("a\r\nB: c", "a\0", "a\nb"):
            self.assertRaises(ValueError, request_bytes, "GET", "/", "h", [("A", value)], None)
