"""Which process the command finds, and what it takes before a secret is sent: real files and
sockets.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

import garcon
from garcon.cli.discovery import has_only_loopback
from garcon.cli.main import run
from garcon.local.roots import ConfigRoot
from garcon.testing.fake_controller import STARTED, FakeController, FakeMachine
from garcon.testing.http_double import answer, refusal

AGENT = {
    "id": "scripted",
    "label": "Scripted",
    "models": [{"value": "scripted", "label": "Scripted"}],
    "supportedPermissionModes": ["default"],
    "supportedThinkingModes": ["none"],
    "supportedProtocols": [],
    "defaultModel": "scripted",
    "acceptsApiProviderEndpoints": False,
    "requiresStrictModelDiscovery": False,
    "defaultSettings": {"ownerId": "scripted", "schemaVersion": 1, "values": {}},
}
MODELS = answer({"catalog": {"agents": [AGENT], "apiProviders": []}})


class DiscoveryCase(SynchronousTestCase):
    """One root with at most two endpoints; `garcon list agents` as the probe."""

    def setUp(self) -> None:
        self.root = ConfigRoot(self.mktemp())
        self.controller = self.serving(FakeController())
        self.worker = self.serving(
            FakeController(
                instance_id="5b7d1f0e-0000-4000-8000-00000000000a",
                default_executor_id="5b7d1f0e-0000-4000-8000-00000000000b",
            )
        )

    def serving(self, fake: FakeController) -> FakeController:
        fake.on("GET /models", MODELS)
        fake.double.__enter__()
        self.addCleanup(fake.double.stop)
        return fake

    def garcon(self, *words: str, **environ: str) -> tuple[int, FakeMachine]:
        machine = FakeMachine({"GARCON_CONFIG_DIR": self.root.path} | environ)
        return run(list(words or ("list", "agents")), machine.system()), machine

    def assert_used(self, used: FakeController | None) -> None:
        for fake in (self.controller, self.worker):
            expected = 1 if fake is used else 0
            self.assertEqual(expected, len(fake.asked("GET /models")))
            fake.double.asked.clear()

    def assert_refused(self, text: str, *words: str, status: int = 3, **environ: str) -> None:
        got, machine = self.garcon(*words, **environ)
        self.assertEqual((status, ""), (got, machine.stdout()), machine.stderr())
        self.assertIn(text, machine.stderr())
        for fake in (self.controller, self.worker):
            for asked in fake.double.asked:
                self.assertNotIn("authorization", asked.headers)


class SelectionTests(DiscoveryCase):
    def test_one_file(self) -> None:
        """The only one is taken, whichever it is, without a warning."""
        self.controller.publish(self.root)
        self.assertEqual((0, ""), (self.garcon()[0], self.garcon()[1].stderr()))
        self.controller.double.asked.clear()
        os.unlink(self.root.controller_descriptor)
        self.worker.publish(self.root, "executor")
        status, machine = self.garcon()
        self.assertEqual((0, ""), (status, machine.stderr()))
        self.assert_used(self.worker)
        self.assertIn("scripted", machine.stdout())

    def test_the_newer_of_two_with_a_warning(self) -> None:
        """Both present: the later start wins, equal ones mean the controller, and it is told."""
        for started, used, role in (
            (STARTED + 1, self.worker, "executor"),
            (STARTED, self.controller, "controller"),
            (STARTED - 1, self.controller, "controller"),
        ):
            self.controller.publish(self.root, started=STARTED)
            self.worker.publish(self.root, "executor", started)
            status, machine = self.garcon()
            self.assertEqual(0, status)
            self.assertIn(f"using the {role}", machine.stderr())
            self.assert_used(used)

    def test_an_explicit_role_reads_only_its_file(self) -> None:
        """The other file may be missing, newer or broken: it is not looked at."""
        self.controller.publish(self.root)
        self.worker.publish(self.root, "executor", STARTED + 1)
        Path(self.root.executor_descriptor).write_text("garbage")
        for words, environ in (
            (("--runtime", "controller", "list", "agents"), {}),
            (("list", "agents"), {"GARCON_RUNTIME": "controller"}),
            (("list", "agents", "--runtime=controller"), {"GARCON_RUNTIME": "executor"}),
        ):
            status, machine = self.garcon(*words, **environ)
            self.assertEqual((0, ""), (status, machine.stderr()))
            self.assert_used(self.controller)
        os.unlink(self.root.executor_descriptor)
        self.assert_refused("no worker runs", "--runtime", "executor", "list", "agents")

    def test_an_unusable_file_blocks_auto(self) -> None:
        """Malformed, open to others, or a link: auto stops instead of taking the other."""
        self.controller.publish(self.root)
        self.worker.publish(self.root, "executor")
        path = Path(self.root.executor_descriptor)
        content = path.read_bytes()
        path.write_bytes(b"{}")
        self.assert_refused("schemaVersion")
        path.write_bytes(content)
        path.chmod(0o640)
        self.assert_refused("open to other users")
        path.chmod(0o600)
        path.rename(path.with_name("real"))
        path.symlink_to("real")
        self.assert_refused("symbolic link")
        if os.geteuid() == 0:
            path.unlink()
            path.with_name("real").rename(path)
            os.chown(path, 65_534, 65_534)
            self.assert_refused("another user")

    def test_nothing_runs(self) -> None:
        """Neither file: exit 3, and the command that would help names the root and the role."""
        for runtime, service in (
            ("auto", "controller"),
            ("controller", "controller"),
            ("executor", "worker"),
        ):
            words = ("list", "agents", "--runtime", runtime)
            self.assert_refused(f"`garcon {service} --config-dir {self.root.path}`", *words)

    def test_no_fallback(self) -> None:
        """A newer one that is stale fails, although the older one runs."""
        self.controller.publish(self.root)
        self.worker.publish(self.root, "executor", STARTED + 1)
        self.worker.double.stop()
        self.assert_refused("runtime verification: cannot reach Garcon")
        self.assert_refused("was left by a worker that seems to have crashed; start it again")
        self.assertEqual([], self.controller.double.asked)

    def test_only_the_loopback_interface(self) -> None:
        """That is how an isolated network looks; without a list nothing is claimed."""
        table = self.mktemp()
        head = "Inter-| Receive\n face |bytes\n"
        for lines, alone in (
            ("    lo: 1 2\n", True),
            ("    lo: 1 2\n  eth0: 3 4\n", False),
            ("", False),
        ):
            with open(table, "w") as written:
                written.write(head + lines)
            self.assertIs(has_only_loopback(table), alone)
        self.assertIs(has_only_loopback(self.mktemp()), False)

    def test_empty_variables_are_unset(self) -> None:
        """An empty GARCON_RUNTIME means auto; a wrong one is exit 2."""
        self.controller.publish(self.root)
        self.assertEqual(0, self.garcon("list", "agents", GARCON_RUNTIME="")[0])
        self.controller.double.asked.clear()
        self.assert_refused("GARCON_RUNTIME", status=2, GARCON_RUNTIME="both")

    def test_a_blank_root_is_not_the_default_one(self) -> None:
        """A flag that says nothing is a mistake (exit 2), also where a variable names a root."""
        self.controller.publish(self.root)
        for words in (("--config-dir", ""), ("--config-dir= ",)):
            self.assert_refused("--config-dir is blank", "list", "agents", *words, status=2)

    def test_server_only_asserts(self) -> None:
        """The exact URL passes, any other fails, and it never selects the other role."""
        self.controller.publish(self.root)
        self.worker.publish(self.root, "executor", STARTED + 1)
        url = self.worker.double.url
        self.assertEqual(0, self.garcon("list", "agents", "--server", url)[0])
        self.worker.double.asked.clear()
        self.assert_refused(
            "is not the selected", "--server", self.controller.double.url, "list", "agents"
        )
        self.assert_refused(
            "is not the selected",
            "list",
            "agents",
            "--server",
            url.replace("127.0.0.1", "localhost"),
        )
        self.assert_refused(
            "loopback", "list", "agents", "--server", "http://example.com", status=2
        )


class ProofTests(DiscoveryCase):
    def setUp(self) -> None:
        super().setUp()
        self.controller.publish(self.root)

    def test_no_secret_before_the_proof(self) -> None:
        """Every wrong proof ends the command, and the bearer was never sent."""
        good = self.controller._proof

        def changed(**change: Any) -> Any:
            def proves(challenge: str) -> dict[str, Any]:
                self.controller.proves = None
                said = good(challenge) | change
                self.controller.proves = proves
                return said

            return proves

        for proves in (
            changed(proof="A" * 43),
            changed(proof=None),
            changed(proof="\u00e9"),
            changed(proof="\ud800"),
            changed(instanceId="5b7d1f0e-0000-4000-8000-0000000000ff"),
            changed(schemaVersion=2),
        ):
            self.controller.proves = proves
            self.assert_refused("runtime verification: ")

    def test_other_answers_prove_nothing(self) -> None:
        """Errors, redirects, garbage and silence are not a proof."""
        for reply in (
            refusal(500, "INTERNAL_ERROR"),
            refusal(404, "X"),
            answer({}, 302, {"Location": "http://127.0.0.1:1/"}),
            answer(b"[]"),
            answer(b"{"),
            answer(b"[" * 20_000),
            b"",
            b"garbage\r\n\r\n",
        ):
            self.controller.on("GET /runtime", reply)
            self.assert_refused("runtime verification: ")

    def test_challenges_are_fresh(self) -> None:
        """Each probe has a challenge of its own."""
        self.garcon()
        self.garcon()
        challenges = [a.query["challenge"] for a in self.controller.asked("GET /runtime")]
        self.assertEqual(2, len(challenges))
        self.assertTrue(all(len(c) == 43 for c in challenges))

    def test_context_is_live_and_checked(self) -> None:
        """Without a controller behind it, or with a malformed context, nothing goes on."""
        for reply, text in (
            (refusal(503, "CLI_CONTROLLER_UNAVAILABLE", "not now"), "not now (HTTP 503"),
            (refusal(403, "CLI_ACCESS_DENIED", "not you"), "authentication: not you"),
            (answer({"serverInstanceId": "x"}), "context is malformed"),
            (answer(self.controller.context() | {"defaultExecutorId": "here"}), "malformed"),
            (answer(self.controller.context() | {"serverInstanceId": "a b\r\nX: y"}), "malformed"),
            (answer(self.controller.context() | {"workspaceName": 5}), "malformed"),
        ):
            self.controller.on("GET /cli/context", reply)
            status, machine = self.garcon()
            self.assertEqual(3, status)
            self.assertIn(text, machine.stderr())
        self.assertEqual([], self.controller.asked("GET /models"))

    def test_every_call_is_fenced(self) -> None:
        """Application requests carry the captured instance; proof and context do not need it."""
        self.assertEqual(0, self.garcon()[0])
        headers = self.controller.asked("GET /models")[0].headers
        self.assertEqual(self.controller.server_instance_id, headers["x-garcon-server-instance"])
        self.assertEqual(f"Bearer {self.controller.capability}", headers["authorization"])


class StartTests(SynchronousTestCase):
    """What one start of the command costs."""

    def test_neither_twisted_nor_msgspec(self) -> None:
        """No client command imports either, nor anything else that is slow to load."""
        program = (
            "import sys\n"
            "from garcon.cli.main import main\n"
            "from garcon.cli.table import COMMANDS\n"
            "from importlib import import_module\n"
            "for command in COMMANDS.values():\n"
            "    import_module(f'garcon.cli.commands.{command.module}')\n"
            "main(['list', 'agents', '--config-dir', '/nowhere'])\n"
            "slow = {'twisted', 'msgspec', 'attrs', 'attr', 'argparse', 'http.client', 'typing',\n"
            "        'autobahn', 'zope.interface', 'socket', 'ssl', 'dataclasses'}\n"
            "print(','.join(sorted(slow & set(sys.modules) - before)))\n"
        )
        program = "import sys\nbefore = set(sys.modules)\n" + program
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": str(Path(garcon.__file__).parents[1]), "PATH": os.defpath},
            capture_output=True,
            text=True,
            timeout=30,
        )
        self.assertEqual(("\n", 0), (done.stdout, done.returncode), done.stderr)
