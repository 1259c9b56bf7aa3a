"""One turn, end to end, between two roles that are real processes: what works, what fails how."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.parse
import urllib.request
from typing import Any

from garcon.contract.version import VERSION
from garcon.controller.chats.commits import PENDING_ROWS
from garcon.test.live.fleets import SCRIPTED, FleetTestCase
from garcon.testing.certificates import make_authority
from garcon.testing.fleet import Service, eventually, free_port
from garcon.testing.relay import Relay

INBOUND = ("--label", "workshop", "--direction", "executor-connects")
PLAIN = ("--no-tls", "true")
FLOOD = PENDING_ROWS + 2_000


class Pairs(FleetTestCase):
    """Ways to bring up a pair, and the turn that shows that it works."""

    def show_turns(self, controller: Service, worker: Service, executor_id: str) -> None:
        """A turn from each side: each runs on its own executor, both are on the controller."""
        done = self.start(worker, "say I am there")
        chat, _ = done.handle()
        self.assertEqual(done.out.splitlines()[2:], ["I am there"])
        snapshot = self.snapshot(controller, chat)
        self.assertEqual(snapshot["chat"]["executorId"], executor_id)
        self.assertEqual(self.said(controller, chat), ["I am there"])
        done = self.start(controller, "say I am here")
        chat, _ = done.handle()
        self.assertEqual(self.snapshot(controller, chat)["chat"]["executorId"], "local")
        self.assertEqual(done.out.splitlines()[2:], ["I am here"])

    def reveal(self, controller: Service, executor_id: str) -> str:
        """Return the connection URL of an executor."""
        return self.fleet.garcon(controller, "executor", "connection", executor_id).out.strip()


class DirectionTests(Pairs):
    """Either side may dial, with and without TLS."""

    def test_worker_dials_over_ws(self) -> None:
        """With the explicit opt-out a worker dials plain; both services end with status 0."""
        controller, worker, executor_id = self.fleet.pair()
        self.show_turns(controller, worker, executor_id)
        self.assertEqual([worker.stop(), controller.stop()], [0, 0])
        self.assertEqual(self.fleet.left_over(), [])
        self.assertFalse((worker.config / "executor" / "runtime.json").exists())
        self.assertFalse((controller.config / "runtime.json").exists())

    def test_worker_dials_over_wss(self) -> None:
        """A private authority is trusted through SSL_CERT_FILE; the address is verified."""
        authority = make_authority(self.fleet.root / "certificates")
        certificate, key = authority.issue("localhost")
        controller = self.fleet.controller(
            "--tls-cert", str(certificate), "--tls-private-key", str(key)
        )
        self.assertTrue(controller.url.startswith("https://"), controller.url)
        address = f"wss://localhost:{controller.port}/executor/{{executorId}}"
        executor_id = self.fleet.executor(controller, *INBOUND, "--advertise-url", address)
        worker = self.fleet.worker(
            url=self.reveal(controller, executor_id),
            environment={"SSL_CERT_FILE": str(authority.certificate)},
        )
        self.fleet.await_executor(controller, executor_id)
        self.show_turns(controller, worker, executor_id)

    def test_worker_dials_through_a_proxy(self) -> None:
        """A proxy ends TLS and rewrites the path; the controller behind it speaks plain HTTP."""
        authority = make_authority(self.fleet.root / "certificates")
        controller = self.fleet.controller()
        proxy = self.fleet.proxy(controller.port, "/garcon", *authority.issue("localhost"))
        address = f"wss://localhost:{proxy.port}/garcon/executor/{{executorId}}"
        executor_id = self.fleet.executor(controller, *INBOUND, "--advertise-url", address)
        worker = self.fleet.worker(
            url=self.reveal(controller, executor_id),
            environment={"SSL_CERT_FILE": str(authority.certificate)},
        )
        self.fleet.await_executor(controller, executor_id)
        self.show_turns(controller, worker, executor_id)

    def test_controller_dials_through_a_proxy(self) -> None:
        """The same before a listening worker."""
        authority = make_authority(self.fleet.root / "certificates")
        port = free_port()
        worker = self.fleet.worker("--listen", str(port), "--no-tls")
        proxy = self.fleet.proxy(port, "/workshop", *authority.issue("localhost"))
        controller = self.fleet.controller(
            environment={"SSL_CERT_FILE": str(authority.certificate)}
        )
        address = ("--advertise-url", f"wss://localhost:{proxy.port}/workshop/executor")
        executor_id = self.dial(controller, worker, address=address)
        self.show_turns(controller, worker, executor_id)

    def test_controller_dials_over_ws(self) -> None:
        """A listening worker makes its secret and reveals it; the controller dials."""
        worker = self.fleet.worker("--listen", "0", "--no-tls")
        controller = self.fleet.controller()
        executor_id = self.dial(controller, worker, *PLAIN)
        self.show_turns(controller, worker, executor_id)

    def test_controller_dials_over_wss(self) -> None:
        """The same with the worker's own certificate, verified by the controller."""
        authority = make_authority(self.fleet.root / "certificates")
        certificate, key = authority.issue("localhost")
        port = free_port()
        worker = self.fleet.worker(
            *("--listen", str(port), "--advertise-url", f"wss://localhost:{port}/executor"),
            *("--tls-cert", str(certificate), "--tls-private-key", str(key)),
        )
        controller = self.fleet.controller(
            environment={"SSL_CERT_FILE": str(authority.certificate)}
        )
        address = ("--advertise-url", f"wss://localhost:{port}/executor")
        executor_id = self.dial(controller, worker, address=address)
        self.show_turns(controller, worker, executor_id)

    def dial(
        self, controller: Service, worker: Service, *options: str, address: tuple[str, ...] = ()
    ) -> str:
        """Hand the worker's revealed URL to the controller on standard input."""
        url = self.fleet.garcon(worker, "executor", "connection-url", *address).out
        made = self.fleet.garcon(
            controller,
            *("executor", "create", "--label", "workshop", "--direction", "controller-connects"),
            *("--connection-url", "-", "--allow-controller-cli", "true", "--json", *options),
            stdin=url,
        )
        executor_id: str = made.json["id"]
        self.fleet.await_executor(controller, executor_id)
        return executor_id

    def test_worker_under_twistd_as_the_readme_says(self) -> None:
        """`twistd -n garcon-worker` takes the URL from its variable and shows no secret."""
        controller = self.fleet.controller()
        executor_id = self.fleet.executor(controller, *INBOUND, *PLAIN)
        url = self.reveal(controller, executor_id)
        config = self.fleet.root / "worker"
        argv = [
            *(sys.executable, "-c", "from twisted.scripts.twistd import run; run()"),
            *("-n", "--pidfile", "", "garcon-worker", "--config-dir", str(config), "--no-tls"),
            *("--project-base-dir", str(self.fleet.projects), "--enable-scripted-agent"),
        ]
        worker = self.fleet.start("worker", config, argv, {"GARCON_CONTROLLER_URL": url})
        self.fleet.await_ready(worker)
        self.fleet.await_executor(controller, executor_id)
        self.show_turns(controller, worker, executor_id)
        self.assertNotIn(url.rpartition("=")[2], self.fleet.logs())


