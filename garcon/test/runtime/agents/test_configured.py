"""``agents.toml``: what it can say, and how mistakes in it are told."""

from __future__ import annotations

import json
import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import garcon
from garcon.contract.catalogs import PERMISSION_MODES, THINKING_MODES
from garcon.contract.providers import ResolvedEndpoint
from garcon.errors import GarconError, StartupError
from garcon.runtime.agents.acp import AcpManifest
from garcon.runtime.agents.acp_history import REPLAYED
from garcon.runtime.agents.configured import (
    _ENDPOINT_KEYS,
    _KEYS,
    AGENTS,
    MODEL,
    SIZE,
    path_in,
    read,
)
from garcon.runtime.agents.endpoint_variables import EndpointVariables

WHOLE = """
[agents.mine]
command = ["my-agent", "--acp"]
label = "Mine"
description = "An agent of mine"
models = ["small", "large"]
efforts = ["high", "low"]
images = true
compact = "/compact"
fork = true
history = true

[agents.mine.environment]
MY_TOKEN = "a-secret"

[agents.mine.modes]
default = "ask"
plan = "read-only"

[agents.mine.endpoint]
protocol = "openai-compatible"
url = "OPENAI_BASE_URL"
key = "OPENAI_API_KEY"
model = "OPENAI_MODEL"
headers = "OPENAI_HEADERS"
template = { EXTRA = '{"at": "{url}/x"}' }
"""
COMMAND = 'command = ["x"]'


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir(parents=True)
        self.path = path_in(str(self.directory))

    def read(self, text: str) -> list[AcpManifest]:
        Path(self.path).write_text(text)
        return read(self.path)

    def one(self, text: str) -> AcpManifest:
        (manifest,) = self.read(f"[agents.a]\n{text}\n")
        return manifest

    def wrong(self, text: str) -> str:
        """Return what is said of a mistake, which names the file."""
        error = self.assertRaises(StartupError, self.read, text)
        self.assertTrue(error.text.startswith(self.path), error.text)
        self.assertNotIn("a-secret", error.text)
        return str(error.text).removeprefix(self.path).strip(": ")


class Accepted(Case):
    def test_no_file(self) -> None:
        """Is no agents."""
        self.assertEqual(self.path, f"{self.directory}/agents.toml")
        self.assertEqual(read(self.path), [])
        self.assertEqual(self.read(""), [])

    def test_everything_that_can_be_said(self) -> None:
        """One agent with all of it."""
        self.assertEqual(
            self.read(WHOLE),
            [
                AcpManifest(
                    id="acp-mine",
                    label="Mine",
                    description="An agent of mine",
                    command=["my-agent", "--acp"],
                    models=self.read(WHOLE)[0].models,
                    environment={"MY_TOKEN": "a-secret"},
                    modes={"default": "ask", "plan": "read-only"},
                    endpoint=EndpointVariables(
                        ("openai-compatible",),
                        {
                            "EXTRA": '{"at": "{url}/x"}',
                            "OPENAI_BASE_URL": "{url}",
                            "OPENAI_API_KEY": "{key}",
                            "OPENAI_MODEL": "{model}",
                            "OPENAI_HEADERS": "{headers}",
                        },
                    ),
                    thinking_modes=["low", "high"],
                    supports_images=True,
                    compact="/compact",
                    native_fork="session",
                    history=REPLAYED,
                    is_wanted=True,
                )
            ],
        )
        self.assertEqual([m.value for m in self.read(WHOLE)[0].models], ["small", "large"])

    def test_the_least_that_can_be_said(self) -> None:
        """A command; the agent chooses its model itself."""
        found = self.one(COMMAND)
        self.assertEqual((found.id, found.label, found.command), ("acp-a", "a", ["x"]))
        self.assertEqual((found.models, found.endpoint), ([MODEL], None))
        self.assertEqual((found.compact, found.native_fork, found.history), (None, "none", None))
        self.assertEqual(found.thinking_modes, THINKING_MODES)

    def test_where_the_program_is(self) -> None:
        """By its name, or by a whole path, which may begin with a home."""
        home = os.path.expanduser("~")
        for program, meant in (("x", "x"), ("/a/x", "/a/x"), ("~/bin/x", f"{home}/bin/x")):
            self.assertEqual(self.one(f"command = ['{program}', '~/y']").command, [meant, "~/y"])

    def test_no_value_is_shown(self) -> None:
        """Not by who prints an agent, either: its variables may hold secrets."""
        (found,) = self.read(WHOLE)
        self.assertNotIn("a-secret", repr(found))

    def test_names(self) -> None:
        """Up to 40 characters."""
        for name in ("a", "0", "a-b", "x" * 40):
            (found,) = self.read(f"[agents.{name}]\n{COMMAND}\n")
            self.assertEqual(found.id, f"acp-{name}")

    def test_as_many_as_there_may_be(self) -> None:
        """And as much text."""
        text = "".join(f"[agents.a{n}]\n{COMMAND}\n" for n in range(AGENTS))
        self.assertEqual(len(self.read(text)), AGENTS)
        self.assertEqual(len(self.read(text + "#" * (SIZE - len(text)))), AGENTS)


