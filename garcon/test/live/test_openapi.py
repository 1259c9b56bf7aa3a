"""Everything that the published description says of an answer is true of a running controller.

Schemathesis makes requests from ``/api/v1/openapi.json``, a fixed few for each operation: fitting
ones, the same about what this controller really has, and unfitting ones. Status, content type,
headers and body of every answer are judged by the description.
"""

from __future__ import annotations

import itertools
import re
from copy import deepcopy
from typing import Any
from uuid import uuid4
from zlib import crc32

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from garcon.contract.operations import OPERATIONS
from garcon.test.live.test_controller import API, ControllerCase

EXAMPLES = 4
"""Of each kind, for each operation."""

CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
BRACES = r"{\1}"
INSTANCE = "X-Garcon-Server-Instance"
NEW_CHATS = frozenset({"POST /chats/start", "POST /chats/fork", "POST /chats/fork-run"})
"""Operations whose chat must not be there yet."""


class DescriptionTests(ControllerCase):
    """A scratch controller without accounts, with a chat of one turn in it."""

    def setUp(self) -> None:
        super().setUp()
        self.service = self.start(auth=False)
        self.session = requests.Session()
        self.session.trust_env = False
        self.addCleanup(self.session.close)
        self.description = self.get("/openapi.json")
        self.schema = schemathesis.openapi.from_dict(self.description)
        found = [r.ok() for r in self.schema.get_all_operations() if isinstance(r, Ok)]
        # What removes things comes last, the chat itself after everything else.
        self.operations = sorted(
            found, key=lambda o: (o.method == "delete", o.path == f"{API}/chats")
        )
        chat_id, turn_id = self.chat(self.service.url, "", "say hello")
        page = self.get("/chats/messages", chatId=chat_id)
        self.numbers = itertools.count(1_000_000_000_000_000)
        self.known: dict[str, Any] = {
            "chatId": chat_id,
            "sourceChatId": chat_id,
            "turnId": turn_id,
            "transcriptViewId": page["transcriptViewId"],
            "executorId": "local",
            "agentId": "scripted",
            "agent": "scripted",
            "expectedAgentId": "scripted",
            "model": "scripted",
            "agentSettings": {"ownerId": "scripted", "schemaVersion": 1, "values": {}},
            "projectPath": str(self.fleet.project("project")),
            "path": str(self.fleet.project("project")),
            "command": "say hello again",
            "content": "A row.",
            "limit": "5",
            "challenge": "c" * 43,
        }

    def get(self, path: str, **query: str) -> Any:
        """Read something."""
        return self.session.get(f"{self.service.url}{API}{path}", params=query, timeout=10).json()

    def test_the_description_is_complete(self) -> None:
        """Each operation of the table is in it once, with the pages for those who watch."""
        labels = [operation.label for operation in self.operations]
        segment = re.compile(r":([A-Za-z]+)")
        routes = [operation.route for operation in OPERATIONS]
        listed = {f"{route.method} {segment.sub(BRACES, route.path)}" for route in routes}
        self.assertEqual(set(labels), listed | {"GET /livez", "GET /readyz", "GET /metrics"})
        self.assertEqual(len(labels), len(set(labels)))

    def test_every_answer_is_as_described(self) -> None:
        """And none is a fault of ours."""
        wrong = []
        for mode in (GenerationMode.NEGATIVE, GenerationMode.POSITIVE):
            for operation in self.operations:
                try:
                    self.try_out(operation, mode)
                except Unsatisfiable:
                    # Where nothing can be said, nothing can be wrong.
                    self.assertEqual(mode, GenerationMode.NEGATIVE, operation.label)
                except (FailureGroup, Exception) as failure:
                    told = "\n".join(map(str, getattr(failure, "exceptions", [failure])))
                    wrong.append(f"{operation.label} {mode}: {told}")
        self.assertEqual(wrong, [], "\n\n".join(wrong))
        self.assertNotIn("incident", self.service.output.text())

    def test_an_answer_that_is_not_as_described_is_found(self) -> None:
        """By its body, its type, its headers and its status: what this file claims can fail."""
        path, entry = f"{API}/auth/status", {"description": "?", "content": {}}
        for wrong in (
            {"200": {**entry, "content": {"application/json": {"schema": {"type": "array"}}}}},
            {"200": {**entry, "content": {"text/html": {}}}},
            {"200": {**entry, "headers": {"X-Missing": {"required": True, "schema": {}}}}},
            {"202": entry},
        ):
            description = deepcopy(self.description)
            description["paths"][path]["get"]["responses"] = wrong
            schema = schemathesis.openapi.from_dict(description)
            with self.assertRaises(FailureGroup):
                self.try_out(schema[path]["GET"], GenerationMode.POSITIVE)

    def try_out(self, operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode) -> None:
        """Send the requests that are made for one operation."""

        @seed(crc32(operation.label.encode()))
        @settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(mode))
        def each(case: Case[Any]) -> None:
            case.headers.pop(INSTANCE, None)
            self.judge(case)
            if mode is GenerationMode.POSITIVE:
                self.speak_of_what_there_is(case)
                self.judge(case)

        each()

    def speak_of_what_there_is(self, case: Case[Any]) -> None:
        """Leave out what is optional and unknown, and name things of this controller."""
        entry = self.description["paths"][case.operation.path][case.operation.method]
        said = entry.get("parameters", ())
        needed = {parameter["name"] for parameter in said if parameter.get("required")}
        there = {parameter["name"] for parameter in said if parameter["in"] == "query"}
        self.name_known(case, case.path_parameters, needed, set())
        self.name_known(case, case.query, needed, there)
        body = entry.get("requestBody")
        if body is not None:
            (content,) = body["content"].values()
            shape = content["schema"]
            if "$ref" in shape:
                name = shape["$ref"].rpartition("/")[2]
                shape = self.description["components"]["schemas"][name]
            needed = set(shape.get("required", ()))
            self.name_known(case, case.body, needed, set(shape.get("properties", ())))

    def name_known(self, case: Case[Any], given: Any, needed: set[str], there: set[str]) -> None:
        """Put what is known in place of what was made up."""
        if not isinstance(given, dict):
            return
        known = dict(self.known)
        if f"{case.method} {case.path.removeprefix(API)}" in NEW_CHATS:
            known["chatId"] = str(next(self.numbers))
        for name in ("clientRequestId", "clientMessageId"):
            known[name] = str(uuid4())
        for name in {*given, *there}:
            if name in known:
                given[name] = known[name]
            elif name in given and name not in needed:
                del given[name]

    def judge(self, case: Case[Any]) -> None:
        """Send one request and judge its answer."""
        response = case.call(base_url=self.service.url, session=self.session, timeout=10)
        if response.status_code == 500:
            self.assertNotEqual(response.json()["errorCode"], "INTERNAL_ERROR", response.text)
        case.validate_response(response, checks=CHECKS)
