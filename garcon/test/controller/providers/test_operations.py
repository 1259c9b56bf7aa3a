"""The operations on profiles and assignments (control.md B.1, B.2, B.5, B.9)."""

from __future__ import annotations

import os
from typing import Any

from garcon.contract import operations
from garcon.controller.principals import LOCAL_PRINCIPAL, delegated
from garcon.controller.providers import operations as providers
from garcon.controller.providers.assignments import pruned
from garcon.controller.providers.store import ASSIGNMENTS_FILE, PROFILES_FILE
from garcon.local.files import DirectoryNotSynced, write_private
from garcon.test.controller.providers.cast import (
    KEY,
    OTHER,
    WORKER,
    ProvidersCase,
    endpoint_body,
    profile_body,
)
from garcon.test.controller.providers.test_profiles import a_profile


class ProfileCase(ProvidersCase):
    """Profiles made over the operations."""

    def create(self, endpoint: dict[str, Any] | None = None, **more: Any) -> Any:
        """Create a profile."""
        return self.asked(operations.CREATE_PROVIDER, profile_body(endpoint, **more))

    def update(self, profile_id: str, **body: Any) -> Any:
        """Change a profile."""
        return self.asked(operations.UPDATE_PROVIDER, body, id=profile_id)

    def managed(self) -> Any:
        """Return the management shape."""
        return self.asked(operations.LIST_PROVIDERS)

    def fail_on(self, name: str, error: OSError) -> None:
        """Have the next writes of a file fail; one that is not synced is made before."""

        def write(path: str, content: bytes) -> None:
            if os.path.basename(path) != name:
                write_private(path, content)
                return
            if isinstance(error, DirectoryNotSynced):
                write_private(path, content)
            raise error

        self.write = write


