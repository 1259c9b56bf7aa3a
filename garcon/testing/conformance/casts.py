"""The agents of the table: how each is installed, pointed at a pretend model, and made to do
things.

A plan is what the model says, request by request: a text, `Run` for a command, `Hold` for an answer
that does not go on.  The scripted agent, which has no model, gets it as its prompt.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import Factory, frozen

from garcon.contract.catalogs import PermissionMode
from garcon.testing import acp_agents, claude_code, codex_cli, pi_coding_agent
from garcon.testing.acp_agents import CLAUDE_CODE_ACP, GEMINI, GEMINI_MODEL, OPENCODE
from garcon.testing.acp_example import EXAMPLE as EXAMPLE_AGENT
from garcon.testing.claude_code import CLAUDE_CODE
from garcon.testing.codex_cli import CODEX
from garcon.testing.pi_coding_agent import PI


@frozen
class Run:
    """A command that the agent is to run; `openly`: in a mode in which it does not ask."""

    command: str
    openly: bool = False


@frozen
class Hold:
    """The answer stops here until the gate opens."""

    gate: str = "never"


Step = str | Run | Hold
Plan = Sequence[Sequence[Step]]


def _nothing(_program: str, _home: Path, _port: int) -> dict[str, str]:
    return {}


@frozen(kw_only=True)
class Cast:
    """One agent.  What it cannot is said here, and its cells say ``not offered``."""

    agent_id: str
    model: str
    other_model: str | None = None
    install: Callable[[], str] = lambda: ""
    environment: Callable[[str, Path, int], dict[str, str]] = _nothing
    configuration: Callable[[str], str] | None = None
    """The ``agents.toml`` by which alone it is known, from its program."""
    call: Callable[[str], Mapping[str, Any]] | None = None
    """A call of its shell that it asks for in the mode ``default``; None without a model."""
    endpoint: Mapping[str, Any] | None = None
    """Of a profile, for an agent that has no program and no tools."""
    question: Mapping[str, Any] | None = None
    question_mode: PermissionMode = "default"
    steers: bool = False
    open_mode: PermissionMode = "bypassPermissions"
    """One of its own in which it does not ask before it makes a file in `open_place`."""
    open_place: str = ""
    open_call: Callable[[str], Mapping[str, Any]] | None = None
    """The call of its shell then, where it is another one."""
    before_reload: Callable[[Path], None] = lambda _home: None
    """What must have come about before another process takes up a session."""
    not_offered: Mapping[str, str] = Factory(dict)
    """By the scenario's name, why."""

    @property
    def has_model(self) -> bool:
        """Whether it asks a model."""
        return self.call is not None or self.endpoint is not None

    def turn(self, steps: Sequence[Step]) -> list[Any]:
        """Return one answer of the model, as its server takes it."""
        return [self._step(step) for step in steps]

    def _step(self, step: Step) -> Any:
        if isinstance(step, str):
            return step
        if isinstance(step, Hold):
            return {"hold": step.gate}
        call = self.open_call if step.openly and self.open_call is not None else self.call
        assert call is not None
        return dict(call(step.command))


def program_of(plan: Plan, *, asks: bool) -> str:
    """Return a plan as a prompt of the scripted agent."""
    lines: list[str] = []
    for step in (step for turn in plan for step in turn):
        if isinstance(step, str):
            lines.append(f"say {step.strip()}")
        elif isinstance(step, Run):
            lines.append(f"{'ask' if asks else 'run'} {step.command}")
        else:
            lines.append("sleep 600" if step.gate == "never" else "sleep 1")
    return "\n".join(lines)


def _on_path(make: Callable[[Path, int], dict[str, str]]) -> Callable[..., dict[str, str]]:
    def environment(program: str, home: Path, port: int) -> dict[str, str]:
        path = f"{os.path.dirname(program)}:{os.environ.get('PATH', os.defpath)}"
        return {**make(home, port), "PATH": path}

    return environment


def _claude(program: str, home: Path, port: int) -> dict[str, str]:
    return {**claude_code.scripted_environment(home, port), "CLAUDE_BINARY": program}


def _codex(program: str, home: Path, port: int) -> dict[str, str]:
    return {**codex_cli.scripted_environment(home, port), "GARCON_CODEX_CLI": program}


def _pi(program: str, home: Path, port: int) -> dict[str, str]:
    environment = pi_coding_agent.scripted_environment(home, port)
    # Pi itself asks nothing, but its extensions can.
    pi_coding_agent.add_extension(environment, "ask")
    return {**environment, **pi_coding_agent.found_by(program)}


def _bash(command: str) -> dict[str, Any]:
    return {"tool": "Bash", "args": {"command": command, "description": "as told"}}


def _escalated(command: str) -> dict[str, Any]:
    why = {"sandbox_permissions": "require_escalated", "justification": "it has to be so"}
    return {"tool": "exec_command", "args": {"cmd": command, "yield_time_ms": 60_000, **why}}


