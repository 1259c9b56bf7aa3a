"""The twenty scenarios: what every agent does, or does not offer.

Each has a chat of its own; one that fails says what was to be.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from itertools import count

from garcon.testing.conformance.casts import Hold, Plan, Run
from garcon.testing.conformance.stage import NotOffered, Stage, running
from garcon.testing.fleet import Finished, eventually, expect

BYPASS = ("--permissions", "manualBypass")
"""Garcon allows what the agent asks for."""
DEFAULT = ("--permissions", "default")
ERROR_PATIENCE = 12
"""Seconds after which an agent that tries again and again is stopped."""
_names = count(1)


def _fresh_name() -> str:
    return f"made-{next(_names)}"


def _ended(done: Finished, text: str = "") -> None:
    expect(done.status == 0 and text in done.out, f"expected {text!r} and status 0: {done}")


def _sleep() -> str:
    """A command that no other process has."""
    return f"sleep 3{next(_names):02d}.{os.getpid()}"


def _works(stage: Stage, chat: str) -> None:
    """The chat goes on."""
    stage.fresh()
    _ended(stage.resume(chat, stage.prompt([["all well"]]), *DEFAULT), "all well")


def first_turn(stage: Stage) -> None:
    """Its answer is the turn's."""
    chat, turn = stage.start(stage.prompt([["hello from it"]]))
    _ended(stage.wait(chat, turn), "hello from it")


def second_turn(stage: Stage) -> None:
    """It remembers the first one."""
    chat, turn = stage.start(stage.prompt([["one"]], "the first words"))
    _ended(stage.wait(chat, turn), "one")
    _ended(stage.resume(chat, stage.prompt([["two"]], "more words")), "two")
    expect(not stage.cast.has_model or "the first words" in stage.last_told(), "it forgot")


def tool_call(stage: Stage) -> None:
    """A command runs where nothing has to be asked, and has its rows."""
    name = _fresh_name()
    chat, turn = stage.start(stage.prompt([["I will.", Run(f"touch {name}")], ["done"]]), *BYPASS)
    _ended(stage.wait(chat, turn), "done")
    expect((stage.project / name).exists(), "the command did not run")
    kinds = [row["type"] for row in stage.rows(chat)]
    expect("bash-tool-use" in kinds and "tool-result" in kinds, f"the call has no rows: {kinds}")


def permission_allow(stage: Stage) -> None:
    """It waits for the answer, and runs the command then."""
    name = _fresh_name()
    plan = stage.prompt([[Run(f"touch {name}")], ["done"]], asks=True)
    chat, turn = stage.start(plan, *DEFAULT)
    row = stage.request(chat)
    expect(not (stage.project / name).exists(), "the command ran unasked")
    stage.decide(chat, row, "allow")
    _ended(stage.wait(chat, turn), "done")
    expect((stage.project / name).exists(), "the command did not run")


def permission_deny(stage: Stage) -> None:
    """The command does not run; the chat goes on."""
    name = _fresh_name()
    plan = stage.prompt([[Run(f"touch {name}")], ["done"]], asks=True)
    chat, turn = stage.start(plan, *DEFAULT)
    stage.decide(chat, stage.request(chat), "deny")
    stage.wait(chat, turn)
    expect(not (stage.project / name).exists(), "the command ran")
    _works(stage, chat)


def question(stage: Stage) -> None:
    """It comes as a question with its options, and may be left unanswered."""
    if stage.cast.question is None:
        raise NotOffered("it asks no questions")
    stage.control("turns", [[dict(stage.cast.question)], ["as you like"]])
    chat, turn = stage.start("ask me", "--permissions", stage.cast.question_mode)
    row = stage.request(chat)
    tool = row["message"]["requestedTool"]
    expect(tool["type"] == "ask-user-question-tool-use", f"no question: {tool}")
    labels = [option["label"] for option in tool["questions"][0]["options"]]
    expect(labels[:2] == ["Blue", "Red"], f"other options: {labels}")
    stage.decide(chat, row, "deny")
    stage.wait(chat, turn)


