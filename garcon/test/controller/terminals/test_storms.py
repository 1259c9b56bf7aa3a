"""Nothing is left of sockets that come, have terminals and go, in whatever way they end."""

from __future__ import annotations

import gc
from collections import Counter
from random import Random

from twisted.internet.defer import Deferred

from garcon.contract.terminals import TerminalAttachment
from garcon.controller.executors import remote_terminals
from garcon.controller.executors.remote_typing import Typing
from garcon.controller.terminals.subscription import Subscription
from garcon.controller.terminals.talk import TerminalTalk
from garcon.runtime.terminals.attachment import Attachment
from garcon.runtime.terminals.operations import Operation
from garcon.test.controller.terminals.cast import Browser, LinkedTalk, LocalTalk, Talking
from garcon.worker.serving import terminals as serving

COUNTED = (
    Attachment,
    Deferred,
    Operation,
    Subscription,
    TerminalAttachment,
    TerminalTalk,
    Typing,
    remote_terminals._Attachment,
    serving._Attachment,
)
SOCKETS = 25


class Storms(Talking):
    """Counts what there is, before and after."""

    def left(self) -> Counter[str]:
        """What there is of everything that belongs to an attachment, and of timers."""
        gc.collect()
        found = Counter(
            f"{type(one).__module__}.{type(one).__name__}"
            for one in gc.get_objects()
            if isinstance(one, COUNTED)
        )
        found["timers"] = len(self.clock.getDelayedCalls())
        return found

    def calm(self) -> None:
        """Let the last of it be over."""
        for _ in range(20):
            self.settle()

    def hold(self, is_held: bool) -> None:
        """Let what is asked for take its time, or not; here it takes none."""

    def storm(self, names: list[str], random: Random) -> None:
        """Let sockets come, fight over terminals, and go."""
        browsers: list[Browser] = []
        for number in range(SOCKETS):
            self.hold(random.random() < 0.5)
            browser = self.browser(expires_in=random.choice((None, None, 1.0)))
            browsers.append(browser)
            for name in names:
                attached = f"a{number}"
                intent = random.choice(("restore", "takeover", "takeover"))
                browser.attach(name, attached, clientId=f"c{number % 5}", intent=intent)
                if random.random() < 0.5:
                    self.settle()
                browser.type(name, random.choice(("x", "y" * 30_000)), attached)
                browser.send(
                    "resize", terminalId=name, attachmentId=attached, cols=9, rows=number + 1
                )
                if random.random() < 0.3:
                    browser.send("detach", terminalId=name, attachmentId=attached)
            for pty in self.ptys.opened:
                pty.say("output\r\n" * random.randrange(2_000))
            if random.random() < 0.3:
                self.stalled(browser)
            if random.random() < 0.4:
                random.choice(browsers).socket.closed()
            browser.heard()
        self.hold(False)
        for socket in self.sockets:
            socket.closed()
        self.sockets.clear()

    def test_sockets_that_come_and_go(self) -> None:
        """As many attachments, promises and timers after it as before."""
        names = [self.new_name() for _ in range(3)]
        self.storm(names, Random(0))
        self.calm()
        before = self.left()
        for seed in range(1, 3):
            self.storm(names, Random(seed))
        self.calm()
        self.assertEqual(self.left() - before, Counter())
        self.assertEqual({one.attachment_status for one in self.listed().terminals}, {"detached"})


class Local(Storms, LocalTalk):
    """On this machine."""


class Linked(Storms, LinkedTalk):
    """On a worker, behind a link that stands still now and then."""

    def hold(self, is_held: bool) -> None:
        if is_held:
            self.network.hold()
        else:
            self.network.release()
