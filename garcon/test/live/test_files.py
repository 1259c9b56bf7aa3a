"""The file routes of a running controller, on its own machine and on a worker's."""

from __future__ import annotations

import http.client
import json
import os
import signal
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from attrs import frozen

from garcon.contract import files
from garcon.contract.files import CONTENT_BYTES, UPLOAD_BYTES
from garcon.contract.routes import PREFIX
from garcon.test.live.fleets import FleetTestCase
from garcon.testing.fleet import Service, eventually


@frozen
class Heard:
    """An answer."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def failure(self) -> tuple[int, str, bool]:
        told = self.json
        return self.status, told["errorCode"], told["retryable"]


def ask(
    service: Service,
    method: str,
    route: str,
    query: dict[str, str],
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> Heard:
    """Send one request; a body that is not bytes is JSON."""
    parts = urlsplit(service.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    sent = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        sent["Content-Type"] = "application/json"
    path = f"{PREFIX}/files/{route}?{urlencode(query, quote_via=quote)}"
    try:
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Heard(answer.status, answer.read(), told)
    finally:
        connection.close()


def saving(content: str, expected: str | None = None) -> dict[str, Any]:
    how = "overwrite" if expected is None else "reject"
    return {"content": content, "expectedRevision": expected, "conflictResolution": how}


class PairTests(FleetTestCase):
    """A controller and a worker, real files on both."""

    def setUp(self) -> None:
        super().setUp()
        self.controller, self.worker, self.executor_id = self.fleet.pair()
        self.project = self.fleet.project("project")

    def both(self) -> list[dict[str, str]]:
        """Return the queries that name the project on either."""
        path = str(self.project)
        return [{"projectPath": path, "executorId": where} for where in ("local", self.executor_id)]

    def test_everything_that_can_be_looked_at(self) -> None:
        """On either executor the same."""
        (self.project / "a").mkdir()
        (self.project / "a" / "text.md").write_text("gr\u00fc\u00dfe")
        os.symlink("/etc", self.project / "out")
        for query in self.both():
            where = {"executorId": query["executorId"]}
            tree = ask(self.controller, "GET", "tree", {**where, "path": str(self.project)}).json
            self.assertEqual([entry["name"] for entry in tree["entries"]], ["a"])
            browsed = ask(self.controller, "GET", "browse", where)
            self.assertEqual([one["name"] for one in browsed.json], ["project"])
            listed = ask(self.controller, "GET", "list", query)
            self.assertEqual([one["relativePath"] for one in listed.json], ["a/text.md"])
            file = {**query, "path": "a/text.md"}
            identity = ask(self.controller, "GET", "identity", file).json["identity"]
            self.assertEqual(identity["executorId"], query["executorId"])
            text = ask(self.controller, "GET", "text", file).json
            self.assertEqual(text["content"], "gr\u00fc\u00dfe")
            revision = ask(self.controller, "GET", "revision", file).json
            self.assertEqual(revision, {"status": "ready", "revision": text["revision"]})
            outside = ask(self.controller, "GET", "text", {**query, "path": "out/passwd"})
            self.assertEqual(outside.failure, (403, files.OUTSIDE, False))

    def test_content_and_parts_of_it(self) -> None:
        """Of the largest size; a part by range, if it is still the same file."""
        content = os.urandom(CONTENT_BYTES)
        (self.project / "film.mp4").write_bytes(content)
        for query in self.both():
            file = {**query, "path": "film.mp4"}
            whole = ask(self.controller, "GET", "content", file)
            self.assertEqual((whole.status, whole.body == content), (200, True))
            self.assertEqual(whole.headers["content-type"], "video/mp4")
            self.assertEqual(whole.headers["x-content-type-options"], "nosniff")
            self.assertTrue(whole.headers["content-security-policy"].startswith("sandbox"))
            tag = whole.headers["etag"]
            self.assertEqual(tag, f'"{whole.headers["x-garcon-file-revision"]}"')
            part = {"Range": "bytes=1000000-1999999", "If-Range": tag}
            some = ask(self.controller, "GET", "content", file, headers=part)
            self.assertEqual((some.status, some.body), (206, content[1_000_000:2_000_000]))
            span = f"bytes 1000000-1999999/{CONTENT_BYTES}"
            self.assertEqual(some.headers["content-range"], span)
            other = {"Range": "bytes=0-9", "If-Range": '"v1:other"'}
            changed = ask(self.controller, "GET", "content", file, headers=other)
            self.assertEqual((changed.status, len(changed.body)), (200, CONTENT_BYTES))
            beyond = {"Range": f"bytes={CONTENT_BYTES}-"}
            none = ask(self.controller, "GET", "content", file, headers=beyond)
            self.assertEqual(none.status, 416)
            head = ask(self.controller, "HEAD", "content", file)
            self.assertEqual((head.headers["content-length"], head.body), (str(len(content)), b""))
        (self.project / "film.mp4").write_bytes(content + b"x")
        for query in self.both():
            said = ask(self.controller, "GET", "content", {**query, "path": "film.mp4"})
            self.assertEqual(said.failure, (413, files.TOO_LARGE, False))

    def test_savers_from_both_sides(self) -> None:
        """Each sees what the other wrote; a revision that is not the last one is a conflict."""
        here, there = ({**query, "path": "file.txt"} for query in self.both())
        first = ask(self.controller, "PUT", "text", here, saving("first"))
        self.assertEqual(first.status, 200)
        revision = first.json["revision"]
        read = ask(self.controller, "GET", "text", there).json
        self.assertEqual((read["content"], read["revision"]), ("first", revision))
        second = ask(self.controller, "PUT", "text", there, saving("second, longer", revision))
        self.assertEqual(second.status, 200)
        stale = ask(self.controller, "PUT", "text", here, saving("stale", revision))
        self.assertEqual(stale.failure, (409, files.REVISION_CONFLICT, False))
        self.assertEqual((self.project / "file.txt").read_text(), "second, longer")

    def test_many_savers_at_once(self) -> None:
        """Of one file, by two of its names: one content stays, whole, and exactly one of those
        who expect the same revision is taken.
        """
        (self.project / "file").write_text("")
        os.link(self.project / "file", self.project / "other")
        for query in self.both():
            revision = ask(self.controller, "GET", "revision", {**query, "path": "file"}).json[
                "revision"
            ]
            contents = [f"{number}" * (number + 1) * 10_000 for number in range(8)]

            def save(
                number: int,
                query: dict[str, str] = query,
                contents: list[str] = contents,
                revision: str = revision,
            ) -> Heard:
                name = "file" if number % 2 else "other"
                body = saving(contents[number], revision)
                return ask(self.controller, "PUT", "text", {**query, "path": name}, body)

            with ThreadPoolExecutor(8) as pool:
                said = list(pool.map(save, range(8)))
            taken = [number for number, one in enumerate(said) if one.status == 200]
            self.assertEqual(len(taken), 1, [one.body for one in said])
            self.assertEqual((self.project / "other").read_text(), contents[taken[0]])
            codes = {one.json["errorCode"] for one in said if one.status != 200}
            self.assertEqual(codes, {files.REVISION_CONFLICT})

    def test_many_large_contents_at_once(self) -> None:
        """More than may be under way: all are answered, none is lost or mixed up."""
        for number in range(12):
            (self.project / f"{number}").write_bytes(bytes([number]) * CONTENT_BYTES)
        for query in self.both():

            def read(number: int, query: dict[str, str] = query) -> bytes:
                said = ask(self.controller, "GET", "content", {**query, "path": f"{number}"})
                self.assertEqual(said.status, 200, said.body[:300])
                return said.body

            with ThreadPoolExecutor(12) as pool:
                for number, body in enumerate(pool.map(read, range(12))):
                    self.assertEqual(body, bytes([number]) * CONTENT_BYTES)

    def test_a_save_to_a_worker_that_dies_has_an_unknown_outcome(self) -> None:
        """It is not given to the next process; whoever saves looks, and decides."""
        file = {**self.both()[1], "path": "file.txt"}
        (self.project / "file.txt").write_text("old")
        os.kill(self.worker.process.pid, signal.SIGSTOP)
        url = self.fleet.garcon(
            self.controller, "executor", "connection", self.executor_id
        ).out.strip()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(
                ask, self.controller, "PUT", "text", file, saving("new" * 100_000)
            )
            # It has left when the link has nothing more to send; then the worker is no more.
            eventually("the save to leave", self.has_left)
            self.worker.kill()
            self.worker = self.fleet.worker("--no-tls", url=url)
            self.fleet.await_executor(self.controller, self.executor_id)
            said = waiting.result(60)
        self.assertEqual(said.failure, (503, files.SAVE_OUTCOME_UNKNOWN, False))
        self.assertEqual((self.project / "file.txt").read_text(), "old")
        again = ask(self.controller, "PUT", "text", file, saving("new"))
        self.assertEqual(again.status, 200)
        self.assertEqual((self.project / "file.txt").read_text(), "new")

    def has_left(self) -> bool:
        """Whether a call is under way of which nothing waits here any more."""
        parts = urlsplit(self.controller.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
        try:
            connection.request("GET", f"{PREFIX}/executors/{self.executor_id}/diagnostics")
            link = json.loads(connection.getresponse().read())["link"]
        finally:
            connection.close()
        queued = [link[lane]["queuedBytes"] for lane in ("primary", "bulk")]
        return link["outgoingCalls"] == 1 and not any(queued)

    def test_names_that_differ_only_by_normalization(self) -> None:
        """And names that are not UTF-8: the former are two files, the latter are counted."""
        forms = [unicodedata.normalize(form, "caf\u00e9") for form in ("NFC", "NFD")]
        for query in self.both():
            for name in forms:
                file = {**query, "path": name}
                self.assertEqual(
                    ask(self.controller, "PUT", "text", file, saving(ascii(name))).status, 200
                )
            for name in forms:
                read = ask(self.controller, "GET", "text", {**query, "path": name}).json
                self.assertEqual(read["content"], ascii(name))
        with open(os.path.join(os.fsencode(self.project), b"\xff"), "wb"):
            pass
        for query in self.both():
            tree = ask(
                self.controller,
                "GET",
                "tree",
                {"executorId": query["executorId"], "path": "project"},
            ).json
            self.assertEqual((len(tree["entries"]), tree["omittedNames"]), (2, 1))


class UploadTests(FleetTestCase):
    """Attachments at the door."""

    def upload(self, body: bytes, boundary: str = "xyz", **headers: str) -> Heard:
        kind = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        return ask(self.controller, "POST", "upload-attachments", {}, body, {**kind, **headers})

    def test_uploads(self) -> None:
        """The largest film comes back whole, uncompressed; what is larger is refused unread, with
        an envelope.
        """
        self.controller = self.fleet.controller()
        content = os.urandom(26_214_400)
        head = (
            b'--xyz\r\nContent-Disposition: form-data; name="attachments"; filename="a.mp4"\r\n'
            b"Content-Type: video/mp4\r\n\r\n"
        )
        said = self.upload(head + content + b"\r\n--xyz--\r\n", **{"Accept-Encoding": "gzip"})
        self.assertEqual(said.status, 200, said.body[:300])
        self.assertNotIn("content-encoding", said.headers)
        (one,) = said.json["images"]
        self.assertEqual((one["size"], one["mimeType"]), (len(content), "video/mp4"))
        most = self.upload(b"x" * UPLOAD_BYTES)
        self.assertEqual(most.failure, (400, "VALIDATION_FAILED", False))
        more = self.upload(b"", **{"Content-Length": str(UPLOAD_BYTES + 1)})
        self.assertEqual(more.failure, (413, "VALIDATION_FAILED", False))

    def test_a_save_that_is_too_large_for_any_content(self) -> None:
        """Is refused unread as well."""
        self.controller = self.fleet.controller()
        project = self.fleet.project("project")
        query = {"projectPath": str(project), "path": "file"}
        headers = {"Content-Length": str(files.SAVE_BODY_BYTES + 1)}
        said = ask(self.controller, "PUT", "text", query, b"", headers)
        self.assertEqual(said.failure, (413, files.TOO_LARGE, False))
        worst = "\x01" * CONTENT_BYTES
        self.assertEqual(ask(self.controller, "PUT", "text", query, saving(worst)).status, 200)
        self.assertEqual(Path(project, "file").read_bytes(), worst.encode())
