"""Forms with files."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.files.multipart import HEADERS, PARTS, parse
from garcon.errors import GarconError

TYPE = "multipart/form-data; boundary=xyz"
HEAD = b'Content-Disposition: form-data; name="n"'


def one(content: bytes, head: bytes = HEAD) -> bytes:
    return b"--xyz\r\n" + head + b"\r\n\r\n" + content + b"\r\n--xyz--"


class ParseTests(SynchronousTestCase):
    """From bytes to parts."""

    def contents(self, body: bytes, content_type: str = TYPE) -> list[bytes]:
        return [bytes(part.content) for part in parse(content_type, body)]

    def malformed(self, body: bytes, content_type: str = TYPE) -> None:
        with self.assertRaises(GarconError) as caught:
            parse(content_type, body)
        self.assertEqual(caught.exception.code, "VALIDATION_FAILED")

    def test_any_content(self) -> None:
        """Line breaks, dashes, and what looks like a mark."""
        for content in (
            b"",
            b"\r\n",
            b"--",
            b"\r\n--",
            b"--xyz.",
            b"\r\n--xyzzy\r\n",
            b"\r\n--xyz-",
            b"x\r\n--xy\r\n--xyz.",
            bytes(range(256)) * 4,
        ):
            self.assertEqual(self.contents(one(content)), [content])

    def test_what_is_around_the_parts(self) -> None:
        """Does not count; marks may have blanks behind them."""
        body = b"before\r\n" + one(b"a").replace(b"--xyz\r\n", b"--xyz \t\r\n") + b"\r\nafter"
        self.assertEqual(self.contents(body), [b"a"])

    def test_boundaries(self) -> None:
        """Quoted or not, at most seventy characters; of forms only."""
        for boundary in ('"a b"', "-----WebKitFormBoundary0aB", "b" * 70):
            mark = b"--" + boundary.strip('"').encode()
            body = one(b"a").replace(b"--xyz", mark)
            kind = f"Multipart/Form-Data; charset=utf-8; Boundary={boundary}"
            self.assertEqual(self.contents(body, kind), [b"a"])
        for kind in ("multipart/mixed; boundary=xyz", "multipart/form-data", "", "text/plain"):
            self.malformed(one(b"a"), kind)

    def test_names(self) -> None:
        """Of fields and files, in any order and in UTF-8."""
        head = 'Content-Disposition: form-data; filename="a \u00fc;=\\"q\\".png"; name=plain'
        (part,) = parse(TYPE, one(b"", head.encode()))
        self.assertEqual((part.name, part.filename), ("plain", 'a \u00fc;="q".png'))
        (part,) = parse(TYPE, one(b""))
        self.assertEqual((part.name, part.filename, part.content_type), ("n", None, ""))
        (part,) = parse(TYPE, one(b"", HEAD + b'; filename=""\r\ncontent-TYPE:  image/png '))
        self.assertEqual((part.filename, part.content_type), ("", "image/png"))

    def test_a_windows_path(self) -> None:
        """Its separators are not taken for marks of quoting."""
        (part,) = parse(TYPE, one(b"", HEAD + b'; filename="C:\\dir\\a.png"'))
        self.assertEqual(part.filename, "C:\\dir\\a.png")

    def test_what_is_malformed(self) -> None:
        """No end, no headers, no name, no form field."""
        whole = one(b"abc")
        for end in range(len(whole)):
            self.malformed(whole[:end])
        for head in (
            b"",
            b"Content-Disposition: form-data",
            b'Content-Disposition: attachment; name="n"',
            HEAD + b'; filename="\xff"',
        ):
            self.malformed(one(b"a", head))
        self.malformed(b"--xyzzy\r\n")

    def test_bounds(self) -> None:
        """Headers of eight KiB and a hundred parts, and one more."""
        filler = HEADERS - len(HEAD) - len(b"\r\nx: ") - 4
        self.contents(one(b"", HEAD + b"\r\nx: " + b"y" * filler))
        self.malformed(one(b"", HEAD + b"\r\nx: " + b"y" * (filler + 1)))
        each = b"--xyz\r\n" + HEAD + b"\r\n\r\na\r\n"
        self.assertEqual(len(self.contents(each * PARTS + b"--xyz--")), PARTS)
        self.malformed(each * (PARTS + 1) + b"--xyz--")

    def test_nothing_is_copied(self) -> None:
        """A content is a view of the body."""
        body = one(b"content")
        (part,) = parse(TYPE, body)
        self.assertIs(part.content.obj, body)
