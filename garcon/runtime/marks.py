"""Whose a process is: a mark in the environment of everything that an executor starts.

A mark names the owner (a role and its config root, of which only one process has the lease), the
generation (one life of that process) and the tree (one agent or terminal).  Marks say nothing else;
the owner is a digest.  Who takes the mark out of its environment is found only where its parents
are, or was noted (`noted.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from uuid import uuid4

from attrs import frozen

from garcon.runtime.environment import AGENT_TREE

_PREFIX = f"{AGENT_TREE}=".encode()


@frozen
class Marks:
    """The marks of one generation."""

    owner: str
    generation: str

    @classmethod
    def of(cls, role: str, config_dir: str) -> Marks:
        """Return those of a new generation of a role with this config root."""
        return cls(sha256(f"{role}\0{config_dir}".encode()).hexdigest()[:16], uuid4().hex[:16])

    def put_into(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return an environment with the mark of whatever is started by the way."""
        return {**environment, AGENT_TREE: f"{self.owner}.{self.generation}"}


@frozen
class Mark:
    """One mark as it was found; `text` tells trees apart."""

    text: bytes
    owner: str
    generation: str


def branch(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of one more tree."""
    above = environment.get(AGENT_TREE)
    tree = uuid4().hex
    return {**environment, AGENT_TREE: tree if above is None else f"{above}.{tree}"}


def variable(environment: Mapping[str, str]) -> bytes:
    """Return how the mark stands in a child's environment."""
    return _PREFIX + environment[AGENT_TREE].encode()


def read(variables: list[bytes]) -> Mark | None:
    """Return the mark among a process's variables."""
    for entry in variables:
        if entry.startswith(_PREFIX):
            owner, _, rest = entry[len(_PREFIX) :].decode("ascii", "replace").partition(".")
            return Mark(entry, owner, rest.partition(".")[0])
    return None
