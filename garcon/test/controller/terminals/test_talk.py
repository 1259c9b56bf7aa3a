"""What a browser socket and terminals say to each other, on this machine and behind a link alike
(server.md C.3 to C.7).
"""

from __future__ import annotations

from typing import Any

from garcon.contract.limits import (
    KIB,
    TERMINAL_TAIL,
)
from garcon.contract.terminals import (
    AUTH_EXPIRED,
    BACKPRESSURE,
    NOT_ATTACHED,
    NOT_FOUND,
    PROCESS_EXITED,
    REPLAY_SEQUENCE,
    TAKEOVER_REQUIRED,
    UNAVAILABLE,
    UNSUPPORTED,
    VALIDATION,
)
from garcon.test.controller.terminals.cast import LinkedTalk, LocalTalk, Talking, short

OTHER = "00000000-0000-4000-8000-ffffffffffff"


class Talk(Talking):
    """Every rule that holds wherever the terminal is."""

    def test_a_detach_of_another_attachment(self) -> None:
        """Is nothing."""
        name, browser = self.having()
        browser.send("detach", terminalId=name, attachmentId="b")
        browser.type(name, "x")
        self.settle()
        self.assertEqual((browser.kinds(), self.ptys.last.typed), ([], [b"x"]))

    def test_output_of_the_attachment_before(self) -> None:
        """Does not follow the next one's beginning."""
        name, browser = self.having()
        self.stalled(browser)
        self.say("unseen")
        browser.attach(name, "b")
        self.settle()
        browser.wire.drain()
        (attached,) = browser.heard()
        self.assertEqual(attached["attachmentId"], "b")
        self.assertEqual(attached["replay"], [{"sequence": 1, "data": "unseen"}])

    def test_a_small_replay(self) -> None:
        """Is in the message that says so."""
        info = self.new()
        for text in ("a", "漢", "🙂"):
            self.say(text)
        browser = self.browser()
        browser.attach(self.name(info), afterSequence=1)
        self.settle()
        (attached,) = browser.heard()
        self.assertEqual([c["data"] for c in attached["replay"]], ["漢", "🙂"])

    def test_a_large_replay(self) -> None:
        """Follows in batches, all of it before anything that is new."""
        name = self.new_name()
        text = "".join(f"{n:07d}\n" for n in range(60_000))
        for begin in range(0, len(text), 16 * KIB):
            self.say(text[begin : begin + 16 * KIB])
            self.clock.advance(1)
        browser = self.browser()
        browser.attach(name)
        self.say("new")
        for _ in range(50):
            self.settle()
        kinds = browser.kinds()
        self.assertEqual(kinds[0], "attached")
        last_batch = len(kinds) - 1 - kinds[::-1].index("replay-batch")
        self.assertNotIn("output", kinds[:last_batch])
        self.assertEqual(browser.text(name), text + "new")

    def test_a_replay_of_very_many_chunks(self) -> None:
        """Is not waited for in vain when it is more than may be under way."""
        name = self.new_name()
        for _ in range(3_000):
            self.ptys.last.say("x")
        browser = self.browser()
        browser.attach(name)
        for _ in range(50):
            self.settle()
        self.assertEqual(browser.kinds()[:2], ["attached", "replay-batch"])
        self.assertEqual(browser.text(name), "x" * 3_000)

    def test_what_is_left_out(self) -> None:
        """Is said first."""
        name = self.new_name()
        for _ in range(TERMINAL_TAIL // (16 * KIB) + 8):
            self.say("x" * 16 * KIB)
            self.clock.advance(1)
        browser = self.browser()
        browser.attach(name)
        for _ in range(50):
            self.settle()
        self.assertEqual(browser.kinds()[:2], ["replay-truncated", "attached"])
        self.assertEqual(len(browser.text(name)), TERMINAL_TAIL)

    def test_failures_to_attach(self) -> None:
        """Leave no subscription, and name the terminal and the attachment."""
        info = self.new()
        name = self.name(info)
        where, runtime, session = name.split("/")
        gone = f"{where}/{runtime}/{OTHER}"
        restarted = f"{where}/{OTHER}/{session}"
        elsewhere = f"{OTHER}/{runtime}/{session}"
        browser = self.browser()
        for wanted, code, more in (
            (gone, NOT_FOUND, {}),
            (restarted, NOT_FOUND, {}),
            (elsewhere, UNAVAILABLE, {}),
            (name, REPLAY_SEQUENCE, {"afterSequence": 5}),
            (name, UNAVAILABLE, {"attachmentEpoch": "another"}),
        ):
            browser.attach(wanted, **more)
            self.settle()
            (error,) = browser.heard()
            self.assertEqual(
                (error["code"], error["terminalId"], error["attachmentId"]), (code, wanted, "a")
            )
            browser.type(wanted, "x")
            self.assertEqual(browser.kinds(), [short(NOT_ATTACHED)])
        theirs = self.browser("bob")
        theirs.attach(name)
        self.settle()
        self.assertEqual(theirs.kinds(), [short(NOT_FOUND)])
        browser.attach(name, attachmentEpoch=self.listed().attachment_epoch)
        self.settle()
        self.assertEqual(browser.kinds(), ["attached"])

    def test_refused_without_taking_over(self) -> None:
        """Still hears of the terminal itself, until it detaches."""
        name, owner = self.having()
        other = self.browser()
        other.attach(name, clientId="other")
        self.settle()
        self.assertEqual(other.kinds(), [short(TAKEOVER_REQUIRED)])
        other.type(name, "x")
        self.settle()
        self.assertEqual(other.kinds(), [short(NOT_ATTACHED)])
        self.result(self.rename_call(self.listed().terminals[0], "t"))
        self.settle()
        self.assertEqual((other.kinds(), owner.kinds()), (["status"], ["status"]))
        other.send("detach", terminalId=name, attachmentId="a")
        self.settle()
        self.result(self.rename_call(self.listed().terminals[0], "u"))
        self.settle()
        self.assertEqual((other.kinds(), owner.kinds()), ([], ["status"]))

    def test_taken_over(self) -> None:
        """The one before is told by whom, hears no more output, but of its end."""
        name, first = self.having()
        second = self.browser()
        second.attach(name, clientId="other", intent="takeover")
        self.settle()
        (taken,) = first.heard()
        self.assertEqual((taken["type"][9:], taken["replacementClientId"]), ("taken-over", "other"))
        self.say("x")
        self.assertEqual(second.kinds(), ["attached", "output"])
        self.ptys.last.exit(3)
        self.settle()
        self.assertEqual((first.kinds(), second.kinds()), (["status"], ["status"]))
        second.type(name, "x")
        self.settle()
        self.assertEqual(second.kinds(), [short(PROCESS_EXITED)])
        self.result(self.terminate_call(self.listed().terminals[0].session_id))
        self.settle()
        self.assertEqual((first.kinds(), second.kinds()), (["terminated"], ["terminated"]))

    def test_the_same_client_elsewhere(self) -> None:
        """Has it without a word to the other."""
        name, first = self.having()
        second = self.browser()
        second.attach(name)
        self.settle()
        self.assertEqual((second.kinds(), first.kinds()), (["attached"], []))
        self.say("x")
        self.assertEqual((second.kinds(), first.kinds()), (["output"], []))

    def test_a_socket_that_ends(self) -> None:
        """Lets go of its terminals."""
        _, browser = self.having()
        browser.socket.closed()
        self.settle()
        self.assertEqual(self.listed().terminals[0].attachment_status, "detached")

    def test_the_end_of_its_authority(self) -> None:
        """Is said once, of no terminal; everything is let go, and nothing is answered any more but
        what is none of terminals' business.
        """
        name = self.new_name()
        browser = self.browser(expires_in=100)
        browser.attach(name)
        self.settle()
        self.assertEqual(browser.kinds(), ["attached"])
        self.stalled(browser)
        self.say("unseen")
        self.clock.advance(99)
        self.settle()
        browser.wire.drain()
        self.clock.advance(2)
        self.settle()
        heard = browser.heard()
        self.assertEqual(heard[-1]["code"], AUTH_EXPIRED)
        self.assertNotIn("terminalId", heard[-1])
        self.assertEqual(self.listed().terminals[0].attachment_status, "detached")
        browser.attach(name, "b")
        browser.type(name, "x", "b")
        browser.send("nonsense")
        self.say("more")
        self.assertEqual((browser.kinds(), self.ptys.last.typed), ([], []))
        browser.socket.received(b'{"type":"ws-ping","clientRequestId":"p","sentAt":1}')
        self.assertEqual(browser.kinds(), ["ws-pong"])

    def test_the_end_of_its_authority_while_it_takes_nothing(self) -> None:
        """What waits is not said any more."""
        name = self.new_name()
        browser = self.browser(expires_in=100)
        browser.attach(name)
        self.settle()
        browser.heard()
        self.stalled(browser)
        self.say("unseen")
        self.clock.advance(101)
        self.settle()
        browser.wire.drain()
        self.assertEqual(browser.kinds(), [short(AUTH_EXPIRED)])

    def test_a_socket_whose_authority_has_ended_already(self) -> None:
        """Is told so with its first message about terminals, once."""
        browser = self.browser(expires_in=0)
        name = self.new_name()
        browser.attach(name)
        browser.attach(name)
        self.settle()
        self.assertEqual(browser.kinds(), [short(AUTH_EXPIRED)])

    def test_a_login_that_is_revoked(self) -> None:
        """Ends the rights of its own sockets."""
        name, browser = self.having()
        self.door.signed_out("somebody else's")
        browser.type(name, "x")
        self.settle()
        self.assertEqual((browser.kinds(), self.ptys.last.typed), ([], [b"x"]))
        self.door.signed_out("alice's login")
        self.settle()
        self.assertEqual(browser.kinds(), [short(AUTH_EXPIRED)])

    def test_a_login_that_was_revoked_before_the_first_word(self) -> None:
        """A socket that was silent till then is told so once, and has nothing."""
        name, browser = self.new_name(), self.browser()
        self.signed_out.add("alice's login")
        self.door.signed_out("alice's login")
        browser.attach(name)
        browser.type(name, "x")
        self.settle()
        self.assertEqual((browser.kinds(), self.ptys.last.typed), ([short(AUTH_EXPIRED)], []))

    def test_a_machine_that_slept_through_the_deadline(self) -> None:
        """Its timers are late; the next word or output counts."""
        name = self.new_name()
        browser = self.browser(expires_in=100)
        browser.attach(name)
        self.settle()
        browser.heard()
        self.slept = 1_000
        self.say("secret")
        self.assertEqual(browser.kinds(), [short(AUTH_EXPIRED)])

    # -- a socket that takes nothing

    def test_chats_do_not_wait_for_terminals(self) -> None:
        """They go out before all that waits of a terminal."""
        name, browser = self.having()
        self.stalled(browser)
        for number in range(10):
            self.say(f"{number}")
        browser.socket.received(b'{"type":"ws-ping","clientRequestId":"p","sentAt":1}')
        self.assertEqual(browser.kinds(), [])
        browser.wire.drain()
        self.assertEqual(browser.kinds(), ["ws-pong", *["output"] * 10])
        self.assertEqual(browser.text(name), "0123456789")

    def test_a_page_does_not_wait_for_terminals(self) -> None:
        """Whoever waits for room is served before them."""
        _, browser = self.having()
        self.stalled(browser)
        self.say("x")
        order: list[str] = []
        browser.socket.room().addCallback(lambda _: order.extend(browser.kinds() or ["first"]))
        browser.wire.drain()
        self.assertEqual((order, browser.kinds()), (["first"], ["output"]))

    def test_a_flood_that_is_not_taken(self) -> None:
        """Waits where it comes from, is given up there, and leaves the socket's other terminal and
        its chats alone.
        """
        name, browser = self.having()
        noisy = self.ptys.last
        other = self.new_name()
        browser.attach(other)
        self.settle()
        self.stalled(browser)
        for _ in range(500):
            noisy.say("x" * 16 * KIB)
            self.settle()
        self.say("quiet")
        browser.wire.drain()
        kinds = browser.kinds()
        self.assertEqual(kinds.count(short(BACKPRESSURE)), 1, kinds)
        self.assertEqual(browser.text(other), "quiet")
        browser.type(name, "x")
        self.settle()
        self.assertEqual(browser.kinds(), [short(NOT_ATTACHED)])
        self.assertEqual((browser.wire.closes, browser.wire.aborts), ([], 0))

    def test_many_small_outputs_that_are_not_taken(self) -> None:
        """Stay below the bounds, and arrive whole once the socket takes them."""
        name, browser = self.having()
        self.stalled(browser)
        text = ""
        for number in range(2_000):
            self.ptys.last.say(f"{number}\n")
            text += f"{number}\n"
        self.settle()
        for _ in range(200):
            browser.wire.drain()
            self.settle()
        self.assertEqual(browser.text(name), text)

    def test_terminals_take_turns(self) -> None:
        """One message of each, so that a noisy one is not ahead of the others."""
        names, ptys = [], []
        browser = self.browser()
        for _ in range(3):
            names.append(self.new_name())
            ptys.append(self.ptys.last)
            browser.attach(names[-1])
        self.settle()
        browser.heard()
        self.stalled(browser)
        for pty, count in zip(ptys, (5, 2, 1), strict=True):
            for number in range(count):
                self.say(str(number), pty)
        browser.wire.drain()
        order = [names.index(one["terminalId"]) for one in browser.heard()]
        self.assertEqual(order, [0, 1, 2, 0, 1, 0, 0, 0])

    def test_mistakes_of_a_client_that_does_not_listen(self) -> None:
        """Are answered as far as they may wait; after that the socket ends, whatever they are
        about.
        """
        for terminal in (None, self.new_name()):
            browser = self.browser()
            browser.send("detach", terminalId="x")
            self.stalled(browser)
            for number in range(300):
                if terminal is None:
                    browser.send("input", terminalId=1)
                else:
                    path, _, _ = terminal.rpartition("/")
                    browser.type(f"{path}/{OTHER[:-3]}{number:03x}", "x")
            self.assertEqual(
                browser.wire.closes, [(1013, "TERMINAL_STREAM_BACKPRESSURE")], terminal
            )
            self.assertEqual(browser.kinds(), [])

    def test_mistakes_about_one_terminal(self) -> None:
        """Cost that terminal first: what waits of it goes, and it is given up."""
        name, browser = self.having()
        self.stalled(browser)
        for _ in range(250):
            browser.type(name, "x", "b")
        browser.send("input", terminalId=1)
        for _ in range(5):
            browser.type(name, "x", "b")
        self.assertEqual(browser.wire.closes, [])
        browser.type(name, "x", "b")
        browser.wire.drain()
        self.assertEqual(browser.kinds()[-2:], [short(VALIDATION), short(BACKPRESSURE)])
        self.settle()
        self.assertEqual(self.listed().terminals[0].attachment_status, "detached")

    def test_a_wire_that_breaks(self) -> None:
        """Ends the socket with the code for it."""
        _, browser = self.having()
        browser.wire.error = OSError("broken")
        self.say("x")
        self.assertEqual(browser.wire.closes, [(1011, "TERMINAL_STREAM_SEND_FAILED")])
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.settle()
        self.assertEqual(self.listed().terminals[0].attachment_status, "detached")

    # What trial's case has.
    assertNotIn: Any
    flushLoggedErrors: Any


class Local(Talk, LocalTalk):
    """On this machine."""

    def test_an_executor_without_terminals(self) -> None:
        """Has none, and says so."""
        name = self.new_name()
        self.door._executors.host = object()  # type: ignore[attr-defined]
        browser = self.browser()
        browser.attach(name)
        self.assertEqual(browser.kinds(), [short(UNSUPPORTED)])

    def test_a_key_takes_no_turn(self) -> None:
        """What a shell says to it is on the wire when it is said: no timer is between."""
        name, browser = self.having()
        browser.type(name, "k")
        self.assertEqual(self.ptys.last.typed, [b"k"])
        calls = len(self.clock.getDelayedCalls())
        self.ptys.last.say("k")
        self.assertEqual(browser.kinds(), ["output"])
        self.assertEqual(len(self.clock.getDelayedCalls()), calls)


class Linked(Talk, LinkedTalk):
    """Behind a link."""

    def test_a_lost_link(self) -> None:
        """Ends the attachment, by name; with the next list's epoch it can be had again."""
        name, browser = self.having()
        self.worker.close("over")
        self.settle()
        (error,) = browser.heard()
        self.assertEqual((error["code"], error["terminalId"]), (UNAVAILABLE, name))
        browser.attach(name, "b")
        self.settle()
        self.assertEqual(browser.kinds(), [short(UNAVAILABLE)])
        self.worker = self.make_worker()
        self.settle()
        browser.attach(name, "c")
        self.settle()
        self.assertEqual(browser.kinds(), ["attached"])
