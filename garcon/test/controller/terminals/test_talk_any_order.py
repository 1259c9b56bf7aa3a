"""Terminals and two browsers in any order of output, silence, reading on, attaching, taking over,
typing, detaching and exit (server.md C.3 to C.6).

What must hold is what the judge of every message knows: nothing is left out without saying so,
nothing comes twice, and nothing of an attachment before it has begun or after it has ended.  In the
end whoever has the terminal has seen all of it.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock

from garcon.contract.limits import KIB
from garcon.test.controller.terminals.cast import Browser, LocalTalk
from garcon.testing.fake_pty import FakePtys, fake_terminals

WHO = st.integers(0, 1)
STEPS = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(["x", "漢字", "🙂" * 2_000, "y" * 20 * KIB])),
    st.tuples(st.just("many"), st.integers(1, 300)),
    st.tuples(st.just("attach"), WHO, st.sampled_from(["restore", "takeover"]), st.booleans()),
    st.tuples(st.just("detach"), WHO),
    st.tuples(st.just("type"), WHO),
    st.tuples(st.just("stall"), WHO),
    st.tuples(st.just("narrow"), WHO),
    st.tuples(st.just("drain"), WHO),
    st.tuples(st.just("rename"), WHO),
    st.tuples(st.just("settle"), WHO),
    st.tuples(st.just("exit"), WHO),
)


class AnyOrder(LocalTalk):
    """One terminal, two browsers."""

    @settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
    @example(
        [("attach", 0, "restore", True), ("narrow", 0), ("stall", 0), ("many", 300)]
        + [("drain", 0), ("settle", 0)] * 9
    )
    @given(st.lists(STEPS, min_size=5, max_size=40))
    def test_any_order(self, steps: list[tuple[Any, ...]]) -> None:
        """See above."""
        self.anew()
        name = self.new_name()
        browsers = [self.browser(), self.browser()]
        self.number = 0
        attached: list[str | None] = [None, None]
        text = ""
        for step in steps:
            match step:
                case ("say", said):
                    text += self.written(said)
                case ("many", count):
                    for _ in range(int(count)):
                        text += self.written("m" * 500)
                case ("attach", int(who), intent, knows):
                    attached[who] = self.wish(browsers[who], who, name, intent, bool(knows))
                case ("detach", int(who)):
                    browsers[who].send("detach", terminalId=name)
                case ("type", int(who)):
                    browsers[who].type(name, "k", attached[who] or "none")
                case ("stall", int(who)):
                    self.stalled(browsers[who])
                case ("narrow", int(who)):
                    browsers[who].wire.is_stuck = True
                case ("drain", int(who)):
                    browsers[who].wire.drain()
                case ("rename", _):
                    self.rename_call(self.listed().terminals[0], str(self.number))
                case ("exit", _) if not self.ptys.last.has_exited:
                    self.ptys.last.exit(0)
                case _:
                    self.clock.advance(0.01)
            for browser in browsers:
                browser.heard()
        self.wish(browsers[0], 0, name, "takeover", True)
        for _ in range(200):
            browsers[0].wire.drain()
            self.settle()
        seen = browsers[0].text(name)
        self.assertEqual(seen[-20 * KIB :], text[-20 * KIB :])
        self.assertEqual(browsers[0].judgement.last[name], self.service_latest())
        self.assertEqual(browsers[0].wire.closes, [])

    def anew(self) -> None:
        """Begin with nothing, as every example does."""
        self.close_all()
        self.service.stop()
        self.clock.advance(20)
        self.clock = Clock()
        self.ptys = FakePtys()
        self.service = self.terminals = fake_terminals(self.clock, self.ptys, self.base)
        self.sockets = []
        self.give("local")

    def service_latest(self) -> int:
        return self.listed().terminals[0].latest_output_sequence

    def written(self, said: str) -> str:
        if self.ptys.last.has_exited:
            return ""
        self.ptys.last.say(said)
        return said

    def wish(self, browser: Browser, who: int, name: str, intent: str, knows: bool) -> str:
        self.number += 1
        attachment_id = f"{who}-{self.number}"
        after = browser.judgement.last.get(name, 0) if knows else 0
        if not knows:
            browser.judgement.texts[name] = ""
        browser.attach(name, attachment_id, clientId=str(who), intent=intent, afterSequence=after)
        return attachment_id
