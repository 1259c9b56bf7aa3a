"""Creating, changing, revealing and deleting executors (control.md E.1-E.8)."""

from __future__ import annotations

import json
from typing import Any

from garcon.contract import operations
from garcon.contract.connection_url import new_secret, parse_connection_url
from garcon.contract.executors import ExecutorSnapshot
from garcon.controller.principals import delegated
from garcon.local.files import DirectoryNotSynced, write_private
from garcon.test.controller.executors.cast import ExecutorsCase

SECRET = new_secret(b"s" * 32)
UNKNOWN = "ffffffff-ffff-4fff-8fff-ffffffffffff"


class CreateTests(ExecutorsCase):
    """E.3 and E.5."""

    def test_inbound(self) -> None:
        """The controller makes the secret; the answer carries the address below the public base."""
        body = {"label": "  one ", "direction": "executor-connects"}
        status, answer = self.ask(operations.CREATE_EXECUTOR, body)
        self.assertEqual(status, 200)
        self.assertEqual(set(answer), {"id", "connectionUrl", "noTls", "allowUnverifiedTls"})
        url = parse_connection_url(answer["connectionUrl"])
        self.assertEqual(url.address.url, f"wss://garcon.example.org/executor/{answer['id']}")
        record = self.executors.registry.all()[0]
        self.assertEqual((record.label, record.enabled, record.secret), ("one", True, url.secret))
        self.assertEqual(record.address, None)
        self.assertEqual(
            (record.allow_controller_cli, record.allow_executor_management), (False, False)
        )

    def test_outbound(self) -> None:
        """The secret is taken from the URL, the address kept without it, and it is dialled."""
        self.create(direction="controller-connects", connectionUrl=f"wss://h/x#secret={SECRET}")
        record = self.executors.registry.all()[0]
        self.assertEqual((record.address, record.secret), ("wss://h/x", SECRET))
        self.assertIn(record.id, self.links)

    def test_template_is_expanded_and_saved_in_one_step(self) -> None:
        """Every ``{executorId}`` becomes the new id."""
        created = self.create(advertisedUrl="wss://h/{executorId}/{executorId}")
        self.assertEqual(self.executors.registry.all()[0].address, f"wss://h/{created}/{created}")

    def test_grants_and_exceptions_are_kept(self) -> None:
        """``allowUnverifiedTls`` is stored only for a ``wss:`` target."""
        common: dict[str, Any] = {
            "direction": "controller-connects",
            "noTls": True,
            "allowUnverifiedTls": True,
            "allowControllerCli": True,
            "allowExecutorManagement": True,
        }
        self.create("a", connectionUrl=f"ws://h/#secret={SECRET}", **common)
        self.create("b", connectionUrl=f"wss://h/#secret={new_secret(b't' * 32)}", **common)
        ws, wss = self.executors.registry.all()
        self.assertEqual((ws.allow_unverified_tls, wss.allow_unverified_tls), (False, True))
        self.assertTrue(wss.allow_controller_cli and wss.allow_executor_management and wss.no_tls)

    def test_refusals_save_nothing(self) -> None:
        """Each broken rule is a 400, and there is no executor and no link afterwards."""
        inbound, outbound = "executor-connects", "controller-connects"
        url = f"wss://h/#secret={SECRET}"
        for body in (
            {},
            {"label": "x"},
            {"label": "", "direction": inbound},
            {"label": " ", "direction": inbound},
            {"label": "x" * 101, "direction": inbound},
            {"label": "lOCAL", "direction": inbound},
            {"label": " Local ", "direction": inbound},
            {"label": "x", "direction": "other"},
            {"label": "x", "direction": inbound, "surprise": 1},
            {"label": "x", "direction": inbound, "enabled": False},
            {"label": "x", "direction": inbound, "connectionUrl": url},
            {"label": "x", "direction": inbound, "advertisedUrl": ""},
            {"label": "x", "direction": inbound, "advertisedUrl": url},
            {"label": "x", "direction": inbound, "advertisedUrl": "ws://h/"},
            {"label": "x", "direction": inbound, "advertisedUrl": "wss://0.0.0.0/"},
            {"label": "x", "direction": inbound, "advertisedUrl": "wss://h/" + "a" * 4089},
            {"label": "x", "direction": inbound, "allowUnverifiedTls": True},
            {"label": "x", "direction": inbound, "noTls": "yes"},
            {"label": "x", "direction": outbound},
            {"label": "x", "direction": outbound, "advertisedUrl": "wss://h/"},
            {"label": "x", "direction": outbound, "connectionUrl": "wss://h/"},
            {"label": "x", "direction": outbound, "connectionUrl": f"ws://h/#secret={SECRET}"},
            {"label": "x", "direction": outbound, "connectionUrl": "wss://h/#secret=password"},
        ):
            answer = self.ask(operations.CREATE_EXECUTOR, body)
            self.refused(answer, 400, "VALIDATION_FAILED")
            self.assertNotIn(SECRET, json.dumps(answer[1]))
        self.assertEqual(self.executors.registry.all(), [])
        self.assertEqual(self.opened, [])

    def test_label_of_100_characters(self) -> None:
        """Fits, blanks around it not counted."""
        self.create(" " + "x" * 100 + " ")

    def test_labels_are_unique_in_any_case(self) -> None:
        """Over disabled executors too."""
        created = self.create("Straße")
        self.updated(created, enabled=False)
        for label in ("straße", " STRASSE "):
            body = {"label": label, "direction": "executor-connects"}
            self.refused(self.ask(operations.CREATE_EXECUTOR, body), 400, "VALIDATION_FAILED")

    def test_no_two_executors_share_a_secret(self) -> None:
        """Neither at creation nor by an edit."""
        url = f"wss://h/#secret={SECRET}"
        self.create("a", direction="controller-connects", connectionUrl=url)
        body = {"label": "b", "direction": "controller-connects", "connectionUrl": url}
        self.refused(self.ask(operations.CREATE_EXECUTOR, body), 400, "VALIDATION_FAILED")
        other = self.create("b")
        edit = {"direction": "controller-connects", "noTls": False, "connectionUrl": url}
        self.refused(self.update(other, connection=edit), 400, "VALIDATION_FAILED")


