"""The settings: read, patched, kept, and what a started chat leaves in them (control.md C)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import operations
from garcon.contract.catalogs import AgentEntry, AgentSettings, Generation, Model
from garcon.contract.events import Event, SettingsUpdated
from garcon.controller.events import Publisher
from garcon.controller.handlers import Answer, Handlers
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.controller.settings.saved import PINNED_PATHS, SAVED_BYTES
from garcon.controller.settings.service import CATALOG_WAIT, Settings
from garcon.errors import GarconError
from garcon.store.records import ChatRecord, PutSetting
from garcon.testing.memory_store import MemoryStore

WORKER = "0f8b9d52-6a3e-4e0e-9d07-7a3c5d9a1b11"


def agent(name: str, priority: int | None, *models: Model, own: str = "") -> AgentEntry:
    return AgentEntry(
        id=name,
        label=name.title(),
        supported_permission_modes=["default"],
        supported_thinking_modes=["none"],
        default_settings=AgentSettings(name, 1, {}),
        generation=None if priority is None else Generation(priority, own),
        default_model=models[0].value if models else "",
        models=list(models),
    )


class SettingsTestCase(SynchronousTestCase):
    """One workspace's settings over the double of a store."""

    def setUp(self) -> None:
        self.store = MemoryStore()
        self.successResultOf(self.store.open())
        self.clock = Clock()
        self.agents: Deferred[Sequence[AgentEntry]] | None = None
        self.entries: Sequence[AgentEntry] = ()
        self.pinned: list[str] = []
        self.told: list[Event] = []
        self.open_process()

    def open_process(self) -> None:
        """Begin a controller process: everything but the store is new."""
        publisher = Publisher()
        publisher.subscribe(self.told.append)
        self.settings = Settings(
            self.store, publisher, self.clock, "/projects", self.listed, lambda: self.pinned
        )
        self.successResultOf(self.settings.load())
        self.handlers = Handlers()
        self.settings.register(self.handlers)

    def listed(self) -> Deferred[Sequence[AgentEntry]]:
        return succeed(self.entries) if self.agents is None else self.agents

    def put(self, body: dict[str, Any]) -> Answer:
        """Send a patch."""
        d = self.handlers.run(operations.CHANGE_SETTINGS, LOCAL_PRINCIPAL, body=body)
        return self.successResultOf(d)

    def changed(self, body: dict[str, Any]) -> Any:
        """Send a patch that is taken; returns the settings."""
        answer = self.put(body)
        self.assertEqual(answer.status, 200, answer.body)
        return json.loads(answer.body)["settings"]

    def refused(self, body: dict[str, Any]) -> str:
        """Send a patch that is refused; returns the code, nothing having changed."""
        before = self.read()
        answer = self.put(body)
        self.assertEqual(answer.status, 400, answer.body)
        self.assertEqual(self.read(), before)
        return str(json.loads(answer.body)["errorCode"])

    def read(self) -> Any:
        """Return the snapshot."""
        d = self.handlers.run(operations.READ_SETTINGS, LOCAL_PRINCIPAL)
        return json.loads(self.successResultOf(d).body)


