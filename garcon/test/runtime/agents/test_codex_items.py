"""Codex's items as rows, and failures in words."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import (
    ApplyPatchToolUse,
    AssistantMessage,
    BashToolUse,
    CodexSubagentToolUse,
    ExternalToolUse,
    McpToolUse,
    ReadToolUse,
    Thinking,
    UnknownToolUse,
    WebSearchToolUse,
)
from garcon.runtime.agents.codex_errors import failure_text, retry_text, status_of
from garcon.runtime.agents.codex_items import STILL_RUNS, result, said, script_of, unended, use
from garcon.test.runtime.agents.codex_cast import CodexCase
from garcon.test.runtime.agents.replay import NOW


def item(kind: str, **members: Any) -> dict[str, Any]:
    """Return an item."""
    return {"type": kind, "id": "i", **members}


class Rows(SynchronousTestCase):
    def test_words(self) -> None:
        """What it said, planned and thought; a summary goes before the thoughts themselves."""
        self.assertEqual(
            list(said(item("agentMessage", text="hello"), NOW)),
            [AssistantMessage(timestamp=NOW, content="hello")],
        )
        self.assertEqual(
            list(said(item("plan", text="1. do it"), NOW)),
            [AssistantMessage(timestamp=NOW, content="1. do it")],
        )
        self.assertEqual(
            list(said(item("reasoning", summary=["a", "b"], content=["c"]), NOW)),
            [Thinking(timestamp=NOW, content="a\n\nb")],
        )
        self.assertEqual(
            list(said(item("reasoning", summary=[], content=["c"]), NOW)),
            [Thinking(timestamp=NOW, content="c")],
        )
        for nothing in (item("agentMessage", text=" "), item("reasoning"), item("sleep")):
            self.assertEqual(list(said(nothing, NOW)), [])

    def test_calls(self) -> None:
        """Each kind has the contract's row for it."""
        for given, row in (
            (
                item("commandExecution", command="/bin/bash -lc 'ls -l'"),
                BashToolUse(timestamp=NOW, tool_id="i", command="ls -l"),
            ),
            (
                item("mcpToolCall", server="files", tool="read", arguments={"a": 1}),
                McpToolUse(timestamp=NOW, tool_id="i", server="files", tool="read", input={"a": 1}),
            ),
            (
                item("dynamicToolCall", tool="look", arguments={"a": 1}),
                ExternalToolUse(timestamp=NOW, tool_id="i", name="look", input={"a": 1}),
            ),
            (
                item("functionCallOutput", name="look"),
                ExternalToolUse(timestamp=NOW, tool_id="i", name="look", input={}),
            ),
            (
                item("collabAgentToolCall", tool="spawnAgent", receiverThreadIds=["t"], prompt="p"),
                CodexSubagentToolUse(
                    timestamp=NOW,
                    tool_id="i",
                    action="spawn_agent",
                    details={"targets": ["t"], "message": "p"},
                ),
            ),
            (
                item("collabAgentToolCall", tool="danceWith"),
                UnknownToolUse(timestamp=NOW, tool_id="i", raw_name="danceWith", input={}),
            ),
            (
                item("webSearch", query="", action={"type": "search", "query": "cats"}),
                WebSearchToolUse(timestamp=NOW, tool_id="i", query="cats"),
            ),
            (
                item("imageView", path="/a.png"),
                ReadToolUse(timestamp=NOW, tool_id="i", file_path="/a.png"),
            ),
            (
                item("imageGeneration", revisedPrompt="a cat"),
                UnknownToolUse(
                    timestamp=NOW,
                    tool_id="i",
                    raw_name="image_generation",
                    input={"prompt": "a cat"},
                ),
            ),
        ):
            self.assertEqual(use(given, NOW), row)
        for none in (item("webSearch", query=""), item("userMessage"), item("sleep"), {}):
            self.assertIsNone(use(none, NOW))

    def test_patches(self) -> None:
        """Of one file, which is named, and of several; a move says where to."""
        moved = {
            "path": "/a",
            "kind": {"type": "update", "move_path": "/b"},
            "diff": "@@ -1 +1 @@\n-x\n+y\n",
        }
        gone = {"path": "/c", "kind": {"type": "delete"}, "diff": "z\n"}
        row = use(item("fileChange", changes=[moved]), NOW)
        assert isinstance(row, ApplyPatchToolUse)
        self.assertEqual(row.file_path, "/a")
        self.assertEqual(row.patch, "*** Update File: /a\n*** Move to: /b\n@@ -1 +1 @@\n-x\n+y")
        row = use(item("fileChange", changes=[moved, gone]), NOW)
        assert isinstance(row, ApplyPatchToolUse)
        self.assertFalse(row.file_path)
        self.assertTrue(str(row.patch).endswith("*** Delete File: /c\nz"))

    def test_results(self) -> None:
        """What it printed or said, and whether that was a failure."""
        for given, text, is_error in (
            (
                item("commandExecution", status="completed", exitCode=0, aggregatedOutput="a"),
                "a",
                0,
            ),
            (
                item("commandExecution", status="completed", exitCode=2, aggregatedOutput="a"),
                "a",
                1,
            ),
            (item("commandExecution", status="declined"), "This was not allowed.", 1),
            (item("fileChange", status="failed"), "This failed.", 1),
            (item("fileChange", status="completed"), "", 0),
            (item("mcpToolCall", status="failed", error={"message": "no"}), "no", 1),
            (
                item(
                    "mcpToolCall",
                    status="completed",
                    result={"content": [{"type": "text", "text": "a"}, {"type": "image"}]},
                ),
                "a\n[image]",
                0,
            ),
            (item("dynamicToolCall", success=False, contentItems=[]), "", 1),
            (item("functionCallOutput", output="a"), "a", 0),
            (
                item(
                    "collabAgentToolCall",
                    status="completed",
                    agentsStates={"t": {"status": "running", "message": "m"}},
                ),
                "t: running: m",
                0,
            ),
            (item("imageGeneration", status="failed", failure={"code": "x"}), "", 1),
        ):
            row = result(given, NOW)
            self.assertEqual((row.content["text"], row.is_error), (text, bool(is_error)), given)

    def test_calls_that_do_not_end_with_their_turn(self) -> None:
        """Only a command may go on, where the turn ended well."""
        command = item("commandExecution", processId="1")
        self.assertEqual(unended(command, NOW, may_go_on=True).content["text"], STILL_RUNS)
        for given, goes_on in ((command, False), (item("fileChange"), True)):
            row = unended(given, NOW, may_go_on=goes_on)
            self.assertEqual(row.content["text"], "The call did not end.")
            self.assertTrue(row.is_error)

    def test_scripts(self) -> None:
        """What a shell was given; anything else is as it is."""
        for command, script in (
            ("/bin/bash -lc 'touch a; echo b'", "touch a; echo b"),
            ("zsh -c ls", "ls"),
            ("touch a", "touch a"),
            ("/bin/bash -lc 'unclosed", "/bin/bash -lc 'unclosed"),
        ):
            self.assertEqual(script_of(command), script)


