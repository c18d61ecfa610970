"""What an operation of an OpenAPI 3 or Swagger 2 file takes and returns, with local `$ref`s resolved.

Everything is bounded: cycles, depth and size. A remote reference is named and never fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any
from urllib.parse import unquote

from knowledge_pipeline.chunking.bounded_json import to_bounded_json
from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.strings import truncate

_MAX_REFS = 30  # references followed one into the other
_MAX_DEPTH = 8
_MAX_VALUES = 300  # of one resolved schema
_MAX_PARAMETERS = 50
_FORMATTED_CHARS = 300
_FORMATTED_DEPTH = 2
_FORMATTED_PROPERTIES = 10


def as_mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, else an empty one: files in the wild are not valid."""
    return value if is_object(value) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if is_list(value) else []


class OpenApiDocument:
    """A parsed API description."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root

    def resolve_ref(self, value: Any) -> Any:
        """What a local reference points at in the end; anything else as it is, nothing for a dead end."""
        for _ in range(_MAX_REFS):
            ref = as_mapping(value).get("$ref")
            if not isinstance(ref, str):
                return value
            if not ref.startswith("#/"):
                return {}
            value = self._resolve_pointer(ref)
        return {}

    def expand_refs(self, value: Any) -> Any:
        """The value with its references replaced by what they point at, as bounded JSON."""
        return to_bounded_json(_RefResolver(self).resolve(value, (), 0), max_values=_MAX_VALUES)

    def list_parameters(self, operation: Mapping[str, Any], path_item: Mapping[str, Any]) -> list[Any]:
        """Parameters of the path and of the operation, which win; bodies are not among them."""
        found: dict[tuple[str, str], Any] = {}
        for given in [*as_list(path_item.get("parameters")), *as_list(operation.get("parameters"))]:
            parameter = as_mapping(self.resolve_ref(given))
            if parameter.get("in") != "body" and parameter:
                found[str(parameter.get("in")), str(parameter.get("name"))] = parameter
        return list(found.values())[:_MAX_PARAMETERS]

    def find_request_schema(self, operation: Mapping[str, Any]) -> Any:
        """The schema of the body that an operation takes; None if it takes none."""
        body = as_mapping(self.resolve_ref(operation.get("requestBody")))
        if body:
            return _find_content_schema(body)
        for given in as_list(operation.get("parameters")):
            parameter = as_mapping(self.resolve_ref(given))
            if parameter.get("in") == "body":
                return parameter.get("schema")
        return None

    def list_response_schemas(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """The schema of each response by status; None where a response has no body."""
        found: dict[str, Any] = {}
        for status, given in as_mapping(operation.get("responses")).items():
            response = as_mapping(self.resolve_ref(given))
            found[status] = response.get("schema") or _find_content_schema(response)
        return found

    def format_schema(self, schema: Any) -> str:
        """A schema in a line of at most 300 characters: `Pet {id: integer, tags: [string]}`."""
        return truncate(self._format_schema(schema, 0, ()), _FORMATTED_CHARS)

    def _format_schema(self, schema: Any, depth: int, seen: tuple[str, ...]) -> str:
        ref = as_mapping(schema).get("$ref")
        if isinstance(ref, str):
            name = ref.rpartition("/")[2]
            if ref in seen or depth >= _FORMATTED_DEPTH or not ref.startswith("#/"):
                return name
            inner = self._format_schema(self._resolve_pointer(ref), depth, (*seen, ref))
            return f"{name} {inner}" if inner.startswith("{") else name
        return self._format_type(as_mapping(schema), depth, seen)

    def _format_type(self, schema: Mapping[str, Any], depth: int, seen: tuple[str, ...]) -> str:
        for key, mark in (("allOf", " & "), ("oneOf", " | "), ("anyOf", " | ")):
            if options := as_list(schema.get(key))[:_FORMATTED_PROPERTIES]:
                deeper = depth + 1
                if deeper > _FORMATTED_DEPTH:
                    return "…"
                return mark.join(self._format_schema(option, deeper, seen) for option in options)
        if "items" in schema:
            deep = depth >= _FORMATTED_DEPTH
            return f"[{'…' if deep else self._format_schema(schema['items'], depth + 1, seen)}]"
        if properties := as_mapping(schema.get("properties")):
            return self._format_object(properties, depth, seen)
        kind = schema.get("type", "any")
        return "|".join(map(str, as_list(kind))) if isinstance(kind, list) else str(kind)

    def _format_object(self, properties: Mapping[str, Any], depth: int, seen: tuple[str, ...]) -> str:
        if depth >= _FORMATTED_DEPTH:
            return "{…}"
        shown = [
            f"{name}: {self._format_schema(schema, depth + 1, seen)}"
            for name, schema in list(properties.items())[:_FORMATTED_PROPERTIES]
        ]
        more = ["…"] if len(properties) > _FORMATTED_PROPERTIES else []
        return "{" + ", ".join([*shown, *more]) + "}"

    def _resolve_pointer(self, ref: str) -> Any:
        """What a local pointer ("#/components/schemas/Pet") points at."""
        value: Any = self.root
        for part in ref[2:].split("/"):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if is_list(value):
                value = value[int(key)] if key.isdecimal() and int(key) < len(value) else None
            else:
                value = as_mapping(value).get(key)
        return value


class _RefResolver:
    """One value being resolved; it ends after so many values, however they refer to each other."""

    def __init__(self, api: OpenApiDocument) -> None:
        self._api = api
        self._remaining_values = _MAX_VALUES

    def resolve(self, value: Any, seen: tuple[str, ...], depth: int) -> Any:
        self._remaining_values -= 1
        if self._remaining_values < 0 or depth > _MAX_DEPTH:
            return "…"
        if is_list(value):
            kept = value[: self._remaining_values + 1]
            return [self.resolve(each, seen, depth + 1) for each in kept]
        if not is_object(value):
            return value
        ref = value.get("$ref")
        if isinstance(ref, str) and ref.startswith("#/") and ref not in seen:
            target = self._api.resolve_ref(value)
            rest = {key: each for key, each in value.items() if key != "$ref"}
            resolved = self.resolve({**as_mapping(target), **rest}, (*seen, ref), depth)
            return {"$ref": ref, **as_mapping(resolved)}
        entries = takewhile(lambda _: self._remaining_values > 0, value.items())
        return {key: self.resolve(each, seen, depth + 1) for key, each in entries}


def _find_content_schema(body_or_response: Mapping[str, Any]) -> Any:
    """The schema of a body or response of OpenAPI 3: that of JSON, else of its first media type."""
    content = as_mapping(body_or_response.get("content"))
    if not content:
        return None
    media = next((media for name, media in content.items() if "json" in name), next(iter(content.values())))
    return as_mapping(media).get("schema")