class PublicBaseTests(ExecutorsCase):
    """What addresses are made from (E.6)."""

    public_url = None

    def test_host_of_the_request_is_a_suggestion(self) -> None:
        """It is used for the answer and never saved."""
        body = {"label": "x", "direction": "executor-connects"}
        _, answer = self.ask(operations.CREATE_EXECUTOR, body, base_url="https://here/")
        self.assertTrue(answer["connectionUrl"].startswith("wss://here/executor/"))
        _, revealed = self.ask(
            operations.REVEAL_CONNECTION, None, answer["id"], base_url="https://there/"
        )
        self.assertTrue(revealed["connectionUrl"].startswith("wss://there/executor/"))

    def test_generated_ws_address_needs_no_tls(self) -> None:
        """A request-scoped ``http:`` base is an address like any other (decisions.md 9)."""
        body = {"label": "x", "direction": "executor-connects"}
        base = "http://10.0.0.1:1/"
        answer = self.ask(operations.CREATE_EXECUTOR, body, base_url=base)
        self.refused(answer, 400, "VALIDATION_FAILED")
        for way_out in ("--no-tls true", "--public-url", "--advertise-url"):
            self.assertIn(way_out, answer[1]["error"])
        body_ = body | {"noTls": True}
        _, created = self.ask(operations.CREATE_EXECUTOR, body_, base_url=base)
        self.assertTrue(created["connectionUrl"].startswith("ws://10.0.0.1:1/executor/"))

    def test_without_any_base_the_url_is_empty(self) -> None:
        """Creation still works directly, and reveal says what is missing."""
        body = {"label": "x", "direction": "executor-connects"}
        status, answer = self.ask(operations.CREATE_EXECUTOR, body, base_url="http://0.0.0.0:1/")
        self.assertEqual((status, answer["connectionUrl"]), (200, ""))
        revealed = self.ask(operations.REVEAL_CONNECTION, None, answer["id"])
        self.refused(revealed, 400, "VALIDATION_FAILED")
        self.assertIn("--public-url", revealed[1]["error"])

    def test_through_a_gateway_nothing_is_saved_without_a_base(self) -> None:
        """There is no Host to suggest one."""
        manager = self.create(
            advertisedUrl="wss://h/", allowControllerCli=True, allowExecutorManagement=True
        )
        body = {"label": "x", "direction": "executor-connects"}
        answer = self.ask(
            operations.CREATE_EXECUTOR,
            body,
            principal=delegated(manager),
            base_url="https://forged/",
        )
        self.refused(answer, 400, "VALIDATION_FAILED")
        self.assertEqual(len(self.executors.registry.all()), 1)
        status, _ = self.ask(
            operations.CREATE_EXECUTOR,
            body | {"advertisedUrl": "wss://h/{executorId}"},
            principal=delegated(manager),
        )
        self.assertEqual(status, 200)


