"""On whose behalf a command acts that the local capability does not allow: the user's token.

``GARCON_TOKEN_FILE`` comes before what `garcon login` has kept: who sets it means it.
"""

from __future__ import annotations

from garcon.cli.failures import AUTHENTICATION, OPERATIONAL, CommandFailure
from garcon.contract.routes import AUTH_STATUS
from garcon.errors import StartupError
from garcon.local.files import read_private
from garcon.local.tokens import is_token, read_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from garcon.cli.client import GarconClient
    from garcon.cli.invocation import Invocation

VARIABLE = "GARCON_TOKEN_FILE"
_LARGEST = 8 * 1024


def user_token(invocation: Invocation, client: GarconClient) -> str | None:
    """Return the token of the user, None where accounts are off and everybody is the same one."""
    if client.call(AUTH_STATUS).get("authDisabled") is True:
        return None
    path = invocation.system.environ.get(VARIABLE)
    try:
        if path:
            return _of_file(path)
        saved = read_token(invocation.root.tokens, client.endpoint.origin)
    except StartupError as e:
        raise CommandFailure(AUTHENTICATION, e.text, OPERATIONAL, e.code) from None
    except OSError as e:
        where = f"{VARIABLE} ({path})" if path else f"the login in {invocation.root.tokens}"
        text = f"cannot read {where}: {e.strerror or e}"
        raise CommandFailure(AUTHENTICATION, text, OPERATIONAL) from None
    if saved is None:
        raise CommandFailure(
            AUTHENTICATION,
            f"terminals belong to the controller's account, and nobody is logged in: run"
            f" `{invocation.command('login')}`, or name a private file with a token in {VARIABLE}",
            OPERATIONAL,
        )
    return saved.token


def _of_file(path: str) -> str:
    token = read_private(path, _LARGEST).decode("ascii", "replace").strip()
    if not is_token(token):
        raise StartupError(f"{VARIABLE} ({path}) holds no token")
    return token


def not_accepted(invocation: Invocation) -> CommandFailure:
    """The controller does not take the token: it has ended, was given back, or is another's."""
    login = f"run `{invocation.command('login')}`"
    if invocation.system.environ.get(VARIABLE):
        text = f"the token in {VARIABLE} is not taken any more: put a new one there, or {login}"
    else:
        text = f"the login has ended: {login}"
    return CommandFailure(AUTHENTICATION, text, OPERATIONAL)
