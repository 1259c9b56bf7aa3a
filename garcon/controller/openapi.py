"""The OpenAPI 3.1 description of the controller's HTTP API, read off the table of operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from garcon.contract.operations import OPERATIONS, NoQuery, Operation
from garcon.contract.routes import PREFIX
from garcon.contract.version import VERSION

_REFERENCE = "#/components/schemas/{name}"


class ErrorEnvelope(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """What a failure looks like (chats.md 1.2)."""

    success: bool
    error: str
    error_code: str
    retryable: bool
    details: str | None = None


def describe(operations: Iterable[Operation] = OPERATIONS) -> dict[str, Any]:
    """Return the description as a JSON object."""
    listed = list(operations)
    shapes = list(dict.fromkeys(shape for operation in listed for shape in _shapes(operation)))
    schemas, components = msgspec.json.schema_components(
        [*shapes, ErrorEnvelope], ref_template=_REFERENCE
    )
    found = dict(zip(shapes, schemas, strict=False))
    paths: dict[str, dict[str, Any]] = {}
    for operation in listed:
        path = operation.route.path.replace(":executorId", "{executorId}")
        entry = _operation(operation, found, components)
        paths.setdefault(path, {})[operation.route.method.lower()] = entry
    return {
        "openapi": "3.1.0",
        "info": {"title": "Garcon", "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }


def _shapes(operation: Operation) -> list[Any]:
    shapes: list[Any] = [operation.reply]
    for more in (operation.query, operation.body, operation.degraded):
        if more is not None and more is not NoQuery:
            shapes.append(more)
    return shapes


def _operation(
    operation: Operation, found: dict[Any, Any], components: dict[str, Any]
) -> dict[str, Any]:
    route = operation.route
    success = found[operation.reply]
    if operation.degraded is not None:
        success = {"anyOf": [success, found[operation.degraded]]}
    error = {"$ref": _REFERENCE.format(name=ErrorEnvelope.__name__)}
    entry: dict[str, Any] = {
        "operationId": _operation_id(route.method, route.path),
        "responses": {
            str(operation.status): {"description": "Success", "content": _json(success)},
            "default": {"description": "Failure", "content": _json(error)},
        },
    }
    parameters = _parameters(operation, found, components)
    if parameters:
        entry["parameters"] = parameters
    if operation.body is not None:
        entry["requestBody"] = {"required": True, "content": _json(found[operation.body])}
    if route.open:
        entry["security"] = []
    return entry


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _parameters(
    operation: Operation, found: dict[Any, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    if ":executorId" in operation.route.path:
        parameters.append(
            {"name": "executorId", "in": "path", "required": True, "schema": {"type": "string"}}
        )
    if operation.query is not NoQuery:
        name = found[operation.query]["$ref"].rpartition("/")[2]
        shape = components[name]
        required = set(shape.get("required", ()))
        for key, schema in shape.get("properties", {}).items():
            parameters.append(
                {"name": key, "in": "query", "required": key in required, "schema": schema}
            )
    return parameters


def _operation_id(method: str, path: str) -> str:
    words = path.removeprefix(PREFIX).replace(":", "by-").replace(".", "-")
    parts = [part for chunk in words.split("/") for part in chunk.split("-") if part]
    return method.lower() + "".join(part[:1].upper() + part[1:] for part in parts)
