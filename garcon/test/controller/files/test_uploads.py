"""Attachments that are uploaded (server.md D.4)."""

from __future__ import annotations

from base64 import b64decode

from garcon.contract import operations
from garcon.contract.files import CALL_TIME, UPLOAD_BYTES
from garcon.controller.chats import attachments
from garcon.controller.chats.attachments import BYTES, MOST, TOTAL_BYTES, VIDEO_BYTES
from garcon.controller.files import uploads
from garcon.controller.files.operations import UPLOADS, UPLOADS_WAITING
from garcon.controller.handlers import Form
from garcon.test.controller.files.cast import FileRoutesCase, Said

PNG = b"\x89PNG\r\n\x1a\n"
VALIDATION = "VALIDATION_FAILED"
TYPE = "multipart/form-data; boundary=xyz"


def part(name: str, filename: str | None, kind: str, content: bytes) -> bytes:
    """Return one field, as a browser sends it."""
    head = f'Content-Disposition: form-data; name="{name}"'
    if filename is not None:
        head += f'; filename="{filename}"'
    if kind:
        head += f"\r\nContent-Type: {kind}"
    return b"--xyz\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"


def form(*parts: bytes) -> Form:
    """Return a form of these fields."""
    return Form(TYPE, b"".join(parts) + b"--xyz--\r\n")


def picture(content: bytes = PNG, kind: str = "image/png", name: str = "a.png") -> bytes:
    return part("attachments", name, kind, content)


class UploadTests(FileRoutesCase):
    """What is taken, and what is given back."""

    def upload(self, *parts: bytes) -> Said:
        return self.ask(operations.UPLOAD_ATTACHMENTS, form=form(*parts))

    def refused(self, status: int, *parts: bytes) -> None:
        self.assertEqual(self.upload(*parts).failure, (status, VALIDATION, False))

    def test_the_same_list_twice(self) -> None:
        """Attachments first, then images; other fields do not count."""
        sent = (
            part("images", "b.gif", "image/gif", b"GIF"),
            part("text", None, "", b"no file"),
            part("other", "c.png", "image/png", b"no attachment"),
            picture(),
        )
        for operation in (operations.UPLOAD_ATTACHMENTS, operations.UPLOAD_IMAGES):
            said = self.ask(operation, form=form(*sent))
            self.assertEqual(said.status, 200)
            self.assertEqual(said.headers["Content-Type"], "application/json")
            self.assertIn("no-transform", said.headers["Cache-Control"])
            listed = said.body["attachments"]
            self.assertEqual(said.body, {"attachments": listed, "images": listed})
            self.assertEqual([one["name"] for one in listed], ["a.png", "b.gif"])
            first = listed[0]
            self.assertEqual(set(first), {"name", "data", "size", "mimeType"})
            self.assertEqual((first["size"], first["mimeType"]), (len(PNG), "image/png"))
            head, _, data = first["data"].partition(",")
            self.assertEqual((head, b64decode(data)), ("data:image/png;base64", PNG))

    def test_what_is_given_back_can_be_attached(self) -> None:
        """By the rules of the commands."""
        given = self.upload(picture(), part("images", "n\u00fc.md", "", b"# text")).body["images"]
        taken = attachments.read(given)
        self.assertEqual([one.mime_type for one in taken], ["image/png", "text/markdown"])
        self.assertEqual([one.size for one in taken], [len(PNG), 6])

    def test_one_to_five(self) -> None:
        """Fields that were left empty are no files."""
        empty = part("attachments", "", "application/octet-stream", b"")
        self.refused(400)
        self.refused(400, empty)
        self.refused(400, part("attachments", None, "", b"no file"))
        self.assertEqual(self.upload(*[picture()] * MOST, empty).status, 200)
        self.refused(400, *[picture()] * (MOST + 1))

    def test_types(self) -> None:
        """What the part says, in lower case; else what its name says."""
        for kind, name, expected in (
            ("IMAGE/PNG", "a", "image/png"),
            ("image/jpeg; charset=binary", "a", "image/jpeg"),
            ("video/matroska", "a", "video/x-matroska"),
            ("video/x-m4v", "a", "video/mp4"),
            ("", "A.MD", "text/markdown"),
            ("application/octet-stream", "a.mov", "video/quicktime"),
            ("application/octet-stream", "a.m4v", "video/mp4"),
            ("text/plain", "a.png", "text/plain"),
        ):
            (one,) = self.upload(picture(b"x", kind, name)).body["images"]
            self.assertEqual(one["mimeType"], expected)
        for kind, name in (("text/html", "a.png"), ("", "a"), ("", "png"), ("", "a.html")):
            self.refused(400, picture(b"x", kind, name))

    def test_sizes(self) -> None:
        """The most of one, of a film and of all together, and one byte more."""
        half = b"x" * (TOTAL_BYTES // 2)
        film, text = "video/mp4", "text/plain"
        self.assertEqual(self.upload(picture(b"x" * BYTES, text)).status, 200)
        self.refused(413, picture(b"x" * (BYTES + 1), text))
        self.assertEqual(self.upload(picture(b"x" * VIDEO_BYTES, film)).status, 200)
        self.refused(413, picture(b"x" * (VIDEO_BYTES + 1), film))
        self.assertEqual(self.upload(picture(half, film), picture(half, film)).status, 200)
        self.refused(413, picture(half, film), picture(half + b"x", film))
        self.refused(400, picture(b"", text))

    def test_the_bound_of_a_whole_request(self) -> None:
        """Is known before it is read."""
        for operation in (operations.UPLOAD_ATTACHMENTS, operations.UPLOAD_IMAGES):
            assert operation.body_limit is not None
            self.assertEqual(operation.body_limit.most, UPLOAD_BYTES)

    def test_names(self) -> None:
        """At most 1,024 bytes."""
        (one,) = self.upload(picture(name="\u00fc" * 512)).body["images"]
        self.assertEqual(one["name"], "\u00fc" * 512)
        self.refused(400, picture(name="\u00fc" * 512 + "x"))

    def test_what_is_no_form(self) -> None:
        """Is said so."""
        for sent in (
            None,
            Form("application/json", b"{}"),
            Form("multipart/form-data", b"--xyz--"),
            Form(TYPE, b""),
            Form(TYPE, b"--xyz\r\nbroken"),
        ):
            said = self.ask(operations.UPLOAD_IMAGES, form=sent)
            self.assertEqual(said.failure, (400, VALIDATION, False))

    def test_two_at_once(self) -> None:
        """Others wait: not too many, and not for ever."""
        self.patch(uploads, "answer", lambda form: b"{}")
        pool = self.reactor.pool
        pool.held = True
        given = [
            self.asking(operations.UPLOAD_IMAGES, {}, form=form(picture()))
            for _ in range(UPLOADS + UPLOADS_WAITING)
        ]
        self.assertEqual(len(pool), UPLOADS)
        said = self.ask(operations.UPLOAD_IMAGES, form=form(picture()))
        self.assertEqual(said.failure, (503, "FILE_OPERATIONS_BUSY", True))
        for _ in range(3):
            pool.run_next()
            self.assertEqual(len(pool), UPLOADS)
        self.reactor.advance(CALL_TIME)
        for d in given[3 + UPLOADS :]:
            self.assertEqual(self.heard(d).failure, (503, "FILE_OPERATIONS_BUSY", True))
        while len(pool):
            pool.run_next()
        for d in given[: 3 + UPLOADS]:
            self.assertEqual(self.heard(d).status, 200)