class Documented(Case):
    """What ``docs/agents-acp.rst`` shows."""

    def blocks(self) -> list[str]:
        """The files in it, without their indentation."""
        text = (Path(garcon.__file__).parents[1] / "docs" / "agents-acp.rst").read_text()
        found: list[list[str]] = []
        indent = 0
        for line in text.splitlines():
            words = line.lstrip()
            if line.startswith("    ") and (f"{words} ").startswith("[agents.mine] "):
                found.append([])
                indent = len(line) - len(words)
            if found and len(line) - len(words) == indent:
                found[-1].append(words)
        return ["\n".join(lines) for lines in found]

    def test_every_key_is_in_it_and_is_right(self) -> None:
        """A newcomer may copy any part of it."""
        _, whole = self.blocks()
        whole, more, template = whole.partition("[agents.mine.endpoint]\nprotocol")
        (agent,) = self.read(whole)
        for key in _KEYS | _ENDPOINT_KEYS - {"template"}:
            self.assertRegex(whole, rf"(?m)^{key} =|^\[agents\.mine\.{key}\]", key)
        self.assertEqual(set(agent.modes), set(PERMISSION_MODES) - {"manualBypass"})
        (other,) = self.read(f"[agents.mine]\n{COMMAND}\n{more}{template}")
        assert isinstance(other.endpoint, EndpointVariables)
        self.assertIn("{headers}", other.endpoint.templates["MY_CONFIG"])

    def test_the_least_that_it_shows(self) -> None:
        """Is an agent."""
        least, _ = self.blocks()
        self.assertEqual([one.id for one in self.read(least)], ["acp-mine"])


class Refused(Case):
    def test_the_key_is_named(self) -> None:
        """Each mistake with its place."""
        for text, key in (
            ("x = 1", "x is not known"),
            ("agents = 3", "agents must be a table"),
            ("[agents]\na = 3", "agents.a must be a table"),
            ("[agents.a]", "agents.a.command is missing"),
            ("[agents.a]\ncommand = 'x'", "agents.a.command must be a list"),
            ("[agents.a]\ncommand = []", "agents.a.command is empty"),
            ("[agents.a]\ncommand = ['x', 3]", "agents.a.command must be a text"),
            ("[agents.a]\ncommand = ['']", "agents.a.command must not be blank"),
            ('[agents.a]\ncommand = ["\\u0000"]', "agents.a.command must be a text"),
            (f"[agents.a]\n{COMMAND}\ncolour = 'a-secret'", "agents.a.colour is not known"),
            (f"[agents.a]\n{COMMAND}\nimages = 1", "agents.a.images must be true or false"),
            (f"[agents.a]\n{COMMAND}\nfork = 'message'", "agents.a.fork must be true or false"),
            (f"[agents.a]\n{COMMAND}\nhistory = ''", "agents.a.history must be true or false"),
            (
                f"[agents.a]\n{COMMAND}\nmodes = {{bypassPermissions = 'a-secret'}}",
                "agents.a.modes.default is missing: write the agent's mode in which it asks",
            ),
            (f"[agents.a]\n{COMMAND}\ncompact = true", "agents.a.compact must be a text"),
            (f"[agents.a]\n{COMMAND}\nefforts = []", "agents.a.efforts is empty"),
            (f"[agents.a]\n{COMMAND}\nefforts = ['huge']", "agents.a.efforts may name none, low"),
            ("[agents.a]\ncommand = ['./x']", "agents.a.command must begin with a name"),
            ("[agents.a]\ncommand = ['bin/x']", "agents.a.command must begin with a name"),
            (f"[agents.a]\n{COMMAND}\nlabel = ' '", "agents.a.label"),
            (f"[agents.a]\n{COMMAND}\nmodels = ['m', 'm']", "agents.a.models"),
            (f"[agents.a]\n{COMMAND}\nenvironment = {{X = 3}}", "agents.a.environment.X"),
            (f"[agents.a]\n{COMMAND}\nenvironment = {{'X Y' = ''}}", "agents.a.environment.X Y"),
            (f"[agents.a]\n{COMMAND}\nenvironment = {{GARCON_X = ''}}", "of Garcon's own"),
            (f"[agents.a]\n{COMMAND}\nmodes = {{yolo = 'x'}}", "agents.a.modes.yolo is not known"),
            (f"[agents.a]\n{COMMAND}\nmodes = {{plan = ''}}", "agents.a.modes.plan"),
        ):
            self.assertIn(key, self.wrong(text), text)

    def test_endpoints(self) -> None:
        """A protocol that we speak, names of variables, and the address somewhere."""
        for text, key in (
            ("url = 'U'", "agents.a.endpoint.protocol must be one of"),
            ("protocol = 'a-secret'", "agents.a.endpoint.protocol must be one of"),
            ("protocol = ['x']", "agents.a.endpoint.protocol must be one of"),
            ("protocol = 'anthropic-messages'", "agents.a.endpoint passes the endpoint's address"),
            ("protocol = 'anthropic-messages'\nkey = 'K'", "agents.a.endpoint passes"),
            ("protocol = 'anthropic-messages'\nurl = '3'", "agents.a.endpoint.url"),
            ("protocol = 'anthropic-messages'\nurl = 'U'\nkey = 'U'", "agents.a.endpoint.key"),
            ("protocol = 'anthropic-messages'\nurl = 'U'\nx = 'K'", "agents.a.endpoint.x"),
            ("protocol = 'anthropic-messages'\ntemplate = 3", "agents.a.endpoint.template"),
        ):
            said = self.wrong(f"[agents.a]\n{COMMAND}\n[agents.a.endpoint]\n{text}")
            self.assertIn(key, said, text)

    def test_names(self) -> None:
        """Nothing but small letters, digits and dashes between them."""
        for name in ("A", "-a", "a-", "a_b", "'a b'", "'a.b'", "''", "x" * 41):
            self.assertIn("is no name", self.wrong(f"[agents.{name}]\n{COMMAND}"))

    def test_files_that_are_none(self) -> None:
        """Each is one line, without what stands in it."""
        self.assertIn("line 2", self.wrong("x = 1\ny = a-secret"))
        self.assertIn("is not TOML", self.wrong("x = " + "[" * 10_000))
        self.assertIn("is not TOML", self.wrong("agents = 1\nagents = 2"))
        Path(self.path).write_bytes(b"\xff")
        self.assertIn("UTF-8", self.assertRaises(StartupError, read, self.path).text)
        os.unlink(self.path)
        os.mkdir(self.path)
        self.assertIn("cannot be read", self.assertRaises(StartupError, read, self.path).text)

    def test_too_many(self) -> None:
        """One agent, and one byte."""
        text = "".join(f"[agents.a{n}]\n{COMMAND}\n" for n in range(AGENTS + 1))
        self.assertIn(f"more than {AGENTS}", self.wrong(text))
        self.assertIn(f"larger than {SIZE} bytes", self.wrong("#" * (SIZE + 1)))