class SnapshotTests(SettingsTestCase):
    """What everybody reads."""

    def test_a_fresh_workspace(self) -> None:
        """Every key of the contract, each with its default."""
        self.pinned = ["1767323045000001"]
        snapshot = self.read()
        effective = snapshot.pop("uiEffective")
        self.assertEqual(
            snapshot,
            {
                "version": 0,
                "features": {
                    "transcriptSearch": {"enabled": False},
                    "agentCommands": {
                        "enabled": True,
                        "chatIdDiscovery": True,
                        "sendMessage": True,
                        "subAgents": True,
                        "tickets": True,
                    },
                },
                "ui": {},
                "paths": {
                    "pinnedProjectPaths": [],
                    "browseStartPath": "",
                    "recentProjectPaths": [],
                    "byExecutor": {},
                },
                "pinnedChatIds": ["1767323045000001"],
                "recentAgentSettings": [],
                "executionDefaults": {
                    "global": {
                        "permissionMode": "default",
                        "thinkingMode": "none",
                        "agentSettingsById": {},
                    },
                    "byAgent": {},
                },
                "projectBasePath": "/projects",
                "telegram": {
                    "botTokenAvailable": False,
                    "botUsername": None,
                    "botFirstName": None,
                    "recipientUsername": None,
                    "recipientDisplayName": None,
                    "recipientLinked": False,
                    "pendingLink": False,
                    "linkUrl": None,
                },
            },
        )
        self.assertEqual(
            effective["chatTitle"],
            {
                "agentId": "",
                "model": "",
                "thinkingMode": "none",
                "apiProviderId": None,
                "modelEndpointId": None,
                "modelProtocol": None,
                "enabled": False,
                "source": "auto",
            },
        )
        self.assertEqual(effective["agentSwitchCompaction"]["contextWindowTokens"], 500_000)
        self.assertNotIn("enabled", effective["commitMessage"])

    def test_agents_that_do_not_answer_hold_nobody_up(self) -> None:
        """After two seconds the settings are resolved without them."""
        self.agents = Deferred()
        d = self.handlers.run(operations.READ_SETTINGS, LOCAL_PRINCIPAL)
        self.clock.advance(CATALOG_WAIT - 0.01)
        self.assertNoResult(d)
        self.clock.advance(0.01)
        self.assertEqual(self.successResultOf(d).status, 200)

    def test_agents_that_cannot_be_listed(self) -> None:
        """Likewise, at once."""
        self.agents = fail(GarconError("EXECUTOR_UNAVAILABLE", "no", status=503))
        self.assertEqual(self.read()["uiEffective"]["chatTitle"]["agentId"], "")