class CreateTests(ProfileCase):
    """``POST /api-providers``."""

    def test_a_profile_is_answered_redacted(self) -> None:
        """With its id and its endpoint's, 201, and what became of its assignment."""
        status, body = self.ask(operations.CREATE_PROVIDER, profile_body())
        self.assertEqual(status, 201)
        self.assertEqual(body["id"], "models_000001")
        [endpoint] = body["endpoints"]
        self.assertEqual(endpoint["id"], "models_000001_openai")
        self.assertEqual((endpoint["hasApiKey"], endpoint["apiKeyLabel"]), (True, "sk-0...cdef"))
        self.assertEqual(body["assignment"], {"executorIds": ["local"], "status": "assigned"})
        self.assertEqual(self.assigned, {"local": ["models_000001"]})
        [row] = self.on_disk(PROFILES_FILE)["apiProviders"]
        self.assertEqual(row["endpoints"][0]["apiKey"], KEY)

    def test_for_whom(self) -> None:
        """The request's executor, unless executors are named."""
        self.asked(operations.CREATE_PROVIDER, profile_body(), executorId=WORKER)
        self.assertEqual(self.assigned, {WORKER: ["models_000001"]})
        both = self.create(executorIds=[WORKER, "local"])
        self.assertEqual(both["assignment"]["executorIds"], [WORKER, "local"])
        nobody = self.create(executorIds=[])
        self.assertEqual(nobody["assignment"], {"executorIds": [], "status": "assigned"})
        self.assertEqual(
            self.assigned, {WORKER: ["models_000001", "models_000002"], "local": ["models_000002"]}
        )

    def test_an_unknown_executor(self) -> None:
        """Nothing is saved."""
        for query, body in (
            ({}, profile_body(executorIds=["local", OTHER])),
            ({"executorId": OTHER}, profile_body()),
        ):
            refusal = self.refused(operations.CREATE_PROVIDER, body, **query)
            self.assertEqual(refusal, (404, "EXECUTOR_NOT_FOUND"))
        for query, body in (
            ({}, profile_body(executorIds=["nobody"])),
            ({"executorId": "nobody"}, profile_body()),
        ):
            refusal = self.refused(operations.CREATE_PROVIDER, body, **query)
            self.assertEqual(refusal, (400, "VALIDATION_FAILED"))
        self.assertEqual(self.managed()["providers"], [])

    def test_bad_input(self) -> None:
        """Is refused, and nothing of it is repeated."""
        for body in (
            {},
            profile_body(label=""),
            profile_body({"baseUrl": "ftp://x"}),
            profile_body({"apiKey": KEY + "\n" + KEY}),
            profile_body({"apiKey": 3}),
            profile_body({"models": [{"value": 1}]}),
            profile_body(executorIds="local"),
        ):
            refusal = self.refused(operations.CREATE_PROVIDER, body)
            self.assertEqual(refusal, (400, "VALIDATION_FAILED"))

    def test_1024_profiles_and_no_more(self) -> None:
        """In all."""
        profile = a_profile()
        many = {f"p{n}": profile for n in range(providers.PROFILES - 1)}
        self.successResultOf(self.store.change_profiles(lambda known: many))
        self.create(executorIds=[])
        self.assertEqual(
            self.refused(operations.CREATE_PROVIDER, profile_body()), (400, "VALIDATION_FAILED")
        )

    def test_access_that_is_not_saved(self) -> None:
        """The profile is there all the same, and that nobody may use it is said."""
        self.fail_on(ASSIGNMENTS_FILE, OSError("full"))
        body = self.create()
        self.assertEqual(body["assignment"]["status"], "not-assigned")
        self.assertTrue(body["assignment"]["error"])
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        managed = self.managed()
        self.assertEqual([one["id"] for one in managed["providers"]], [body["id"]])
        self.assertEqual(managed["assignments"], {"revision": 0, "assignments": {}})

    def test_access_that_cannot_be_confirmed(self) -> None:
        """Neither claimed nor denied."""
        self.fail_on(ASSIGNMENTS_FILE, DirectoryNotSynced(5, "lost"))
        body = self.create()
        self.assertEqual(body["assignment"]["status"], "unknown")
        self.assertTrue(body["assignment"]["error"])
        self.assertEqual(len(self.flushLoggedErrors(DirectoryNotSynced)), 1)

    def test_a_profile_that_is_not_saved(self) -> None:
        """Is assigned to nobody."""
        for error, retryable in ((OSError("full"), True), (DirectoryNotSynced(5, "x"), False)):
            self.fail_on(PROFILES_FILE, error)
            status, body = self.ask(operations.CREATE_PROVIDER, profile_body())
            self.assertEqual(
                (status, body["errorCode"], body["retryable"]),
                (503, "API_PROVIDER_STORAGE_UNAVAILABLE", retryable),
            )
            self.assertEqual(self.assigned, {})
            self.assertEqual(len(self.flushLoggedErrors(type(error))), 1)
        self.assertEqual(len(self.managed()["providers"]), 1)

    def test_an_executor_that_goes_while_the_change_waits(self) -> None:
        """Is not assigned anything."""
        self.pool.held = True
        creating = self.handlers.run(
            operations.CREATE_PROVIDER,
            LOCAL_PRINCIPAL,
            body=profile_body(executorIds=["local", WORKER]),
        )
        del self.executors.runtimes[WORKER]
        while len(self.pool):
            self.pool.run_next()
        self.assertEqual(self.successResultOf(creating).status, 201)
        self.assertEqual(self.assigned, {"local": ["models_000001"]})


class UpdateTests(ProfileCase):
    """``PUT /api-providers``."""

    def setUp(self) -> None:
        super().setUp()
        self.profile: str = self.create()["id"]

    def test_a_change(self) -> None:
        """Is answered redacted; without executors nothing is said of them."""
        body = self.update(self.profile, label="New", revision=1)
        self.assertEqual((body["label"], body["revision"]), ("New", 2))
        self.assertNotIn("assignment", body)
        self.assertEqual(self.assigned, {"local": [self.profile]})

    def test_executors_are_replaced(self) -> None:
        """All of them."""
        body = self.update(self.profile, executorIds=[WORKER])
        self.assertEqual(body["assignment"], {"executorIds": [WORKER], "status": "assigned"})
        self.assertEqual(body["revision"], 1)
        self.assertEqual(self.assigned, {WORKER: [self.profile]})
        self.update(self.profile, executorIds=[])
        self.assertEqual(self.assigned, {})

    def test_refusals(self) -> None:
        """In the contract's words."""
        for body, query, expected in (
            ({"label": "x"}, {}, (400, "VALIDATION_FAILED")),
            ({"label": "x"}, {"id": "X"}, (400, "VALIDATION_FAILED")),
            ({"label": "x"}, {"id": "unknown"}, (404, "API_PROVIDER_UNAVAILABLE")),
            ({"label": " "}, {"id": self.profile}, (400, "VALIDATION_FAILED")),
            (
                {"label": "x", "revision": 2},
                {"id": self.profile},
                (409, "API_PROVIDER_CONFIGURATION_CHANGED"),
            ),
            (
                {"label": "x", "executorIds": [OTHER]},
                {"id": self.profile},
                (404, "EXECUTOR_NOT_FOUND"),
            ),
        ):
            self.assertEqual(self.refused(operations.UPDATE_PROVIDER, body, **query), expected)
        self.assertEqual(self.managed()["providers"][0]["label"], "Models")

    def test_an_empty_key_keeps_the_key(self) -> None:
        """And a cleared one takes its label along."""
        kept = self.update(self.profile, endpoint={"apiKey": "", "supportsImages": True})
        self.assertTrue(kept["endpoints"][0]["hasApiKey"])
        cleared = self.update(self.profile, endpoint={"clearApiKey": True, "apiKey": "other-key"})
        [endpoint] = cleared["endpoints"]
        self.assertEqual((endpoint["hasApiKey"], endpoint["apiKeyLabel"]), (False, ""))
        self.assertNotIn(KEY, str(self.on_disk(PROFILES_FILE)))


