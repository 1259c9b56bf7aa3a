"""What Codex asks in a turn, and what it is answered by us or by the user."""

from __future__ import annotations

from typing import Any

from garcon.contract.messages import (
    ApplyPatchToolUse,
    AskUserQuestionToolUse,
    BashToolUse,
    McpToolUse,
    RequestPermissionsToolUse,
    UnknownToolUse,
)
from garcon.contract.runs import (
    PermissionAutoResolved,
    PermissionRequested,
    PermissionResponse,
)
from garcon.test.runtime.agents.codex_cast import CodexCase

COMMAND = "item/commandExecution/requestApproval"
EDIT = "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
QUESTION = "item/tool/requestUserInput"
ELICITATION = "mcpServer/elicitation/request"
QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "color",
        "header": "Colour",
        "question": "Which colour?",
        "isOther": True,
        "isSecret": False,
        "options": [{"label": "Red", "description": "r"}, {"label": "Blue", "description": "b"}],
    },
    {"id": "pin", "question": "Which PIN?", "isSecret": True, "options": None},
]


class Approvals(CodexCase):
    def test_a_command(self) -> None:
        """Shown as it will run, with the reason; allowed once, for good, or not."""
        for decision, answer in (
            ({"allow": True}, "accept"),
            ({"allow": True, "always_allow": True}, "acceptForSession"),
            ({"allow": False}, "decline"),
        ):
            self.begin()
            self.item("commandExecution", "started", command="/bin/bash -lc 'touch a b'")
            self.ask(COMMAND, command="/bin/bash -lc 'touch a b'", reason="need it")
            tool = self.taken.asked.requested_tool
            assert isinstance(tool, BashToolUse)
            self.assertEqual((tool.command, tool.description), ("touch a b", "need it"))
            self.assertEqual(tool.tool_id, "item-1")
            self.assertEqual(self.taken.asked.options, ["Allow", "Always allow", "Deny"])
            self.assertEqual(self.decide(**decision), {"decision": answer})
            self.assertEqual(self.sent["id"], 7)

    def test_a_part_of_a_script(self) -> None:
        """What is asked about is shown, and not the whole of it."""
        self.item("commandExecution", "started", command="/bin/zsh -lc 'a && b'")
        self.ask(COMMAND, command="b", approvalId="x")
        tool = self.taken.asked.requested_tool
        assert isinstance(tool, BashToolUse)
        self.assertEqual((tool.command, tool.tool_id), ("b", "item-1"))

    def test_a_patch(self) -> None:
        """Shown as the change that was announced."""
        change = {"path": "/srv/a", "kind": {"type": "add"}, "diff": "hello\n"}
        self.item("fileChange", "started", changes=[change])
        self.ask(EDIT)
        tool = self.taken.asked.requested_tool
        assert isinstance(tool, ApplyPatchToolUse)
        self.assertEqual((tool.file_path, tool.patch), ("/srv/a", "*** Add File: /srv/a\nhello"))
        self.assertEqual(self.decide(), {"decision": "accept"})

    def test_what_was_not_announced(self) -> None:
        """It is shown by what the request says."""
        self.ask(
            COMMAND, "a", command="ls", networkApprovalContext={"host": "h", "protocol": "https"}
        )
        tool = self.taken.asked.requested_tool
        assert isinstance(tool, BashToolUse)
        self.assertEqual(tool.description, "It wants to reach h (https).")
        more = {"network": {"enabled": True}}
        self.ask(COMMAND, "d", command="ls", reason="why", additionalPermissions=more)
        tool = self.taken.asked.requested_tool
        assert isinstance(tool, BashToolUse)
        self.assertEqual(
            tool.description, 'why It wants more permissions: {"network": {"enabled": true}}'
        )
        self.ask(COMMAND, "b", kind="writeStdin")
        tool = self.taken.asked.requested_tool
        assert isinstance(tool, UnknownToolUse)
        self.assertEqual(tool.raw_name, "writeStdin")
        self.ask(EDIT, "c", grantRoot="/srv")
        self.assertIsInstance(self.taken.asked.requested_tool, UnknownToolUse)

    def test_wider_permissions(self) -> None:
        """Granted for the turn, for the session, or not at all."""
        wanted = {"network": {"enabled": True}, "fileSystem": None}
        for decision, answer in (
            ({"allow": True}, {"permissions": {"network": {"enabled": True}}, "scope": "turn"}),
            (
                {"allow": True, "always_allow": True},
                {"permissions": {"network": {"enabled": True}}, "scope": "session"},
            ),
            ({"allow": False}, {"permissions": {}, "scope": "turn"}),
        ):
            self.begin()
            self.ask(PERMISSIONS, permissions=wanted, reason="the network")
            tool = self.taken.asked.requested_tool
            assert isinstance(tool, RequestPermissionsToolUse)
            self.assertEqual((tool.permissions, tool.reason), (wanted, "the network"))
            self.assertEqual(self.decide(**decision), answer)

    def test_a_servers_question(self) -> None:
        """One that is whether something may be done is a permission; others only Codex can ask."""
        schema = {"type": "object", "properties": {}}
        self.ask(
            ELICITATION, serverName="files", mode="form", message="Delete?", requestedSchema=schema
        )
        tool = self.taken.asked.requested_tool
        assert isinstance(tool, McpToolUse)
        self.assertEqual((tool.server, tool.input), ("files", {"message": "Delete?"}))
        self.assertEqual(self.decide()["action"], "accept")
        self.taken.story()
        for more in (
            {"mode": "form", "requestedSchema": {"properties": {"name": {"type": "string"}}}},
            {"mode": "url", "url": "https://x.example/"},
        ):
            self.ask(ELICITATION, serverName="files", message="Who?", **more)
            self.assertEqual(self.sent["result"]["action"], "decline")
            (notice,) = self.taken.story()
            self.assertIn("files asks what only Codex itself can be told", notice)

    def test_a_subagents_request_is_asked_as_well(self) -> None:
        """It waits for an answer like any other."""
        self.ask(COMMAND, command="ls", threadId="other")
        self.assertEqual(self.decide(), {"decision": "accept"})

    def test_answered_once(self) -> None:
        """A second decision finds nobody, and neither does one of another turn."""
        self.ask(COMMAND, command="ls")
        asked = self.taken.asked
        self.decide()
        response = PermissionResponse(
            run_id="run", permission_occurrence_id=asked.permission_occurrence_id, allow=True
        )
        self.assertIsNone(self.conversation.decide(response, self.taken.stamp()))
        self.complete()
        self.assertIsNone(self.conversation.decide(response, self.taken.stamp()))

    def test_void_ones_are_withdrawn(self) -> None:
        """By what Codex says of them, and only those that wait."""
        self.ask(COMMAND, 0, command="ls")
        self.taken.story()
        self.hear("serverRequest/resolved", requestId=1)
        self.assertEqual(self.taken.story(), [])
        self.hear("serverRequest/resolved", requestId=0)
        self.hear("serverRequest/resolved", requestId=0)
        self.assertEqual(self.taken.story(), ["withdrawn"])

    def test_void_ones_of_a_subagent_are_withdrawn(self) -> None:
        """They were asked like any other."""
        self.ask(COMMAND, 5, command="ls", threadId="other")
        self.taken.story()
        self.hear("serverRequest/resolved", requestId=5, threadId="other")
        self.assertEqual(self.taken.story(), ["withdrawn"])

    def test_between_turns(self) -> None:
        """Nobody is there to decide: it is denied."""
        self.complete()
        self.ask(COMMAND, command="ls")
        self.assertEqual(self.sent, {"id": 7, "result": {"decision": "decline"}})


