"""How a command ends badly: the phase, one line for a person, and the exit status."""

from __future__ import annotations

from garcon.errors import GarconError

DONE, TURN_FAILED, BAD_REQUEST, OPERATIONAL, STOPPED, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""The exit statuses (control.md I.2)."""

ARGUMENTS = "arguments"
DISCOVERY = "discovery"
VERIFICATION = "runtime verification"
AUTHENTICATION = "authentication"
CATALOG = "catalog resolution"
RESUME = "resume admission"
STATUS = "chat status"
SUBMISSION = "submission"
TITLE = "title update"
POLLING = "receipt polling"
RECOVERY = "transport recovery"
EXECUTORS = "executors"
TERMINAL = "terminal"


class CommandFailure(GarconError):
    """Ends a command: `text` is shown after the phase, `exit_status` is what the shell sees."""

    def __init__(self, phase: str, text: str, exit_status: int, code: str = "") -> None:
        super().__init__(code, text)
        self.phase = phase
        self.exit_status = exit_status

    def line(self) -> str:
        """Return the one diagnostic line."""
        return f"{self.phase}: {diagnostic(self.text)}"


def bad_arguments(text: str) -> CommandFailure:
    """What was typed cannot be meant (exit 2)."""
    return CommandFailure(ARGUMENTS, text, BAD_REQUEST)


class ApiError(GarconError):
    """An HTTP error answer, read whole.  `code` is empty when it carried no error envelope."""

    def __init__(
        self, status: int, code: str, text: str, retryable: bool, retry_after: int | None
    ) -> None:
        super().__init__(code, text, status=status, retryable=retryable, retry_after=retry_after)

    def said(self) -> str:
        """Return what the other side said, with its status and code."""
        return f"{self.text} (HTTP {self.status}{', ' + self.code if self.code else ''})"


class TransportFailure(GarconError):
    """No usable answer came.  `sent` tells whether the request may have been received."""

    def __init__(self, text: str, sent: bool) -> None:
        super().__init__("", text, status=0, retryable=True)
        self.sent = sent

    def said(self) -> str:
        return self.text


class NoNetwork(TransportFailure):
    """Whoever runs this command, such as an agent's sandbox, keeps it from the network."""

    def __init__(self) -> None:
        # No word of what agents take for the sandbox's own: they show such a command to nobody.
        super().__init__(
            "this command is kept from the network, and so from Garcon on this machine as well;"
            " have it run with network access, for which an agent can ask",
            False,
        )


class BadAnswer(TransportFailure):
    """An answer came, but it is not one this operation gives: nothing is known from it."""

    def __init__(self, text: str) -> None:
        super().__init__(text, True)


class RuntimeReplaced(GarconError):
    """Another process, or another controller, answers now: this invocation is over."""

    def __init__(self, text: str) -> None:
        super().__init__("CLI_CONTROLLER_CHANGED", text, status=409)

    def said(self) -> str:
        return self.text


BAD_SELECTION = frozenset(
    {
        "EXECUTOR_NOT_FOUND",
        "PREAMBLE_NOT_FOUND",
        "SESSION_NOT_FOUND",
        "UNSUPPORTED_AGENT",
        "EXPECTED_AGENT_MISMATCH",
        "EXPLICIT_BYPASS_REQUIRED",
    }
)
"""Refusals that are the caller's choice to correct (chats.md 6.2)."""


def failure_of(error: GarconError, phase: str) -> CommandFailure:
    """Return how a definite error of `phase` ends the command."""
    if isinstance(error, RuntimeReplaced):
        return CommandFailure(RECOVERY, error.text, OPERATIONAL, error.code)
    if not isinstance(error, ApiError):
        return CommandFailure(phase, error.text, OPERATIONAL, error.code)
    of_the_path = error.code.startswith("PROJECT_PATH_")
    if error.status in (401, 403) and not of_the_path:
        return CommandFailure(AUTHENTICATION, error.said(), OPERATIONAL, error.code)
    corrigible = error.code in BAD_SELECTION or error.status in (400, 422) or of_the_path
    return CommandFailure(
        phase, error.said(), BAD_REQUEST if corrigible else OPERATIONAL, error.code
    )


def diagnostic(text: str) -> str:
    """Return `text` as a diagnostic shows it: one line, and no secret that was typed into it."""
    if "secret" in text:
        from garcon.contract.connection_url import redact

        text = redact(text)
    return one_line(text)


def one_line(text: str) -> str:
    """Return `text` without line breaks, control characters shown visibly."""
    return visible(" ".join(text.split()))


def visible(text: str, keep: str = "") -> str:
    """Return `text` with control characters, and ones that reorder text, as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c in keep or c.isprintable() else _escape(c) for c in text)


def _escape(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
