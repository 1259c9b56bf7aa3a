"""`garcon terminal` in real windows, with real controllers, workers and shells."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

from garcon.test.live.test_accounts import CREDENTIALS
from garcon.test.live.test_controller import API, ControllerCase, ask
from garcon.testing.fleet import Service, eventually, free_port
from garcon.testing.terminal_window import Window

SHELL = {"SHELL": "/bin/sh", "PS1": "% "}
DETACH = "\x1d"
GARCON = (sys.executable, "-m", "garcon.cli.main")


class WindowCase(ControllerCase):
    """Windows beside services."""

    def open(
        self,
        service: Service,
        *words: str,
        environment: dict[str, str] | None = None,
        argv: tuple[str, ...] | None = None,
    ) -> Window:
        """Open a window with a terminal command in it."""
        selection = {"GARCON_CONFIG_DIR": str(service.config), "GARCON_RUNTIME": service.runtime}
        window = Window(
            argv or (*GARCON, "terminal", *words),
            self.fleet.environment({**selection, **(environment or {})}),
            str(self.fleet.projects),
        )
        self.addCleanup(window.close)
        return window

    def attached(self, service: Service, *words: str, **more: Any) -> Window:
        """Open a window and wait until it is attached to a shell."""
        window = self.open(service, *words, **more)
        window.until("it is attached", window.is_raw)
        return window

    def new(self, service: Service, *options: str) -> str:
        """Make a terminal; return its id."""
        return self.fleet.garcon(service, "terminal", "new", "--detached", *options).out.strip()

    def listed(self, service: Service, *options: str) -> list[dict[str, Any]]:
        """Return what `list` says."""
        done = self.fleet.garcon(service, "terminal", "list", "--json", *options)
        found: list[dict[str, Any]] = done.json["terminals"]
        return found

    def enter(self, window: Window, command: str, until: str) -> None:
        """Type a command and wait for some text of its output."""
        window.type(command + "\r")
        window.sees(until)

    def assert_ended(self, window: Window, status: int, *words: str) -> None:
        """Assert how a window's command ended, what it said, and that the window is as before."""
        self.assertEqual(window.ended(), status, window.text)
        self.assertTrue(window.is_restored(), window.text)
        for word in words:
            window.sees(word)


class LocalCase(WindowCase):
    """A controller without accounts."""

    def setUp(self) -> None:
        super().setUp()
        self.controller = self.start(auth=False, environment=SHELL)


