"""Where work goes when everything that could tell machines apart is the same: Local and two workers
with one project directory and one native session.
"""

from __future__ import annotations

from garcon.local.descriptors import read
from garcon.test.live.fleets import SCRIPTED, FleetTestCase
from garcon.test.live.test_worker import ask
from garcon.testing.fleet import Service

SAME = {"SCRIPTED_AGENT_SESSION": "the-same-everywhere"}
WHERE = "run echo $GARCON_CONFIG_DIR > where\nsay there"


class TargetingTests(FleetTestCase):
    """Only executor ids and chats say where anything belongs."""

    def setUp(self) -> None:
        super().setUp()
        self.controller = self.fleet.controller(environment=SAME)
        self.project = self.fleet.project("project")
        self.places: dict[str, Service] = {"local": self.controller}
        for name in ("worker-one", "worker-two"):
            executor_id = self.fleet.executor(
                self.controller,
                *("--label", name, "--direction", "executor-connects", "--no-tls", "true"),
            )
            url = self.fleet.garcon(self.controller, "executor", "connection", executor_id).out
            self.places[executor_id] = self.fleet.worker(
                "--no-tls", url=url.strip(), name=name, environment=SAME
            )
            self.fleet.await_executor(self.controller, executor_id)

    def where(self) -> str:
        """Return the config root of the role that a turn ran under; all write to one file."""
        return (self.project / "where").read_text().strip()

    def chats(self) -> set[str]:
        """Return the ids of all chats."""
        listed = self.fleet.garcon(self.controller, "chats", "--json").json["chats"]
        return {chat["id"] for chat in listed}

    def test_nothing_crosses(self) -> None:
        """Starts, looks, resumes with and without a choice, children and stops: each of them from
        each of the machines.
        """
        ends = {executor_id: service.descriptor() for executor_id, service in self.places.items()}
        for name in ("instanceId", "localCapability", "baseUrl"):
            self.assertEqual(len({descriptor[name] for descriptor in ends.values()}), len(ends))
        _, one, two = ends.values()
        at_two = read(self.places[list(ends)[2]].config / "executor" / "runtime.json", "executor")
        for capability, status in ((two["localCapability"], 200), (one["localCapability"], 403)):
            headers = {"Authorization": f"Bearer {capability}"}
            self.assertEqual(ask(at_two, "/api/v1/cli/context", headers)[0], status)

        chats = {}
        for executor_id, service in self.places.items():
            chat, _ = self.start(service, WHERE).handle()
            chats[executor_id] = chat
            self.assertEqual(self.where(), str(service.config))
        shown = [self.snapshot(self.controller, chat)["chat"] for chat in chats.values()]
        self.assertEqual([chat["executorId"] for chat in shown], list(chats))
        self.assertEqual({chat["projectPath"] for chat in shown}, {str(self.project)})

        for executor_id, service in self.places.items():
            # Every machine sees every chat, and its own session.
            listed = self.fleet.garcon(service, "chats", "--json").json["chats"]
            self.assertEqual({chat["id"] for chat in listed}, set(chats.values()))
            look = ("lookup-native-session", SAME["SCRIPTED_AGENT_SESSION"])
            self.assertEqual(self.fleet.garcon(service, *look).out, f"{chats[executor_id]}\n")
            for other, chat in chats.items():
                found = self.fleet.garcon(service, *look, "--executor", other).out
                self.assertEqual(found, f"{chat}\n")

        for service in self.places.values():
            for executor_id, chat in chats.items():
                # From the chat's own executor and its catalog, whoever asks.
                choice = ("--model", "scripted") if service is self.controller else ()
                self.fleet.garcon(service, "resume", chat, *choice, WHERE)
                self.assertEqual(self.where(), str(self.places[executor_id].config))

    def test_children_stops_and_other_executors(self) -> None:
        """A child is made where its parent runs; a stop from anywhere ends that one turn; another
        executor is named, with an absolute path that is sent as it is and checked over there.
        """
        inner = "run garcon start-async --agent scripted --model scripted --parent"
        for executor_id, service in self.places.items():
            chat, _ = self.start(service, "say parent").handle()
            before = self.chats()
            self.fleet.garcon(service, "resume", chat, f"{inner} {chat} 'say child'\nsay made")
            (made,) = self.chats() - before
            owner = self.snapshot(self.controller, made)["chat"]["executorId"]
            self.assertEqual(owner, executor_id)
        sleeping = [self.start(s, "sleep 60", wait=False).handle() for s in self.places.values()]
        ends = list(self.places.values())
        for (chat, turn), service in zip(sleeping, (ends[1], ends[2], ends[0]), strict=True):
            self.fleet.garcon(service, "stop", chat)
            done = self.fleet.garcon(service, "wait", chat, "--turn", turn, check=False)
            self.assertEqual(done.status, 4, str(done))
        one, two = (executor_id for executor_id in self.places if executor_id != "local")
        for origin, target in ((one, two), (two, one), (one, "local")):
            service = self.places[origin]
            words = ("start", *SCRIPTED, "--executor", target)
            done = self.fleet.garcon(service, *words, WHERE, check=False)
            self.assert_refused(done, 2, "--cwd")
            self.fleet.garcon(service, *words, "--cwd", str(self.project), WHERE)
            self.assertEqual(self.where(), str(self.places[target].config))
            done = self.fleet.garcon(service, *words, "--cwd", "/outside", WHERE, check=False)
            self.assert_refused(done, 2, "PROJECT_PATH_")
