"""What one client must hold to with every agent of this protocol, where no other test of it says
so: the opening, choices that go away, content that is no text, and what a turn cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from garcon.contract.messages import AssistantMessage, Image, ToolResult
from garcon.contract.runs import PermissionRequested, RowProduced, RunEnded, Usage
from garcon.runtime.agents.acp_opening import INITIALIZE
from garcon.runtime.agents.acp_protocol import AcpConversation, AcpWays
from garcon.runtime.agents.conversation import Refused, Unknown, Version
from garcon.test.runtime.agents.replay import Taken
from garcon.test.runtime.agents.test_acp_protocol import PROMPT, AcpCase


class Opening(AcpCase):
    def begin(self) -> None:
        self.taken = Taken()
        self.conversation = AcpConversation("/p", None, AcpWays())
        self.taken.take(self.conversation.open())

    def test_we_offer_neither_files_nor_terminals(self) -> None:
        """So the agent uses its own, under its own permissions."""
        self.begin()
        (first,) = self.taken.sent
        self.assertEqual((first["method"], first["params"]), ("initialize", INITIALIZE))
        self.assertEqual(
            INITIALIZE["clientCapabilities"],
            {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
        )

    def test_every_member_but_the_version_may_be_missing(self) -> None:
        """An agent that says nothing more of itself gets a plain session."""
        self.begin()
        self.present()
        self.assertEqual(self.taken.sent[-1]["method"], "session/new")
        self.assertEqual(self.taken.sent[-1]["params"], {"cwd": "/p", "mcpServers": []})

    def test_another_version_is_refused(self) -> None:
        """Nobody knows what its words would mean; which one it speaks is told."""
        answers = ((2, ", but 2"), (None, "Protocol"), (True, "Protocol"), ("1", "Protocol"))
        for spoken, told in answers:
            self.begin()
            self.answer({"protocolVersion": spoken, "agentInfo": {"version": "9"}})
            (refused,) = self.taken.other
            assert isinstance(refused, Refused)
            self.assertTrue(refused.text.endswith(told), refused.text)
            self.assertEqual(len(self.taken.sent), 1)
        self.begin()
        self.present(agentInfo={"version": "9"})
        self.assertEqual(self.taken.other, [Version("9")])


class Choosing(AcpCase):
    def options(self, *categories: str) -> list[dict[str, Any]]:
        return [
            {
                "id": category,
                "category": category,
                "currentValue": "a",
                "options": [{"value": "a"}, {"value": "b"}, {"value": "high"}],
            }
            for category in categories
        ]

    def methods(self) -> list[str]:
        return [sent["method"] for sent in self.taken.sent[2:]]

    def test_a_choice_that_goes_away_is_no_choice(self) -> None:
        """A model without efforts takes that option with it: to ask for it would fail the turn."""
        self.converse({"sessionId": "s", "configOptions": self.options("model", "thought_level")})
        self.prompt(model="b", thinking_mode="high")
        self.answer({"configOptions": self.options("model")})
        self.assertEqual(self.methods(), ["session/set_config_option", PROMPT])

    def test_an_update_of_options_is_whole_too(self) -> None:
        """And one that says nothing of them takes none away."""
        self.converse({"sessionId": "s", "configOptions": self.options("model", "thought_level")})
        self.update("config_option_update")
        self.update("config_option_update", configOptions=self.options("thought_level"))
        self.prompt(thinking_mode="high")
        asked = self.taken.sent[-1]["params"]
        self.assertEqual((asked["configId"], asked["value"]), ("thought_level", "high"))


class Content(AcpCase):
    def rows(self) -> list[Any]:
        return [one.message for one in self.taken.events if isinstance(one, RowProduced)]

    def kinds(self) -> list[str]:
        return [one.kind for one in self.taken.other if isinstance(one, Unknown)]

    def test_pictures_are_refused_where_the_agent_takes_none(self) -> None:
        """They are not left out in silence; and the next turn goes on."""
        self.converse(capabilities={"promptCapabilities": {"image": False}})
        self.prompt(images=[Image(data="data:image/png;base64,AAA")])
        (end,) = self.taken.events
        assert isinstance(end, RunEnded) and end.error is not None
        self.assertEqual((end.outcome, end.error.code), ("failed", "UNSUPPORTED_AGENT"))
        self.assertEqual(len(self.taken.sent), 2)
        self.prompt()
        self.assertEqual(self.taken.sent[-1]["method"], PROMPT)

    def test_what_is_no_text_is_told_in_words(self) -> None:
        """In what it says and in what its tools bring."""
        pieces = (
            ({"type": "image", "mimeType": "image/png", "data": "AAA"}, "[image: image/png]"),
            ({"type": "audio"}, "[audio: of no known type]"),
            ({"type": "resource_link", "uri": "file:///a", "name": "a"}, "[a](file:///a)"),
            ({"type": "resource", "resource": {"uri": "file:///a"}}, "[file:///a]"),
            ({"type": "resource", "resource": {"uri": "file:///a", "text": "b"}}, "b"),
        )
        for piece, words in pieces:
            self.taken = Taken()
            self.converse()
            self.prompt()
            self.update("agent_message_chunk", content=piece)
            self.update(
                "tool_call",
                toolCallId="t",
                status="completed",
                content=[{"type": "content", "content": piece}],
            )
            said, _, result = self.rows()
            assert isinstance(said, AssistantMessage) and isinstance(result, ToolResult)
            self.assertEqual((said.content, result.content["text"]), (words, words))
            self.assertEqual(self.kinds(), [])

    def test_unknown_pieces_are_kept(self) -> None:
        """Whatever the protocol may add, and a terminal, which we do not offer."""
        self.converse()
        self.prompt()
        self.update("agent_message_chunk", content={"type": "sparkle"})
        self.update("tool_call", toolCallId="t", content=[{"type": "terminal", "terminalId": "1"}])
        self.update("tool_call_update", toolCallId="t", content=[{"type": "diff"}, {}, 3])
        self.assertEqual(
            self.kinds(), ["agent_message_chunk.content.sparkle", "tool_call.content.terminal"]
        )

    def test_plans_of_another_kind_are_kept(self) -> None:
        """We show those that come whole, and have not said that we take others."""
        self.converse()
        self.prompt()
        for kind in ("plan_update", "plan_removed"):
            self.update(kind)
        self.assertEqual(
            self.kinds(), ["session/update.plan_update", "session/update.plan_removed"]
        )


class Planning(AcpCase):
    def test_plan_mode_reads_only(self) -> None:
        """Reading is allowed, and nothing else is."""
        for kind, option in (
            ("read", "allow_once"),
            ("search", "allow_once"),
            ("think", "allow_once"),
            *((kind, "reject_once") for kind in ("edit", "delete", "move", "execute", "fetch")),
            ("other", "reject_once"),
        ):
            self.taken = Taken()
            self.converse()
            self.prompt(permission_mode="plan")
            self.ask(kind)
            self.assertEqual(self.outcome(), {"outcome": "selected", "optionId": f"o-{option}"})


class AcceptingEdits(AcpCase):
    """Changes are accepted inside the project only, which here is a real one with a link out."""

    def setUp(self) -> None:
        super().setUp()
        self.project = Path(self.mktemp()).absolute()
        self.project.mkdir(parents=True)
        (self.project / "out").symlink_to("/")

    def is_asked(self, kind: str, places: list[Any], diffs: Sequence[str] = ()) -> bool:
        """Whether the user is asked about a change of these."""
        self.taken = Taken()
        self.converse()
        self.prompt(permission_mode="acceptEdits", project_path=str(self.project))
        content = [{"type": "diff", "path": path, "newText": ""} for path in diffs]
        self.ask(kind, locations=places, content=content)
        asked = [one for one in self.taken.events if isinstance(one, PermissionRequested)]
        if not asked:
            self.assertEqual(self.outcome()["optionId"], "o-allow_once")
        return bool(asked)

    def test_what_is_accepted(self) -> None:
        """A change all of whose places are inside, wherever the agent names them."""
        one, two = str(self.project / "a"), str(self.project / "new" / "b")
        for kind in ("edit", "delete"):
            self.assertFalse(self.is_asked(kind, [{"path": one}, {"path": two}]))
            self.assertFalse(self.is_asked(kind, [], [one]))
        self.assertFalse(self.is_asked("move", [{"path": one}, {"path": two}]))

    def test_what_the_user_is_asked(self) -> None:
        """A change that is outside, also in part, or may be."""
        inside = {"path": str(self.project / "a")}
        for places, diffs in (
            ([{"path": "/etc/passwd"}], []),
            ([{"path": str(self.project / ".." / "a")}], []),
            ([{"path": str(self.project / "out" / "a")}], []),
            ([inside, {"path": "/etc/passwd"}], []),
            ([inside], ["/etc/passwd"]),
            ([], []),
            ([inside, {}], []),
            ([inside, 3], []),
            # Paths are absolute; who knows where the agent looks for others.
            ([{"path": "a"}], []),
            ([{"path": "file:///etc/passwd"}], []),
            ([{"path": "~/a"}], []),
        ):
            for kind in ("edit", "delete", "move"):
                self.assertTrue(self.is_asked(kind, places, diffs), (kind, places, diffs))

    def test_a_move_to_nobody_knows_where(self) -> None:
        """Is asked about too."""
        inside = {"path": str(self.project / "a")}
        self.assertTrue(self.is_asked("move", [inside], [inside["path"]]))


class Cost(AcpCase):
    def told(self, amount: float) -> None:
        self.update("usage_update", used=1, size=1000, cost={"amount": amount, "currency": "USD"})

    def cost(self) -> float | None:
        self.answer({"stopReason": "end_turn"})
        end = self.taken.events[-1]
        assert isinstance(end, RunEnded)
        return (end.usage or Usage()).cost_usd

    def test_of_a_session_that_was_taken_up(self) -> None:
        """Is not its next turn's: that is known from the second one on, or at once where the agent
        says what the session has cost before.
        """
        for said_before, costs in ((None, [None, 0.25]), (4.0, [1.0, 0.25])):
            self.taken = Taken()
            resumes: dict[str, Any] = {"sessionCapabilities": {"resume": {}}}
            self.converse({}, resume="s", capabilities=resumes)
            if said_before is not None:
                self.conversation._usage.updated(
                    {"cost": {"amount": said_before, "currency": "USD"}}
                )
                self.conversation._usage.taken_up()
            found = []
            for amount in (5.0, 5.25):
                self.prompt()
                self.told(amount)
                found.append(self.cost())
            self.assertEqual(found, costs)

    def test_told_while_the_session_is_loaded(self) -> None:
        """Is what it has cost before."""
        self.converse({}, resume="s", capabilities={"loadSession": True})
        self.told(4.0)
        self.refuse("no such method")
        self.refuse("no such method")
        self.prompt()
        self.told(5.0)
        self.assertEqual(self.cost(), 1.0)

    def test_of_a_new_session(self) -> None:
        """Is all its turn's."""
        self.converse()
        self.prompt()
        self.told(0.5)
        self.assertEqual(self.cost(), 0.5)
