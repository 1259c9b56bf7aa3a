"""`login` and `logout`: a user token of the selected controller, kept for the commands that need
one (decisions.md 6).
"""

from __future__ import annotations

from garcon.cli.failures import (
    AUTHENTICATION,
    BAD_REQUEST,
    DONE,
    OPERATIONAL,
    ApiError,
    BadAnswer,
    CommandFailure,
    RuntimeReplaced,
    TransportFailure,
    bad_arguments,
    failure_of,
)
from garcon.cli.inputs import optional
from garcon.contract.routes import AUTH_LOGIN, AUTH_LOGOUT, AUTH_REGISTER, AUTH_STATUS, AUTH_USER
from garcon.errors import GarconError, StartupError
from garcon.local.tokens import SavedToken, is_token, read_token, remove_token, save_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation

_LONGEST_PASSWORD = 4_096


def run(invocation: Invocation) -> int:
    """Sign in and keep the token, in place of an earlier one, which is given back."""
    username = optional(invocation.parsed, "username")
    given = _from_stdin(invocation) if invocation.parsed.flag("stdin") else None
    client = _controller(invocation)
    try:
        _require_account(client)
        name = username or _account(client)
        password = given if given is not None else _asked(invocation, client, name)
        said = client.call(AUTH_LOGIN, body={"username": name, "password": password})
        token = said.get("token")
        if not is_token(token):
            raise BadAnswer("the login's answer holds no token")
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise _failure(e) from None
    folder, origin = invocation.root.tokens, client.endpoint.origin
    earlier = _earlier(folder, origin)
    try:
        save_token(folder, SavedToken(origin, name, str(token)))
    except OSError as e:
        _give_back(client, str(token))
        text = f"cannot keep the token in {folder}: {e.strerror or e}"
        raise CommandFailure(AUTHENTICATION, text, OPERATIONAL) from None
    if earlier is not None:
        _give_back(client, earlier.token)
    _tell(invocation, client, "login", f"logged in as {name}", username=name)
    return DONE


def logout(invocation: Invocation) -> int:
    """Give the token back and forget it.  Without one there is nothing to do."""
    client = _controller(invocation)
    folder, origin = invocation.root.tokens, client.endpoint.origin
    try:
        saved = read_token(folder, origin)
        if saved is not None:
            try:
                client.call(AUTH_LOGOUT, body={}, token=saved.token)
            except ApiError as e:
                # One that is not good any more is as good as given back.
                if e.status != 401:
                    raise
            remove_token(folder, origin)
    except StartupError as e:
        raise CommandFailure(AUTHENTICATION, e.text, OPERATIONAL, e.code) from None
    except OSError as e:
        text = f"cannot remove the token in {folder}: {e.strerror or e}"
        raise CommandFailure(AUTHENTICATION, text, OPERATIONAL) from None
    except (ApiError, TransportFailure, RuntimeReplaced) as e:
        raise _failure(e) from None
    name = None if saved is None else saved.username
    text = "was not logged in" if name is None else f"logged out {name}"
    _tell(invocation, client, "logout", text, username=name)
    return DONE


def _controller(invocation: Invocation) -> GarconClient:
    client = invocation.connect(invocation.select(controller_only=True))
    if client.endpoint.role != "controller":
        raise CommandFailure(
            AUTHENTICATION,
            "an account belongs to a controller, and this is a worker's shell: log in on the"
            " controller's machine, or choose --runtime controller",
            BAD_REQUEST,
        )
    return client


def _require_account(client: GarconClient) -> None:
    """Refuse a controller that nobody can log in to."""
    status = client.call(AUTH_STATUS)
    if status.get("authDisabled") is True:
        raise CommandFailure(
            AUTHENTICATION, "accounts are off at this controller: no login is needed", OPERATIONAL
        )
    if status.get("needsSetup") is True:
        raise CommandFailure(
            AUTHENTICATION,
            "this controller has no account yet: make it in the browser, or with"
            f" POST {client.endpoint.origin}{AUTH_REGISTER.path}",
            OPERATIONAL,
        )


def _account(client: GarconClient) -> str:
    """Return whose the controller's account is."""
    user = client.call(AUTH_USER).get("user")
    name = user.get("username") if isinstance(user, dict) else None
    if not isinstance(name, str) or not name:
        raise BadAnswer("the answer does not say whose the account is")
    return name


def _from_stdin(invocation: Invocation) -> str:
    """Return the password that standard input holds: one line, with or without its end."""
    text = invocation.stdin_text(_LONGEST_PASSWORD)
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or "\n" in text:
        raise bad_arguments("--stdin takes the password as one line on standard input")
    return text


def _asked(invocation: Invocation, client: GarconClient, name: str) -> str:
    where = client.context.workspace()
    password = invocation.system.secret(f"Password of {name} for {where}: ")
    if password is None:
        raise bad_arguments("there is no terminal to ask for the password; use --stdin")
    if not password:
        raise bad_arguments("the password is empty")
    return password


def _earlier(folder: str, origin: str) -> SavedToken | None:
    try:
        return read_token(folder, origin)
    except (StartupError, OSError):
        # Whatever it is, it is about to be replaced.
        return None


def _give_back(client: GarconClient, token: str) -> None:
    try:
        client.call(AUTH_LOGOUT, body={}, token=token)
    except GarconError:
        # It ends by itself at its deadline.
        return


def _failure(error: GarconError) -> CommandFailure:
    failure = failure_of(error, AUTHENTICATION)
    if isinstance(error, ApiError) and error.retry_after is not None:
        failure.text += f"; try again in {error.retry_after} s"
    return failure


def _tell(
    invocation: Invocation, client: GarconClient, command: str, text: str, **fields: Any
) -> None:
    if invocation.json:
        invocation.print_json(invocation.envelope(command, client.context, **fields))
    else:
        invocation.print(f"{text}\n")
