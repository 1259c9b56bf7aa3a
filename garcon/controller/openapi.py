"""The OpenAPI 3.1 description of the controller's HTTP API, read off the table of operations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from garcon.contract import operations
from garcon.contract.operations import OPERATIONS, NoQuery, Operation
from garcon.contract.routes import PREFIX
from garcon.contract.version import VERSION

_SCHEMA = "#/components/schemas/{name}"
_SEGMENT = re.compile(r":([A-Za-z]+)")

_RATED = frozenset({operations.AUTH_REGISTER.route.key, operations.AUTH_LOGIN.route.key})
_SHORT = frozenset({operations.RUNTIME.route.key})
"""Operations whose 400 is the short error (server.md B.8)."""

_DESCRIPTION = """\
One controller and its chats, executors, accounts and settings.

Errors are the standard envelope. `HEAD` asks for what `GET` would answer; any other method of a
path, and any other path, is 404 with the text `Not found`. Answers of 1 KiB and more are compressed
as `Accept-Encoding` allows, and a `GET` with one range of bytes is answered by that part."""

_BEARER = (
    "A user token, as login and set-up answer it, or the local capability, which is in a private"
    " file of the account that runs the controller."
)


class ErrorEnvelope(Struct, rename="camel", kw_only=True, omit_defaults=True):
    """What a failure looks like (chats.md 1.2)."""

    success: bool
    error: str
    error_code: str
    retryable: bool
    details: str | None = None


class ShortError(Struct):
    """What a failure of the proof looks like."""

    error: str


def describe(listed: Iterable[Operation] = OPERATIONS) -> dict[str, Any]:
    """Return the description as a JSON object."""
    listed = list(listed)
    shapes = list(dict.fromkeys(shape for operation in listed for shape in _shapes(operation)))
    schemas, components = msgspec.json.schema_components(
        [*shapes, ErrorEnvelope, ShortError], ref_template=_SCHEMA
    )
    found = dict(zip(shapes, schemas, strict=False))
    paths: dict[str, dict[str, Any]] = dict(_pages())
    for operation in listed:
        path = _SEGMENT.sub(r"{\1}", operation.route.path)
        entry = _operation(operation, found, components)
        paths.setdefault(path, {})[operation.route.method.lower()] = entry
    return {
        "openapi": "3.1.0",
        "info": {"title": "Garcon", "version": VERSION, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": _failures(),
            "headers": _HEADERS,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": _BEARER}
            },
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
    entry: dict[str, Any] = {
        "operationId": _operation_id(route.method, route.path),
        "tags": [route.path.removeprefix(PREFIX).split("/")[1].partition(".")[0]],
        "responses": _responses(operation, found),
    }
    parameters = _parameters(operation, found, components)
    if parameters:
        entry["parameters"] = parameters
    if operation.body is not None:
        required = bool(_shape_of(operation.body, found, components).get("required"))
        entry["requestBody"] = {"required": required, "content": _json(found[operation.body])}
    if operation.form:
        entry["requestBody"] = {"required": True, "content": _form(operation.form)}
    if route.open:
        entry["security"] = []
    return entry


# Answers

_HEADERS: dict[str, Any] = {
    "ETag": {"description": "The answer's tag, if it has one.", "schema": {"type": "string"}},
    "Vary": {"description": "What the answer depends on.", "schema": {"type": "string"}},
    "CacheControl": {"description": "Whether it may be kept.", "schema": {"type": "string"}},
    "NoStore": {"description": "It must not be kept.", "schema": {"const": "no-store"}},
    "ContentEncoding": {
        "description": "How the body is compressed, if it is.",
        "schema": {"enum": ["gzip", "zstd", "deflate"]},
    },
    "RetryAfter": {
        "description": "In how many seconds it may be tried again, if that is known.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
    "WWWAuthenticate": {"description": "How to authenticate.", "schema": {"const": "Bearer"}},
    "ContentRange": {"description": "Which part it is.", "schema": {"type": "string"}},
    "Location": {"description": "Where the turn's receipt is.", "schema": {"type": "string"}},
}

_SAID = {
    400: ("BadRequest", "The request does not fit."),
    401: ("Unauthorized", "There is no bearer token, or one that is not good."),
    403: ("Forbidden", "The request comes from a foreign page or name, or is not allowed."),
    404: ("NotFound", "What it is about does not exist; as text, the path does not."),
    409: ("Conflict", "It does not fit what is there now, or this controller is another one."),
    410: ("Gone", "What it is about is gone."),
    413: ("TooLarge", "The body is too large."),
    416: ("NoSuchPart", "There is no such part."),
    422: ("Unprocessable", "It cannot be done so."),
    429: ("TooManyAttempts", "There were too many attempts."),
    500: ("InternalError", "Something went wrong inside."),
    502: ("BadGateway", "Something that was asked on its behalf failed."),
    503: ("Unavailable", "It cannot be done now; the controller is stopping, or too busy."),
    504: ("GatewayTimeout", "Something that was asked on its behalf took too long."),
}


def _responses(operation: Operation, found: dict[Any, Any]) -> dict[str, Any]:
    route = operation.route
    success = found[operation.reply]
    if operation.degraded is not None:
        success = {"anyOf": [success, found[operation.degraded]]}
    headers: dict[str, Any] = {"Cache-Control": _header("CacheControl")}
    if operation.no_store:
        headers = {"Cache-Control": _header("NoStore", required=True)}
    headers |= {"Vary": _header("Vary"), "Content-Encoding": _header("ContentEncoding")}
    if route.method == "GET" and not operation.no_store:
        headers["ETag"] = _header("ETag")
    responses: dict[str, Any] = {
        str(operation.status): {
            "description": "Success.",
            "headers": headers,
            "content": {"*/*": {}} if operation.raw else _json(success),
        }
    }
    if route.method == "GET":
        if not operation.no_store:
            responses["304"] = {"$ref": "#/components/responses/NotModified"}
        responses["206"] = {"$ref": "#/components/responses/PartialContent"}
    for status in sorted(_failing(operation)):
        responses[str(status)] = {"$ref": f"#/components/responses/{_name(status)}"}
    if route.key in _SHORT:
        responses["400"] = {"$ref": "#/components/responses/Short"}
    responses["default"] = {"$ref": "#/components/responses/Failure"}
    return responses


def _failing(operation: Operation) -> set[int]:
    """Return how an operation may fail, as far as its row tells; handlers' own refusals with other
    statuses are what the default response describes.
    """
    route = operation.route
    found = {403, 404, 500, 503}
    if operation.query is not NoQuery or operation.body is not None or ":" in route.path:
        found.add(400)
    if operation.body is not None or operation.form:
        found |= {400, 413}
    if route.method == "GET":
        found.add(416)
    if not route.open:
        found |= {401, 409}
    if route.key in _RATED:
        found |= {401, 409, 429}
    if route.mutation:
        found |= {409, 422}
    return found


def _failures() -> dict[str, Any]:
    envelope = _json({"$ref": _SCHEMA.format(name=ErrorEnvelope.__name__)})
    text = {"text/plain": {"schema": {"type": "string"}}}
    made: dict[str, Any] = {}
    for status, (name, said) in _SAID.items():
        entry: dict[str, Any] = {"description": said, "content": dict(envelope)}
        if status in (429, 503):
            entry["headers"] = {"Retry-After": _header("RetryAfter")}
        if status == 401:
            entry["headers"] = {"WWW-Authenticate": _header("WWWAuthenticate", required=True)}
        if status in (404, 503):
            entry["content"] |= text
        if status in (413, 416):
            # Before a body is read, and about bytes, nothing more is said.
            del entry["content"]
        if status == 416:
            entry["headers"] = {"Content-Range": _header("ContentRange", required=True)}
        made[name] = entry
    short = {"anyOf": [{"$ref": _SCHEMA.format(name=n)} for n in ("ErrorEnvelope", "ShortError")]}
    made["Short"] = {"description": _SAID[400][1], "content": _json(short)}
    made["NotModified"] = {
        "description": "The client has it already (If-None-Match).",
        "headers": {"ETag": _header("ETag", required=True)},
    }
    made["PartialContent"] = {
        "description": "A part of it (Range).",
        "headers": {"Content-Range": _header("ContentRange", required=True)},
        "content": {"application/json": {}},
    }
    made["Failure"] = {"description": "Any other failure.", "content": envelope}
    return made


def _name(status: int) -> str:
    return _SAID[status][0]


def _header(name: str, *, required: bool = False) -> dict[str, Any]:
    if required:
        return {**_HEADERS[name], "required": True}
    return {"$ref": f"#/components/headers/{name}"}


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


# Requests


def _form(names: Iterable[str]) -> dict[str, Any]:
    file = {"type": "string", "contentMediaType": "application/octet-stream"}
    files = {"type": "array", "items": file}
    schema = {"type": "object", "properties": {name: files for name in names}}
    return {"multipart/form-data": {"schema": schema}}


def _shape_of(
    kind: type[Struct], found: dict[Any, Any], components: dict[str, Any]
) -> dict[str, Any]:
    shape = found[kind]
    if "$ref" not in shape:
        return dict(shape)
    return dict(components[shape["$ref"].rpartition("/")[2]])


def _parameters(
    operation: Operation, found: dict[Any, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _SEGMENT.findall(operation.route.path)
    ]
    if operation.query is not NoQuery:
        shape = _shape_of(operation.query, found, components)
        required = set(shape.get("required", ()))
        for key, schema in shape.get("properties", {}).items():
            parameters.append(
                {"name": key, "in": "query", "required": key in required, "schema": schema}
            )
    if not operation.route.open:
        parameters.append(
            {
                "name": "X-Garcon-Server-Instance",
                "in": "header",
                "description": "The controller that is meant (`serverInstanceId`); any other"
                " answers 409 with `CLI_CONTROLLER_CHANGED`.",
                "schema": {"type": "string"},
            }
        )
    return parameters


def _operation_id(method: str, path: str) -> str:
    words = path.removeprefix(PREFIX).replace(":", "by-").replace(".", "-")
    parts = [part for chunk in words.split("/") for part in chunk.split("-") if part]
    return method.lower() + "".join(part[:1].upper() + part[1:] for part in parts)


# Pages


def _pages() -> dict[str, dict[str, Any]]:
    text = {"text/plain": {"schema": {"type": "string"}}}
    reasons = {
        "type": "object",
        "required": ["ready", "reasons"],
        "properties": {
            "ready": {"type": "boolean"},
            "reasons": {"type": "array", "items": {"type": "string"}},
        },
    }
    ready = {"description": "Whether it serves.", "content": text | _json(reasons)}
    forbidden = {"$ref": f"#/components/responses/{_name(403)}"}
    unauthorized = {"$ref": f"#/components/responses/{_name(401)}"}
    verbose = {
        "name": "verbose",
        "in": "query",
        "allowEmptyValue": True,
        "description": "Why not, as JSON; this needs a bearer token.",
        "schema": {"type": "string"},
    }
    return {
        "/livez": {
            "get": {
                "operationId": "livez",
                "tags": ["health"],
                "security": [],
                "responses": {
                    "200": {"description": "The process lives.", "content": text},
                    "403": forbidden,
                },
            }
        },
        "/readyz": {
            "get": {
                "operationId": "readyz",
                "tags": ["health"],
                "security": [{}, {"bearer": []}],
                "parameters": [verbose],
                "responses": {
                    "200": ready,
                    "401": unauthorized,
                    "403": forbidden,
                    "503": ready,
                },
            }
        },
        "/metrics": {
            "get": {
                "operationId": "metrics",
                "tags": ["health"],
                "responses": {
                    "200": {"description": "Figures for Prometheus.", "content": text},
                    "401": unauthorized,
                    "403": forbidden,
                    "503": {"$ref": f"#/components/responses/{_name(503)}"},
                },
            }
        },
    }