class Modes(CodexCase):
    def answered(self, mode: str, method: str, **parameters: Any) -> dict[str, Any] | None:
        """Return how a request is answered without the user, None where the user is asked."""
        self.begin(mode)
        before = len(self.taken.sent)
        self.ask(method, **parameters)
        result: dict[str, Any] | None = None
        if len(self.taken.sent) > before:
            result = self.sent["result"]
        return result

    def test_who_decides(self) -> None:
        """The mode, or the user."""
        yes, no = {"decision": "accept"}, {"decision": "decline"}
        for mode, command, edit in (
            ("default", None, None),
            ("acceptEdits", None, None),
            ("manualBypass", yes, yes),
            ("bypassPermissions", yes, yes),
            ("plan", no, no),
        ):
            self.assertEqual(self.answered(mode, COMMAND, command="ls"), command, mode)
            self.assertEqual(self.answered(mode, EDIT), edit, mode)
            self.assertIsNone(self.answered(mode, QUESTION, questions=QUESTIONS), mode)

    def test_accepted_edits_are_those_of_the_project(self) -> None:
        """What is changed outside of it, even in part, is the user's to allow."""
        project, outside = "/srv/project/a", "/srv/projects/a"
        moved: dict[str, Any] = {"path": project, "kind": {"type": "update", "move_path": outside}}
        for accepted, changes in (
            (True, [{"path": project}]),
            (True, [{"path": project}, {"path": "b"}]),
            (False, [{"path": outside}]),
            (False, [{"path": project}, {"path": outside}]),
            (False, [{"path": "../a"}]),
            (False, [moved]),
            (False, [{"kind": {"type": "add"}}]),
            (False, []),
        ):
            self.begin("acceptEdits")
            self.item("fileChange", "started", changes=changes)
            self.taken.sent.clear()
            self.ask(EDIT)
            said = [{"id": 7, "result": {"decision": "accept"}}] if accepted else []
            self.assertEqual(self.taken.sent, said, changes)

    def test_an_edit_that_was_not_told_of_is_not_accepted(self) -> None:
        """Not by what a call says that has ended, and not by another turn's of the same name."""
        inside = {"changes": [{"path": "/srv/project/a"}]}
        for end, asked in (("completed", {}), ("started", {"turnId": "a subagent's"})):
            self.begin("acceptEdits")
            self.item("fileChange", "started", **inside)
            self.item("fileChange", end, status="completed", **inside)
            self.taken.sent.clear()
            self.ask(EDIT, **asked)
            self.assertEqual(self.taken.sent, [])
            self.assertEqual(self.decide(), {"decision": "accept"})

    def test_a_change_that_brings_a_directory(self) -> None:
        """Who accepts edits has not accepted that; the directory is shown."""
        self.begin("acceptEdits")
        self.item("fileChange", "started", changes=[{"path": "/srv/project/a"}])
        self.ask(EDIT, grantRoot="/srv", reason="more")
        tool = self.taken.asked.requested_tool
        assert isinstance(tool, RequestPermissionsToolUse)
        self.assertEqual((tool.permissions, tool.reason), ({"write": ["/srv"]}, "more"))

    def test_what_we_allow_by_ourselves_has_its_row(self) -> None:
        """In the mode where that is ours to do."""
        self.answered("manualBypass", COMMAND, command="ls")
        resolved = [e for e in self.taken.events if isinstance(e, PermissionAutoResolved)]
        self.assertEqual([one.allowed for one in resolved], [True])
        self.answered("bypassPermissions", COMMAND, command="ls")
        self.assertEqual(self.taken.events, [])


