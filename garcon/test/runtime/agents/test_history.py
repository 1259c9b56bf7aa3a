"""What a fresh session is told of a conversation that it was no part of."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.catalogs import AgentSettings
from garcon.contract.runs import HistoryMessage, Launch
from garcon.runtime.agents.history import CHARACTERS, preface


def launch(*said: str, **more: Any) -> Launch:
    """Return a launch; users and agents have spoken in turn."""
    roles: list[Any] = ["user", "assistant"] * len(said)
    return Launch(
        chat_id="1767323045000001",
        run_id="r",
        binding_id="b",
        agent_id="claude",
        model="opus",
        permission_mode="default",
        thinking_mode="none",
        agent_settings=AgentSettings("claude", 1, {}),
        project_path="/p",
        prompt="go on",
        history=[HistoryMessage(role, text) for role, text in zip(roles, said, strict=False)],
        **more,
    )


class PrefaceTests(SynchronousTestCase):
    """Ahead of the prompt."""

    def test_nothing_was_said(self) -> None:
        """Nothing is told."""
        self.assertIsNone(preface(launch()))

    def test_a_session_that_is_resumed(self) -> None:
        """It knows."""
        self.assertIsNone(preface(launch("one", "two", agent_session_id="s")))

    def test_who_said_what(self) -> None:
        """In order, each by its speaker."""
        told = preface(launch("one", "two", "three"))
        assert told is not None
        self.assertTrue(told.endswith("User:\none\n\nAssistant:\ntwo\n\nUser:\nthree"), told)

    def test_a_long_conversation(self) -> None:
        """The newest that fits, and that something is missing."""
        fits = "x" * (CHARACTERS - len("User:\n"))
        told = preface(launch(fits))
        assert told is not None
        self.assertNotIn("left out", told)
        told = preface(launch(fits + "x", "short"))
        assert told is not None
        self.assertTrue(told.endswith("[Earlier messages are left out.]\n\nAssistant:\nshort"))
