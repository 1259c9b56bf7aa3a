"""What every changing command makes of every outcome of the bridge (control.md F.6, I.6)."""

from __future__ import annotations

from attrs import frozen

from garcon.contract import bridge, routes
from garcon.contract.routes import Route
from garcon.test.cli.test_status import a_snapshot
from garcon.test.contract.test_routes import commands_routes
from garcon.test.live.test_cli_recovery import CHAT, WORKER, RecoveryCase
from garcon.testing.http_double import answer, refusal

UNKNOWN = "CLI_OUTCOME_UNKNOWN"
TRIED_AGAIN = frozenset({UNKNOWN, "CLI_CONTROLLER_UNAVAILABLE"})
WAITED_FOR = "CLI_SERVICE_BUSY"
DIRECTION = ("--direction", "executor-connects")
LEFT_OVER = {"pid": 7, "started": 5, "name": "sleep", "origin": "earlier", "seconds": 9.0}


@frozen
class Command:
    """A command, the one change that it makes, and whether that has an identity of its own, by
    which it may be sent again.
    """

    route: Route
    words: tuple[str, ...]
    has_identity: bool = False
    waits_for_room: bool = True


COMMANDS = (
    Command(
        routes.START_CHAT,
        ("start-async", "--agent", "scripted", "--model", "scripted", "hello"),
        True,
    ),
    Command(routes.RUN_CHAT, ("resume-async", CHAT, "hello"), True),
    Command(routes.STEER, ("resume-async", CHAT, "hello", "--allow-steer"), True),
    Command(routes.FORK, ("fork", CHAT), waits_for_room=False),
    Command(routes.FORK_RUN, ("fork-async", CHAT, "hello"), True),
    Command(routes.STOP_CHAT, ("stop", CHAT), True),
    Command(
        routes.PERMISSION_DECISION,
        ("permission-decision", CHAT, "o", "allow", "--run", "r", "--server-instance", "INSTANCE"),
        True,
    ),
    Command(routes.ADD_ROW, ("add-row", CHAT, "--type", "info", "text"), True),
    Command(routes.PIN, ("pin", CHAT)),
    Command(routes.ARCHIVE, ("unarchive", CHAT)),
    Command(routes.SESSION_NAME, ("rename", CHAT, "name")),
    Command(routes.SET_TAGS, ("set-tags", CHAT, "--clear")),
    Command(
        routes.CREATE_EXECUTOR,
        ("executor", "create", "--label", "w", *DIRECTION),
        waits_for_room=False,
    ),
    Command(
        routes.UPDATE_EXECUTOR,
        ("executor", "update", WORKER, "--label", "w"),
        waits_for_room=False,
    ),
    Command(routes.DELETE_EXECUTOR, ("executor", "delete", WORKER), waits_for_room=False),
    Command(
        routes.END_PROCESS,
        ("executor", "doctor", WORKER, "--end", str(LEFT_OVER["pid"])),
        waits_for_room=False,
    ),
)


class OutcomeTests(RecoveryCase):
    """Definite is definite, unknown is unknown, and the first unknown is never taken back."""

    def setUp(self) -> None:
        super().setUp()
        self.fake.on("GET /chats/snapshot", answer(a_snapshot()))
        self.fake.on("GET /chats/rows", answer({"transcriptViewId": "view-1"}))
        self.fake.on("GET /chats/tags", answer({"chatId": CHAT, "tags": ["a"]}))
        left = {"processes": [LEFT_OVER], "count": 1}
        self.fake.on(f"GET /executors/{WORKER}/diagnostics", answer({"leftovers": left}))

    def run_command(self, command: Command, *replies: bytes) -> tuple[int, str]:
        """Run a command whose change meets these replies; return how often it was asked for, and
        what it said.
        """
        if command.route is routes.STEER:
            self.fake.on("POST /chats/run", refusal(409, "SESSION_BUSY", "busy"))
        key = command.route.key.replace(":executorId", WORKER)
        self.fake.on(key, *replies)
        self.fake.double.asked.clear()
        self.machine.err.seek(0)
        self.machine.err.truncate()
        instance = self.fake.server_instance_id
        words = [instance if word == "INSTANCE" else word for word in command.words]
        self.assertEqual(self.garcon(*words), 3, (command.words, self.err))
        self.assertEqual(self.out, "", command.words)
        return len(self.fake.asked(key)), self.err

    def test_every_command_that_changes_something_is_here(self) -> None:
        """All the mutations that the command asks for, and can ask a gateway for."""
        changing = {one for one in commands_routes() if one.mutation and one.bridged}
        self.assertEqual({command.route for command in COMMANDS}, changing)

    def test_every_outcome(self) -> None:
        """How often it is sent, whether it says that it may have happened, and where to look then;
        lost access and another controller end it at once.
        """
        for command in COMMANDS:
            for code, status in bridge.STATUSES.items():
                retry = 1 if code == WAITED_FOR else None
                asked, said = self.run_command(
                    command, refusal(status, code, "told so", retry_after=retry)
                )
                case = (command.words, code, said)
                if code == WAITED_FOR:
                    self.assertEqual(asked > 1, command.waits_for_room, case)
                else:
                    again = command.has_identity and code in TRIED_AGAIN
                    self.assertEqual(asked, 3 if again else 1, case)
                self.assertEqual("may have been" in said, code == UNKNOWN, case)
                self.assertEqual("look with: garcon " in said, code == UNKNOWN, case)

    def test_doubt_stays(self) -> None:
        """An attempt whose answer was lost, and then each definite word of the bridge: it may have
        happened all the same.  The repetitions are the same to the byte.
        """
        for command in COMMANDS:
            if not command.has_identity:
                continue
            for code, status in bridge.STATUSES.items():
                for lost in (b"", refusal(503, UNKNOWN, "lost")):
                    asked, said = self.run_command(command, lost, refusal(status, code, "no"))
                    case = (command.words, code, said)
                    self.assertGreater(asked, 1, case)
                    self.assertIn("may have been accepted", said, case)
                    self.assertIn("look with: garcon ", said, case)
                    key = command.route.key
                    bodies = {one.body for one in self.fake.asked(key)}
                    self.assertEqual(len(bodies), 1, case)

    def test_a_change_without_an_identity_is_never_sent_again(self) -> None:
        """A lost answer is unknown at once."""
        for command in COMMANDS:
            if not command.has_identity:
                asked, said = self.run_command(command, b"")
                self.assertEqual(asked, 1, command.words)
                self.assertIn("may have been", said)
                self.assertIn("look with: garcon ", said)
