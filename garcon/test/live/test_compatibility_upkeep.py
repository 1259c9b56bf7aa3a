"""What looks after chats, as clients of others see it: the list, names, tags, groups, order, marks,
rows, settings, projects, details (chats.md 3, 4.1, 5.13, 5.14; control.md C).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from garcon.test.live.foreign import CONFLICT, GONE, INVALID, STALE, ForeignCase
from garcon.testing.foreign_client import message

UNKNOWN = "1700000000000000"


class UpkeepTests(ForeignCase):
    """No operation here calls a provider."""

    def ids(self) -> list[str]:
        """The list's order."""
        return [one["id"] for one in self.client.chats()]

    def test_groups_and_order(self) -> None:
        """Pinned, normal and archived; a toggle says what is so now; one invalidation for each
        change and none without; all of it survives a restart (3.1, 3.25, 3.26, 5.14).
        """
        a, b, c, d = (self.chat(name) for name in "abcd")
        asked = len(self.providers[0].model.asked())
        self.assertEqual(self.ids(), [d, c, b, a])

        def reorder(chat_id: str, **placement: Any) -> tuple[str, bool]:
            said = self.client.do(
                "POST", "/chats/reorder", {"chatId": chat_id, "placement": placement}
            )
            return said["orderGroup"], said["changed"]

        heard = len(self.socket.messages)
        self.assertEqual(reorder(a, kind="boundary", boundary="top"), ("normal", True))
        self.assertEqual(reorder(a, kind="boundary", boundary="top"), ("normal", False))
        self.assertEqual(
            reorder(d, kind="relative", referenceChatId=b, position="before"), ("normal", True)
        )
        self.assertEqual(self.ids(), [a, c, d, b])
        self.socket.ping()
        moved = [one.get("reason") for one in self.socket.messages[heard:-1]]
        self.assertEqual(moved, ["chats-reordered"] * 2)
        self.assertTrue(self.client.do("POST", "/chats/pin", {"chatId": b})["isPinned"])
        self.assertTrue(self.client.do("POST", "/chats/archive", chatId=c)["isArchived"])
        self.assertTrue(self.client.do("POST", "/chats/pin", {"chatId": d})["isPinned"])
        self.assertEqual(self.ids(), [d, b, a, c])
        groups = [one["orderGroup"] for one in self.client.chats()]
        self.assertEqual(groups, ["pinned", "pinned", "normal", "archived"])
        settings = self.client.do("GET", "/app/settings")
        self.assertEqual(settings["pinnedChatIds"], [d, b])
        relative: dict[str, Any] = {"kind": "relative", "position": "after"}
        wrong: list[tuple[dict[str, Any], tuple[int, str, bool]]] = [
            (relative | {"referenceChatId": d}, (400, "ORDER_CROSS_GROUP", False)),
            (relative | {"referenceChatId": a}, INVALID),
            (relative | {"referenceChatId": UNKNOWN}, GONE),
            ({"kind": "boundary", "boundary": "top", "x": 1}, INVALID),
            ({"kind": "boundary", "boundary": "left"}, INVALID),
        ]
        for placement, refusal in wrong:
            body = {"chatId": a, "placement": placement}
            self.assertEqual(self.client.refused("POST", "/chats/reorder", body), refusal)
        top = {"kind": "boundary", "boundary": "top"}
        extra: dict[str, Any] = {"chatId": a, "placement": top, "extra": True}
        self.assertEqual(self.client.refused("POST", "/chats/reorder", extra), INVALID)
        before = self.client.chats()
        self.restart()
        self.assertEqual(self.client.chats(), before)
        self.assertFalse(self.client.do("POST", "/chats/pin", {"chatId": d})["isPinned"])
        self.assertFalse(self.client.do("POST", "/chats/archive", {"chatId": c})["isArchived"])
        self.assertEqual(self.ids(), [b, c, d, a])
        for path in ("pin", "archive"):
            self.assertEqual(self.client.refused("POST", f"/chats/{path}", {}), INVALID)
            self.assertEqual(
                self.client.refused("POST", f"/chats/{path}", {"chatId": UNKNOWN}), GONE
            )
        self.assertEqual(len(self.providers[0].model.asked()), asked)

    def test_read_marks(self) -> None:
        """The server's own clock, never backwards; who is not known is skipped; reading itself is
        no mark (3.27, 5.14).
        """
        chat_id = self.chat()
        for _ in range(2):
            self.client.history(chat_id)
            self.client.do("GET", "/chats/snapshot", chatId=chat_id)
        entry = self.client.entry(chat_id)
        self.assertEqual((entry["isUnread"], entry["activity"]["lastReadAt"]), (True, None))
        body: dict[str, Any] = {
            "entries": [{"chatId": chat_id, "lastReadAt": "2000-01-01T00:00:00.000Z"}]
        }
        body["entries"] += [{"chatId": UNKNOWN, "lastReadAt": "x"}, {"chatId": " "}]
        [mark] = self.client.do("POST", "/chats/read", body)["results"]
        self.assertEqual(mark["chatId"], chat_id)
        entry = self.client.entry(chat_id)
        self.assertEqual(entry["activity"]["lastReadAt"], mark["lastReadAt"])
        self.assertGreaterEqual(mark["lastReadAt"], entry["activity"]["lastActivityAt"])
        self.assertFalse(entry["isUnread"])
        for body in ({"entries": []}, {"entries": "x"}):
            self.assertEqual(self.client.do("POST", "/chats/read", body)["results"], [])
        self.assertEqual(self.client.do("POST", "/chats/read")["results"], [])
        self.ended(self.client.run(chat_id, "more"))
        self.assertTrue(self.client.entry(chat_id)["isUnread"])

    def test_tags_names_and_selection(self) -> None:
        """Tags are slugs, all replaced; a name is trimmed and never empty; a selection is known
        until the chat is gone (3.3, 3.28, 3.37, 4.14).
        """
        chat_id = self.chat("first line\nsecond line")
        entry = self.client.entry(chat_id)
        self.assertEqual((entry["title"], entry["preview"]["firstMessage"]), ("first line",) * 2)
        tags = {"chatId": chat_id, "tags": ["Review Needed", "b", " ", "B", "--a--b--"]}
        changed = self.client.do("PATCH", "/chats/tags", tags)
        self.assertEqual(changed["tags"], ["a-b", "b", "review-needed"])
        self.assertEqual(
            self.client.do("PATCH", "/chats/tags", {"chatId": chat_id, "tags": 1})["tags"], []
        )
        self.assertEqual(
            self.client.refused("PATCH", "/chats/tags", {"chatId": UNKNOWN, "tags": []}), GONE
        )
        self.client.do("PUT", "/app/session-name", {"chatId": chat_id, "title": "  New\nname "})
        self.assertEqual(self.client.entry(chat_id)["title"], "New")
        for body, status in (
            ({"chatId": chat_id, "title": " "}, 400),
            ({"title": "x"}, 400),
            ({"chatId": UNKNOWN, "title": "x"}, 404),
        ):
            reply = self.client.ask("PUT", "/app/session-name", body)
            self.assertEqual((reply.status, reply.json["success"]), (status, False))
        path = "/chats/last-selected"
        said = self.client.do("PUT", path, {"chatId": chat_id})
        self.assertEqual(said["lastSelectedChatId"], chat_id)
        self.assertEqual(self.client.do("GET", "/chats")["lastSelectedChatId"], chat_id)
        self.assertEqual(self.client.refused("PUT", path, {"chatId": UNKNOWN}), GONE)
        self.assertEqual(self.client.refused("PUT", path, {"chatId": ""}), INVALID)
        self.assertIsNone(self.client.do("PUT", path, {"chatId": None})["lastSelectedChatId"])
        self.client.do("PUT", path, {"chatId": chat_id})
        self.client.do("DELETE", "/chats", chatId=chat_id)
        self.assertIsNone(self.client.do("GET", "/chats")["lastSelectedChatId"])

    def test_rows_are_for_reading_only(self) -> None:
        """They take the next ordinal while a turn runs, byte for byte, change no state and no
        preview, are no one's context, and last (3.20, 5.13).
        """
        turn = self.held("question", "go")
        chat_id = turn["chatId"]
        before, control = self.client.entry(chat_id), self.client.control(chat_id)
        view = self.client.do("GET", "/chats/rows", chatId=chat_id)["transcriptViewId"]
        content = "  two\n\nlines \u2028 é🙂\n"
        good = message(chatId=chat_id, transcriptViewId=view, type="notice", content=content)
        first = self.client.ask("POST", "/chats/rows", good | {"title": " T "})
        self.assertEqual((first.status, first.json["status"]), (200, "appended"))
        error = message(chatId=chat_id, transcriptViewId=view, type="error", content="e")
        second = self.client.do("POST", "/chats/rows", error)
        self.assertEqual(second["ordinal"], first.json["ordinal"] + 1)
        again = self.client.do("POST", "/chats/rows", good | {"title": "T", "clientRequestId": "x"})
        self.assertEqual((again["status"], again["clientRequestId"]), ("duplicate", "x"))
        self.assertEqual(
            (again["ordinal"], again["timestamp"]),
            (first.json["ordinal"], first.json["timestamp"]),
        )
        shown = [row["message"] for row in self.client.history(chat_id)["messages"]][-2:]
        self.assertEqual([one["type"] for one in shown], ["transcript-notice", "error"])
        self.assertEqual([one["detail"] for one in shown], [{"type": "cli-row"}] * 2)
        self.assertEqual((shown[0]["content"], shown[0]["title"]), (content, "T"))
        self.assertNotIn("title", shown[1])
        self.assertEqual(self.client.control(chat_id), control)
        self.assertEqual(self.client.entry(chat_id), before)
        wrong: list[tuple[dict[str, Any], tuple[int, str, bool]]] = [
            ({"transcriptViewId": "other"}, STALE),
            ({"chatId": UNKNOWN}, GONE),
            ({"type": "warning"}, INVALID),
            ({"content": " \n"}, INVALID),
            ({"content": "x" * 65_537}, INVALID),
            ({"content": "\ud800"}, INVALID),
            ({"title": "x" * 121}, INVALID),
            ({"title": "a\nb"}, INVALID),
            ({"title": "  "}, INVALID),
        ]
        for change, refusal in wrong:
            body = good | message() | change
            self.assertEqual(self.client.refused("POST", "/chats/rows", body), refusal, change)
        for change in ({"content": "x"}, {"type": "error"}, {"title": None}):
            self.assertEqual(
                self.client.refused("POST", "/chats/rows", good | {"title": "T"} | change), CONFLICT
            )
        largest = {"content": "x" * 65_536, "title": "🙂" * 120}
        self.client.do("POST", "/chats/rows", good | message() | largest)
        self.assertEqual(self.client.refused("GET", "/chats/rows", chatId="1"), INVALID)
        self.assertEqual(self.client.refused("GET", "/chats/rows", chatId=UNKNOWN), GONE)
        for method, sent in (("GET", None), ("POST", error)):
            reply = self.client.ask(method, "/chats/rows", sent, chatId=chat_id)
            self.assertEqual(reply.headers["cache-control"], "no-store")
        self.client.stop(chat_id)
        candidates = self.client.history(chat_id)["resendCandidates"]
        self.assertEqual([one["content"] for one in candidates], ["question"])
        rows = self.client.rows(chat_id)
        self.crash()
        self.assertEqual(self.client.rows(chat_id), rows)
        self.assertEqual(self.client.do("POST", "/chats/rows", error)["status"], "duplicate")

    def test_execution_settings_and_models(self) -> None:
        """Leniently read, kept, and used by the next turn (3.29)."""
        chat_id = self.chat()
        body = {"chatId": chat_id, "thinkingMode": "think-hard", "permissionMode": "odd"}
        said = self.client.do("PATCH", "/chats/execution-settings", body)
        self.assertEqual((said["thinkingMode"], said["permissionMode"]), ("medium", "default"))
        self.assertEqual(said["agentSettings"]["ownerId"], self.providers[0].agent)
        entry = self.client.entry(chat_id)
        change = {"chatId": chat_id, "model": entry["model"]} | {
            "apiProviderId": entry["apiProviderId"],
            "modelEndpointId": entry["modelEndpointId"],
        }
        said = self.client.do("PATCH", "/chats/model", change)
        self.assertEqual(said["apiProviderId"], entry["apiProviderId"])
        self.assertNotIn("modelProtocol", said)
        other = change | {"apiProviderId": "no_such", "modelEndpointId": "no_such"}
        self.assertEqual(
            self.client.refused("PATCH", "/chats/model", other),
            (422, "MODEL_SELECTION_ERROR", False),
        )
        for path in ("execution-settings", "model"):
            body = {"chatId": UNKNOWN, "model": "x"}
            self.assertEqual(self.client.refused("PATCH", f"/chats/{path}", body), GONE)
            self.assertEqual(
                self.client.refused("PATCH", f"/chats/{path}", {"model": "x"}), INVALID
            )
        self.assertEqual(self.ended(self.client.run(chat_id, "x"))[0], "completed")

    def test_projects(self) -> None:
        """Inside the base, there, and a directory; the same one is always right; a busy chat stays
        where it is (3.29, 3.35).
        """
        base = Path(self.project)
        (base / "file").touch()
        inside = base / "inside"
        inside.mkdir(exist_ok=True)
        link = self.stage.projects / "link"
        if not link.is_symlink():
            link.symlink_to(inside)
        for path, code in (
            ("/", "outside_base_dir"),
            (str(base / "no"), "path_not_found"),
            (str(base / "file"), "not_directory"),
        ):
            said = self.client.do("GET", "/chats/validate-start", path=path)
            self.assertEqual((said["valid"], said["errorCode"]), (False, code))
        said = self.client.do("GET", "/chats/validate-start", path=str(link))
        self.assertEqual(said, {"valid": True, "isGitRepo": False})
        blank = self.client.ask("GET", "/chats/validate-start", path=" ")
        self.assertEqual((blank.status, blank.json["errorCode"]), (400, "path_required"))
        self.assertIs(blank.json["valid"], False)
        chat_id = self.chat(projectPath=str(link))
        self.assertEqual(self.client.entry(chat_id)["effectiveProjectKey"], str(inside))

        def move(path: Path | str) -> dict[str, Any]:
            return {"chatId": chat_id, "projectPath": str(path)}

        path = "/chats/project-path"
        said = self.client.do("PATCH", path, move(base))
        self.assertEqual(said["previousEffectiveProjectKey"], str(inside))
        for where, refusal in (
            ("/", (403, "PROJECT_PATH_OUTSIDE_BASE", False)),
            (base / "no", (404, "PROJECT_PATH_NOT_FOUND", False)),
            (base / "file", (400, "PROJECT_PATH_NOT_DIRECTORY", False)),
        ):
            self.assertEqual(self.client.refused("PATCH", path, move(where)), refusal)
        self.providers[0].model.push([{"hold": "go"}, "x"])
        turn = self.client.run(chat_id, "busy")
        self.assertEqual(self.client.do("PATCH", path, move(base))["projectPath"], str(base))
        self.assertEqual(
            self.client.refused("PATCH", path, move(inside)), (409, "CHAT_NOT_IDLE", True)
        )
        self.providers[0].model.release("go")
        self.ended(turn)

    def test_a_project_that_is_gone(self) -> None:
        """Its chat is not listed, and is there all the same (3.1, 3.22)."""
        folder = self.stage.projects / "short-lived"
        folder.mkdir()
        chat_id = self.chat(projectPath=str(folder))
        self.client.do("PUT", "/chats/last-selected", {"chatId": chat_id})
        folder.rmdir()
        self.restart()
        self.assertEqual(self.client.chats(), [])
        snapshot = self.client.do("GET", "/chats/snapshot", chatId=chat_id)
        self.assertEqual(snapshot["chat"]["projectPath"], str(folder))
        self.client.do("DELETE", "/chats", {"chatId": chat_id})

    def test_snapshots_and_details(self) -> None:
        """Bounded, never cached, and they change nothing (3.22, 3.34, 4.10)."""
        chat_id = self.chat("about this")
        before = self.client.entry(chat_id)
        for limit in (0, 1, 10, 200):
            reply = self.client.ask("GET", "/chats/snapshot", chatId=chat_id, limit=limit)
            self.assertEqual((reply.status, reply.headers["cache-control"]), (200, "no-store"))
        for odd in ("201", "-1", "x", "1.0", ""):
            refused = self.client.refused("GET", "/chats/snapshot", chatId=chat_id, limit=odd)
            self.assertEqual(refused, INVALID, odd)
        snapshot = self.client.do("GET", "/chats/snapshot", chatId=chat_id)
        self.assertEqual(snapshot["messageLimit"], 10)
        self.assertEqual(snapshot["chat"]["carryOverRevision"], "carry-v1:0")
        self.assertEqual(self.client.refused("GET", "/chats/snapshot", chatId="1"), INVALID)
        missing = self.client.ask("GET", "/chats/snapshot", chatId=UNKNOWN)
        self.assertEqual((missing.status, missing.headers["cache-control"]), (404, "no-store"))
        details = self.client.do("GET", "/chats/details", chatId=chat_id)
        self.assertEqual(details["firstMessage"], "about this")
        self.assertEqual(details["carryOver"]["segments"], [])
        self.assertEqual(self.client.refused("GET", "/chats/details", chatId=UNKNOWN), GONE)
        self.assertEqual(self.client.refused("GET", "/chats/details"), INVALID)
        lost = (404, "TURN_RECEIPT_NOT_FOUND", False)
        receipts: list[tuple[dict[str, Any], tuple[int, str, bool]]] = [
            ({"turnId": "x"}, INVALID),
            ({"chatId": chat_id, "turnId": "x"}, lost),
        ]
        for query, refusal in receipts:
            reply = self.client.ask("GET", "/chats/turn-receipt", **query)
            found = reply.status, reply.json["errorCode"], reply.json["retryable"]
            self.assertEqual((found, reply.headers["cache-control"]), (refusal, "no-store"))
        self.assertEqual(self.client.entry(chat_id), before)

    def test_settings(self) -> None:
        """A patch replaces whole members of `ui`, its version grows, and readers are told what it
        is then (control.md C; server.md E.4).
        """
        before = self.client.do("GET", "/app/settings")
        title = {"enabled": True, "agentId": self.providers[0].agent}
        title |= {"model": f"{self.providers[0].endpoint_id}:scripted"}
        title |= {"apiProviderId": self.providers[0].id}
        title |= {"modelEndpointId": self.providers[0].endpoint_id}
        said = self.client.do("PUT", "/app/settings", {"ui": {"chatTitle": title}})["settings"]
        self.assertGreater(said["version"], before["version"])
        self.assertEqual(said["ui"]["chatTitle"], title)
        effective = said["uiEffective"]["chatTitle"]
        self.assertEqual((effective["agentId"], effective["enabled"]), (title["agentId"], True))
        self.assertEqual(effective["modelEndpointId"], title["modelEndpointId"])
        told = self.socket.wait_for("the change", lambda one: one["type"] == "settings-changed")
        self.assertEqual(told["settings"]["ui"]["chatTitle"], title)
        self.client.do("PUT", "/app/settings", {"ui": {"chatTitle": {"enabled": False}}})
        settings = self.client.do("GET", "/app/settings")
        self.assertEqual(settings["ui"]["chatTitle"], {"enabled": False})
        self.assertEqual(settings["projectBasePath"], str(self.stage.projects))
        wrong = {"features": {"transcriptSearch": {"enabled": "yes"}}}
        self.assertEqual(
            self.client.refused("PUT", "/app/settings", wrong),
            (400, "INVALID_REMOTE_SETTINGS", False),
        )
        chat_id = self.chat()
        recent = self.client.do("GET", "/app/settings")["recentAgentSettings"][0]
        entry = self.client.entry(chat_id)
        for name in ("agentId", "model", "apiProviderId", "modelEndpointId", "modelProtocol"):
            self.assertEqual(recent[name], entry[name])

    def test_what_is_not_there(self) -> None:
        """Plain text, whatever the path or the method (1.1; server.md F.8)."""
        for method, path in (
            ("GET", "/api/v1/nothing"),
            ("PATCH", "/api/v1/chats"),
            ("GET", "/api/v1/chats/start"),
            ("OPTIONS", "/api/v1/chats"),
            ("GET", "/api/v1/chats/"),
            ("POST", "/api/v1/chats/goal-control"),
        ):
            reply = self.client.raw(method, path)
            self.assertEqual((reply.status, reply.body), (404, b"Not found"), path)
            self.assertTrue(reply.headers["content-type"].startswith("text/plain"))
        broken = self.client.raw(
            "POST", "/api/v1/chats/start", b"{", {"Content-Type": "Application/JSON; charset=utf-8"}
        )
        self.assertEqual((broken.status, broken.json["errorCode"]), INVALID[:2])
        for kind in ("text/plain", "application/x-www-form-urlencoded"):
            reply = self.client.raw("POST", "/api/v1/chats/start", b"{", {"Content-Type": kind})
            self.assertEqual((reply.status, reply.json["errorCode"]), INVALID[:2])