class Shown(CodexCase):
    def test_a_call_that_is_known_late(self) -> None:
        """A search is shown when it is known what for, with its result behind it."""
        self.item("webSearch", "started", query="")
        self.assertEqual(self.taken.story(), [])
        self.item("webSearch", query="cats")
        self.assertEqual(self.taken.story(), ["WebSearchToolUse: ", "result: "])

    def test_a_call_that_is_announced_again(self) -> None:
        """It has its row already."""
        self.item("commandExecution", "started", command="ls")
        self.item("commandExecution", "started", command="ls", processId="1")
        self.item("commandExecution", command="ls", exitCode=0, aggregatedOutput="a")
        self.assertEqual(self.taken.story(), ["BashToolUse: ls", "result: a"])


class Failures(SynchronousTestCase):
    def test_the_status_is_in_the_text(self) -> None:
        """Once, and under whatever name it comes."""
        for info, text, shown in (
            ({"httpConnectionFailed": {"httpStatusCode": 401}}, "no", "no (HTTP 401)"),
            ({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}, "429 x", "429 x"),
            ({"responseStreamDisconnected": {"httpStatusCode": None}}, "cut", "cut"),
            ("internalServerError", "busy", "busy (HTTP 500)"),
            ("other", "bad", "bad"),
            (None, "", "the agent failed and did not say why"),
        ):
            error = {"message": text, "codexErrorInfo": info}
            self.assertEqual(failure_text(error), shown)

    def test_retries_say_more(self) -> None:
        """What went wrong is in the details."""
        error = {"message": "Reconnecting... 1/5", "additionalDetails": "connection reset"}
        self.assertEqual(retry_text(error), "Reconnecting... 1/5: connection reset")

    def test_causes_of_any_form(self) -> None:
        """None is a status that is not a number."""
        infos: tuple[Any, ...] = (None, [], {"a": None}, {"a": {"httpStatusCode": "500"}}, 7)
        for info in infos:
            self.assertIsNone(status_of(info))
