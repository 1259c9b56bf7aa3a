"""Claude Code's tools as rows, and its questions to the user with their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from garcon.contract.messages import (
    AskUserQuestionToolUse,
    BashToolUse,
    EditToolUse,
    EnterPlanModeToolUse,
    ExitPlanModeToolUse,
    GlobToolUse,
    GrepToolUse,
    ListToolUse,
    McpToolUse,
    Question,
    QuestionOption,
    ReadToolUse,
    TaskToolUse,
    Todo,
    TodoWriteToolUse,
    ToolUse,
    UnknownToolUse,
    WebFetchToolUse,
    WebSearchToolUse,
    WriteToolUse,
)
from garcon.runtime.agents.claude_lines import number

Input = dict[str, Any]


def tool_use(name: str, tool_id: str, given: Input, now: str) -> ToolUse:
    """Return the row of a tool call; one that is not known, or lacks what its row needs, stays as
    it came.
    """
    if name.startswith("mcp__") and name.count("__") >= 2:
        _, server, tool = name.split("__", 2)
        return McpToolUse(timestamp=now, tool_id=tool_id, server=server, tool=tool, input=given)
    make = _ROWS.get(name)
    row = make(tool_id, given, now) if make is not None else None
    if row is None:
        return UnknownToolUse(timestamp=now, tool_id=tool_id, raw_name=name, input=given)
    return row


def questions(given: Input) -> list[Question]:
    """Return the questions of an ``AskUserQuestion`` call, with ids made from their places."""
    found = []
    for place, question in enumerate(_objects(given.get("questions")), 1):
        options = [
            QuestionOption(
                id=f"option-{nth}",
                label=_text(option, "label") or f"Option {nth}",
                description=_optional(option, "description"),
            )
            for nth, option in enumerate(_objects(question.get("options")), 1)
        ]
        found.append(
            Question(
                id=f"question-{place}",
                prompt=_text(question, "question"),
                options=options,
                header=_optional(question, "header"),
                allow_multiple=question.get("multiSelect") is True,
            )
        )
    return found


def answered(given: Input, response: dict[str, Any]) -> Input:
    """Return the call's input with the user's answers in the words of its options."""
    chosen = {}
    for answer in _objects(response.get("answers")):
        chosen[_text(answer, "questionId")] = _texts(answer.get("selectedOptionIds"))
    answers = {}
    for question in questions(given):
        labels = {option.id: option.label for option in question.options}
        if question.id in chosen:
            # An id that is no option's is the user's own text.
            said = [labels.get(option, option) for option in chosen[question.id]]
            answers[question.prompt] = ", ".join(said)
    return {**given, "answers": answers}


def result_text(content: object) -> str:
    """Return what a tool result says in words."""
    if isinstance(content, str):
        return content
    parts = []
    for block in _objects(content):
        parts.append(
            _text(block, "text") if block.get("type") == "text" else f"[{block.get('type')}]"
        )
    return "\n".join(parts)


# -- one function for each row


def _bash(tool_id: str, given: Input, now: str) -> ToolUse | None:
    command = _text(given, "command")
    if not command:
        return None
    return BashToolUse(
        timestamp=now,
        tool_id=tool_id,
        command=command,
        description=_optional(given, "description"),
    )


def _read(tool_id: str, given: Input, now: str) -> ToolUse | None:
    path = _text(given, "file_path")
    if not path:
        return None
    return ReadToolUse(
        timestamp=now,
        tool_id=tool_id,
        file_path=path,
        offset=_number(given, "offset"),
        limit=_number(given, "limit"),
    )


def _list(tool_id: str, given: Input, now: str) -> ToolUse | None:
    return ListToolUse(timestamp=now, tool_id=tool_id, path=_optional(given, "path"))


def _edit(tool_id: str, given: Input, now: str) -> ToolUse | None:
    return EditToolUse(
        timestamp=now,
        tool_id=tool_id,
        file_path=_optional(given, "file_path", "notebook_path"),
        old_string=_optional(given, "old_string"),
        new_string=_optional(given, "new_string", "new_source"),
    )


def _write(tool_id: str, given: Input, now: str) -> ToolUse | None:
    path = _text(given, "file_path")
    if not path:
        return None
    return WriteToolUse(
        timestamp=now, tool_id=tool_id, file_path=path, content=_optional(given, "content")
    )


def _grep(tool_id: str, given: Input, now: str) -> ToolUse | None:
    return GrepToolUse(
        timestamp=now,
        tool_id=tool_id,
        pattern=_optional(given, "pattern"),
        path=_optional(given, "path"),
    )


def _glob(tool_id: str, given: Input, now: str) -> ToolUse | None:
    return GlobToolUse(
        timestamp=now,
        tool_id=tool_id,
        pattern=_optional(given, "pattern"),
        path=_optional(given, "path"),
    )


def _web_fetch(tool_id: str, given: Input, now: str) -> ToolUse | None:
    url = _text(given, "url")
    if not url:
        return None
    return WebFetchToolUse(
        timestamp=now, tool_id=tool_id, url=url, prompt=_optional(given, "prompt")
    )


def _web_search(tool_id: str, given: Input, now: str) -> ToolUse | None:
    query = _text(given, "query")
    return WebSearchToolUse(timestamp=now, tool_id=tool_id, query=query) if query else None


def _todo_write(tool_id: str, given: Input, now: str) -> ToolUse | None:
    todos = [
        Todo(content=_text(todo, "content"), status=_status(todo))
        for todo in _objects(given.get("todos"))
    ]
    return TodoWriteToolUse(timestamp=now, tool_id=tool_id, todos=todos)


def _task(tool_id: str, given: Input, now: str) -> ToolUse | None:
    return TaskToolUse(
        timestamp=now,
        tool_id=tool_id,
        subagent_type=_optional(given, "subagent_type"),
        description=_optional(given, "description"),
        prompt=_optional(given, "prompt"),
    )


def _enter_plan_mode(tool_id: str, given: Input, now: str) -> ToolUse | None:
    return EnterPlanModeToolUse(timestamp=now, tool_id=tool_id)


def _exit_plan_mode(tool_id: str, given: Input, now: str) -> ToolUse | None:
    return ExitPlanModeToolUse(timestamp=now, tool_id=tool_id, plan=_text(given, "plan"))


def _ask_user_question(tool_id: str, given: Input, now: str) -> ToolUse | None:
    return AskUserQuestionToolUse(timestamp=now, tool_id=tool_id, questions=questions(given))


_ROWS: dict[str, Callable[[str, Input, str], ToolUse | None]] = {
    "Bash": _bash,
    "Read": _read,
    "LS": _list,
    "Edit": _edit,
    "MultiEdit": _edit,
    "NotebookEdit": _edit,
    "Write": _write,
    "Grep": _grep,
    "Glob": _glob,
    "WebFetch": _web_fetch,
    "WebSearch": _web_search,
    "TodoWrite": _todo_write,
    "Task": _task,
    "Agent": _task,
    "EnterPlanMode": _enter_plan_mode,
    "ExitPlanMode": _exit_plan_mode,
    "AskUserQuestion": _ask_user_question,
}


def _text(given: Input, *names: str) -> str:
    return next((v for name in names if isinstance(v := given.get(name), str) and v), "")


def _optional(given: Input, *names: str) -> str | UnsetType:
    return next((v for name in names if isinstance(v := given.get(name), str)), UNSET)


def _number(given: Input, name: str) -> int | UnsetType:
    value = number(given.get(name))
    return value if isinstance(value, int) else UNSET


def _status(todo: Input) -> Literal["pending", "in_progress", "completed"]:
    match todo.get("status"):
        case "in_progress":
            return "in_progress"
        case "completed":
            return "completed"
    return "pending"


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _objects(value: object) -> list[Input]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