class UseTests(LocalCase):
    """A shell in a window."""

    def test_detaching_and_attaching_again(self) -> None:
        """The shell keeps its state, and what it printed is shown again; titles are kept, too."""
        window = self.attached(self.controller, "new", "--title", "work")
        self.enter(window, "kept=yes; echo se''t", "set")
        window.type(DETACH)
        self.assert_ended(
            window, 0, "detached; the terminal goes on: garcon terminal attach local/"
        )
        (terminal,) = self.listed(self.controller)
        self.assertEqual((terminal["title"], terminal["processStatus"]), ("work", "running"))
        eventually(
            "it is detached",
            lambda: self.listed(self.controller)[0]["attachmentStatus"] == "detached",
        )

        again = self.attached(self.controller, "attach", "1", "--detach-key", "^A")
        again.sees("set")
        self.enter(again, "echo kept=$kept", "kept=yes")
        again.type("\x01")
        self.assert_ended(again, 0)

    def test_the_size_follows(self) -> None:
        """It is there before the first key, and after every change."""
        window = self.open(self.controller, "new")
        window.resize(101, 31)
        window.until("it is attached", window.is_raw)
        self.enter(window, "stty size", "31 101")
        window.resize(132, 43)
        eventually("the new size", lambda: self._size(window) == "43 132")

    def _size(self, window: Window) -> str:
        window.forget()
        self.enter(window, "echo size $(stty size) e''nd", "end\r\n")
        found = re.findall(r"^size (\d+ \d+) end", window.text, re.MULTILINE)
        return found[-1] if found else ""

    def test_keys_reach_the_shell(self) -> None:
        """Ctrl-C and Ctrl-Z are its own, not the command's."""
        window = self.attached(self.controller, "new")
        # Whoever says so is interrupted itself: between two commands the shell would go on.
        said = """sh -c 'echo read""y; exec sleep 60'"""
        self.enter(window, f"trap 'echo caug''ht' INT; {said}", "ready")
        window.type("\x03")
        window.sees("caught")
        self.enter(window, "echo still h''ere", "still here")

    def test_every_character(self) -> None:
        """What is typed arrives to the byte, in whole characters, and so does what is printed."""
        window = self.attached(self.controller, "new")
        text = "ä漢字😀" * 20
        self.enter(
            window, f"printf 'got%s\\n' {text} | od -An -c | wc -l; echo {text}.", f"{text}."
        )
        path = self.fleet.root / "typed"
        self.enter(
            window, f"stty -icanon -echo; echo o''k; head -c 6000 >{path}; echo do''ne", "ok"
        )
        data = ("é漢😀" * 1_000)[:2_000]
        window.type((data + "x" * 6_000)[:6_000])
        window.sees("done")
        whole = (data + "x" * 6_000).encode()
        self.assertEqual(path.read_bytes(), whole[:6_000])

    def test_a_shell_ends(self) -> None:
        """Its last words are shown; 0 is 0, all else 1; what the window made is removed then."""
        for code, status in ((0, 0), (7, 1)):
            window = self.attached(self.controller, "new")
            window.type(f"echo la''st; exit {code}\r")
            self.assert_ended(window, status, "last", f"[exited {code}]")
        self.assertEqual(self.listed(self.controller), [])

    def test_another_windows_shell_ends(self) -> None:
        """It stays, and can be looked at as often as anybody wants to."""
        terminal = self.new(self.controller)
        window = self.attached(self.controller, "attach", terminal)
        window.type("echo la''st; exit 3\r")
        self.assert_ended(window, 1, "[exited 3]")
        for _ in range(2):
            again = self.open(self.controller, "attach", "1")
            self.assert_ended(again, 1, "last", "[exited 3]")
        self.assertEqual(self.listed(self.controller)[0]["exitCode"], 3)

    def test_taking_over(self) -> None:
        """The second is refused unless it takes over, and then the first one is told."""
        first = self.attached(self.controller, "new")
        refused = self.open(self.controller, "attach", "1")
        self.assert_ended(refused, 3, "--take-over")
        second = self.attached(self.controller, "attach", "1", "--take-over")
        self.assert_ended(first, 3, "terminal: another client has taken the terminal over")
        self.enter(second, "echo he''re", "here")

    def test_killing(self) -> None:
        """Whoever is attached is told: 4."""
        window = self.attached(self.controller, "new")
        self.fleet.garcon(self.controller, "terminal", "kill", "1")
        self.assert_ended(window, 4, "terminal: the terminal was killed")
        gone = self.open(self.controller, "attach", "1")
        self.assert_ended(gone, 2, "there is no terminal 1")

    def test_a_whole_replay(self) -> None:
        """More than one message holds, and more than is kept: it is told where that begins."""
        window = self.attached(self.controller, "new")
        self.enter(window, "seq 1 100000; echo e''nd", "end\r\n")
        window.type(DETACH)
        self.assert_ended(window, 0)
        again = self.attached(self.controller, "attach", "1")
        again.sees("end\r\n")
        self.assert_counted(again, 100_000)
        self.enter(again, "seq 1 300000; echo wh''ole", "whole\r\n")
        again.type(DETACH)
        self.assert_ended(again, 0)
        cut = self.attached(self.controller, "attach", "1")
        cut.sees("whole\r\n")
        self.assertIn("[garcon: the output before this is not kept any more]", cut.text)
        # What is kept may begin within a number.
        numbers = self.numbers(cut)[1:]
        self.assertEqual(numbers, list(range(numbers[0], 300_001)))

    def numbers(self, window: Window) -> list[int]:
        """Return the whole lines that are numbers."""
        return [int(line) for line in re.findall(r"(?<=\n)\d+(?=\r\n)", window.text)]

    def assert_counted(self, window: Window, last: int) -> None:
        """Assert that every number was printed once and in order."""
        self.assertEqual(self.numbers(window), list(range(1, last + 1)))

    def test_a_window_that_stands_still(self) -> None:
        """The shell goes on; what the window shows then is in order, and says if something is not
        kept; the window can always be left.
        """
        window = self.attached(self.controller, "new")
        done = self.fleet.root / "done"
        window.stop_reading()
        window.type(f"seq 1 1000000; touch {done}; echo e''nd\r")
        eventually("the shell is done", done.exists, 60)
        window.go_on_reading()
        window.sees("end\r\n", 60)
        text, is_cut = window.text, "is not kept any more" in window.text
        # Notices stand between any two characters; what a cut took a part of is no number.
        notices = r"(?:\r\n\[garcon: [^]]*\]\r\n)+"
        text = re.sub(rf"\d*{notices}\d*" if is_cut else notices, "", text)
        numbers = [int(line) for line in re.findall(r"(?<=\n)\d+(?=\r\n)", text)]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertEqual(numbers[-1], 1_000_000)
        self.assertTrue(is_cut or len(numbers) == 1_000_000)
        window.stop_reading()
        window.type("seq 1 100000\r")
        window.signal(signal.SIGTERM)
        self.assertEqual(window.ended(), -signal.SIGTERM)
        self.assertTrue(window.is_restored())