class Questions(CodexCase):
    def answer(self, *chosen: tuple[str, str]) -> dict[str, Any]:
        """Answer the questions."""
        given = [{"questionId": name, "selectedOptionIds": [option]} for name, option in chosen]
        return self.decide(response={"outcome": "answered", "answers": given})

    def test_asked_and_answered(self) -> None:
        """By an option's words, or the user's own; a secret is in no row."""
        self.ask(QUESTION, questions=QUESTIONS)
        tool = self.taken.asked.requested_tool
        assert isinstance(tool, AskUserQuestionToolUse)
        color = tool.questions[0]
        self.assertEqual(
            (color.id, color.prompt, color.header), ("color", "Which colour?", "Colour")
        )
        self.assertEqual([option.label for option in color.options], ["Red", "Blue"])
        self.assertEqual(tool.questions[1].options, [])
        answered = self.answer(("color", color.options[1].id), ("pin", "0815"))
        self.assertEqual(
            answered, {"answers": {"color": {"answers": ["Blue"]}, "pin": {"answers": ["0815"]}}}
        )
        self.assertEqual(
            self.taken.story(),
            [
                "AskUserQuestionToolUse: ",
                "asked: AskUserQuestionToolUse",
                "result: Which colour?: Blue\nWhich PIN?: (a secret)",
            ],
        )

    def test_skipped(self) -> None:
        """The model is given no answers, and the transcript says so."""
        for decision in (
            {"allow": False},
            {"response": {"outcome": "skipped", "reason": "later"}},
        ):
            self.begin()
            self.ask(QUESTION, questions=QUESTIONS)
            self.assertEqual(self.decide(**decision), {"answers": {}})
            self.assertEqual(self.taken.story()[-1], "result: The user skipped the questions.")

    def test_answers_of_any_form(self) -> None:
        """What is no answer is none, and a question without a name has one of ours."""
        for answers in (7, [7], [{"questionId": ["x"]}], [{"questionId": "color"}]):
            self.begin()
            self.ask(QUESTION, questions=[*QUESTIONS, {"question": "Nameless?"}])
            given = {"outcome": "answered", "answers": answers}
            self.assertIn("answers", self.decide(response=given))
        self.begin()
        self.ask(QUESTION, questions=[{"question": "Nameless?"}])
        self.answer(("question-1", "yes"))
        self.assertEqual(self.taken.story()[-1], "result: Nameless?: yes")

    def test_withdrawn(self) -> None:
        """Its call ends with it; one that is open ends with its turn."""
        self.ask(QUESTION, 3, questions=QUESTIONS)
        self.hear("serverRequest/resolved", requestId=3)
        self.assertEqual(self.taken.story()[2:], ["withdrawn", "result: Nobody answered."])
        self.ask(QUESTION, 4, questions=QUESTIONS)
        self.complete()
        self.assertEqual(
            self.taken.story()[2:], ["result error: The call did not end.", "finished"]
        )

    def test_no_mode_answers_it(self) -> None:
        """Nobody else knows."""
        self.begin("manualBypass")
        self.ask(QUESTION, questions=QUESTIONS)
        asked = [e for e in self.taken.events if isinstance(e, PermissionRequested)]
        self.assertEqual(len(asked), 1)
        self.assertEqual(asked[0].options, [])
