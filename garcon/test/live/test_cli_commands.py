"""The command against a real controller with its scripted agent, as a shell would run it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import garcon
from garcon.testing.fleet import Finished, Fleet, eventually

SCRIPTED = ("--agent", "scripted", "--model", "scripted")


class CommandTests(SynchronousTestCase):
    """A fresh controller for each test."""

    def setUp(self) -> None:
        self.fleet = Fleet()
        self.addCleanup(self.fleet.close)
        self.controller = self.fleet.controller()
        self.project = str(self.fleet.project("cli"))

    def garcon(self, *words: str, status: int = 0, stdin: str | None = None) -> Finished:
        done = self.fleet.garcon(self.controller, *words, check=False, stdin=stdin)
        self.assertEqual(status, done.status, str(done))
        return done

    def start(self, prompt: str, *more: str, status: int = 0) -> Finished:
        return self.garcon("start", *SCRIPTED, "--cwd", self.project, prompt, *more, status=status)

    def begin(self, prompt: str) -> tuple[str, str]:
        words = ("start-async", *SCRIPTED, "--cwd", self.project, prompt)
        return self.garcon(*words).handle()

    def test_start_prints_handle_and_answer(self) -> None:
        """Handle first, then the answer, nothing on standard error."""
        done = self.start("say one\nsay two", "--title", "A title", "--tag", "My Tag")
        chat, turn = done.handle()
        self.assertEqual(f"chat id: {chat}\nturn id: {turn}\none\n\ntwo\n", done.out)
        self.assertEqual("", done.err)
        shown = self.garcon("status", chat, "--messages", "0").out
        self.assertIn("title: A title\n", shown)
        self.assertIn("tags: cli, my-tag\n", shown)
        self.assertIn(f"project path: {self.project}\n", shown)

    def test_start_as_automation(self) -> None:
        """One document with the receipt of the turn; a prompt from standard input."""
        words = ("start", *SCRIPTED, "--cwd", self.project, "--json", "-")
        said = self.garcon(*words, stdin="say é\n").json
        self.assertEqual(
            (1, "start", "default"), (said["schemaVersion"], said["command"], said["workspace"])
        )
        self.assertEqual("chat-start", said["receipt"]["commandType"])
        self.assertEqual({"status": "not-requested"}, said["titleUpdate"])
        self.assertIsNone(said["parentChat"])
        self.assertEqual(
            {"availability": "available", "completeness": "complete", "text": "é"},
            said["turnReceipt"]["output"],
        )

    def test_start_async_and_wait(self) -> None:
        """The handle comes at once, the answer later, as often as it is asked for."""
        chat, turn = self.begin("sleep 0.5\nsay later")
        for _ in range(2):
            done = self.garcon("wait", chat, "--turn", turn)
            self.assertEqual(("later\n", ""), (done.out, done.err))
        receipt = self.garcon("wait", chat, "--turn", turn, "--json").json
        self.assertEqual(
            (chat, turn, "completed"), (receipt["chatId"], receipt["turnId"], receipt["state"])
        )

    def test_resume(self) -> None:
        """A second turn in the same chat, with a mode chosen from the owner's catalog."""
        chat, _ = self.begin("say first")
        eventually("idle", lambda: "status: idle" in self.garcon("status", chat).out)
        said = self.garcon(
            "resume", chat, "say second", "--permissions", "plan", "--title", "New", "--json"
        ).json
        self.assertEqual(("resume", "new-turn"), (said["command"], said["delivery"]))
        self.assertEqual("second", said["turnReceipt"]["output"]["text"])
        self.assertEqual("New", said["titleUpdate"]["title"])
        messages = self.garcon("status", chat, "--json").json["transcript"]["messages"]
        texts = [m["message"].get("content") for m in messages]
        self.assertEqual(["say first", "first", "say second", "second"], texts)
        self.garcon("resume", "1753000000000000", "hello", status=2)
        self.garcon("resume", chat, "hello", "--model", "x", "--provider", "nobody", status=2)

    def test_a_parent_is_recorded(self) -> None:
        """A delegated chat names its parent in the envelope."""
        chat, _ = self.start("say parent").handle()
        said = self.start("say child", "--parent", chat, "--json").json
        self.assertEqual({"chatId": chat, "relation": "delegation"}, said["parentChat"])

    def test_a_failed_turn(self) -> None:
        """Exit 1, only the handle on standard output, the reason on standard error."""
        done = self.start("say before\nfail it broke", status=1)
        chat, turn = done.handle()
        self.assertEqual(f"chat id: {chat}\nturn id: {turn}\n", done.out)
        self.assertIn("receipt polling: agent turn failed:", done.err)
        self.assertIn("it broke", done.err)

    def test_stop(self) -> None:
        """A stopped turn is exit 4 with its exact text; the second stop finds nothing to do."""
        chat, turn = self.begin("sleep 60")
        done = self.garcon("stop", chat)
        self.assertEqual(f"chat id: {chat}\nstop: interrupt-requested\n", done.out)
        waited = self.garcon("wait", chat, "--turn", turn, status=4)
        self.assertEqual("", waited.out)
        self.assertEqual(
            "receipt polling: agent turn interrupted: the turn was stopped\n", waited.err
        )
        said = self.garcon("stop", chat, "--json").json
        self.assertEqual("already-idle", said["outcome"])
        self.assertNotIn("turnId", said["receipt"])

    def test_permission_by_the_printed_command(self) -> None:
        """What status prints is pasted into a shell that knows neither root nor role."""
        chat, turn = self.begin("ask echo yes\nsay done")

        def offered() -> dict[str, str]:
            lines = self.garcon("status", chat).out.splitlines()
            pairs = (line.partition(": ") for line in lines)
            return {name: text for name, _, text in pairs if name in ("allow", "deny")}

        commands = eventually("the request", offered)
        environment = self.fleet.environment()
        done = subprocess.run(
            ["/bin/sh", "-c", commands["allow"]], env=environment, capture_output=True, text=True
        )
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("decision: allow\n", done.stdout)
        self.assertEqual("done\n", self.garcon("wait", chat, "--turn", turn).out)
        # The opposite answer to a question that was answered conflicts.
        late = subprocess.run(
            ["/bin/sh", "-c", commands["deny"]], env=environment, capture_output=True, text=True
        )
        self.assertEqual((3, ""), (late.returncode, late.stdout))
        self.assertFalse(offered())
        stale = shlex.split(commands["allow"])[1:]
        stale[stale.index("--server-instance") + 1] = "another"
        self.garcon(*stale, status=3)

    def test_lists(self) -> None:
        """Each resource, as a table and as JSON."""
        agents = self.garcon("list", "agents", "--json").json["agents"]
        scripted = next(agent for agent in agents if agent["id"] == "scripted")
        self.assertEqual("scripted", scripted["defaultModel"])
        self.assertTrue(self.garcon("list", "agents").out.startswith("AGENT"))
        models = self.garcon("list", "models", "--agent", "scripted", "--json").json
        self.assertEqual(
            ("scripted", True), (models["defaultModel"], models["models"][0]["isDefault"])
        )
        modes = self.garcon("list", "permissions", "--agent", "scripted", "--json").json
        self.assertEqual(("default", 5), (modes["defaultPermission"], len(modes["permissions"])))
        efforts = self.garcon("list", "reasoning-efforts", "--agent", "scripted", "--json").json
        self.assertIn(efforts["defaultReasoningEffort"], efforts["reasoningEfforts"])
        self.assertEqual({"preambles": []}, self.garcon("list", "preambles", "--json").json)
        self.assertEqual([], self.garcon("list", "providers", "--json").json["providers"])
        self.garcon("list", "models", "--agent", "nobody", status=2)
        self.garcon("list", "endpoints", "--provider", "nobody", status=2)

    def test_executors(self) -> None:
        """Create, show, reveal, change and forget one; Local stands first."""
        created = self.garcon(
            *("executor", "create", "--label", "Box", "--direction", "executor-connects"),
            *("--no-tls", "true"),
        )
        executor_id = created.out.strip()
        self.assertNotIn("secret", created.out + created.err)
        listed = self.garcon("executor", "list", "--json").json["executors"]
        self.assertEqual("local", listed[0]["id"])
        self.assertIn(executor_id, [executor["id"] for executor in listed])
        url = self.garcon("executor", "connection", executor_id).out
        self.assertIn(f"/executor/{executor_id}#secret=", url)
        updated = self.garcon(
            "executor", "update", executor_id, "--label", "Bin", "--allow-controller-cli", "true"
        )
        self.assertIn("label: Bin\n", updated.out)
        self.assertIn("cli access: yes (its account may run commands on every", updated.out)
        self.assertIn("command execution", updated.err)
        disabled = self.garcon("executor", "disable", executor_id, "--json").json
        self.assertFalse(disabled["enabled"])
        self.garcon("executor", "wait", executor_id, "--ready", status=3)
        self.garcon("executor", "enable", executor_id)
        deleted = self.garcon("executor", "delete", executor_id, "--json").json
        self.assertEqual({"id": executor_id, "deleted": True}, deleted)
        self.garcon("executor", "show", executor_id, status=2)
        self.garcon("executor", "delete", executor_id, status=2)

    def test_interrupting_stops_nothing(self) -> None:
        """Ctrl-C during a start: 130, the handle stays, the agent goes on and can be waited for."""
        words = ("start", *SCRIPTED, "--cwd", self.project, "sleep 2\nsay survived")
        process = self.fleet.begin(self.controller, *words)
        assert process.stdout is not None
        handle = process.stdout.readline() + process.stdout.readline()
        # The interpreter is past its start by now: the wait is what is interrupted.
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=10)
        self.assertEqual((130, ""), (process.returncode, rest), err)
        self.assertIn("no Garcon agent was stopped", err)
        again = shlex.split(err[err.index("garcon wait") :].rstrip().removesuffix(")"))
        self.assertIn(again[2], handle)
        self.assertEqual("survived\n", self.garcon(*again[1:]).out)

    def test_a_reader_that_leaves(self) -> None:
        """Output into a closed pipe ends quietly."""
        command = shlex.join([sys.executable, "-m", "garcon.cli.main", "list", "agents", "--json"])
        done = subprocess.run(
            ["/bin/sh", "-c", f"{command} | true"],
            env=self.fleet.environment({"GARCON_CONFIG_DIR": str(self.controller.config)}),
            capture_output=True,
            text=True,
        )
        self.assertEqual("", done.stderr)

    def test_services_help_to_a_reader_that_leaves(self) -> None:
        """As quietly, with the command's own name."""
        for service in ("controller", "worker"):
            command = shlex.join([sys.executable, "-m", "garcon.cli.main", service, "--help"])
            for reader in ("true", "head -n 1"):
                done = subprocess.run(
                    ["/bin/sh", "-c", f"{command} | {reader}"],
                    env=self.fleet.environment(),
                    capture_output=True,
                    text=True,
                )
                self.assertEqual("", done.stderr)
            self.assertEqual(f"Usage: garcon {service} [options]\n", done.stdout)

    def test_output_that_cannot_be_written(self) -> None:
        """A full disk is operational trouble, not a failed turn."""
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "garcon.cli.main", "--version"],
                env=self.fleet.environment(),
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
            )
        self.assertEqual(3, done.returncode)
        self.assertEqual(
            "garcon: the output could not be written: No space left on device\n", done.stderr
        )


