"""What a chat's next turns run with (chats.md 3.29, 4.15; control.md A.5)."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from garcon.contract import operations
from garcon.contract.catalogs import AgentEntry, AgentSettings, Model
from garcon.controller.chats.settings import patched, takes
from garcon.errors import GarconError
from garcon.test.controller.chats.cast import CHAT, SETTINGS, WORKER, ChatsTestCase, Said
from garcon.testing.fake_runtime import agent_entry

UNKNOWN = "1767000000000009"
GONE = (404, "SESSION_NOT_FOUND", False)
INVALID = (400, "VALIDATION_FAILED", False)
UNFIT = (422, "MODEL_SELECTION_ERROR", False)
KINDS: list[dict[str, Any]] = [
    {"key": "on", "label": "On", "type": "boolean"},
    {
        "key": "mode",
        "label": "Mode",
        "type": "enum",
        "options": [{"value": "smart", "label": "S"}, {"value": "deep", "label": "D"}],
    },
    {"key": "depth", "label": "Depth", "type": "number", "min": 1, "max": 5, "step": 1},
    {"key": "name", "label": "Name", "type": "string"},
    {"key": "key", "label": "Key", "type": "credential-ref", "credentialKind": "token"},
]


def rich_entry() -> AgentEntry:
    """Return an agent with every kind of setting and models of every kind."""
    return structs.replace(
        agent_entry(),
        settings=KINDS,
        supported_protocols=["openai-compatible"],
        models=[
            Model("scripted", "Scripted"),
            Model("small", "Small", is_local=True),
            Model("smaller", "Smaller", is_local=True),
            Model(
                "end:big",
                "Big",
                api_provider_id="prov",
                endpoint_id="end",
                raw_model="big",
                protocol="openai-compatible",
            ),
        ],
    )


class SettingsCase(ChatsTestCase):
    """An idle chat of an agent with settings."""

    def setUp(self) -> None:
        super().setUp()
        self.local.agents = [rich_entry()]
        self.view = self.started()
        self.told.clear()

    def change(self, **body: Any) -> Said:
        """Change execution settings."""
        return self.asked(operations.CHANGE_EXECUTION_SETTINGS, {"chatId": CHAT} | body)

    def model(self, model: str, **body: Any) -> Said:
        """Change the model."""
        return self.asked(operations.CHANGE_MODEL, {"chatId": CHAT, "model": model} | body)

    def stored(self) -> dict[str, Any]:
        """Return the chat as it is after a restart."""
        self.restart()
        self.local.agents = [rich_entry()]
        return self.listed()[0]


class ModeTests(SettingsCase):
    """`PATCH /chats/execution-settings`: modes."""

    def test_modes_are_changed(self) -> None:
        """What is not sent stays; the answer has all three."""
        answer = self.change(permissionMode="acceptEdits")
        self.assertEqual(
            answer.body,
            {
                "success": True,
                "chatId": CHAT,
                "permissionMode": "acceptEdits",
                "thinkingMode": "none",
                "agentSettings": SETTINGS,
            },
        )
        self.assertEqual(self.change(thinkingMode="high").body["permissionMode"], "acceptEdits")
        stored = self.stored()
        self.assertEqual(
            (stored["permissionMode"], stored["thinkingMode"]), ("acceptEdits", "high")
        )

    def test_modes_are_read_leniently(self) -> None:
        """Old names are mapped, anything unknown is the plain one, null says nothing."""
        self.change(permissionMode="acceptEdits", thinkingMode="think")
        self.assertEqual(self.change().body["thinkingMode"], "low")
        kept = self.change(permissionMode=None, thinkingMode=None).body
        self.assertEqual((kept["permissionMode"], kept["thinkingMode"]), ("acceptEdits", "low"))
        reset = self.change(permissionMode="whatever", thinkingMode=7).body
        self.assertEqual((reset["permissionMode"], reset["thinkingMode"]), ("default", "none"))

    def test_a_mode_that_the_agent_lacks(self) -> None:
        """422 with these routes' own code (1.3); the plain ones need nobody's support."""
        self.assertEqual(self.change(permissionMode="plan").failure, UNFIT)
        self.assertEqual(self.change(thinkingMode="ultrathink").failure, UNFIT)
        self.assertEqual(self.stored()["permissionMode"], "default")

    def test_an_agent_that_is_gone(self) -> None:
        """422, as for everything but a start (1.3)."""
        self.local.agents = []
        self.clock.advance(61)
        gone = (422, "UNSUPPORTED_AGENT", False)
        self.assertEqual(self.change(thinkingMode="high").failure, gone)
        self.assertEqual(self.model("other").failure, gone)

    def test_the_next_turn_has_them_and_the_running_one_does_not(self) -> None:
        """A change is for what begins after it."""
        self.run_chat(self.view)
        self.assertEqual(self.change(permissionMode="acceptEdits").status, 200)
        self.assertEqual(self.local.last.launch.permission_mode, "default")
        self.local.last.finish()
        self.run_chat(self.view)
        self.assertEqual(self.local.last.launch.permission_mode, "acceptEdits")

    def test_what_stays_as_it_is_costs_nothing(self) -> None:
        """No commit, and no word to an executor: that may be away."""
        writes, asked = self.memory.writes, self.local.catalogs
        self.executors.states["local"] = "offline"
        answer = self.change(permissionMode="default", thinkingMode="none", agentSettingsPatch={})
        self.assertEqual(answer.status, 200)
        self.assertEqual((self.memory.writes, self.local.catalogs), (writes, asked))
        answer = self.change(permissionMode="acceptEdits")
        self.assertEqual(answer.failure, (503, "EXECUTOR_UNAVAILABLE", True))

    def test_malformed_and_unknown(self) -> None:
        """400 and 404."""
        bodies: tuple[dict[str, Any], ...] = (
            {"chatId": ""},
            {"chatId": 7},
            {"agentSettingsPatch": []},
        )
        for body in bodies:
            self.assertEqual(self.change(**body).failure, INVALID, body)
        self.assertEqual(self.change(chatId=UNKNOWN).failure, GONE)

    def test_a_store_that_refuses(self) -> None:
        """The settings are as they were."""
        self.memory.refusals = 1
        self.assertEqual(self.change(thinkingMode="high").failure, (500, "INTERNAL_ERROR", True))
        self.assertEqual(self.listed()[0]["thinkingMode"], "none")


class AgentSettingsTests(SettingsCase):
    """`agentSettingsPatch`."""

    def test_a_patch_changes_its_values(self) -> None:
        """And leaves the others."""
        self.change(agentSettingsPatch={"on": True, "mode": "deep"})
        answer = self.change(agentSettingsPatch={"mode": "smart", "depth": 2.5})
        wanted = {"on": True, "mode": "smart", "depth": 2.5}
        self.assertEqual(answer.body["agentSettings"], {**SETTINGS, "values": wanted})
        self.assertEqual(self.stored()["agentSettings"]["values"], wanted)

    def test_what_the_agent_does_not_know_or_take(self) -> None:
        """400, and nothing of the patch is kept."""
        for patch in ({"more": 1}, {"on": "yes"}, {"on": True, "mode": "quick"}):
            self.assertEqual(self.change(agentSettingsPatch=patch).failure, INVALID, patch)
        self.assertEqual(self.stored()["agentSettings"], SETTINGS)

    def test_values_by_kind(self) -> None:
        """Bounds included, beyond them refused."""
        cases: tuple[tuple[str, tuple[Any, ...], tuple[Any, ...]], ...] = (
            ("on", (True, False), (1, "true", None)),
            ("mode", ("smart", "deep"), ("", "Smart", None, ["smart"])),
            ("depth", (1, 5, 2.5), (0.9, 5.1, True, "1", float("nan"), float("inf"), None)),
            ("name", ("", "x"), (1, None)),
            ("key", ("ref",), (1, None)),
        )
        for key, good, bad in cases:
            [setting] = [one for one in KINDS if one["key"] == key]
            for value in good:
                self.assertTrue(takes(setting, value), (key, value))
            for value in bad:
                self.assertFalse(takes(setting, value), (key, value))
        self.assertFalse(takes({"key": "new", "type": "new"}, 1))

    def test_settings_of_another_agent_give_way_to_the_defaults(self) -> None:
        """An envelope belongs to one agent."""
        foreign = AgentSettings("other", 3, {"x": 1})
        self.assertEqual(
            patched(foreign, rich_entry(), {"on": True}), AgentSettings("scripted", 1, {"on": True})
        )
        self.assertRaises(GarconError, patched, foreign, rich_entry(), {"x": 2})


class ModelTests(SettingsCase):
    """`PATCH /chats/model`."""

    def test_a_model_is_changed(self) -> None:
        """The answer has the routing members that were sent, and no others."""
        answer = self.model(" other ")
        self.assertEqual(answer.body, {"success": True, "chatId": CHAT, "model": "other"})
        routing = {
            "apiProviderId": "prov",
            "modelEndpointId": "end",
            "modelProtocol": "openai-compatible",
        }
        answer = self.model("big", **routing)
        self.assertEqual(answer.body, {"success": True, "chatId": CHAT, "model": "big"} | routing)
        stored = self.stored()
        self.assertEqual({name: stored[name] for name in routing}, routing)
        self.run_chat(self.view)
        launch = self.local.last.launch
        self.assertEqual((launch.model, launch.model_endpoint_id), ("big", "end"))

    def test_what_is_not_sent_stays(self) -> None:
        """A null takes it away."""
        self.model("big", apiProviderId="prov", modelEndpointId="end")
        self.assertEqual(self.model("end:big").status, 200)
        self.assertEqual(self.listed()[0]["modelEndpointId"], "end")
        self.assertEqual(self.model("scripted").failure, UNFIT)
        answer = self.model("scripted", apiProviderId=None, modelEndpointId=None)
        self.assertEqual((answer.status, answer.body["apiProviderId"]), (200, None))
        self.assertIsNone(self.listed()[0]["modelEndpointId"])

    def test_a_selection_that_does_not_fit(self) -> None:
        """422 with its own code: halves of a pair, unknown endpoints, foreign protocols."""
        for body in (
            {"apiProviderId": "prov"},
            {"modelEndpointId": "end"},
            {"apiProviderId": "prov", "modelEndpointId": "gone"},
            {"modelProtocol": "anthropic-messages"},
        ):
            self.assertEqual(self.model("big", **body).failure, UNFIT, body)
        self.assertEqual(self.listed()[0]["model"], "scripted")

    def test_local_and_remote_models_are_not_exchanged(self) -> None:
        """500, as clients know it; among their like they are."""
        self.assertEqual(self.model("small").failure, (500, "INTERNAL_ERROR", False))
        self.started(chatId=UNKNOWN, model="small")
        body = {"chatId": UNKNOWN, "model": "smaller"}
        self.assertEqual(self.asked(operations.CHANGE_MODEL, body).status, 200)
        body["model"] = "scripted"
        self.assertEqual(self.asked(operations.CHANGE_MODEL, body).status, 500)

    def test_malformed_and_unknown(self) -> None:
        """400 and 404."""
        for body in ({"model": ""}, {"model": 7}, {"chatId": " "}, {"modelProtocol": "smtp"}):
            self.assertEqual(self.model(**({"model": "x"} | body)).failure, INVALID, body)
        self.assertEqual(self.model("x", apiProviderId="").failure, INVALID)
        self.assertEqual(self.model("x", chatId=UNKNOWN).failure, GONE)

    def test_the_executor_of_the_chat_is_asked(self) -> None:
        """Not Local, and not when it is away."""
        self.worker.agents = [rich_entry()]
        self.started(chatId=UNKNOWN, executorId=WORKER)
        asked = self.local.catalogs
        body = {
            "chatId": UNKNOWN,
            "model": "big",
            "apiProviderId": "prov",
            "modelEndpointId": "end",
        }
        self.assertEqual(self.asked(operations.CHANGE_MODEL, body).status, 200)
        self.assertEqual(self.local.catalogs, asked)
        self.executors.states[WORKER] = "offline"
        answer = self.asked(operations.CHANGE_MODEL, body)
        self.assertEqual(answer.failure, (503, "EXECUTOR_UNAVAILABLE", True))