class TurnTests(Pairs):
    """What a turn on a worker can do."""

    def setUp(self) -> None:
        super().setUp()
        self.controller, self.worker, self.executor_id = self.fleet.pair()

    def test_permission_is_asked_on_the_worker_and_answered_there(self) -> None:
        """The command runs once it is allowed, and not when it is denied."""
        flag = self.fleet.projects / "project" / "flag"
        for decision in ("deny", "allow"):
            done = self.start(self.worker, "ask touch flag\nsay over", wait=False)
            chat, turn = done.handle()
            self.assertFalse(flag.exists())
            self.decide(self.worker, chat, decision)
            done = self.fleet.garcon(self.worker, "wait", chat, "--turn", turn)
            self.assertIn("over", done.out)
            self.assertEqual(flag.exists(), decision == "allow")
        resolved = [row["type"] for row in self.rows(self.controller, chat)]
        self.assertIn("permission-resolved", resolved)

    def test_children_see_no_secret_and_their_own_role(self) -> None:
        """An agent's command has the root and the role, and neither the URL nor a capability."""
        self.start(self.worker, "run env > environment\nsay over")
        seen = (self.fleet.projects / "project" / "environment").read_text()
        self.assertIn(f"GARCON_CONFIG_DIR={self.worker.config}\n", seen)
        self.assertIn("GARCON_RUNTIME=executor\n", seen)
        self.assertNotIn("secret=", seen)
        self.assertNotIn(self.worker.descriptor()["localCapability"], seen)

    def test_both_transcripts_and_long_turns_arrive_whole(self) -> None:
        """More rows at once than may wait for the store, on Local and on a worker: each comes once,
        in order.
        """
        for place in (self.controller, self.worker):
            chat, _ = self.start(place, f"emit {FLOOD}", check=False).handle()
            page = self.snapshot(self.controller, chat)["transcript"]
            self.assertEqual(page["lastOrdinal"], FLOOD + 3)
            newest = [row["message"].get("content") for row in page["messages"]][-50:]
            self.assertEqual(newest, [f"row {n}" for n in range(FLOOD - 49, FLOOD + 1)])

    def test_stop_ends_a_turn(self) -> None:
        """A stop from the controller ends what runs on the worker; the waiting command exits 4."""
        waiting = self.fleet.begin(
            self.worker,
            *("start", *SCRIPTED, "--cwd", str(self.fleet.project("project")), "sleep 60"),
        )
        assert waiting.stdout is not None
        chat = waiting.stdout.readline().split()[-1]
        self.fleet.garcon(self.controller, "stop", chat)
        _, err = waiting.communicate(timeout=30)
        self.assertEqual(waiting.returncode, 4, err)
        self.assertIn("the turn was stopped", err)