class RemoveTests(ProfileCase):
    """``DELETE /api-providers``."""

    def setUp(self) -> None:
        super().setUp()
        self.profile: str = self.create()["id"]
        self.create(executorIds=["local", WORKER])
        self.query = {"id": self.profile, "acknowledgeSharedImpact": "true"}

    def test_a_profile_is_removed_everywhere(self) -> None:
        """From the profiles and from every assignment; again is a success too."""
        for _ in range(2):
            self.assertEqual(
                self.asked(operations.DELETE_PROVIDER, **self.query), {"success": True}
            )
        self.assertEqual(self.assigned, {"local": ["models_000002"], WORKER: ["models_000002"]})
        self.assertEqual([p["id"] for p in self.managed()["providers"]], ["models_000002"])

    def test_the_impact_must_be_acknowledged(self) -> None:
        """In just that word."""
        for said in ({}, {"acknowledgeSharedImpact": "1"}, {"acknowledgeSharedImpact": "false"}):
            refusal = self.refused(operations.DELETE_PROVIDER, id=self.profile, **said)
            self.assertEqual(refusal, (400, "VALIDATION_FAILED"))
        self.assertEqual(len(self.managed()["providers"]), 2)

    def test_a_profile_that_a_chat_uses_stays(self) -> None:
        """And so do its assignments."""
        self.used[self.profile] = ["1767000000000001"]
        before = self.assigned
        self.assertEqual(
            self.refused(operations.DELETE_PROVIDER, **self.query), (400, "VALIDATION_FAILED")
        )
        self.assertEqual(self.assigned, before)
        self.assertEqual(len(self.managed()["providers"]), 2)

    def test_a_chat_that_begins_meanwhile_keeps_the_profile(self) -> None:
        """It may not be used, but it is there to be assigned again."""
        self.pool.held = True
        removing = self.handlers.run(
            operations.DELETE_PROVIDER, LOCAL_PRINCIPAL, query=list(self.query.items())
        )
        self.used[self.profile] = ["1767000000000001"]
        while len(self.pool):
            self.pool.run_next()
        self.pool.held = False
        self.assertEqual(self.successResultOf(removing).status, 400)
        self.assertEqual(len(self.managed()["providers"]), 2)

    def test_where_access_cannot_be_taken_back_nothing_is_removed(self) -> None:
        """The profile stays, with its key."""
        self.fail_on(ASSIGNMENTS_FILE, OSError("full"))
        self.assertEqual(
            self.refused(operations.DELETE_PROVIDER, **self.query),
            (503, "API_PROVIDER_STORAGE_UNAVAILABLE"),
        )
        self.assertEqual(len(self.managed()["providers"]), 2)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)