class UpdateTests(ExecutorsCase):
    """E.4."""

    def setUp(self) -> None:
        super().setUp()
        self.executor_id = self.create()
        self.edit: dict[str, Any] = {"direction": "executor-connects", "noTls": False}

    def record(self) -> Any:
        return self.executors.registry.get(self.executor_id)

    def test_something_must_change(self) -> None:
        """An empty update and unknown keys are refused."""
        self.refused(self.update(self.executor_id), 400, "VALIDATION_FAILED")
        self.refused(self.update(self.executor_id, surprise=1), 400, "VALIDATION_FAILED")
        self.refused(self.update(self.executor_id, label=None), 400, "VALIDATION_FAILED")
        edit = self.edit | {"surprise": 1}
        self.refused(self.update(self.executor_id, connection=edit), 400, "VALIDATION_FAILED")

    def test_unknown_and_local(self) -> None:
        """Both are not found."""
        for executor_id in (UNKNOWN, "local"):
            for operation, body in (
                (operations.UPDATE_EXECUTOR, {"label": "x"}),
                (operations.DELETE_EXECUTOR, None),
                (operations.REVEAL_CONNECTION, None),
            ):
                answer = self.ask(operation, body, executor_id)
                self.refused(answer, 404, "EXECUTOR_NOT_FOUND")
        self.refused(self.update("nonsense", label="x"), 400, "VALIDATION_FAILED")

    def test_label_is_checked_only_when_it_changes(self) -> None:
        """Old duplicates can stay and can be renamed; only the trimmed text counts."""
        self.create("two")
        self.refused(self.update(self.executor_id, label="TWO"), 400, "VALIDATION_FAILED")
        self.updated(self.executor_id, label=" one ")
        self.updated(self.executor_id, label="One")
        self.assertEqual(self.record().label, "One")

    def test_answer_is_the_list(self) -> None:
        """All executors, Local first, with exactly the contract's keys."""
        _, answer = self.update(self.executor_id, allowControllerCli=True)
        self.assertEqual([e["id"] for e in answer["executors"]], ["local", self.executor_id])
        keys = set(ExecutorSnapshot.__struct_encode_fields__)
        for executor in answer["executors"]:
            self.assertEqual(set(executor), keys)
        self.assertNotIn(self.record().secret, json.dumps(answer))

    def test_without_url_address_and_secret_stay(self) -> None:
        """An inherited address stays inherited across a TLS-only edit."""
        secret = self.record().secret
        self.updated(self.executor_id, connection=self.edit | {"noTls": True})
        self.assertEqual(
            (self.record().address, self.record().secret, self.record().no_tls),
            (None, secret, True),
        )

    def test_without_url_the_direction_stays(self) -> None:
        """Changing it is refused."""
        edit = self.edit | {"direction": "controller-connects"}
        self.refused(self.update(self.executor_id, connection=edit), 400, "VALIDATION_FAILED")

    def test_a_url_replaces_address_and_secret(self) -> None:
        """For an inbound executor it becomes an override; with it the direction may change."""
        url = f"wss://h/x#secret={SECRET}"
        self.updated(self.executor_id, connection=self.edit | {"connectionUrl": url})
        self.assertEqual((self.record().address, self.record().secret), ("wss://h/x", SECRET))
        edit = {"direction": "controller-connects", "noTls": False, "connectionUrl": url}
        self.updated(self.executor_id, connection=edit)
        self.assertEqual(self.record().direction, "controller-connects")

    def test_tls_rules_hold_for_edits(self) -> None:
        """``ws:`` without the choice, and an outbound exception on an inbound one, are refused."""
        url = f"ws://h/x#secret={SECRET}"
        for edit in (
            self.edit | {"connectionUrl": url},
            self.edit | {"allowUnverifiedTls": True},
            {"direction": "executor-connects"},
        ):
            self.refused(self.update(self.executor_id, connection=edit), 400, "VALIDATION_FAILED")

    def test_busy_executors_keep_their_connector(self) -> None:
        """Whatever replaces it needs an idle executor: 409, not retryable, nothing changed."""
        self.use.busy[self.executor_id] = ["1234567890123456"]
        link = self.links[self.executor_id]
        url = f"wss://h/x#secret={SECRET}"
        for body in (
            {"enabled": False},
            {"connection": self.edit | {"noTls": True}},
            {"connection": self.edit | {"connectionUrl": url}},
            {
                "connection": {
                    "direction": "controller-connects",
                    "noTls": False,
                    "connectionUrl": url,
                }
            },
        ):
            before = self.record()
            self.refused(self.update(self.executor_id, **body), 409, "EXECUTOR_IN_USE")
            self.assertEqual(self.record(), before)
        answer = self.ask(operations.DELETE_EXECUTOR, None, self.executor_id)
        self.refused(answer, 409, "EXECUTOR_IN_USE")
        self.assertEqual(link.closed, [])

    def test_the_refusal_names_the_chats(self) -> None:
        """At most three of them, since nothing but their ids leads to them."""
        ids = [str(1234567890123450 + n) for n in range(4)]
        for count, words in ((1, ids[0]), (3, ", ".join(ids[:3])), (4, f"{ids[2]} and 1 more")):
            self.use.busy[self.executor_id] = ids[:count]
            _, answer = self.update(self.executor_id, enabled=False)
            self.assertIn(f"{words}; stop it first", answer["error"])

    def test_what_needs_no_idleness(self) -> None:
        """Label, grants, and the advertised address of an inbound executor; the link stays."""
        self.use.busy[self.executor_id] = ["1234567890123456"]
        self.updated(self.executor_id, label="new")
        self.updated(self.executor_id, allowControllerCli=True)
        self.updated(self.executor_id, allowExecutorManagement=True)
        url = f"wss://h/y#secret={self.record().secret}"
        self.updated(self.executor_id, connection=self.edit | {"connectionUrl": url})
        self.updated(self.executor_id, enabled=True)
        self.assertEqual(self.record().address, "wss://h/y")
        self.assertEqual(self.links[self.executor_id].closed, [])

    def test_dialled_target_of_an_outbound_one_needs_idleness(self) -> None:
        """It is another machine, perhaps."""
        url = f"wss://h/x#secret={SECRET}"
        other = self.create("out", direction="controller-connects", connectionUrl=url)
        self.use.busy[other] = ["1234567890123456"]
        edit = {
            "direction": "controller-connects",
            "noTls": False,
            "connectionUrl": url.replace("/x", "/y"),
        }
        self.refused(self.update(other, connection=edit), 409, "EXECUTOR_IN_USE")
        edit["allowUnverifiedTls"] = True
        edit["connectionUrl"] = url
        self.refused(self.update(other, connection=edit), 409, "EXECUTOR_IN_USE")

    def test_delete(self) -> None:
        """The list without it; its link is closed and its id unknown."""
        status, answer = self.ask(operations.DELETE_EXECUTOR, None, self.executor_id)
        self.assertEqual((status, len(answer["executors"])), (200, 1))
        self.assertEqual(self.links[self.executor_id].closed, ["local-close"])
        self.assertEqual(self.executors.availability(self.executor_id), "offline")