class FaultTests(Pairs):
    """Cut links and killed processes: nothing is claimed that is not known."""

    def relayed(self, controller: Service) -> tuple[Relay, Service, str]:
        """Bring up a worker whose link passes through a relay."""
        relay = Relay(controller.port)
        self.addCleanup(relay.close)
        address = f"ws://127.0.0.1:{relay.port}/executor/{{executorId}}"
        executor_id = self.fleet.executor(controller, *INBOUND, *PLAIN, "--advertise-url", address)
        worker = self.fleet.worker("--no-tls", url=self.reveal(controller, executor_id))
        self.fleet.await_executor(controller, executor_id)
        return relay, worker, executor_id

    def chats(self, controller: Service) -> list[dict[str, Any]]:
        """Return the chat list, asked for over HTTP without the command."""
        base = controller.descriptor()["baseUrl"]
        with urllib.request.urlopen(f"{base}/api/v1/chats", timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)["sessions"]
            return found

    def test_link_cut_during_a_start_leaves_the_outcome_unknown(self) -> None:
        """The start was accepted, its answer lost: the command says so and exits 3."""
        controller = self.fleet.controller()
        relay, worker, executor_id = self.relayed(controller)
        prompt = "\n".join(["say " + "x" * 50_000] * 5 + ["say it happened"])
        project = str(self.fleet.project("project"))
        relay.hold_answers_after(200_000)
        process = self.fleet.begin(
            worker,
            *("start-async", *SCRIPTED, "--executor", "local", "--cwd", project, "-"),
            stdin=prompt,
        )
        chats = eventually("an accepted start", lambda: self.chats(controller))
        relay.cut()
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (3, ""), err)
        self.assertIn("may have been accepted", err)
        self.assertNotIn("was not accepted", err)
        relay.mend()
        self.fleet.await_executor(controller, executor_id, 60)
        self.assertEqual(len(self.chats(controller)), 1)
        self.assertEqual(self.said(worker, chats[0]["id"])[-1], "it happened")

    def transcript(self, controller: Service, chat: str) -> list[dict[str, Any]]:
        """Return a chat's whole transcript, page by page."""
        base = controller.descriptor()["baseUrl"]
        found: list[dict[str, Any]] = []
        query = {"chatId": chat, "limit": "200"}
        while True:
            url = f"{base}/api/v1/chats/messages?{urllib.parse.urlencode(query)}"
            with urllib.request.urlopen(url, timeout=10) as answer:
                page = json.load(answer)
            found[:0] = page["messages"]
            if not page["hasMore"]:
                return found
            query["beforeOrdinal"] = str(page["nextBeforeOrdinal"])
            query["transcriptViewId"] = page["transcriptViewId"]

    def assert_whole(self, controller: Service, chat: str, expected: list[str]) -> None:
        """Every row once, in order, and nothing said to be missing."""
        rows = self.transcript(controller, chat)
        ordinals = [row["ordinal"] for row in rows]
        self.assertEqual(ordinals, sorted(set(ordinals)))
        messages = [row["message"] for row in rows]
        said = [m["content"] for m in messages if m["type"] == "assistant-message"]
        self.assertEqual(said, expected)
        self.assertEqual([m for m in messages if m["type"] == "transcript-notice"], [])

    def phase(self, controller: Service, chat: str) -> Any:
        """Return what a chat does."""
        return self.snapshot(controller, chat)["processingPhase"]

    def test_a_turn_outlives_a_lost_link(self) -> None:
        """Rows that come before, during and after the gap are there, each once, in order; the chat
        shows that its executor is being waited for, and takes no other turn.
        """
        controller = self.fleet.controller()
        relay, worker, executor_id = self.relayed(controller)
        prompt = "\n".join(["emit 200\nsleep 0.3"] * 10)
        chat, turn = self.start(worker, prompt, wait=False).handle()
        eventually("the first rows", lambda: len(self.transcript(controller, chat)) > 100)
        relay.cut()
        eventually("the gap", lambda: self.phase(controller, chat) == "reconnecting")
        shown = self.executor_snapshot(controller, executor_id)
        self.assertEqual(shown["availability"], "reconnecting")
        done = self.fleet.garcon(controller, "resume", chat, "say more", check=False)
        self.assert_refused(done, 3)
        time.sleep(1)
        relay.mend()
        done = self.fleet.garcon(controller, "wait", chat, "--turn", turn)
        self.assertEqual(done.status, 0, str(done))
        rows = [f"row {number}" for number in range(1, 201)] * 10
        self.assert_whole(controller, chat, rows)
        self.assertIn("again", self.fleet.garcon(worker, "resume", chat, "say again").out)

    def test_much_output_of_a_gap_comes_no_faster_than_it_is_kept(self) -> None:
        """More rows than may wait for their commit at a time: none of them is lost."""
        controller = self.fleet.controller()
        relay, worker, _ = self.relayed(controller)
        chat, turn = self.start(worker, "say one\nsleep 2\nemit 20000", wait=False).handle()
        eventually("the first row", lambda: self.said(controller, chat) == ["one"])
        relay.cut()
        time.sleep(6)
        relay.mend()
        done = self.fleet.garcon(controller, "wait", chat, "--turn", turn, check=False)
        self.assertIn("the turn completed", done.err)
        self.assert_whole(controller, chat, ["one", *(f"row {n}" for n in range(1, 20_001))])

    def test_a_turn_outlives_many_cuts(self) -> None:
        """However often the link goes, the turn is whole."""
        controller = self.fleet.controller()
        relay, worker, executor_id = self.relayed(controller)
        prompt = "\n".join(["emit 100\nsleep 0.5"] * 20)
        chat, turn = self.start(worker, prompt, wait=False).handle()
        for _ in range(3):
            self.fleet.await_executor(controller, executor_id, 60)
            time.sleep(0.7)
            relay.cut()
            relay.mend()
        done = self.fleet.garcon(controller, "wait", chat, "--turn", turn)
        self.assertEqual(done.status, 0, str(done))
        self.assert_whole(controller, chat, [f"row {n}" for n in range(1, 101)] * 20)

    def test_a_stop_in_a_gap_is_delivered_after_it(self) -> None:
        """The command returns at once; the agent is stopped when the link is back."""
        controller = self.fleet.controller()
        relay, worker, _ = self.relayed(controller)
        prompt = "say one\nrun sleep 20; touch went-on\nsay two"
        chat, turn = self.start(worker, prompt, wait=False).handle()
        eventually("the first row", lambda: self.said(controller, chat) == ["one"])
        relay.cut()
        eventually("the gap", lambda: self.phase(controller, chat) == "reconnecting")
        began = time.monotonic()
        self.fleet.garcon(controller, "stop", chat)
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(self.phase(controller, chat), "stopping")
        relay.mend()
        done = self.fleet.garcon(controller, "wait", chat, "--turn", turn, check=False)
        self.assertEqual(done.status, 4, str(done))
        self.fleet.garcon(worker, "resume", chat, "say three")
        self.assertEqual(self.said(controller, chat), ["one", "three"])
        self.assertFalse((self.fleet.projects / "project" / "went-on").exists())

    def test_a_question_outlives_a_lost_link(self) -> None:
        """It can be answered in the gap, if that is short, and the agent goes on."""
        controller = self.fleet.controller()
        relay, worker, _ = self.relayed(controller)
        prompt = "say one\nask echo asked\nsay two"
        chat, turn = self.start(worker, prompt, wait=False).handle()
        self.request(controller, chat)
        relay.cut()
        eventually("the gap", lambda: self.phase(controller, chat) == "reconnecting")
        relay.mend()
        self.decide(controller, chat, "allow")
        done = self.fleet.garcon(controller, "wait", chat, "--turn", turn)
        self.assertEqual(done.status, 0, str(done))
        self.assertEqual(self.said(controller, chat)[-1], "two")

    def test_controller_killed_and_restarted(self) -> None:
        """The old invocation fails its fence, a new one works, the transcript is intact."""
        port = free_port()
        controller = self.fleet.controller(port=port)
        executor_id = self.fleet.executor(controller, *INBOUND, *PLAIN)
        worker = self.fleet.worker("--no-tls", url=self.reveal(controller, executor_id))
        self.fleet.await_executor(controller, executor_id)
        project = ("--cwd", str(self.fleet.project("project")))
        waiting = self.fleet.begin(worker, "start", *SCRIPTED, *project, "say early\nsleep 60")
        assert waiting.stdout is not None
        chat = waiting.stdout.readline().split()[-1]
        eventually("the first row", lambda: self.said(controller, chat) == ["early"])
        controller.kill()
        controller = self.fleet.controller(port=port)
        self.fleet.await_executor(controller, executor_id, 60)
        _, err = waiting.communicate(timeout=60)
        self.assertEqual(waiting.returncode, 3, err)
        self.assertIn("Garcon restarted while the turn was running", err)
        rows = self.rows(controller, chat)
        self.assertEqual(rows[0]["content"], "say early\nsleep 60")
        self.assertEqual(self.said(controller, chat), ["early"])
        self.show_turns(controller, worker, executor_id)

    def test_worker_killed(self) -> None:
        """Its turn fails once a new process is there; the chat can be resumed."""
        controller, worker, executor_id = self.fleet.pair()
        chat, turn = self.start(worker, "say early\nsleep 60", wait=False).handle()
        eventually("the first row", lambda: self.said(controller, chat) == ["early"])
        worker.kill()
        url = self.reveal(controller, executor_id)
        worker = self.fleet.worker("--no-tls", url=url)
        self.fleet.await_executor(controller, executor_id, 60)
        done = self.fleet.garcon(controller, "wait", chat, "--turn", turn, check=False)
        self.assertEqual(done.status, 1, str(done))
        self.assertIn("agent turn failed", done.err)
        done = self.fleet.garcon(worker, "resume", chat, "say again")
        self.assertIn("again", done.out)
        self.assertEqual(self.said(controller, chat), ["early", "again"])

    def test_a_worker_may_start_before_its_controller(self) -> None:
        """Its gateway serves at once and says unavailable until the controller is there."""
        port = free_port()
        controller = self.fleet.controller(port=port)
        executor_id = self.fleet.executor(controller, *INBOUND, *PLAIN)
        url = self.reveal(controller, executor_id)
        self.assertEqual(controller.stop(), 0)
        worker = self.fleet.worker("--no-tls", url=url)
        done = self.fleet.garcon(worker, "list", "agents", check=False)
        self.assert_refused(done, 3)
        controller = self.fleet.controller(port=port)
        self.fleet.await_executor(controller, executor_id, 60)
        self.show_turns(controller, worker, executor_id)


