"""What an operation of an OpenAPI 3 or Swagger 2 file takes and gives, its local `$ref`s resolved.

Everything is bounded: cycles are cut, depth and size end, a remote reference is named and never fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote

from knowledge_pipeline.chunking.bounded_json import bounded

_MAX_REFS = 30  # references followed one into the other
_MAX_DEPTH = 8
_MAX_VALUES = 300  # of one resolved schema
_MAX_PARAMETERS = 50
_SHAPE_CHARS = 300
_SHAPE_DEPTH = 2
_SHAPE_PROPERTIES = 10


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one: files in the wild are not valid."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


class Api:
    """A parsed API description."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root

    def target(self, value: Any) -> Any:
        """What a local reference points at in the end; anything else as it is, nothing for a dead end."""
        for _ in range(_MAX_REFS):
            ref = mapping(value).get("$ref")
            if not isinstance(ref, str):
                return value
            if not ref.startswith("#/"):
                return {}
            value = self._at(ref)
        return {}

    def resolved(self, value: Any) -> Any:
        """The value with its references replaced by what they point at, as bounded JSON."""
        return bounded(_Resolution(self).take(value, (), 0), values=_MAX_VALUES)

    def parameters(self, operation: Mapping[str, Any], owner: Mapping[str, Any]) -> list[Any]:
        """Parameters of the path and of the operation, which win; bodies are not among them."""
        found: dict[tuple[str, str], Any] = {}
        for given in [*sequence(owner.get("parameters")), *sequence(operation.get("parameters"))]:
            parameter = mapping(self.target(given))
            if parameter.get("in") != "body" and parameter:
                found[str(parameter.get("in")), str(parameter.get("name"))] = parameter
        return list(found.values())[:_MAX_PARAMETERS]

    def request_schema(self, operation: Mapping[str, Any]) -> Any:
        """The schema of the body that an operation takes; None if it takes none."""
        body = mapping(self.target(operation.get("requestBody")))
        if body:
            return _schema_of_content(body)
        for given in sequence(operation.get("parameters")):
            parameter = mapping(self.target(given))
            if parameter.get("in") == "body":
                return parameter.get("schema")
        return None

    def response_schemas(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """The schema of each response by status; None where a response has no body."""
        found: dict[str, Any] = {}
        for status, given in mapping(operation.get("responses")).items():
            response = mapping(self.target(given))
            found[status] = response.get("schema") or _schema_of_content(response)
        return found

    def shape(self, schema: Any) -> str:
        """A schema in a line of at most 300 characters: `Pet {id: integer, tags: [string]}`."""
        shape = self._shape(schema, 0, ())
        return shape if len(shape) <= _SHAPE_CHARS else shape[: _SHAPE_CHARS - 1] + "…"

    def _shape(self, schema: Any, depth: int, seen: tuple[str, ...]) -> str:
        ref = mapping(schema).get("$ref")
        if isinstance(ref, str):
            name = ref.rpartition("/")[2]
            if ref in seen or depth >= _SHAPE_DEPTH or not ref.startswith("#/"):
                return name
            inner = self._shape(self._at(ref), depth, (*seen, ref))
            return f"{name} {inner}" if inner.startswith("{") else name
        return self._shape_of_type(mapping(schema), depth, seen)

    def _shape_of_type(self, schema: Mapping[str, Any], depth: int, seen: tuple[str, ...]) -> str:
        for key, mark in (("allOf", " & "), ("oneOf", " | "), ("anyOf", " | ")):
            if options := sequence(schema.get(key))[:_SHAPE_PROPERTIES]:
                deeper = depth + 1
                if deeper > _SHAPE_DEPTH:
                    return "…"
                return mark.join(self._shape(option, deeper, seen) for option in options)
        if "items" in schema:
            return f"[{self._shape(schema['items'], depth + 1, seen)}]" if depth < _SHAPE_DEPTH else "[…]"
        if properties := mapping(schema.get("properties")):
            return self._shape_of_object(properties, depth, seen)
        kind = schema.get("type", "any")
        return "|".join(map(str, sequence(kind))) if isinstance(kind, list) else str(kind)

    def _shape_of_object(self, properties: Mapping[str, Any], depth: int, seen: tuple[str, ...]) -> str:
        if depth >= _SHAPE_DEPTH:
            return "{…}"
        shown = [
            f"{name}: {self._shape(schema, depth + 1, seen)}"
            for name, schema in list(properties.items())[:_SHAPE_PROPERTIES]
        ]
        more = ["…"] if len(properties) > _SHAPE_PROPERTIES else []
        return "{" + ", ".join([*shown, *more]) + "}"

    def _at(self, ref: str) -> Any:
        """What a local pointer ("#/components/schemas/Pet") points at."""
        value: Any = self.root
        for part in ref[2:].split("/"):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(value, list):
                items = sequence(cast("Any", value))
                value = items[int(key)] if key.isdecimal() and int(key) < len(items) else None
            else:
                value = mapping(value).get(key)
        return value


class _Resolution:
    """One value being resolved; it ends after so many values, however they refer to each other."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._left = _MAX_VALUES

    def take(self, value: Any, seen: tuple[str, ...], depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            return "…"
        if isinstance(value, list):
            return [
                self.take(each, seen, depth + 1) for each in sequence(cast("Any", value))[: self._left + 1]
            ]
        if not isinstance(value, dict):
            return value
        given = mapping(cast("Any", value))
        ref = given.get("$ref")
        if isinstance(ref, str) and ref.startswith("#/") and ref not in seen:
            target = self._api.target(given)
            rest = {key: each for key, each in given.items() if key != "$ref"}
            return {"$ref": ref, **mapping(self.take({**mapping(target), **rest}, (*seen, ref), depth))}
        taken: dict[str, Any] = {}
        for key, each in given.items():
            if self._left <= 0:
                break
            taken[key] = self.take(each, seen, depth + 1)
        return taken


def _schema_of_content(owner: Mapping[str, Any]) -> Any:
    """The schema of a body or response of OpenAPI 3: that of JSON, else of its first media type."""
    content = mapping(owner.get("content"))
    if not content:
        return None
    media = next((media for name, media in content.items() if "json" in name), next(iter(content.values())))
    return mapping(media).get("schema")
