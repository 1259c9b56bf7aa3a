"""The description of the API: what it says of each operation beside its shapes."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from garcon.contract import operations
from garcon.contract.operations import OPERATIONS, Operation
from garcon.controller.openapi import describe


class DescriptionTests(SynchronousTestCase):
    """Made from the table."""

    def setUp(self) -> None:
        self.description = describe()

    def entry(self, operation: Operation) -> dict[str, Any]:
        """Return what is said of an operation."""
        path = operation.route.path.replace(":executorId", "{executorId}")
        entry: dict[str, Any] = self.description["paths"][path][operation.route.method.lower()]
        return entry

    def statuses(self, operation: Operation) -> set[str]:
        """Return the statuses that are described."""
        return set(self.entry(operation)["responses"]) - {"default"}

    def test_every_reference_leads_somewhere(self) -> None:
        """To a schema, a response or a header of the description."""

        def follow(value: Any) -> None:
            if isinstance(value, dict):
                reference = value.get("$ref")
                if isinstance(reference, str):
                    found: Any = self.description
                    for part in reference.removeprefix("#/").split("/"):
                        found = found[part]
                for inner in value.values():
                    follow(inner)
            elif isinstance(value, list):
                for inner in value:
                    follow(inner)

        follow(self.description)

    def test_who_may_ask(self) -> None:
        """A bearer token, unless the route is open."""
        self.assertEqual(self.description["security"], [{"bearer": []}])
        for operation in OPERATIONS:
            entry = self.entry(operation)
            if operation.route.open:
                self.assertEqual(entry["security"], [])
            else:
                self.assertNotIn("security", entry)
                self.assertIn("401", entry["responses"])

    def test_the_fence_of_the_instance(self) -> None:
        """Every operation that needs a principal takes the header, and may answer 409."""
        for operation in OPERATIONS:
            entry = self.entry(operation)
            headers = [p["name"] for p in entry.get("parameters", ()) if p["in"] == "header"]
            expected = [] if operation.route.open else ["X-Garcon-Server-Instance"]
            self.assertEqual(headers, expected)
            self.assertEqual(
                "409" in entry["responses"],
                not operation.route.open
                or bool(operation in (operations.AUTH_LOGIN, operations.AUTH_REGISTER)),
            )

    def test_statuses(self) -> None:
        """By what the table knows: bodies, parameters, changes, rates, parts."""
        self.assertEqual(
            self.statuses(operations.AUTH_LOGIN),
            {"200", "400", "401", "403", "404", "409", "413", "422", "429", "500", "503"},
        )
        self.assertEqual(
            self.statuses(operations.MODELS),
            {"200", "206", "304", "400", "401", "403", "404", "409", "416", "500", "503"},
        )
        self.assertEqual(
            self.statuses(operations.START_CHAT),
            {"202", "400", "401", "403", "404", "409", "413", "422", "500", "503"},
        )

    def test_headers(self) -> None:
        """What must not be kept says so; tags, codings and times are named."""
        snapshot = self.entry(operations.SNAPSHOT)["responses"]["200"]["headers"]
        self.assertEqual(snapshot["Cache-Control"]["schema"], {"const": "no-store"})
        self.assertTrue(snapshot["Cache-Control"]["required"])
        models = self.entry(operations.MODELS)["responses"]["200"]["headers"]
        self.assertLessEqual({"ETag", "Vary", "Content-Encoding"}, set(models))
        failures = self.description["components"]["responses"]
        self.assertIn("Retry-After", failures["Unavailable"]["headers"])
        self.assertTrue(failures["Unauthorized"]["headers"]["WWW-Authenticate"]["required"])

    def test_path_parameters(self) -> None:
        """Each segment that varies is one."""
        entry = self.entry(operations.UPDATE_EXECUTOR)
        (parameter,) = [p for p in entry["parameters"] if p["in"] == "path"]
        self.assertEqual((parameter["name"], parameter["required"]), ("executorId", True))

    def test_names_are_unique(self) -> None:
        """Each operation has its own."""
        names = [
            entry["operationId"]
            for methods in self.description["paths"].values()
            for entry in methods.values()
        ]
        self.assertEqual(len(names), len(set(names)))