def steer(stage: Stage) -> None:
    """Further input joins the turn that runs."""
    if not stage.cast.steers:
        raise NotOffered("its protocol has no steering")
    name = _fresh_name()
    if stage.cast.endpoint is None:
        work: Plan = [["part", Run(f"touch {name}; sleep 3")], ["both"]]
        chat, turn = stage.start(stage.prompt(work), *BYPASS)
        eventually("the command", (stage.project / name).exists, 60)
    else:
        chat, turn = stage.start(stage.prompt([["part", Hold("steered")], ["both"]]))
        eventually("the model's request", lambda: bool(stage.asked()), 60)
    done = stage.fleet.garcon(
        stage.service, "resume-async", chat, "--allow-steer", "and more", check=False
    )
    expect("delivery: steer" in done.out, f"it was not steered: {done}")
    stage.control("release/steered", {})
    stage.wait(chat, turn)
    expect(not stage.cast.has_model or "and more" in stage.last_told(), "the model never heard it")


def interrupt_in_text(stage: Stage) -> None:
    """The turn is stopped, and the chat goes on."""
    chat, turn = stage.start(stage.prompt([["part one ", Hold()]]))
    if stage.cast.has_model:
        eventually("the model's request", lambda: bool(stage.asked()), 60)
    else:
        eventually("the first words", lambda: bool(stage.said(chat)), 60)
    stage.stop(chat)
    done = stage.wait(chat, turn)
    expect(done.status == 4, f"it was not stopped: {done}")
    _works(stage, chat)


def interrupt_in_a_tool(stage: Stage) -> None:
    """The command ends with the turn."""
    command = _sleep()
    chat, turn = stage.start(stage.prompt([[Run(command)], ["never"]]), *BYPASS)
    eventually("the command", lambda: running(command), 60)
    stage.stop(chat)
    eventually("the end of the command", lambda: not running(command), 30)
    done = stage.wait(chat, turn)
    expect(done.status == 4, f"it was not stopped: {done}")
    _works(stage, chat)


def model_errors(stage: Stage) -> None:
    """401, 429, 500 and a cut stream fail the turn, or it can be stopped while it tries again; the
    chat goes on.
    """
    chat, turn = stage.start(stage.prompt([["hello"]]))
    _ended(stage.wait(chat, turn), "hello")
    for fallback in ({"error": 401}, {"error": 429}, {"error": 500}, ["half", {"cut": 1}]):
        stage.fresh(fallback)
        chat_turn = stage.fleet.garcon(stage.service, "resume-async", chat, "go")
        failing = chat_turn.out.partition("turn id: ")[2].split()[0]
        try:
            done = stage.wait(chat, failing, ERROR_PATIENCE)
        except (AssertionError, subprocess.TimeoutExpired):
            stage.stop(chat)
            done = stage.wait(chat, failing)
        expect(done.status in (1, 4), f"no failure with {fallback}: {done}")
        _works(stage, chat)


def resume_after_restart(stage: Stage) -> None:
    """A new process takes the session up again."""
    chat, turn = stage.start(stage.prompt([["one"]], "the first words"))
    _ended(stage.wait(chat, turn), "one")
    stage.restart()
    eventually("the chat", lambda: stage.rows(chat), 60)
    _ended(stage.resume(chat, stage.prompt([["two"]])), "two")
    expect(not stage.cast.has_model or "the first words" in stage.last_told(), "it forgot")
    expect(stage.said(chat) == ["one", "two"], f"other rows: {stage.said(chat)}")


def fork(stage: Stage) -> None:
    """The fork knows what was said, and the parent knows nothing of it."""
    chat, turn = stage.start(stage.prompt([["one"]], "the first words"))
    _ended(stage.wait(chat, turn), "one")
    prompt = stage.prompt([["two"]], "in the fork")
    done = stage.fleet.garcon(stage.service, "fork", chat, prompt, check=False, seconds=120)
    _ended(done, "two")
    expect("the first words" in stage.last_told(), "the fork knows nothing")
    expect(stage.said(chat) == ["one"], "the parent has heard of it")


def mode_change(stage: Stage) -> None:
    """A later turn runs without asking what the first one would have asked for."""
    name = stage.cast.open_place + _fresh_name()
    chat, turn = stage.start(stage.prompt([["one"]]), *DEFAULT)
    _ended(stage.wait(chat, turn), "one")
    prompt = stage.prompt([[Run(f"touch {name}", openly=True)], ["two"]])
    _ended(stage.resume(chat, prompt, "--permissions", stage.cast.open_mode), "two")
    expect((stage.project / name).exists(), "the command did not run")


