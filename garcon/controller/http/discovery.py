"""How a client learns which controller it speaks to: the proof, the context, the description of the
API.
"""

from __future__ import annotations

from typing import Any

from garcon.contract import operations
from garcon.contract.executors import ChallengeQuery, CliContext, RuntimeProof
from garcon.contract.ids import LOCAL
from garcon.controller.handlers import Call, Handlers, Reply
from garcon.controller.openapi import describe
from garcon.local.descriptors import SCHEMA_VERSION, is_challenge, proof


class Discovery:
    """The handlers of discovery (server.md B.8, B.9)."""

    def __init__(
        self, *, instance_id: str, capability: str, server_instance_id: str, workspace: str | None
    ) -> None:
        self._instance_id = instance_id
        self._capability = capability
        self._context = CliContext(server_instance_id, LOCAL, workspace)
        self._description: dict[str, Any] | None = None

    def register(self, handlers: Handlers) -> None:
        """Serve discovery through `handlers`."""
        handlers.register(operations.RUNTIME, self.runtime)
        handlers.register(operations.CLI_CONTEXT, self.context)
        handlers.register(operations.OPENAPI, self.openapi)

    def runtime(self, call: Call[ChallengeQuery, None]) -> RuntimeProof | Reply:
        """Prove that this process wrote its descriptor, without learning any secret of the
        caller's.
        """
        challenge = call.query.challenge
        if not is_challenge(challenge):
            return Reply({"error": "The challenge must be 43 base64url characters."}, status=400)
        answer = proof(self._capability, self._instance_id, challenge)
        return RuntimeProof(SCHEMA_VERSION, self._instance_id, answer)

    def context(self, call: Call[Any, None]) -> CliContext:
        """Say which controller this is."""
        return self._context

    def openapi(self, call: Call[Any, None]) -> dict[str, Any]:
        """Describe every operation; made at the first request."""
        if self._description is None:
            self._description = describe()
        return self._description