class PatchTests(SettingsTestCase):
    """What may be changed."""

    def test_a_change_is_kept_told_and_counted(self) -> None:
        """Durable, one event with the whole snapshot, and the version grows by one."""
        settings = self.changed({"ui": {"pinnedInsertPosition": "bottom"}})
        self.assertEqual(
            (settings["version"], settings["ui"]), (1, {"pinnedInsertPosition": "bottom"})
        )
        self.assertEqual(self.settings.pins_at(), "bottom")
        (event,) = self.told
        assert isinstance(event, SettingsUpdated)
        self.assertEqual((event.settings.version, event.settings.ui), (1, settings["ui"]))
        self.open_process()
        self.assertEqual(self.read(), settings)

    def test_what_changes_nothing(self) -> None:
        """No new version, no event, no write."""
        self.changed({"ui": {"pinnedInsertPosition": "top"}})
        writes = self.store.writes
        same = {"ui": {"pinnedInsertPosition": "top"}}
        patches: list[dict[str, Any]] = [same, {}, {"features": {}}, {"paths": {}}]
        for patch in patches:
            self.assertEqual(self.changed(patch)["version"], 1)
        self.assertEqual((len(self.told), self.store.writes), (1, writes))

    def test_a_ui_patch_replaces_whole_keys_and_keeps_others(self) -> None:
        """A null takes a key away."""
        self.changed({"ui": {"commitMessage": {"useCommonDirPrefix": True}, "later": {"a": 1}}})
        ui = self.changed({"ui": {"commitMessage": {"agentId": "claude"}}})["ui"]
        self.assertEqual(ui, {"commitMessage": {"agentId": "claude"}, "later": {"a": 1}})
        self.assertEqual(self.changed({"ui": {"later": None}})["ui"].keys(), {"commitMessage"})

    def test_unknown_generation_fields_are_dropped_silently(self) -> None:
        """And those that belong to another kind."""
        ui = self.changed(
            {"ui": {"chatTitle": {"enabled": True, "nonsense": 1, "customPrompt": "x"}}}
        )
        self.assertEqual(ui["ui"], {"chatTitle": {"enabled": True}})

    def test_what_does_not_fit(self) -> None:
        """INVALID_REMOTE_SETTINGS, and nothing of the patch is applied."""
        wrong: list[dict[str, Any]] = [
            {"pinnedInsertPosition": "middle"},
            {"chatTitle": 1},
            {"chatTitle": {"enabled": "yes"}},
            {"chatTitle": {"agentId": "Not an id"}},
            {"chatTitle": {"executorId": "elsewhere"}},
            {"chatTitle": {"thinkingMode": "deep"}},
            {"chatTitle": {"modelProtocol": "smtp"}},
            {"agentSwitchCompaction": {"contextWindowTokens": 1}},
            {"commitMessage": {"customPrompt": 5}},
            {"promptRefinement": {"customPrompt": "no place for the text"}},
            {"notifications": {"telegram": {}}},
        ]
        for ui in wrong:
            good = {"pinnedInsertPosition": "top"} | ui
            self.assertEqual(self.refused({"ui": good}), "INVALID_REMOTE_SETTINGS", ui)
        patches: list[dict[str, Any]] = [
            {"features": {"transcriptSearch": {"enabled": 1}}},
            {"features": {"transcriptSearch": {}}},
            {"features": {"agentCommands": {"enabled": None}}},
            {"paths": {"pinnedProjectPaths": "x"}},
            {"paths": {"pinnedProjectPaths": [" "]}},
            {"paths": {"executorId": "elsewhere"}},
            {"executionDefaults": {"global": {"permissionMode": "rude"}}},
            {"executionDefaults": {"byAgent": []}},
        ]
        for patch in patches:
            self.assertEqual(self.refused(patch), "INVALID_REMOTE_SETTINGS", patch)

    def test_what_is_not_known_is_let_pass(self) -> None:
        """Also in a patch that is all that was read, which changes nothing."""
        self.changed({"paths": {"browseStartPath": "/x"}})
        read = self.read()
        for patch in (
            {name: read[name] for name in ("features", "ui", "paths", "executionDefaults")},
            {"features": {"more": {}}, "paths": {"more": 1}, "executionDefaults": {"more": 1}},
            {"features": {"agentCommands": {"more": True}}},
        ):
            self.assertEqual(self.changed(patch), read)

    def test_a_prompt_of_32000_characters(self) -> None:
        """Is taken; one more is not."""
        prompt = "é" * 32_000
        self.changed({"ui": {"commitMessage": {"customPrompt": prompt}}})
        self.refused({"ui": {"commitMessage": {"customPrompt": prompt + "x"}}})

    def test_the_title_of_the_application(self) -> None:
        """1 to 120 characters once trimmed, with codes of its own."""
        title = "t" * 120
        ui = self.changed({"ui": {"appIdentity": {"title": f" {title} "}}})["ui"]
        self.assertEqual(ui["appIdentity"], {"title": title})
        for wrong, code in (
            (1, "title_invalid"),
            ("  ", "title_required"),
            (title + "x", "title_too_long"),
        ):
            self.assertEqual(self.refused({"ui": {"appIdentity": {"title": wrong}}}), code)

    def test_search_cannot_be_switched_on(self) -> None:
        """There is none; the flag stays off, and may be switched off."""
        answer = self.put({"features": {"transcriptSearch": {"enabled": True}}})
        self.assertEqual(answer.status, 500)
        self.assertEqual(json.loads(answer.body)["errorCode"], "TRANSCRIPT_SEARCH_ENABLE_FAILED")
        self.assertEqual(self.read()["features"]["transcriptSearch"], {"enabled": False})
        self.changed({"features": {"transcriptSearch": {"enabled": False}}})

    def test_the_commands_of_agents(self) -> None:
        """Each switch by itself."""
        self.changed({"features": {"agentCommands": {"subAgents": False}}})
        commands = self.changed({"features": {"agentCommands": {"tickets": False}}})["features"]
        self.assertEqual(
            [name for name, on in commands["agentCommands"].items() if not on],
            ["subAgents", "tickets"],
        )

    def test_paths_of_every_executor(self) -> None:
        """Pinned ones sorted and once; Local's lie where older readers look."""
        self.changed({"paths": {"pinnedProjectPaths": ["/b", "/a", "/b"], "browseStartPath": "/s"}})
        paths = self.changed({"paths": {"executorId": WORKER, "pinnedProjectPaths": ["/w"]}})[
            "paths"
        ]
        self.assertEqual(
            (paths["pinnedProjectPaths"], paths["browseStartPath"]), (["/a", "/b"], "/s")
        )
        self.assertEqual(paths["byExecutor"][WORKER]["pinnedProjectPaths"], ["/w"])

    def test_a_thousand_pinned_paths(self) -> None:
        """Are taken; one more is not, nor a path of more than 4096 characters."""
        paths = [f"/{n}" for n in range(PINNED_PATHS)]
        self.changed({"paths": {"pinnedProjectPaths": paths}})
        self.refused({"paths": {"pinnedProjectPaths": [*paths, "/more"]}})
        self.changed({"paths": {"browseStartPath": "/" + "x" * 4_095}})
        self.refused({"paths": {"browseStartPath": "/" + "x" * 4_096}})

    def test_settings_together_have_a_bound(self) -> None:
        """What would take more than a mebibyte is refused."""
        self.refused({"ui": {"blob": "x" * SAVED_BYTES}})

    def test_execution_defaults(self) -> None:
        """Common ones and an agent's own; a null takes an agent's away (control.md A.8)."""
        own = {"claude": {"ownerId": "claude", "schemaVersion": 1, "values": {"a": 1}}}
        defaults = self.changed(
            {
                "executionDefaults": {
                    "global": {"permissionMode": "plan"},
                    "byAgent": {"claude": {"thinkingMode": "high", "agentSettingsById": own}},
                }
            }
        )["executionDefaults"]
        self.assertEqual(defaults["global"]["permissionMode"], "plan")
        self.assertEqual(
            defaults["byAgent"], {"claude": {"thinkingMode": "high", "agentSettingsById": own}}
        )
        wrong = {"codex": own["claude"]}
        self.refused({"executionDefaults": {"global": {"agentSettingsById": wrong}}})
        defaults = self.changed({"executionDefaults": {"byAgent": {"claude": None}}})
        self.assertEqual(defaults["executionDefaults"]["byAgent"], {})

    def test_patches_at_once_are_all_kept(self) -> None:
        """One after the other, none over another."""
        self.store.held = True
        first = self.handlers.run(
            operations.CHANGE_SETTINGS, LOCAL_PRINCIPAL, body={"ui": {"a": 1}}
        )
        second = self.handlers.run(
            operations.CHANGE_SETTINGS, LOCAL_PRINCIPAL, body={"ui": {"b": 2}}
        )
        self.assertNoResult(first)
        self.store.held = False
        self.store.release()
        self.successResultOf(first)
        self.assertEqual(
            json.loads(self.successResultOf(second).body)["settings"]["ui"], {"a": 1, "b": 2}
        )
        self.assertEqual(self.read()["version"], 2)

    def test_a_store_that_refuses(self) -> None:
        """The patch fails as a whole and nothing shows of it."""
        self.store.refusals = 1
        self.assertEqual(self.put({"ui": {"a": 1}}).status, 500)
        self.assertEqual((self.read()["ui"], self.told), ({}, []))