class AssignmentTests(ProfileCase):
    """``/api-provider-assignments``."""

    def setUp(self) -> None:
        super().setUp()
        self.profile: str = self.create(executorIds=[])["id"]

    def assign(self, executor: str = WORKER, profile: str = "") -> Any:
        """Assign."""
        query = {"executorId": executor, "apiProviderId": profile or self.profile}
        return self.asked(operations.ASSIGN_PROVIDER, **query)

    def test_both_lists_are_the_same_answer(self) -> None:
        """All profiles, redacted, with who may use them."""
        self.assign()
        shapes = [self.asked(operations.LIST_PROVIDERS), self.asked(operations.LIST_ASSIGNMENTS)]
        self.assertEqual(shapes[0], shapes[1])
        self.assertEqual(
            shapes[0]["assignments"], {"revision": 1, "assignments": {WORKER: [self.profile]}}
        )
        self.assertEqual([one["id"] for one in shapes[0]["providers"]], [self.profile])
        self.assertNotIn("assignment", shapes[0]["providers"][0])

    def test_assigning_and_unassigning_are_idempotent(self) -> None:
        """The revision tells how often something changed."""
        for _ in range(2):
            found = self.assign()
            self.assertEqual(found["assignments"]["revision"], 1)
        self.assertEqual(found["assignments"]["assignments"], {WORKER: [self.profile]})
        for _ in range(2):
            found = self.asked(
                operations.UNASSIGN_PROVIDER, executorId=WORKER, apiProviderId=self.profile
            )
            self.assertEqual(found["assignments"], {"revision": 2, "assignments": {}})

    def test_assignment_order(self) -> None:
        """Is kept."""
        second = self.create(executorIds=[])["id"]
        self.assign(profile=second)
        self.assertEqual(
            self.assign()["assignments"]["assignments"], {WORKER: [second, self.profile]}
        )

    def test_refusals(self) -> None:
        """Malformed ids, an unknown executor, an unknown profile."""
        for operation in (operations.ASSIGN_PROVIDER, operations.UNASSIGN_PROVIDER):
            for query, expected in (
                ({}, (400, "VALIDATION_FAILED")),
                ({"executorId": WORKER}, (400, "VALIDATION_FAILED")),
                ({"executorId": "x", "apiProviderId": self.profile}, (400, "VALIDATION_FAILED")),
                ({"executorId": WORKER, "apiProviderId": "X"}, (400, "VALIDATION_FAILED")),
                ({"executorId": OTHER, "apiProviderId": self.profile}, (404, "EXECUTOR_NOT_FOUND")),
            ):
                self.assertEqual(self.refused(operation, **query), expected)
        unknown = {"executorId": WORKER, "apiProviderId": "unknown"}
        self.assertEqual(
            self.refused(operations.ASSIGN_PROVIDER, **unknown), (404, "API_PROVIDER_UNAVAILABLE")
        )
        self.asked(operations.UNASSIGN_PROVIDER, **unknown)

    def test_a_workers_commands_need_the_management_grant(self) -> None:
        """Checked once more where it is used."""
        query = {"executorId": WORKER, "apiProviderId": self.profile}
        for operation, asked in (
            (operations.LIST_ASSIGNMENTS, {}),
            (operations.ASSIGN_PROVIDER, query),
            (operations.UNASSIGN_PROVIDER, query),
        ):
            self.managing.clear()
            refusal = self.refused(operation, principal=delegated(WORKER), **asked)
            self.assertEqual(refusal, (403, "CLI_ACCESS_DENIED"))
            self.managing.add(WORKER)
            self.asked(operation, principal=delegated(WORKER), **asked)

    def test_unreadable_assignments(self) -> None:
        """Nothing is claimed of them."""
        self.fail_on(ASSIGNMENTS_FILE, DirectoryNotSynced(5, "lost"))
        self.refused(operations.ASSIGN_PROVIDER, executorId=WORKER, apiProviderId=self.profile)
        self.assertEqual(len(self.flushLoggedErrors(DirectoryNotSynced)), 1)
        self.put(ASSIGNMENTS_FILE, b"{")
        for operation in (operations.LIST_PROVIDERS, operations.LIST_ASSIGNMENTS):
            self.assertEqual(self.refused(operation), (503, "API_PROVIDER_STORAGE_UNAVAILABLE"))

    def test_a_deleted_executor_is_left_with_nothing(self) -> None:
        """Also when it was being assigned a profile at that moment."""
        self.pool.held = True
        query = [("executorId", WORKER), ("apiProviderId", self.profile)]
        assigning = self.handlers.run(operations.ASSIGN_PROVIDER, LOCAL_PRINCIPAL, query=query)
        del self.executors.runtimes[WORKER]
        pruning = self.store.change_assignments(lambda known: pruned(known, ["local"], None))
        while len(self.pool):
            self.pool.run_next()
        self.assertEqual(self.successResultOf(assigning).status, 200)
        self.assertEqual(self.successResultOf(pruning).assignments, {})
        self.assertEqual(self.assigned, {})


class RestartTests(ProfileCase):
    """Another process over the same files."""

    def test_everything_is_there_again(self) -> None:
        """Profiles and assignments, not a bit different."""
        self.create(endpoint_body(supportsImages=True), executorIds=["local", WORKER])
        before = self.managed()
        self.store = self.make_store()
        self.open(is_fresh=False, is_known=True)
        self.begin_process()
        self.assertEqual(self.managed(), before)
