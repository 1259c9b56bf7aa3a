"""What agents were told in confidence does not come back from them."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract.messages import BashToolUse, ToolResult
from garcon.contract.providers import ResolvedEndpoint
from garcon.contract.runs import (
    PermissionRequested,
    RowProduced,
    RunEnded,
    RunFailure,
    SessionStarted,
)
from garcon.runtime.agents.scrubbing import Secrets

NOW = "2026-01-02T03:04:05.678Z"


class Texts(SynchronousTestCase):
    def test_every_form_is_taken_out(self) -> None:
        """As it is, and as JSON, HTML and addresses write it."""
        secrets = Secrets(['k"<&/y'])
        text = 'k"<&/y k\\"<&/y k&quot;&lt;&amp;/y k%22%3C%26%2Fy'
        self.assertEqual(secrets.out_of(text), " ".join(["[secret]"] * 4))

    def test_as_base64(self) -> None:
        """Wherever in a text it is encoded, in either alphabet; what is left of it is no key."""
        key = "sk-??>>-profile-key-1"
        secrets = Secrets([key])
        for encode in (b64encode, urlsafe_b64encode):
            for before in ("", "a", "ab", "user:"):
                for behind in ("", "\n", "yz"):
                    text = encode(f"{before}{key}{behind}".encode()).decode()
                    left = secrets.out_of(f"<{text}>")
                    self.assertIn("[secret]", left)
                    self.assertLessEqual(len(left), len("<[secret]>") + 16)

    def test_a_part_that_was_cut(self) -> None:
        """Of what is the beginning or the end of a longer text no part of a key stays that is worth
        anything, and nothing else goes.
        """
        key = "sk-0123456789"
        secrets = Secrets([key])
        for size in range(4, len(key) + 1):
            self.assertEqual(secrets.out_of_start(f"it is {key[:size]}"), "it is [secret]")
            self.assertEqual(secrets.out_of_end(f"{key[-size:]} it is"), "[secret] it is")
        for text in ("it is sk-", "it is", ""):
            self.assertEqual(secrets.out_of_start(text), text)
        self.assertEqual(secrets.out_of_end("789 it is"), "789 it is")
        self.assertEqual(Secrets().out_of_start("sk-0"), "sk-0")

    def test_of_two_the_longer_goes_first(self) -> None:
        """No rest of a secret is left that begins like another."""
        self.assertEqual(Secrets(["abcd", "abcdef"]).out_of("abcdef abcd"), "[secret] [secret]")

    def test_short_ones_are_words(self) -> None:
        """Four characters are a secret, three are not."""
        self.assertEqual(Secrets(["abcd"]).out_of("abcd"), "[secret]")
        self.assertEqual(Secrets(["abc"]).out_of("abc"), "abc")

    def test_an_endpoint_has_its_key_and_its_headers(self) -> None:
        """What is none of these stays; without an endpoint there is nothing to hide."""
        endpoint = ResolvedEndpoint(
            protocol="openai-compatible",
            base_url="https://models.example/v1",
            api_key="key-key-key",
            headers={"X-Team": "team-token", "X-OpenRouter-Title": "Garcon"},
            revision=1,
        )
        secrets = Secrets.of(endpoint)
        self.assertTrue(secrets)
        self.assertEqual(
            secrets.out_of("key-key-key team-token X-Team Garcon https://models.example/v1"),
            "[secret] [secret] X-Team Garcon https://models.example/v1",
        )
        self.assertFalse(Secrets.of(None))
        self.assertEqual(Secrets.of(None).out_of("key-key-key"), "key-key-key")


class Events(SynchronousTestCase):
    def test_wherever_it_is(self) -> None:
        """In results, calls, questions and failures; all else is as it was."""
        secrets = Secrets(["sesame-1"])
        result = ToolResult(
            timestamp=NOW,
            tool_id="t",
            content={"text": "KEY=sesame-1", "deep": [{"sesame-1": 1.5}]},
            is_error=False,
        )
        clean = ToolResult(
            timestamp=NOW,
            tool_id="t",
            content={"text": "KEY=[secret]", "deep": [{"[secret]": 1.5}]},
            is_error=False,
        )
        self.assertEqual(
            secrets.out_of_event(RowProduced(message=result)), RowProduced(message=clean)
        )
        use = BashToolUse(timestamp=NOW, tool_id="t", command="echo sesame-1")
        asked = PermissionRequested(
            permission_occurrence_id="p", requested_tool=use, timestamp=NOW, options=["sesame-1"]
        )
        told = secrets.out_of_event(asked)
        assert isinstance(told, PermissionRequested)
        self.assertEqual(told.requested_tool.command, "echo [secret]")  # type: ignore[union-attr]
        self.assertEqual(told.options, ["[secret]"])
        end = RunEnded(outcome="failed", error=RunFailure("AGENT_FAILED", "bad key sesame-1"))
        self.assertEqual(
            secrets.out_of_event(end),
            RunEnded(outcome="failed", error=RunFailure("AGENT_FAILED", "bad key [secret]")),
        )
        started = SessionStarted(agent_session_id="s")
        self.assertEqual(secrets.out_of_event(started), started)
        self.assertIs(Secrets().out_of_event(end), end)
