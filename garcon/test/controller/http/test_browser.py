"""The files of a built browser client, served from its directory (server.md F.9)."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from garcon.controller.http.files import Files
from garcon.controller.http.shell import AppTitle
from garcon.test.controller.http.cast import SmallThreads
from garcon.test.controller.http.client_cast import BrowserCase

NEVER = "no-cache, no-store, must-revalidate"
HOUR = "public, max-age=3600, must-revalidate"


class PathTests(BrowserCase):
    """What is served and what is not."""

    def test_the_clients_own_page(self) -> None:
        """At each of its paths, without authentication."""
        for path in (
            "/",
            "/?a=b",
            "/index.html",
            "/chat",
            "/chat/",
            "/chat/1753000000000000",
            "/setup",
            "/login",
            "/shared/abc_DEF-1",
        ):
            response = self.get(path)
            self.assertEqual(response.status, 200, path)
            self.assertEqual(response.headers["content-type"], "text/html; charset=utf-8")
            self.assertEqual(response.headers["cache-control"], NEVER)
            self.assertEqual(response.headers["content-length"], str(len(response.body)))
            self.assertIn(b"window.first", response.body)

    def test_files(self) -> None:
        """Their types, lengths and how long they may be kept."""
        for path, kind, caching in (
            ("/service-worker.js", "text/javascript; charset=utf-8", NEVER),
            ("/icon.svg", "image/svg+xml", HOUR),
            ("/icon-192.png", "image/png", HOUR),
            (
                "/_app/immutable/chunk.js",
                "text/javascript; charset=utf-8",
                "public, max-age=31536000, immutable",
            ),
            ("/_app/version.json", "application/json", HOUR),
            ("/_app/a%20b.css", "text/css; charset=utf-8", HOUR),
            ("/_app/notes.txt", "text/plain; charset=utf-8", None),
        ):
            response = self.get(path)
            self.assertEqual(response.status, 200, path)
            self.assertEqual(response.headers["content-type"], kind)
            self.assertEqual(response.headers.get("cache-control"), caching)
            self.assertEqual(response.headers["content-length"], str(len(response.body)))

    def test_the_manifest(self) -> None:
        """With the title for both names, and everything else as it was built."""
        self.app = AppTitle("Ann's", 3)
        response = self.get("/site.webmanifest")
        self.assertEqual(
            response.headers["content-type"], "application/manifest+json; charset=utf-8"
        )
        self.assertEqual(response.headers["cache-control"], NEVER)
        self.assertEqual(
            response.json, {"name": "Ann's", "short_name": "Ann's", "display": "standalone"}
        )

    def test_what_is_missing(self) -> None:
        """404 in the standard envelope."""
        for path in ("/favicon.ico", "/_app/none.js", "/_app/", "/_app/immutable", "/_app/a+b"):
            self.assert_not_there(path)
        (self.root / "index.html").unlink()
        self.assert_not_there("/")

    def test_what_is_not_listed(self) -> None:
        """It is no path of ours, even if there is such a file."""
        for path in (
            "/secret.txt",
            "/chat/1/2",
            "/shared/",
            "/shared/a.b",
            "/other",
            "//",
            "/_appx",
        ):
            response = self.get(path)
            self.assertEqual((response.status, response.body), (404, b"Not found"), path)

    def test_a_path_that_leaves_the_directory(self) -> None:
        """By dots, however they are written, by a link, by odd characters: 404, and no file."""
        outside = self.root.parent / f"{self.root.name}-outside"
        outside.mkdir()
        (outside / "a.js").write_text("outside")
        (self.root / "_app" / "link").symlink_to(outside.resolve())
        (self.root / "_app" / "file.js").symlink_to(outside.resolve() / "a.js")
        for path in (
            "/_app/../secret.txt",
            "/_app/%2e%2e/secret.txt",
            "/_app/..%2fsecret.txt",
            "/_app/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
            "/_app//etc/passwd",
            "/_app/./version.json",
            "/_app/link/a.js",
            "/_app/file.js",
            "/_app/version.json%00",
            "/_app/version.json%00.js",
            "/_app/..%5csecret.txt",
            "/_app/%ff",
            "/_app/" + "a" * 300,
        ):
            self.assert_not_there(path)

    def test_a_link_within_the_directory(self) -> None:
        """It is as good as the file."""
        (self.root / "_app" / "inner.json").symlink_to("version.json")
        self.assertEqual(self.get("/_app/inner.json").status, 200)

    def test_what_is_no_regular_file(self) -> None:
        """A pipe would keep its reader waiting."""
        os.mkfifo(self.root / "_app" / "pipe.js")
        self.assert_not_there("/_app/pipe.js")

    def test_methods(self) -> None:
        """HEAD is GET without the body; others do not exist."""
        for path in ("/", "/icon.svg"):
            head, get = self.ask("HEAD", path, {"Authorization": ""}), self.get(path)
            self.assertEqual((head.status, head.body), (200, b""))
            self.assertEqual(head.headers["content-length"], str(len(get.body)))
            for method in ("POST", "PUT", "DELETE", "OPTIONS"):
                response = self.ask(method, path)
                self.assertEqual((response.status, response.body), (404, b"Not found"))

    def test_a_stopping_controller(self) -> None:
        """503, as for everything but its health."""
        self.stopping = True
        self.assert_error(self.get("/"), 503, "SERVER_SHUTTING_DOWN", True)

    def test_a_changed_file(self) -> None:
        """It is noticed at the next request, with its tag."""
        before = self.get("/_app/version.json")
        self.write("_app/version.json", '{"version": "22"}')
        after = self.get("/_app/version.json")
        self.assertEqual(after.json, {"version": "22"})
        self.assertNotEqual(before.headers["etag"], after.headers["etag"])


class ValidatorTests(BrowserCase):
    """Tags, parts and codings of files."""

    def test_what_the_client_has_is_not_sent_again(self) -> None:
        """By its tag, strong or weakened, among others, or any; a stale one gets the file."""
        tag = self.get("/icon.svg").headers["etag"]
        self.assertFalse(tag.startswith("W/"))
        for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            response = self.get("/icon.svg", If_None_Match=known)
            self.assertEqual((response.status, response.body), (304, b""))
            self.assertEqual(response.headers["etag"], tag)
            self.assertEqual(response.headers["cache-control"], HOUR)
            self.assertEqual(response.headers["vary"], "Accept-Encoding")
        self.assertEqual(self.get("/icon.svg", If_None_Match='"x"').status, 200)

    def test_a_part(self) -> None:
        """206, with what it is a part of."""
        whole = self.get("/icon-192.png").body
        for wanted, begin, end in (
            ("bytes=0-0", 0, 1),
            ("bytes=0-99", 0, 100),
            ("bytes=1990-", 1_990, 2_000),
            ("bytes=1990-9999", 1_990, 2_000),
            ("bytes=-10", 1_990, 2_000),
            ("bytes=-9999", 0, 2_000),
            ("Bytes=0-1999", 0, 2_000),
        ):
            response = self.get("/icon-192.png", Range=wanted)
            self.assertEqual(response.status, 206, wanted)
            self.assertEqual(response.body, whole[begin:end])
            self.assertEqual(response.headers["content-range"], f"bytes {begin}-{end - 1}/2000")
            self.assertEqual(response.headers["accept-ranges"], "bytes")
            self.assertEqual(response.headers["content-length"], str(end - begin))

    def test_a_part_that_there_is_not(self) -> None:
        """416, with how much there is: byte 1999 is the last, byte 2000 is none."""
        self.assertEqual(self.get("/icon-192.png", Range="bytes=1999-").status, 206)
        for wanted in ("bytes=2000-", "bytes=2000-2001", "bytes=-0"):
            response = self.get("/icon-192.png", Range=wanted)
            self.assertEqual((response.status, response.body), (416, b""), wanted)
            self.assertEqual(response.headers["content-range"], "bytes */2000")

    def test_what_is_no_one_range_is_ignored(self) -> None:
        """Several, another unit, and what makes no sense: the whole file."""
        for wanted in ("bytes=0-1,3-4", "lines=0-1", "bytes=5-4", "bytes=-", "bytes=a-b", "x"):
            response = self.get("/icon-192.png", Range=wanted)
            self.assertEqual((response.status, len(response.body)), (200, 2_000), wanted)

    def test_a_part_of_what_has_changed(self) -> None:
        """With a condition that does not hold any more the whole file is sent."""
        tag = self.get("/icon-192.png").headers["etag"]
        for condition, status in (
            (tag, 206),
            ('"x"', 200),
            (f"W/{tag}", 200),
            ("Mon, 30 Nov 2026 00:00:00 GMT", 200),
        ):
            response = self.get("/icon-192.png", Range="bytes=0-1", If_Range=condition)
            self.assertEqual(response.status, status, condition)

    def test_head_has_no_parts(self) -> None:
        """The range is for GET."""
        headers = {"Range": "bytes=0-1"}
        self.assertEqual(self.ask("HEAD", "/icon-192.png", headers).status, 200)

    def test_compression_by_type(self) -> None:
        """Scripts, pages and drawings are; images are not, and do not vary."""
        for path in ("/_app/immutable/chunk.js", "/icon.svg"):
            whole = self.get(path)
            self.assertEqual(whole.headers["vary"], "Accept-Encoding")
            for _ in range(2):
                response = self.get(path, Accept_Encoding="gzip")
                self.assertEqual(response.headers["content-encoding"], "gzip")
                self.assertEqual(gzip.decompress(response.body), whole.body)
                self.assertEqual(response.headers["etag"], f"W/{whole.headers['etag']}")
        response = self.get("/icon-192.png", Accept_Encoding="gzip")
        self.assertNotIn("content-encoding", response.headers)
        self.assertNotIn("vary", response.headers)

    def test_a_part_is_never_coded(self) -> None:
        """Its numbers are of the file itself."""
        response = self.get("/icon.svg", Range="bytes=0-1499", Accept_Encoding="gzip")
        self.assertEqual((response.status, len(response.body)), (206, 1_500))
        self.assertNotIn("content-encoding", response.headers)


class KeepingTests(SynchronousTestCase):
    """Files stay in memory, once each, and not for ever."""

    def setUp(self) -> None:
        self.root = Path(self.mktemp())
        self.root.mkdir()
        for name in "abc":
            (self.root / name).write_bytes(name.encode() * 10)

    def test_a_file_that_has_not_changed_is_the_same_object(self) -> None:
        """However many are sending it."""
        files = Files(SmallThreads(), str(self.root))
        first, second = (self.successResultOf(files.read("/a")) for _ in range(2))
        self.assertIs(first, second)

    def test_as_much_as_fits_and_one_byte_more(self) -> None:
        """What was not asked for for longest is forgotten; what is too large is not kept."""
        files = Files(SmallThreads(), str(self.root), kept=30)
        for name in "abcab":
            self.successResultOf(files.read(f"/{name}"))
        self.assertEqual(len(files), 3)
        (self.root / "d").write_bytes(b"d")
        kept = self.successResultOf(files.read("/a"))
        self.successResultOf(files.read("/d"))
        self.assertEqual(len(files), 3)
        self.assertIs(self.successResultOf(files.read("/a")), kept)
        (self.root / "e").write_bytes(b"e" * 31)
        self.assertIsNotNone(self.successResultOf(files.read("/e")))
        self.assertEqual(len(files), 3)

    def test_a_file_that_is_gone_is_forgotten(self) -> None:
        """And found again when it is back."""
        files = Files(SmallThreads(), str(self.root))
        self.successResultOf(files.read("/a"))
        (self.root / "a").unlink()
        self.assertIsNone(self.successResultOf(files.read("/a")))
        self.assertEqual(len(files), 0)