def model_change(stage: Stage) -> None:
    """A later turn asks another model."""
    if stage.cast.other_model is None:
        raise NotOffered("it has one model")
    chat, turn = stage.start(stage.prompt([["one"]]))
    _ended(stage.wait(chat, turn), "one")
    before = stage.asked()[-1]["model"]
    done = stage.resume(chat, stage.prompt([["two"]]), "--model", stage.cast.other_model)
    _ended(done, "two")
    expect(stage.asked()[-1]["model"] != before, f"it still asks {before}")


def large_output(stage: Stage) -> None:
    """A command's 200,000 characters hold nothing up."""
    command = "head -c 200000 /dev/zero | tr '\\0' x"
    chat, turn = stage.start(stage.prompt([[Run(command)], ["done"]]), *BYPASS)
    _ended(stage.wait(chat, turn), "done")


def unicode_text(stage: Stage) -> None:
    """Comes through both ways as it was."""
    text = "é 漢字 🙂 ñ"
    chat, turn = stage.start(stage.prompt([[text]], f"say {text}"))
    _ended(stage.wait(chat, turn), text)
    expect(text in stage.said(chat), f"other words: {stage.said(chat)}")
    expect(not stage.cast.has_model or text in stage.last_told(), "the model heard other words")


def two_chats_at_once(stage: Stage) -> None:
    """Each has its own answer."""
    plan: Plan = [["begin ", Hold("both"), "end"]]
    begun = [stage.start(stage.prompt(plan)) for _ in range(2)]
    if stage.cast.has_model:
        eventually("both requests", lambda: len(stage.asked()) == 2, 90)
        stage.control("release/both", {})
    for chat, turn in begun:
        _ended(stage.wait(chat, turn), "end")


def killed_from_outside(stage: Stage) -> None:
    """The turn fails, and the next one has a new process."""
    chat, turn = stage.start(stage.prompt([["one"]]))
    _ended(stage.wait(chat, turn), "one")
    turn = (
        stage.fleet.garcon(stage.service, "resume-async", chat, stage.prompt([["part ", Hold()]]))
        .out.partition("turn id: ")[2]
        .split()[0]
    )
    if stage.cast.has_model:
        eventually("the model's request", lambda: len(stage.asked()) == 2, 60)
    else:
        eventually("the first words", lambda: len(stage.said(chat)) == 2, 60)
    for pid in stage.agents():
        os.kill(pid, signal.SIGKILL)
    done = stage.wait(chat, turn)
    expect(done.status == 1, f"it did not fail: {done}")
    stage.cast.before_reload(stage.home)
    _works(stage, chat)


def stop_during_start(stage: Stage) -> None:
    """A start that is stopped at once leaves a chat that goes on."""
    chat, turn = stage.start(stage.prompt([["part ", Hold()]]))
    stage.stop(chat)
    done = stage.wait(chat, turn)
    expect(done.status in (1, 4), f"it was not stopped: {done}")
    _works(stage, chat)


def descendants_gone(stage: Stage) -> None:
    """What a command left behind ends with the service."""
    command = _sleep()
    left = f"(setsid {command} >/dev/null 2>&1 &); echo left"
    chat, turn = stage.start(stage.prompt([[Run(left)], ["done"]]), *BYPASS)
    _ended(stage.wait(chat, turn), "done")
    stage.restart()
    eventually("the end of what was left", lambda: not running(command), 15)
    eventually("the end of the agents", lambda: not stage.agents(), 15)


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    "first turn": first_turn,
    "second turn": second_turn,
    "tool call": tool_call,
    "permission: allow": permission_allow,
    "permission: deny": permission_deny,
    "question": question,
    "steer": steer,
    "interrupt in text": interrupt_in_text,
    "interrupt in a tool": interrupt_in_a_tool,
    "model errors": model_errors,
    "resume after restart": resume_after_restart,
    "fork": fork,
    "mode change": mode_change,
    "model change": model_change,
    "large output": large_output,
    "Unicode": unicode_text,
    "two chats at once": two_chats_at_once,
    "killed from outside": killed_from_outside,
    "stop during start": stop_during_start,
    "descendants gone": descendants_gone,
}