def _plain(command: str) -> dict[str, Any]:
    return {"tool": "exec_command", "args": {"cmd": command, "yield_time_ms": 60_000}}


def _renamed(home: Path) -> None:
    """It names a session's file by the minute, and would begin the file anew within it: so nothing
    has to be waited for.
    """
    for file in (home / ".gemini/tmp").glob("*/chats/session-*"):
        day, _, rest = file.name.partition("T")
        file.rename(file.with_name(f"{day}T00-00-{rest.split('-', 2)[2]}"))


_QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [
        {"label": "Blue", "description": "as the sky"},
        {"label": "Red", "description": "as a rose"},
    ],
}
_ACP = {"question": "the protocol has no questions"}
_NO_TOOLS = dict.fromkeys(
    (
        *("tool call", "permission: allow", "permission: deny", "interrupt in a tool"),
        *("mode change", "large output", "descendants gone"),
    ),
    "it has no tools",
)


def _direct(agent_id: str, protocol: str, **capabilities: bool) -> Cast:
    models = [{"value": name, "label": name} for name in ("scripted", "scripted-2")]
    endpoint: dict[str, Any] = {
        "protocol": protocol,
        "apiKey": "sk-scripted-0123456789",
        "defaultModel": "scripted",
        "models": models,
    }
    if capabilities:
        endpoint["capabilities"] = capabilities
    return Cast(
        agent_id=agent_id,
        model="scripted",
        other_model="scripted-2",
        endpoint=endpoint,
        steers=True,
        not_offered={**_NO_TOOLS, "killed from outside": "it has no process"},
    )


CASTS = (
    Cast(
        agent_id="scripted",
        model="scripted",
        steers=True,
        not_offered={
            "model errors": "it has no model",
            "fork": "it keeps no memory to fork",
        },
    ),
    _direct("direct-openai-compatible", "openai-compatible", chatCompletions=True, responses=False),
    _direct(
        "direct-openai-responses-compatible",
        "openai-compatible",
        chatCompletions=False,
        responses=True,
    ),
    _direct("direct-anthropic-compatible", "anthropic-messages"),
    Cast(
        agent_id="claude",
        model="sonnet",
        other_model="haiku",
        install=CLAUDE_CODE.install,
        environment=_claude,
        call=_bash,
        # Bypassing all is nothing that it lets root do.
        open_mode="acceptEdits",
        question={"tool": "AskUserQuestion", "args": {"questions": [_QUESTION]}},
        steers=True,
    ),
    Cast(
        agent_id="codex",
        model=codex_cli.MODEL,
        other_model="gpt-5.4",
        install=CODEX.install,
        environment=_codex,
        call=_escalated,
        question={
            "tool": "request_user_input",
            "args": {"questions": [{"id": "colour", **_QUESTION}]},
        },
        question_mode="plan",
        # Outside of what its sandbox lets it write to; in that mode it may not ask to leave it.
        open_place="../",
        open_call=_plain,
        steers=True,
    ),
    Cast(
        agent_id="pi",
        model=pi_coding_agent.MODEL,
        other_model=pi_coding_agent.OTHER_MODEL,
        install=PI.install,
        environment=_pi,
        call=lambda command: {"tool": "bash", "args": {"command": command}},
        question={
            "tool": pi_coding_agent.ASKING_TOOL,
            "args": {"question": "Which colour?", "options": ["Blue", "Red"]},
        },
        # The call that asks would be asked for itself.
        question_mode="bypassPermissions",
        steers=True,
    ),
    Cast(
        agent_id="opencode",
        model="scripted/m1",
        other_model="scripted/m2",
        install=OPENCODE.install,
        environment=_on_path(acp_agents.opencode_environment),
        call=lambda command: {
            "tool": "bash",
            "args": {"command": command, "description": "as told"},
        },
        not_offered=_ACP,
    ),
    Cast(
        agent_id="gemini",
        model=GEMINI_MODEL,
        other_model="gemini-3-flash-preview",
        install=GEMINI.install,
        environment=_on_path(acp_agents.gemini_environment),
        call=lambda command: {"tool": "run_shell_command", "args": {"command": command}},
        before_reload=_renamed,
        not_offered=_ACP,
    ),
    Cast(
        agent_id="claude-code-acp",
        model="default",
        other_model="haiku",
        install=CLAUDE_CODE_ACP.install,
        environment=_on_path(claude_code.scripted_environment),
        call=_bash,
        open_mode="acceptEdits",
        not_offered=_ACP,
    ),
)

EXAMPLE = Cast(
    agent_id="acp-example",
    model="default",
    install=EXAMPLE_AGENT.install,
    configuration=lambda program: f"[agents.example]\ncommand = [{json.dumps(program)}]\n",
    not_offered=_NO_TOOLS,
)
"""It repeats what it is told: too little for the table."""