class Filling(SynchronousTestCase):
    """An endpoint's variables."""

    def filled(self, key: str | None = "k", model: str = "m", **templates: str) -> dict[str, str]:
        endpoint = ResolvedEndpoint(
            protocol="anthropic-messages", base_url="http://host/v1", api_key=key, revision=1
        )
        return EndpointVariables(("anthropic-messages",), templates).filled(endpoint, model)

    def test_places(self) -> None:
        """Each is replaced, as often as it comes; other braces are left alone."""
        self.assertEqual(
            self.filled(A="{url}", B="x {key}{model}{key} {other} {", C="none"),
            {"A": "http://host/v1", "B": "x kmk {other} {", "C": "none"},
        )
        self.assertEqual(self.filled(key=None, A="<{key}>"), {"A": "<>"})

    def test_headers(self) -> None:
        """A line each, or an object where a string of JSON is their place."""
        endpoint = ResolvedEndpoint(
            protocol="anthropic-messages",
            base_url="http://host",
            headers={"X-Team": 't"', "X-Other": "o"},
            revision=1,
        )
        templates = {"A": "{headers}", "B": '{"h": "{headers}", "l": "<{headers}>"}'}
        found = EndpointVariables(("anthropic-messages",), templates).filled(endpoint, "m")
        lines = 'X-Team: t"\nX-Other: o'
        self.assertEqual(found["A"], lines)
        told = {"h": {"X-Team": 't"', "X-Other": "o"}, "l": f"<{lines}>"}
        self.assertEqual(json.loads(found["B"]), told)
        self.assertEqual(self.filled(A="{headers}", B='["{headers}"]'), {"A": "", "B": "[{}]"})

    def test_headers_without_a_place(self) -> None:
        """Are not left out in silence; their values are in no message."""
        endpoint = ResolvedEndpoint(
            protocol="anthropic-messages",
            base_url="http://host",
            headers={"X-Team": "a-secret"},
            revision=1,
        )
        variables = EndpointVariables(("anthropic-messages",), {"A": "{url}"})
        error = self.assertRaises(GarconError, variables.filled, endpoint, "m")
        self.assertIn("endpoint.headers", error.text)
        self.assertNotIn("a-secret", error.text)

    def test_json_stays_json(self) -> None:
        """Whatever a value holds, it is one text."""
        found = self.filled('k"{model}\\', A='{"{model}": ["{key}", 3, null, {"x": "{url}"}]}')
        self.assertEqual(
            json.loads(found["A"]), {"m": ['k"{model}\\', 3, None, {"x": "http://host/v1"}]}
        )

    def test_a_value_is_no_template(self) -> None:
        """What looks like a place in it stays."""
        self.assertEqual(self.filled("{url}{key}", A="{key}"), {"A": "{url}{key}"})