class GrantTests(ExecutorsCase):
    """What an executor's own commands may do with executors (E.7)."""

    def setUp(self) -> None:
        super().setUp()
        self.executor_id = self.create(allowControllerCli=True, allowExecutorManagement=True)
        self.other = self.create("two")
        self.me = delegated(self.executor_id)

    def test_its_own_label_only(self) -> None:
        """Other keys, and deleting itself, are denied, a label among them or not."""
        status, _ = self.ask(operations.UPDATE_EXECUTOR, {"label": "x"}, self.executor_id, self.me)
        self.assertEqual(status, 200)
        for body in (
            {"allowControllerCli": True},
            {"enabled": True},
            {"label": "y", "allowExecutorManagement": True},
            {"connection": {"direction": "executor-connects", "noTls": False}},
        ):
            answer = self.ask(operations.UPDATE_EXECUTOR, body, self.executor_id, self.me)
            self.refused(answer, 403, "CLI_ACCESS_DENIED")
        answer = self.ask(operations.DELETE_EXECUTOR, None, self.executor_id, self.me)
        self.refused(answer, 403, "CLI_ACCESS_DENIED")

    def test_others_with_the_management_grant(self) -> None:
        """Change, reveal and delete."""
        for operation, body in (
            (operations.UPDATE_EXECUTOR, {"enabled": False}),
            (operations.REVEAL_CONNECTION, None),
            (operations.DELETE_EXECUTOR, None),
        ):
            status, answer = self.ask(operation, body, self.other, self.me)
            self.assertEqual(status, 200, answer)

    def test_without_the_management_grant(self) -> None:
        """Listing works, the rest is denied; the second grant counts only while the first is on."""
        self.updated(self.executor_id, allowControllerCli=False)
        body = {"label": "x", "direction": "executor-connects"}
        for operation, body_, executor_id in (
            (operations.CREATE_EXECUTOR, body, None),
            (operations.UPDATE_EXECUTOR, {"label": "x"}, self.other),
            (operations.DELETE_EXECUTOR, None, self.other),
            (operations.REVEAL_CONNECTION, None, self.other),
        ):
            answer = self.ask(operation, body_, executor_id, self.me)
            self.refused(answer, 403, "CLI_ACCESS_DENIED")
        status, _ = self.ask(operations.LIST_EXECUTORS, principal=self.me)
        self.assertEqual(status, 200)