class EffectiveTests(SettingsTestCase):
    """What a generation would use (control.md C.3)."""

    def setUp(self) -> None:
        super().setUp()
        self.entries = (
            agent("slow", 30, Model("s1", "S1"), Model("s2", "S2"), own="s2"),
            agent("quick", 10, Model("q1", "Q1")),
            agent("aloof", None, Model("a1", "A1")),
            agent("empty", 1),
        )

    def title(self, saved: dict[str, Any]) -> Any:
        """Return what titles would be made with."""
        return self.changed({"ui": {"chatTitle": saved}})["uiEffective"]["chatTitle"]

    def test_the_lowest_priority_of_those_that_have_models(self) -> None:
        """By itself, with its own model, and on."""
        found = self.read()["uiEffective"]["chatTitle"]
        self.assertEqual(
            (found["agentId"], found["model"], found["enabled"], found["source"]),
            ("quick", "q1", True, "auto"),
        )

    def test_a_saved_agent_and_model(self) -> None:
        """As saved."""
        found = self.title({"agentId": "slow", "model": "s1", "thinkingMode": "low"})
        self.assertEqual(
            (found["agentId"], found["model"], found["thinkingMode"], found["source"]),
            ("slow", "s1", "low", "manual"),
        )

    def test_a_saved_agent_that_is_not_there(self) -> None:
        """Stays the choice, with its model: another one's would not be its."""
        saved = {"agentId": "away", "model": "m1", "apiProviderId": "some_profile"}
        found = self.title(saved)
        self.assertEqual({name: found[name] for name in saved}, saved)

    def test_empty_choices(self) -> None:
        """Are none."""
        found = self.title({"agentId": "", "model": "", "apiProviderId": ""})
        self.assertEqual((found["agentId"], found["source"]), ("quick", "auto"))
        self.assertEqual(self.read()["ui"], {"chatTitle": {}})

    def test_a_saved_model_that_is_gone(self) -> None:
        """The agent's generation model, and no route."""
        found = self.title({"agentId": "slow", "model": "old", "apiProviderId": "some_profile"})
        self.assertEqual((found["model"], found["apiProviderId"]), ("s2", None))

    def test_switched_off(self) -> None:
        """Is a choice."""
        found = self.title({"enabled": False})
        self.assertEqual((found["enabled"], found["source"]), (False, "manual"))

    def test_no_agent_is_meant_for_it(self) -> None:
        """The first by name, and off."""
        self.entries = self.entries[2:3]
        found = self.read()["uiEffective"]["chatTitle"]
        self.assertEqual((found["agentId"], found["enabled"]), ("aloof", False))