class RestartTests(SynchronousTestCase):
    def test_waiting_across_a_crash(self) -> None:
        """A killed controller that comes back is another one: told as such, not waited for."""
        with Fleet() as fleet:
            first = fleet.controller()
            project = str(fleet.project("p"))
            words = ("start-async", *SCRIPTED, "--cwd", project, "sleep 60")
            chat, turn = fleet.garcon(first, *words).handle()
            waiting = fleet.begin(first, "wait", chat, "--turn", turn)
            time.sleep(0.5)
            first.kill()
            second = fleet.controller(config=first.config)
            out, err = waiting.communicate(timeout=30)
            self.assertEqual((3, ""), (waiting.returncode, out), err)
            self.assertIn("transport recovery:", err)
            self.assertIn("Garcon restarted while the turn was running", err)
            lost = fleet.garcon(second, "wait", chat, "--turn", turn, check=False)
            self.assertEqual((3, ""), (lost.status, lost.out))
            self.assertIn('Garcon workspace "default"', lost.err)


class LeaseTests(SynchronousTestCase):
    """Leases between processes."""

    def holder(self, path: str) -> subprocess.Popen[str]:
        program = (
            "import sys\n"
            "from garcon.local.leases import Lease\n"
            "lease = Lease.acquire(sys.argv[1], role='worker')\n"
            "print('held', flush=True)\n"
            "sys.stdin.read()\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, path],
            env={"PYTHONPATH": str(Path(garcon.__file__).parents[1]), "PATH": os.defpath},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        assert process.stdout is not None
        self.assertEqual("held\n", process.stdout.readline())
        return process

    def test_another_process_excludes(self) -> None:
        """Held while it lives; named by its pid; free the moment it is killed."""
        from garcon.local.leases import Lease, LeaseHeld

        path = self.mktemp() + "/.lock"
        process = self.holder(path)
        error = self.assertRaises(LeaseHeld, Lease.acquire, path)
        self.assertIn(f"pid {process.pid} (worker)", error.text)
        process.kill()
        process.wait()
        lease = Lease.acquire(path)
        self.addCleanup(lease.release)
        self.assertIn(str(os.getpid()), Path(path).read_text())

    def test_waiting_for_a_predecessor(self) -> None:
        """A start waits for a predecessor that is ending."""
        from garcon.local.leases import Lease

        path = self.mktemp() + "/.lock"
        process = self.holder(path)
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
        Lease.acquire(path, 10.0).release()

    def test_children_do_not_keep_it(self) -> None:
        """What a holder starts does not inherit the lease."""
        from garcon.local.leases import Lease

        path = self.mktemp() + "/.lock"
        lease = Lease.acquire(path)
        child = subprocess.Popen(["sleep", "30"], close_fds=False)
        try:
            lease.release()
            Lease.acquire(path).release()
        finally:
            child.kill()
            child.wait()