class RestoreTests(LocalCase):
    """The window is as before, whatever ends the command."""

    def test_signals(self) -> None:
        """Each that can be kept; the command's end is by that signal, so that others see it."""
        terminal = self.new(self.controller)
        for number in (
            signal.SIGTERM,
            signal.SIGHUP,
            signal.SIGQUIT,
            signal.SIGUSR1,
            signal.SIGALRM,
        ):
            window = self.attached(self.controller, "attach", terminal, "--take-over")
            self.assertFalse(window.is_restored())
            window.signal(number)
            self.assert_ended(window, -number)
        window = self.attached(self.controller, "attach", terminal, "--take-over")
        window.signal(signal.SIGINT)
        self.assert_ended(window, 130, "interrupted; the terminal goes on")

    def test_a_program_has_the_screen(self) -> None:
        """Its screen, its mouse and its hidden cursor do not stay behind."""
        window = self.attached(self.controller, "new")
        self.enter(window, "printf '\\033[?1049h\\033[?1002h\\033[?25l'; echo re''ady", "ready")
        window.forget()
        window.signal(signal.SIGTERM)
        self.assert_ended(window, -signal.SIGTERM)
        for mode in ("?1049l", "?1002l", "?25h"):
            window.sees(f"\x1b[{mode}")

    def test_the_window_is_closed(self) -> None:
        """The command ends and the shell goes on."""
        window = self.attached(self.controller, "new")
        window.hang_up()
        self.assertEqual(window.ended(), -signal.SIGHUP)
        eventually(
            "it is detached",
            lambda: self.listed(self.controller)[0]["attachmentStatus"] == "detached",
        )

    def test_a_stop_and_a_continuation(self) -> None:
        """Stopped as a job, the shell beneath has the window; continued, the terminal is there."""
        terminal = self.new(self.controller)
        window = self.open(
            self.controller,
            argv=("/bin/bash", "--norc", "--noprofile", "-i"),
            environment={"PS1": "beneath$ "},
        )
        window.sees("beneath$ ")
        command = shlex.join((*GARCON, "terminal", "attach", terminal))
        window.type(f"{command}\r")
        window.sees("% ")
        self.enter(window, "kept=yes; echo se''t", "set")
        window.forget()
        self._signal_child(window, signal.SIGTSTP)
        window.sees("beneath$ ")
        self.enter(window, "echo bel''ow", "below")
        window.forget()
        window.type("fg\r")
        self.enter(window, "echo kept=$kept", "kept=yes")
        self._signal_child(window, signal.SIGSTOP)
        window.sees("beneath$ ")
        window.forget()
        window.type("fg\r")
        self.enter(window, "echo kept=$kept", "kept=yes")
        window.type(DETACH)
        window.sees("detached")
        self.enter(window, "echo status $?", "status 0")

    def _signal_child(self, window: Window, number: signal.Signals) -> None:
        children = Path(f"/proc/{window.process.pid}/task/{window.process.pid}/children")
        (child,) = children.read_text().split()
        os.kill(int(child), number)

    def test_no_window(self) -> None:
        """Without one on both sides nothing is attached or made."""
        for words in (("attach", "1"), ("new",)):
            done = self.fleet.garcon(self.controller, "terminal", *words, check=False)
            self.assertEqual((done.status, done.out), (2, ""))
            self.assertIn("no terminal to attach", done.err)
        self.assertEqual(self.listed(self.controller), [])

    def test_the_controller_is_another_one(self) -> None:
        """It is found, wherever it listens; terminals of its own machine ended with the former."""
        window = self.attached(self.controller, "new")
        self.controller.kill()
        window.sees("[garcon: not connected: ")
        self.controller = self.start(auth=False, environment=SHELL)
        self.assert_ended(window, 3, "terminal: the terminal is gone")

    def test_the_socket_is_refused(self) -> None:
        """The terminal was made all the same, and is named."""
        self.controller.stop()
        self.controller = self.start(
            auth=False, environment={**SHELL, "GARCON_MAX_WS_CLIENTS": "1"}
        )
        first = self.attached(self.controller, "new")
        second = self.open(self.controller, "new")
        self.assert_ended(second, 3, "HTTP 503", "the terminal goes on: garcon terminal attach")
        self.assertEqual(len(self.listed(self.controller)), 2)
        self.enter(first, "echo he''re", "here")

    def test_the_controller_is_killed(self) -> None:
        """The command says so, refuses keys and can be left; nothing of it stays behind."""
        window = self.attached(self.controller, "new")
        self.controller.kill()
        window.sees("[garcon: not connected: ")
        window.forget()
        window.type("lost")
        window.sees("\a")
        window.type("\x03")
        self.assert_ended(window, 0, "detached")