class RecentTests(SettingsTestCase):
    """What started chats leave behind."""

    def started(self, model: str, executor: str = "local", origin: str | None = None) -> None:
        self.settings.chat_started(
            ChatRecord(
                chat_id="1767323045000001",
                executor_id=executor,
                agent_id="claude",
                agent_ownership_epoch="e",
                agent_settings=AgentSettings("claude", 1, {}),
                model=model,
                project_path=f"/p/{model}",
                project_key=f"/p/{model}",
                origin=origin,
                created_at="2026-01-02T03:04:05.000Z",
            )
        )

    def test_newest_first_and_each_once(self) -> None:
        """An agent with its model and a directory, over restarts."""
        for model in ("a", "b", "a"):
            self.started(model)
        self.open_process()
        settings = self.read()
        self.assertEqual([one["model"] for one in settings["recentAgentSettings"]], ["a", "b"])
        self.assertEqual(settings["paths"]["recentProjectPaths"], ["/p/a", "/p/b"])
        self.assertEqual(settings["recentAgentSettings"][0]["executorId"], "local")

    def test_twenty_agents_and_ten_directories(self) -> None:
        """The oldest go."""
        for n in range(21):
            self.started(f"m{n}")
        settings = self.read()
        self.assertEqual(len(settings["recentAgentSettings"]), 20)
        self.assertEqual(settings["recentAgentSettings"][-1]["model"], "m1")
        self.assertEqual(len(settings["paths"]["recentProjectPaths"]), 10)

    def test_a_command_is_no_preference(self) -> None:
        """Only what a person started is remembered (decisions.md 28)."""
        self.started("a", origin="cli")
        self.started("b", origin="interactive")
        self.assertEqual([one["model"] for one in self.read()["recentAgentSettings"]], ["b"])

    def test_an_executor_that_is_deleted(self) -> None:
        """Takes its own along."""
        self.started("a", WORKER)
        self.started("b")
        self.settings.executor_removed(WORKER)
        settings = self.read()
        self.assertEqual([one["model"] for one in settings["recentAgentSettings"]], ["b"])
        self.assertEqual(settings["paths"]["byExecutor"], {})

    def test_illegible_settings(self) -> None:
        """Are named in the log; defaults take their place."""
        self.successResultOf(self.store.write([PutSetting("settings", "{")]))
        self.open_process()
        self.assertEqual(self.read()["version"], 0)