class RefusalTests(Pairs):
    """Who may not come in, and who may come in but not ask."""

    def last_error(self, controller: Service, executor_id: str) -> str:
        """Return the message of an executor's last link failure, once there is one."""

        def failed() -> Any:
            return self.executor_snapshot(controller, executor_id)["lastError"]

        message: str = eventually("a link failure", failed)["message"]
        self.assertEqual(self.executor_snapshot(controller, executor_id)["availability"], "offline")
        return message

    def test_wrong_secret(self) -> None:
        """A worker with another executor's secret never gets a session."""
        controller = self.fleet.controller()
        executor_id = self.fleet.executor(controller, *INBOUND, *PLAIN)
        other = self.fleet.executor(
            controller, *("--label", "other", "--direction", "executor-connects"), *PLAIN
        )
        address, _, _ = self.reveal(controller, executor_id).partition("#")
        _, _, secret = self.reveal(controller, other).partition("#")
        worker = self.fleet.worker("--no-tls", url=f"{address}#{secret}")
        done = self.fleet.garcon(worker, "list", "agents", check=False)
        self.assert_refused(done, 3)
        self.assertIn("encrypted handshake", self.last_error(controller, executor_id))
        for service in (controller, worker):
            told = re.compile("handshake-failed: .*secret")
            self.assertIsNotNone(service.output.wait_for(told, 15), service.output.text())
        self.assertNotIn(secret, self.fleet.logs())

    def test_wrong_version(self) -> None:
        """A worker of another version is refused by its kind."""
        controller = self.fleet.controller()
        executor_id = self.fleet.executor(controller, *INBOUND, *PLAIN)
        config = self.fleet.root / "worker"
        older = "import garcon.contract.version as v; v.LINK_VERSION = '0.0.1+protocol.1'; "
        program = older + "from garcon.cli.main import main; raise SystemExit(main())"
        argv = [
            *(sys.executable, "-c", program, "worker", "--no-tls", "--config-dir", str(config)),
            *("--project-base-dir", str(self.fleet.projects)),
        ]
        url = self.reveal(controller, executor_id)
        worker = self.fleet.start("worker", config, argv, {"GARCON_CONTROLLER_URL": url})
        self.fleet.await_ready(worker)
        self.assertIn("version", self.last_error(controller, executor_id))

    def test_without_its_gateway_a_worker_serves_and_its_commands_fail_closed(self) -> None:
        """A gateway that cannot be published is a warning; no command finds another controller."""
        controller = self.fleet.controller()
        executor_id = self.fleet.executor(controller, *INBOUND, *PLAIN)
        config = self.fleet.root / "worker"
        program = (
            "import garcon.worker.gateway.listener as gateway\n"
            "def publish(*_): raise OSError('no space')\n"
            "gateway.publish = publish\n"
            "from garcon.cli.main import main\n"
            "raise SystemExit(main())"
        )
        argv = [
            *(sys.executable, "-c", program, "worker", "--no-tls", "--config-dir", str(config)),
            *("--project-base-dir", str(self.fleet.projects), "--enable-scripted-agent"),
        ]
        url = self.reveal(controller, executor_id)
        worker = self.fleet.start("worker", config, argv, {"GARCON_CONTROLLER_URL": url})
        self.fleet.await_ready(worker, re.compile("Started without a command gateway"))
        self.fleet.await_executor(controller, executor_id)
        self.assertIn("commands on this machine will not work", worker.output.text())
        done = self.fleet.garcon(worker, "list", "agents", check=False)
        self.assert_refused(done, 3)
        prompt = "run garcon list agents > listed 2>&1; echo $? > status\nsay over"
        done = self.start(controller, prompt, "--executor", executor_id)
        self.assertIn("over", done.out)
        self.assertEqual((self.fleet.projects / "project" / "status").read_text(), "3\n")

    def test_certificate_without_alternative_name(self) -> None:
        """A trusted certificate that names its host only as a common name is refused."""
        authority = make_authority(self.fleet.root / "certificates")
        certificate, key = authority.issue("localhost", alternative_names=False)
        controller = self.fleet.controller(
            "--tls-cert", str(certificate), "--tls-private-key", str(key)
        )
        address = f"wss://localhost:{controller.port}/executor/{{executorId}}"
        executor_id = self.fleet.executor(controller, *INBOUND, "--advertise-url", address)
        worker = self.fleet.worker(
            url=self.reveal(controller, executor_id),
            environment={"SSL_CERT_FILE": str(authority.certificate)},
        )
        found = worker.output.wait_for(re.compile("names no host .*no subjectAltName"), 15)
        self.assertIsNotNone(found, worker.output.text())
        shown = self.executor_snapshot(controller, executor_id)
        self.assertEqual(shown["availability"], "offline")
        done = self.fleet.garcon(worker, "list", "agents", check=False)
        self.assert_refused(done, 3)

    def test_grant_is_off_until_it_is_given(self) -> None:
        """Without the grant a worker's account reads nothing; the link itself is up."""
        controller, worker, executor_id = self.fleet.pair(grant=False)
        done = self.fleet.garcon(worker, "list", "agents", check=False)
        self.assert_refused(done, 3, "CLI_ACCESS_DENIED")
        self.grant(controller, executor_id, True)
        self.assertIn("scripted", self.fleet.garcon(worker, "list", "agents").out)

    def grant(self, controller: Service, executor_id: str, given: bool) -> None:
        """Give or take CLI access."""
        word = "true" if given else "false"
        self.fleet.garcon(
            controller, "executor", "update", executor_id, "--allow-controller-cli", word
        )

    def test_management_is_a_grant_of_its_own(self) -> None:
        """CLI access alone creates and reveals no executor."""
        _, worker, executor_id = self.fleet.pair()
        for command in (
            ("executor", "create", *INBOUND[2:], "--label", "more"),
            ("executor", "connection", executor_id),
            ("executor", "delete", executor_id),
        ):
            done = self.fleet.garcon(worker, *command, check=False)
            self.assertEqual(done.status, 3, str(done))
            self.assertIn("CLI_ACCESS_DENIED", done.err)

    def test_the_version_is_the_package_s(self) -> None:
        """`garcon --version` answers without any service."""
        controller = self.fleet.controller()
        self.assertIn(VERSION, self.fleet.garcon(controller, "--version").out)