class AccountTests(WindowCase):
    """A controller with accounts on."""

    def setUp(self) -> None:
        super().setUp()
        self.port = free_port()

    def register(self, **environment: str) -> str:
        """Start a controller with an account; return a token."""
        self.controller = self.start(port=self.port, environment={**SHELL, **environment})
        answer = ask(self.controller.url, "POST", f"{API}/auth/register", CREDENTIALS)
        token: str = answer.json["token"]
        return token

    def login(self) -> None:
        """Log in by the command."""
        stdin = CREDENTIALS["password"] + "\n"
        self.fleet.garcon(self.controller, "login", "--stdin", stdin=stdin)

    def test_a_login(self) -> None:
        """Without it nothing works, and the reason is told; with it everything does."""
        self.register()
        window = self.open(self.controller, "new")
        self.assert_ended(window, 3, "authentication: ", "garcon login")
        self.login()
        window = self.attached(self.controller, "new")
        self.enter(window, "echo he''llo", "hello")
        arguments = Path(f"/proc/{window.process.pid}/cmdline").read_bytes()
        self.assertNotIn(b"garcon_user", arguments)
        window.type(DETACH)
        self.assert_ended(window, 0)
        self.fleet.garcon(self.controller, "logout")
        self.assert_ended(self.open(self.controller, "attach", "1"), 3, "garcon login")

    def test_a_token_file(self) -> None:
        """It is enough, if nobody else can read it."""
        token = self.register()
        path = self.fleet.root / "token"
        path.write_text(token + "\n")
        path.chmod(0o600)
        environment = {"GARCON_TOKEN_FILE": str(path)}
        window = self.attached(self.controller, "new", environment=environment)
        self.enter(window, "echo he''llo", "hello")
        window.type(DETACH)
        self.assert_ended(window, 0)
        path.chmod(0o644)
        window = self.open(self.controller, "attach", "1", environment=environment)
        self.assert_ended(window, 3, "is open to other users")
        self.assertNotIn(token, window.text)

    def test_the_login_ends_meanwhile(self) -> None:
        """Whoever is attached is told what to do."""
        self.register(GARCON_JWT_TOKEN_EXPIRY="8s")
        self.login()
        window = self.attached(self.controller, "new")
        self.assert_ended(window, 3, "authentication: the login has ended; run `garcon login`")
        window = self.open(self.controller, "attach", "1")
        self.assert_ended(window, 3, "authentication: the login has ended: run `garcon login")

    def test_logging_out(self) -> None:
        """Whoever is attached by that login is told at once."""
        self.register()
        self.login()
        window = self.attached(self.controller, "new")
        self.fleet.garcon(self.controller, "logout")
        self.assert_ended(window, 3, "authentication: the login has ended")

    def test_it_ends_while_there_is_no_connection(self) -> None:
        """A restarted controller does not take the token: that is told at once."""
        token = self.register()
        path = self.fleet.root / "token"
        path.write_text(token)
        path.chmod(0o600)
        window = self.attached(self.controller, "new", environment={"GARCON_TOKEN_FILE": str(path)})
        self.controller.kill()
        (self.controller.config / "auth.json").unlink()
        self.controller = self.start(port=self.port)
        self.assert_ended(window, 3, "authentication: ", "garcon login")


