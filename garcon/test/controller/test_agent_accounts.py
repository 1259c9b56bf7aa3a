"""``/agents`` and the agents' account routes (control.md A.7)."""

from __future__ import annotations

from typing import Any

import msgspec

from garcon.contract import operations
from garcon.contract.agents import AgentAuth
from garcon.contract.operations import Operation
from garcon.controller.agent_accounts import AgentAccounts
from garcon.controller.catalog import Catalogs
from garcon.controller.principals import LOCAL_PRINCIPAL
from garcon.test.controller.providers.cast import OTHER, WORKER, ProvidersCase, profile_body

DIRECT = "direct-openai-compatible"


class AccountsCase(ProvidersCase):
    """Executors with a scripted agent and the direct ones."""

    def setUp(self) -> None:
        super().setUp()
        self.catalogs = Catalogs(self.executors, self.clock, self.offers)
        self.store.changed = self.catalogs.invalidate_all
        self.catalogs.register(self.handlers)
        AgentAccounts(self.executors, self.catalogs, self.clock).register(self.handlers)

    def said(
        self, operation: Operation, body: dict[str, Any] | None = None, **query: str
    ) -> tuple[int, Any]:
        """Ask."""
        answer = self.successResultOf(
            self.handlers.run(operation, LOCAL_PRINCIPAL, query=list(query.items()), body=body)
        )
        return answer.status, msgspec.json.decode(answer.body)


class AgentsTests(AccountsCase):
    """``GET /agents``."""

    def test_the_catalog_without_its_wrapper(self) -> None:
        """The very same."""
        self.asked(operations.CREATE_PROVIDER, profile_body())
        _, catalog = self.said(operations.MODELS)
        status, body = self.said(operations.AGENTS)
        self.assertEqual((status, body), (200, catalog["catalog"]))
        self.assertEqual(set(body), {"agents", "apiProviders"})

    def test_executor_errors(self) -> None:
        """As in every catalog."""
        for query, expected in (
            ("nobody", 400),
            (OTHER, 404),
        ):
            for operation in (
                operations.AGENTS,
                operations.AGENT_AUTH,
                operations.AGENT_READINESS,
            ):
                self.assertEqual(self.said(operation, executorId=query)[0], expected)
        self.executors.states[WORKER] = "offline"
        self.assertEqual(self.said(operations.AGENTS, executorId=WORKER)[0], 503)


class AuthTests(AccountsCase):
    """``GET /agents/auth`` and ``GET /agents/readiness``."""

    def test_an_agents_own_account(self) -> None:
        """Is what its executor says of it."""
        account = AgentAuth(False, False, "Not signed in", "agent")
        self.worker.accounts["scripted"] = account
        _, local = self.said(operations.AGENT_AUTH)
        self.assertEqual(
            local["scripted"],
            {"authenticated": True, "canReauth": False, "label": "", "source": "none"},
        )
        _, remote = self.said(operations.AGENT_AUTH, executorId=WORKER)
        self.assertEqual(
            remote["scripted"],
            {
                "authenticated": False,
                "canReauth": False,
                "label": "Not signed in",
                "source": "agent",
            },
        )
        for executor_id, ready in (("local", True), (WORKER, False)):
            _, body = self.said(operations.AGENT_READINESS, executorId=executor_id)
            self.assertEqual(body["scripted"], {"ready": ready})

    def test_an_agent_that_lives_on_profiles(self) -> None:
        """Is authenticated once one is assigned to its executor."""
        _, body = self.said(operations.AGENT_AUTH)
        self.assertEqual(
            body[DIRECT],
            {"authenticated": False, "canReauth": False, "label": "", "source": "api-providers"},
        )
        _, body = self.said(operations.AGENT_READINESS)
        self.assertEqual(body[DIRECT], {"ready": False})
        self.asked(operations.CREATE_PROVIDER, profile_body())
        _, body = self.said(operations.AGENT_AUTH)
        self.assertEqual((body[DIRECT]["authenticated"], body[DIRECT]["label"]), (True, "Models"))
        self.assertFalse(body["direct-openai-responses-compatible"]["authenticated"])
        self.assertFalse(body["direct-anthropic-compatible"]["authenticated"])
        _, body = self.said(operations.AGENT_AUTH, executorId=WORKER)
        self.assertFalse(body[DIRECT]["authenticated"])

    def test_one_agent(self) -> None:
        """Comes alone; an unknown one is named, with those there are."""
        for agent in ("scripted", DIRECT):
            status, body = self.said(operations.AGENT_AUTH, agent=agent)
            self.assertEqual((status, list(body)), (200, [agent]))
        status, body = self.said(operations.AGENT_AUTH, agent="nobody")
        self.assertEqual(status, 400)
        self.assertIn("nobody", body["error"])
        self.assertIn("scripted", body["error"])


class LoginTests(AccountsCase):
    """The login routes, of agents that cannot be logged in from here."""

    def login(self, agent: str | None, where: str = "local") -> list[tuple[int, str]]:
        """Ask each of them about an agent."""
        named = {} if agent is None else {"agentId": agent}
        body = {**named, "executorId": where}
        asked: dict[str, Any] = {"executorId": where}
        if agent is not None:
            asked["agent"] = agent
        answers = [
            self.said(operations.LAUNCH_AGENT_LOGIN, body),
            self.said(operations.AGENT_LOGIN_STATE, **asked),
            self.said(operations.COMPLETE_AGENT_LOGIN, body | {"sessionId": "s", "code": "c"}),
        ]
        return [(status, answer["errorCode"]) for status, answer in answers]

    def test_login_is_unsupported(self) -> None:
        """As the catalog says of each of them."""
        _, catalog = self.said(operations.AGENTS)
        for entry in catalog["agents"]:
            self.assertFalse(entry["authLoginSupported"])
            self.assertEqual(self.login(entry["id"]), [(400, "VALIDATION_FAILED")] * 3)

    def test_missing_and_unknown_agents(self) -> None:
        """Are bad requests too."""
        self.assertEqual(self.login(None), [(400, "VALIDATION_FAILED")] * 3)
        self.assertEqual(self.login("nobody"), [(400, "UNSUPPORTED_AGENT")] * 3)

    def test_missing_fields(self) -> None:
        """Neither session nor code may be blank."""
        for more in ({}, {"sessionId": "s"}, {"sessionId": "s", "code": " "}):
            body = {"agentId": "scripted"} | more
            status, answer = self.said(operations.COMPLETE_AGENT_LOGIN, body)
            self.assertEqual((status, answer["errorCode"]), (400, "VALIDATION_FAILED"))

    def test_the_executor_must_be_ready(self) -> None:
        """One that is awaited is not."""
        self.executors.states[WORKER] = "reconnecting"
        self.assertEqual(self.login("scripted", WORKER), [(503, "EXECUTOR_UNAVAILABLE")] * 3)
