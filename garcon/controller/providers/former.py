"""What profiles have kept secret and keep no more: agents may remember it, and say it again when a
chat is read anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from garcon.controller.providers.profiles import Profile, resolved
from garcon.runtime.agents.scrubbing import secrets_of

FORMER = 64


class FormerSecrets:
    """The last of them, by this process's memory: what was replaced or removed before the
    controller's last start is not known any more.  Owned by the store of the profiles.
    """

    def __init__(self) -> None:
        self._known: dict[str, None] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def note(self, before: Iterable[Profile], after: Iterable[Profile]) -> None:
        """Take in what is secret of the profiles before a change and of none after it."""
        kept = set(secrets_of_profiles(after))
        for secret in secrets_of_profiles(before):
            if secret not in kept:
                self._known.pop(secret, None)
                self._known[secret] = None
        for oldest in list(self._known)[:-FORMER]:
            del self._known[oldest]


def secrets_of_profiles(profiles: Iterable[Profile]) -> Iterator[str]:
    """Return what is secret of profiles now."""
    for profile in profiles:
        for endpoint in profile.endpoints:
            yield from secrets_of(resolved(profile, endpoint))
