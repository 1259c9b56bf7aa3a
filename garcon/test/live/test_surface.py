"""What a running controller serves beside its operations (a browser client, figures, probes), and
whom it turns away.
"""

from __future__ import annotations

import gzip

from prometheus_client.parser import text_string_to_metric_families

from garcon.test.live.test_controller import API, ControllerCase, ask
from garcon.testing.fleet import Service, eventually

PAGE = "<html><head><title>Built</title><script>go()</script></head></html>"
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


class BrowserTests(ControllerCase):
    """--browser-dir."""

    def test_a_client_is_served(self) -> None:
        """Its page with the title of the settings, its files in parts and codings, nothing else."""
        folder = self.fleet.root / "client"
        (folder / "_app" / "immutable").mkdir(parents=True)
        (folder / "index.html").write_text(PAGE)
        script = b"let a = 1;" * 1_000
        (folder / "_app" / "immutable" / "a.js").write_bytes(script)
        service = self.start("--browser-dir", str(folder))
        page = ask(service.url, "GET", "/chat/1")
        self.assertEqual(page.status, 200)
        self.assertIn(b"<title>Garcon</title>", page.body)
        self.assertIn("'sha256-", page.headers["content-security-policy"])
        title = {"ui": {"appIdentity": {"title": "The <workshop>"}}}
        token: str = service.descriptor()["localCapability"]
        self.assertEqual(ask(service.url, "PUT", f"{API}/app/settings", title, token).status, 200)
        page = ask(service.url, "GET", "/")
        self.assertIn(b"<title>The &lt;workshop&gt;</title>", page.body)

        path = "/_app/immutable/a.js"
        part = ask(service.url, "GET", path, headers={"Range": "bytes=-5"})
        self.assertEqual((part.status, part.body), (206, b" = 1;"))
        coded = ask(service.url, "GET", path, headers={"Accept-Encoding": "gzip"})
        self.assertEqual(gzip.decompress(coded.body), script)
        known = {"If-None-Match": coded.headers["etag"]}
        self.assertEqual(ask(service.url, "GET", path, headers=known).status, 304)
        head = ask(service.url, "HEAD", path)
        self.assertEqual((head.headers["content-length"], head.body), (str(len(script)), b""))
        for missing in ("/_app/b.js", "/_app/%2e%2e/index.html", "/favicon.ico"):
            self.assertEqual(ask(service.url, "GET", missing).status, 404, missing)

    def test_without_it_there_is_no_page(self) -> None:
        """And a directory that is not there is told at start."""
        service = self.start()
        answer = ask(service.url, "GET", "/")
        self.assertEqual((answer.status, answer.body), (404, b"Not found"))
        service.stop()
        self.assertIn("is not a directory", self.refused("--browser-dir", "/nowhere"))


class WatchTests(ControllerCase):
    """Figures and probes of a controller with accounts."""

    def figures(self, service: Service) -> dict[str, float]:
        """Return the figures that have one label at most, by their names and its value."""
        token: str = service.descriptor()["localCapability"]
        answer = ask(service.url, "GET", "/metrics", token=token)
        self.assertEqual(answer.status, 200)
        return {
            "/".join([sample.name, *sample.labels.values()]): sample.value
            for family in text_string_to_metric_families(answer.body.decode())
            for sample in family.samples
        }

    def test_a_turn_in_figures(self) -> None:
        """It runs, is counted, and ends; what it wrote was committed."""
        service = self.start()
        before = self.figures(service)
        self.assertEqual((before["garcon_chats"], before["garcon_turns/running"]), (0, 0))
        token: str = service.descriptor()["localCapability"]
        self.chat(service.url, token, "sleep 5\nsay done")
        during = self.figures(service)
        self.assertEqual((during["garcon_chats"], during["garcon_turns/running"]), (1, 1))
        self.assertEqual(during["garcon_http_requests_total/POST /chats/start/2xx"], 1)
        self.assertEqual(during["garcon_http_request_seconds_count/POST /chats/start"], 1)
        self.assertGreater(
            during["garcon_store_commits_total"], before["garcon_store_commits_total"]
        )
        for name in (
            "garcon_browser_sockets",
            "garcon_executor_links/ready",
            "garcon_http_connections",
            "garcon_event_loop_stalls_total/step",
            "garcon_store_failed_commits_total",
            "garcon_process_resident_memory_bytes",
        ):
            self.assertIn(name, during)
        eventually("the end", lambda: self.figures(service)["garcon_turns/running"] == 0)

    def test_probes(self) -> None:
        """Open, but for the reasons and the figures."""
        service = self.start()
        for path, status in (
            ("/livez", 200),
            ("/readyz", 200),
            ("/readyz?verbose", 401),
            ("/metrics", 401),
        ):
            self.assertEqual(ask(service.url, "GET", path).status, status, path)
        token: str = service.descriptor()["localCapability"]
        reasons = ask(service.url, "GET", "/readyz?verbose", token=token)
        self.assertEqual(reasons.json, {"ready": True, "reasons": []})


class FenceTests(ControllerCase):
    """Foreign pages, on operations and on the socket."""

    def test_a_foreign_page_gets_nothing(self) -> None:
        """Even where accounts are off; pages of this machine do, and programs without an origin."""
        service = self.start("--allow-host", "studio.example", auth=False)
        for origin, operation, socket in (
            ({}, 200, 101),
            ({"Origin": service.url}, 200, 101),
            ({"Origin": "http://localhost:5173"}, 200, 101),
            ({"Origin": "https://studio.example"}, 200, 101),
            ({"Origin": "https://evil.example"}, 403, 403),
            ({"Origin": "null"}, 403, 403),
            ({"Host": "evil.example"}, 403, 403),
        ):
            answer = ask(service.url, "GET", f"{API}/chats", headers=origin)
            self.assertEqual(answer.status, operation, origin)
            opened = ask(service.url, "GET", "/ws", headers={**UPGRADE, **origin})
            self.assertEqual(opened.status, socket, origin)