class WorkerTests(WindowCase):
    """Terminals of another machine."""

    def setUp(self) -> None:
        super().setUp()
        self.port = free_port()
        self.controller = self.start(auth=False, port=self.port)
        options = ("--label", "w", "--direction", "executor-connects", "--no-tls", "true")
        self.executor = self.fleet.executor(self.controller, *options)
        url = self.fleet.garcon(self.controller, "executor", "connection", self.executor)
        self.url = url.out.strip()
        self.worker = self.fleet.worker("--no-tls", url=self.url, environment=SHELL)
        self.fleet.await_executor(self.controller, self.executor)

    def test_the_controller_is_restarted(self) -> None:
        """The shell goes on meanwhile; all that it prints is shown, once and in order."""
        window = self.attached(self.controller, "new", "--executor", self.executor)
        go = self.fleet.root / "go"
        self.enter(window, "kept=yes; echo se''t", "set")
        count = (
            f"i=0; until [ -e {go} ] && [ $i -ge 300 ]; do i=$((i+1)); echo n$i; sleep 0.02; done"
        )
        window.type(f"{count}; echo last $((i)).\r")
        window.sees("n20\r\n")
        self.controller.kill()
        window.sees("[garcon: not connected: ")
        window.type("lost")
        window.sees("\a")
        self.controller = self.start(auth=False, port=self.port)
        window.sees("[garcon: connected again]", 60)
        go.touch()
        window.until("the end", lambda: re.search(r"last \d+\.\r\n", window.text), 60)
        numbers = [int(one) for one in re.findall(r"(?<=\n)n(\d+)(?=\r\n)", window.text)]
        self.assertEqual(numbers, list(range(1, numbers[-1] + 1)))
        self.assertIn(f"last {numbers[-1]}.", window.text)
        self.enter(window, "echo kept=$kept", "kept=yes")
        self.assertNotIn("lost", window.text)
        window.type(DETACH)
        self.assert_ended(window, 0)

    def test_the_worker_stands_still(self) -> None:
        """Its link is given up and made anew; the shell goes on in between, and so does the window
        behind it.
        """
        window = self.attached(self.controller, "new", "--executor", self.executor)
        self.enter(window, "kept=yes; echo se''t", "set")
        self.worker.process.send_signal(signal.SIGSTOP)
        window.sees("[garcon: not connected: ", 40)
        self.worker.process.send_signal(signal.SIGCONT)
        window.sees("[garcon: connected again]", 60)
        self.enter(window, "echo kept=$kept", "kept=yes")
        window.type(DETACH)
        self.assert_ended(window, 0)

    def test_the_worker_is_gone(self) -> None:
        """While it is away it is waited for; when another process is there, it is told."""
        window = self.attached(self.controller, "new", "--executor", self.executor)
        self.worker.kill()
        window.sees("[garcon: not connected: ", 40)
        self.worker = self.fleet.worker("--no-tls", url=self.url, environment=SHELL)
        self.assertEqual(window.ended(60), 3, window.text)
        self.assertTrue(window.is_restored())
        window.sees("the terminal is gone")

    def test_from_the_worker(self) -> None:
        """Its gateway is refused before it is asked."""
        for words in (("attach", "1"), ("new",), ("list",)):
            window = self.open(self.worker, *words)
            self.assert_ended(window, 2, "terminals are reached from the controller's machine")
