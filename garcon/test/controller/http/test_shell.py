"""The page of a browser client: its title, and the policies of it and of everything else."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256

from garcon.controller.http.shell import AppTitle, manifest, page_policy, titled
from garcon.test.controller.http.client_cast import PAGE, BrowserCase


def source_of(script: str) -> str:
    """Return how a policy names an inline script."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


class TitleTests(BrowserCase):
    """The title in the page."""

    def test_it_is_put_in(self) -> None:
        """As the page's title, for home screens, and as a global of its scripts."""
        self.app = AppTitle("Ann & Bob's <Garcon>", 7)
        text = self.get("/").body.decode()
        shown = "Ann &amp; Bob&#x27;s &lt;Garcon&gt;"
        self.assertIn(f"<title>{shown}</title>", text)
        self.assertIn(f'<meta name="apple-mobile-web-app-title" content="{shown}">', text)
        found = re.search(r"<script>globalThis\.__GARCON_APP_TITLE__=(.*?);</script></head>", text)
        assert found is not None
        self.assertEqual(json.loads(found[1]), {"title": self.app.title, "version": 7})

    def test_the_default(self) -> None:
        """Until somebody names it."""
        self.assertIn("<title>Garcon</title>", self.get("/").body.decode())

    def test_a_new_title_is_seen_at_once(self) -> None:
        """In the page and in its policy."""
        before = self.get("/")
        self.app = AppTitle("New", 1)
        after = self.get("/")
        self.assertIn("<title>New</title>", after.body.decode())
        self.assertNotEqual(before.headers["etag"], after.headers["etag"])
        self.assertNotEqual(
            before.headers["content-security-policy"], after.headers["content-security-policy"]
        )

    def test_no_title_ends_the_script(self) -> None:
        """Nor the element, nor a line of it."""
        app = AppTitle('</script><script>alert(1)</script>\u2028\u2029<!--\\1 "', 0)
        page, _ = titled(PAGE.encode(), app)
        text = page.decode()
        self.assertEqual(text.count("<script"), PAGE.count("<script") + 1)
        for character in ("\u2028", "\u2029"):
            head = text.partition("__GARCON_APP_TITLE__=")[2].partition(";</script>")[0]
            self.assertNotIn(character, head)
            self.assertNotIn("<", head)
        self.assertEqual(json.loads(head)["title"], app.title)

    def test_variants_of_a_page(self) -> None:
        """Attributes in another order, without quotes, or none; no head at all."""
        app = AppTitle("T")
        for tag, shown in (
            (
                "<meta content='x' name='apple-mobile-web-app-title' />",
                "<meta content=\"T\" name='apple-mobile-web-app-title' />",
            ),
            (
                "<META NAME=apple-mobile-web-app-title CONTENT=x>",
                '<META NAME=apple-mobile-web-app-title content="T">',
            ),
            (
                '<meta name="apple-mobile-web-app-title">',
                '<meta content="T" name="apple-mobile-web-app-title">',
            ),
            ('<meta name="description" content="x">', '<meta name="description" content="x">'),
        ):
            self.assertIn(shown.encode(), titled(f"<head>{tag}</head>".encode(), app)[0])
        self.assertTrue(titled(b"<p>", app)[0].startswith(b"<script>globalThis."))
        self.assertIn(b"\xff", titled(b"<head></head>\xff", app)[0])

    def test_a_broken_manifest(self) -> None:
        """The title is all that is left of it."""
        for content in (b"", b"[]", b"{", b"\xff"):
            named = json.loads(manifest(content, AppTitle("T")))
            self.assertEqual(named, {"name": "T", "short_name": "T"})


class PolicyTests(BrowserCase):
    """Security headers of the page, of files and of everything else."""

    def test_every_answer(self) -> None:
        """Pages, files, operations, refusals: nothing is sniffed, framed or told to others."""
        for path in ("/", "/icon.svg", "/api/v1/executors", "/nothing", "/livez"):
            headers = self.get(path).headers
            self.assertEqual(headers["x-content-type-options"], "nosniff")
            self.assertEqual(headers["x-frame-options"], "DENY")
            self.assertEqual(headers["referrer-policy"], "no-referrer")
            self.assertEqual(headers["cross-origin-resource-policy"], "same-origin")
            self.assertEqual(headers["cross-origin-opener-policy"], "same-origin")
            self.assertIn("frame-ancestors 'none'", headers["content-security-policy"])
            self.assertNotIn("access-control-allow-origin", headers)

    def test_there_is_one_policy(self) -> None:
        """Two would both hold, and the page would not run."""
        for path in ("/", "/icon.svg", "/livez"):
            _, transport = self.begin("GET", path, {"Authorization": ""})
            head = transport.value().partition(b"\r\n\r\n")[0].lower()
            self.assertEqual(head.count(b"\r\ncontent-security-policy:"), 1, path)

    def test_what_is_no_page_loads_nothing(self) -> None:
        """An answer that is opened by itself runs nothing."""
        for path in ("/api/v1/executors", "/nothing", "/livez"):
            policy = self.get(path).headers["content-security-policy"]
            self.assertTrue(policy.startswith("default-src 'none'"), policy)

    def test_the_pages_own_scripts_run(self) -> None:
        """Each of them is named by its hash, the one with the title too; no others are."""
        response = self.get("/")
        policy = response.headers["content-security-policy"]
        scripts = re.findall(r"<script(?: nonce)?>(.*?)</script>", response.body.decode())
        self.assertEqual(len(scripts), 3)
        for script in scripts:
            self.assertIn(source_of(script), policy)
        self.assertEqual(policy.count("'sha256-"), 3)
        sources = policy.partition("script-src ")[2].partition(";")[0]
        self.assertNotIn("unsafe-inline", sources)
        self.assertNotIn("unsafe-eval'", sources.replace("'wasm-unsafe-eval'", ""))

    def test_a_script_is_hashed_as_it_is_parsed(self) -> None:
        """Browsers turn every line end into a line feed first."""
        policy = page_policy(["a\r\nb\rc"])
        self.assertIn(source_of("a\nb\nc"), policy)

    def test_workers_may_ask_us(self) -> None:
        """A worker's own policy holds for what it fetches."""
        for path in ("/service-worker.js", "/_app/immutable/chunk.js"):
            self.assertIn("connect-src 'self'", self.get(path).headers["content-security-policy"])
