"""Attachments (chats.md 4.17)."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.limits import MIB
from garcon.controller.chats import attachments
from garcon.errors import GarconError
from garcon.testing.fake_runtime import agent_entry


def image(
    size: int = 3, mime_type: str = "image/png", name: str | None = None, **more: Any
) -> dict[str, Any]:
    """Return an attachment of a decoded size."""
    given: dict[str, Any] = {"data": f"data:{mime_type};base64,{b64encode(bytes(size)).decode()}"}
    if name is not None:
        given["name"] = name
    return given | more


class AttachmentTests(SynchronousTestCase):
    """Each rule once."""

    def read(self, *images: dict[str, Any]) -> list[str]:
        return [one.mime_type for one in attachments.read(images)]

    def refused(self, status: int, *images: dict[str, Any]) -> None:
        error = self.assertRaises(GarconError, attachments.read, images)
        self.assertEqual((error.code, error.status), ("VALIDATION_FAILED", status))

    def test_none_is_fine(self) -> None:
        """Absent and empty are the same."""
        self.assertEqual((attachments.read(None), attachments.read([])), ([], []))

    def test_five_at_most(self) -> None:
        """The sixth is refused."""
        self.assertEqual(len(self.read(*[image()] * 5)), 5)
        self.refused(400, *[image()] * 6)

    def test_ten_mebibytes_each(self) -> None:
        """Twenty-five for a video."""
        self.read(image(10 * MIB))
        self.refused(413, image(10 * MIB + 1))
        self.read(image(25 * MIB, "video/mp4"))
        self.refused(413, image(25 * MIB + 1, "video/mp4"))

    def test_twenty_five_mebibytes_together(self) -> None:
        """Whatever they are."""
        self.read(image(10 * MIB), image(10 * MIB), image(5 * MIB))
        self.refused(413, image(10 * MIB), image(10 * MIB), image(5 * MIB + 1))

    def test_must_be_base64_data_urls(self) -> None:
        """Standard alphabet, correct padding, something in it."""
        for data in ("https://x/y.png", "data:image/png,abc", "data:image/png;base64,_-8=", ""):
            self.refused(400, {"data": data})
        self.refused(400, {"data": "data:image/png;base64,"})
        self.refused(400, {"data": "data:image/png;base64,AAA"})
        self.refused(400, {"name": "x.png"})
        self.refused(400, {"data": 3})

    def test_the_type_comes_from_the_url_then_the_field_then_the_name(self) -> None:
        """A blank and the octet-stream say nothing."""
        self.assertEqual(self.read(image(mime_type="image/png", name="x.txt")), ["image/png"])
        self.assertEqual(self.read(image(mime_type="", mimeType="image/gif")), ["image/gif"])
        octets = image(mime_type="application/octet-stream", name="a.b.PDF")
        self.assertEqual(self.read(octets), ["application/pdf"])
        self.assertEqual(self.read(image(mime_type="video/matroska")), ["video/x-matroska"])
        self.assertEqual(self.read(image(mime_type="video/x-m4v")), ["video/mp4"])

    def test_two_types_must_agree(self) -> None:
        """Aliases do."""
        self.refused(400, image(mimeType="image/gif"))
        self.read(image(mime_type="video/matroska", mimeType="video/x-matroska"))

    def test_other_types_are_refused(self) -> None:
        """Also when only the name tells."""
        self.refused(400, image(mime_type="text/html"))
        self.refused(400, image(mime_type="", name="x.exe"))
        self.refused(400, image(mime_type=""))

    def test_unnamed_ones_are_numbered(self) -> None:
        """From one, counting all."""
        names = [one.image.name for one in attachments.read([image(name="x.png"), image()])]
        self.assertEqual(names, ["x.png", "attachment-2"])

    def test_an_agent_must_take_them(self) -> None:
        """Pictures by its flag, files by its list."""
        entry = agent_entry()
        picture = attachments.read([image()])
        attachments.must_be_supported(picture, entry, images=True)
        text = attachments.read([image(3, "text/plain")])
        for given, pictures in ((picture, False), (text, True)):
            error = self.assertRaises(
                GarconError, attachments.must_be_supported, given, entry, images=pictures
            )
            self.assertEqual((error.code, error.status), ("UNSUPPORTED_AGENT", 422))