class UncertainSaveTests(ExecutorsCase):
    """A save that may not be durable (E.8)."""

    def test_the_executor_goes_offline_and_changes_are_blocked(self) -> None:
        """Other executors and Local go on."""
        one = self.create("one", allowControllerCli=True)
        two = self.create("two", allowControllerCli=True)
        for executor_id in (one, two):
            self.links[executor_id].ready(executor_id[-4:])
        lease = self.executors.lease(one, one[-4:])

        def unsynced(path: str, content: bytes) -> None:
            write_private(path, content)
            raise DirectoryNotSynced(5, "cannot sync")

        self.write = unsynced
        self.refused(self.update(one, label="new"), 503, "EXECUTOR_STORAGE_UNAVAILABLE")
        self.write = write_private
        self.assertEqual(self.executors.availability(one), "offline")
        self.assertIsNotNone(lease.ended)
        self.assertEqual(self.executors.availability(two), "ready")
        self.executors.lease(two, two[-4:])
        self.assertEqual(self.executors.availability("local"), "ready")
        self.refused(self.update(two, label="x"), 503, "EXECUTOR_STORAGE_UNAVAILABLE")
        answer = self.ask(operations.DELETE_EXECUTOR, None, two)
        self.refused(answer, 503, "EXECUTOR_STORAGE_UNAVAILABLE")
        self.assertEqual(len(self.flushLoggedErrors(DirectoryNotSynced)), 1)
        # The next start reads what the file holds.
        again = self.make()
        again.load()
        self.assertEqual(again.registry.all()[0].label, "new")


class StoppingTests(ExecutorsCase):
    """The end of a controller."""

    def test_no_changes_while_stopping(self) -> None:
        """503 ``SERVER_SHUTTING_DOWN``."""
        created = self.create()
        self.executors.quiesce()
        self.refused(self.update(created, label="x"), 503, "SERVER_SHUTTING_DOWN", True)

    def test_stop_closes_every_link(self) -> None:
        """And fires when they are gone."""
        self.create()
        stopped = self.executors.stop()
        self.assertEqual(self.opened[0].closed, ["local-close"])
        self.successResultOf(stopped)
