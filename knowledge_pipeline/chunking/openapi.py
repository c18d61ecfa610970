"""An OpenAPI 3 or Swagger 2 file as chunks: one for each operation, the rest by its keys.

What an operation refers to is resolved within bounds: cycles, depth and size. A remote reference is named and
never fetched. What other files of the source have comes with the document, in its metadata `specification`
(`connectors/specifications.py`): a file that is a part is cut by the place that it has in the whole.
"""

from __future__ import annotations

import json
import posixpath
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any, TypeGuard

from knowledge_pipeline.chunking.base import ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.blocks import to_bounded_json
from knowledge_pipeline.chunking.pack import pack_to_limits
from knowledge_pipeline.chunking.sentences import Range, split_lines
from knowledge_pipeline.config.sources import ChunkingSettings
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.text import is_list, is_object, truncate
from knowledge_pipeline.untrusted_yaml import KeyPath, parse_yaml, resolve_pointer

VERSION = 1

_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace", "query"})
_OPERATION_KEYS = ("paths", "webhooks")
_CONTAINER_KEYS = frozenset(
    {*_OPERATION_KEYS, "components", "definitions", "parameters", "responses", "securityDefinitions"}
)
_HEADER_LINE_CHARS = 200
_LOOK_BACK_CHARS = 1000
_SPLIT_DEPTH = 4  # the keys of an operation or of a schema


@dataclass(frozen=True, slots=True)
class _SpecPart:
    """What lies under one key, up to the next part."""

    path: KeyPath  # in the whole specification
    written: KeyPath  # in its file
    start_char: int
    end_char: int

    @property
    def is_operation(self) -> bool:
        return len(self.path) == 3 and self.path[0] in _OPERATION_KEYS and self.path[2].lower() in _METHODS

    @property
    def anchor(self) -> str:
        if self.is_operation:
            location = self.path[1] if self.path[0] == "paths" else f"webhook {self.path[1]}"
            return f"{self.path[2].upper()} {location}"
        return "/".join(self.path)


def chunk_endpoints(
    measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> Iterator[ChunkSpan]:
    """One span for each operation, schema and other part; small neighbours join, except operations.

    The text is the part as the file has it. The header names what it refers to, and the metadata
    resolves it. A part that is too long is cut at its keys, then at lines.
    """
    parsed = parse_yaml(measured.document.text)
    context = as_mapping(measured.document.metadata.get("specification"))
    root = as_mapping(parsed.value)
    is_whole = str(root.get("openapi") or root.get("swagger") or "").startswith(("2", "3"))
    if not is_whole and "part_of" not in context:
        raise DocumentSkipped("it is not an OpenAPI 3 or Swagger 2 file")
    api = OpenApiDocument(parsed.value, context.get("title"), as_mapping(context.get("references")))
    text, places = measured.document.text, _PartPlaces(as_list(context.get("places")))
    keys = [(places.find(path), path, at) for path, at in parsed.key_positions]
    inner = sorted({_find_key_start(text, at) for path, _, at in keys if len(path) == _SPLIT_DEPTH})
    for group in _group_parts(_split_parts(keys, places, measured), measured, limits):
        header, first = _build_header(api, group, measured.document.path), group[0]
        for number, span in enumerate(_split_group(group, inner, measured, limits)):
            metadata = _build_metadata(api, first, with_schemas=number == 0) if first.is_operation else {}
            yield ChunkSpan(*span, first.anchor, header, metadata)


class _PartPlaces:
    """Where in the whole specification the keys of a file are, which is a part of it."""

    def __init__(self, places: Sequence[Any]) -> None:
        """`places`: pairs of a path in the file and the one in the whole."""
        self._places: dict[KeyPath, KeyPath] = {tuple(written): tuple(path) for written, path in places}

    def find(self, written: KeyPath) -> KeyPath:
        """The path in the whole; the same one where nothing else is known."""
        for length in range(len(written), -1, -1):
            if (path := self._places.get(written[:length])) is not None:
                return path + written[length:]
        return written


_Key = tuple[KeyPath, KeyPath, int]
"""Its path in the whole, its path in the file, and the character where it is written."""


def _split_parts(keys: Sequence[_Key], places: _PartPlaces, measured: MeasuredDocument) -> list[_SpecPart]:
    """The whole text, cut before each key that opens a part."""
    text = measured.document.text
    opening = [(path, written, _find_key_start(text, at)) for path, written, at in _list_part_keys(keys)]
    if not opening:
        return [_SpecPart(places.find(()), (), 0, len(text))]
    bounds = pairwise([0, *(start for _, _, start in opening[1:]), len(text)])
    parts = (_SpecPart(path, at, *span) for (path, at, _), span in zip(opening, bounds, strict=True))
    return [part for part in parts if text[part.start_char : part.end_char].strip()]


def _list_part_keys(keys: Sequence[_Key]) -> Iterator[_Key]:
    """The keys that open a part. A path's keys before its first operation go with that operation."""
    with_operation: set[KeyPath] = set()
    for key in keys:
        path = key[0]
        if len(path) == 3 and path[0] in _OPERATION_KEYS:
            if path[2].lower() in _METHODS:
                with_operation.add(path[:2])
            if path[:2] in with_operation:
                yield key
        elif len(path) <= (3 if path[0] == "components" else 2 if path[0] in _CONTAINER_KEYS else 1):
            yield key


def _find_key_start(text: str, at: int) -> int:
    """The start of a key's line and of the comments above it; the key itself where text precedes it."""
    start = _find_line_start(text, at)
    if text[start:at].strip():
        return at
    while start > 0:
        above = _find_line_start(text, start - 1)
        if not text[above:start].lstrip().startswith("#"):
            break
        start = above
    return start


def _find_line_start(text: str, at: int) -> int:
    """The start of the line that ends or goes on at a character; looks back 1,000 characters at most."""
    return text.rfind("\n", max(0, at - _LOOK_BACK_CHARS), at) + 1 or max(0, at - _LOOK_BACK_CHARS)


def _group_parts(
    parts: Sequence[_SpecPart], measured: MeasuredDocument, limits: TokenLimits
) -> list[list[_SpecPart]]:
    """Groups of parts: a key that only holds others joins its first one, small siblings join each other.

    The part that names the group comes first in it, wherever it lies.
    """
    groups: list[list[_SpecPart]] = []
    for part in parts:
        last = groups[-1] if groups else []
        fits = last and measured.count_tokens(_group_start(last), part.end_char) <= limits.max_tokens
        if fits and part.path[: len(last[0].path)] == last[0].path and len(part.path) > len(last[0].path):
            groups[-1] = [part, *last]
        elif (
            fits
            and _are_siblings(last[0], part)
            and measured.count_tokens(_group_start(last), last[-1].end_char) < limits.min_tokens
        ):
            last.append(part)
        else:
            groups.append([part])
    return groups


def _are_siblings(first: _SpecPart, second: _SpecPart) -> bool:
    """Whether two parts lie under one key; no operations, and no part that goes with others in it."""
    is_container = len(second.path) == 1 and second.path[0] in _CONTAINER_KEYS
    is_operation = first.is_operation or second.is_operation
    return not is_container and not is_operation and first.path[:-1] == second.path[:-1]


def _group_start(group: Sequence[_SpecPart]) -> int:
    return min(part.start_char for part in group)


def _split_group(
    group: Sequence[_SpecPart], inner: Sequence[int], measured: MeasuredDocument, limits: TokenLimits
) -> Iterator[Range]:
    """A group whole, or cut at the `inner` starts of its keys, or else at lines."""

    def split_at_keys(_: str, start_char: int, end_char: int) -> Iterator[Range]:
        within = inner[bisect_right(inner, start_char) : bisect_left(inner, end_char)]
        yield from pairwise([start_char, *within, end_char])

    whole = _group_start(group), max(part.end_char for part in group)
    for start, end in pack_to_limits(measured, [whole], limits, (split_at_keys, split_lines)):
        if not measured.document.text[start:end].isspace():
            yield start, end


def _find_operation(api: OpenApiDocument, part: _SpecPart) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """An operation, and the path item that it lies in."""
    operation = as_mapping(api.resolve_ref(api.find_value(part.written)))
    return operation, as_mapping(api.find_value(part.written[:-1]) if part.written else None)


def _build_header(api: OpenApiDocument, group: Sequence[_SpecPart], path: str) -> str:
    part = group[0]
    lines = [path, api.title]
    if part.is_operation:
        lines += [part.anchor, *_summarize_operation(api, part)]
    elif part.path:
        lines.append(", ".join(member.anchor for member in group if len(member.path) == len(part.path)))
    return "\n".join(" ".join(line.split())[:_HEADER_LINE_CHARS] for line in lines if line)


def _summarize_operation(api: OpenApiDocument, part: _SpecPart) -> Iterator[str]:
    """What an operation does, takes and returns, a line each."""
    operation, owner = _find_operation(api, part)
    for key in ("summary", "operationId"):
        if isinstance(operation.get(key), str):
            yield operation[key]
    if names := [_format_parameter(api, parameter) for parameter in api.list_parameters(operation, owner)]:
        yield "Parameters: " + ", ".join(names)
    if (request := api.find_request_schema(operation)) is not None:
        yield "Request: " + api.format_schema(request)
    schemas = api.list_response_schemas(operation).items()
    if responses := [f"{status} {api.format_schema(schema)}" for status, schema in schemas if schema]:
        yield "Responses: " + "; ".join(responses)


def _format_parameter(api: OpenApiDocument, parameter: Mapping[str, Any]) -> str:
    kind = api.format_schema(parameter.get("schema") or {"type": parameter.get("type", "any")})
    required = ", required" if parameter.get("required") is True else ""
    return f"{parameter.get('name')} ({parameter.get('in')}, {kind}{required})"


def _build_metadata(api: OpenApiDocument, part: _SpecPart, *, with_schemas: bool) -> dict[str, Any]:
    """What identifies an operation; on its first chunk, its resolved parameters and schemas too."""
    operation, owner = _find_operation(api, part)
    facts: dict[str, Any] = {"method": part.path[2].upper(), "path": part.path[1]}
    facts["operation_id"] = operation.get("operationId")
    facts["tags"] = [str(tag) for tag in as_list(operation.get("tags"))][:50]
    facts["deprecated"] = operation.get("deprecated") is True or None
    if with_schemas:
        facts["parameters"] = api.expand_refs(api.list_parameters(operation, owner))
        facts["request_schema"] = api.expand_refs(api.find_request_schema(operation))
        facts["response_schemas"] = api.expand_refs(api.list_response_schemas(operation))
    return {key: fact for key, fact in facts.items() if fact not in (None, [], {})}


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
    """A parsed API description, or a part of one."""

    def __init__(self, value: Any, title: Any, references: Mapping[str, Any]) -> None:
        """`title`: of the whole, for a part. `references`: to other files, each with its value as JSON."""
        self._value, self._references = value, references
        title = as_mapping(as_mapping(value).get("info")).get("title") or title
        self.title = title if isinstance(title, str) else ""

    def can_follow(self, ref: Any) -> TypeGuard[str]:
        """Whether a reference leads to something that is known."""
        return isinstance(ref, str) and (ref.startswith("#/") or ref in self._references)

    def resolve_ref(self, value: Any) -> Any:
        """What a local reference points at in the end; anything else as it is, nothing for a dead end."""
        for _ in range(_MAX_REFS):
            ref = as_mapping(value).get("$ref")
            if not isinstance(ref, str):
                return value
            if not self.can_follow(ref):
                return {}
            value = self._follow_ref(ref)
        return {}

    def expand_refs(self, value: Any) -> Any:
        """The value with its references replaced by what they point at, as bounded JSON."""
        return to_bounded_json(_RefResolver(self).resolve(value, (), 0), max_values=_MAX_VALUES)

    def list_parameters(self, operation: Mapping[str, Any], path_item: Mapping[str, Any]) -> list[Any]:
        """Parameters of the path and of the operation, which win; bodies are not among them."""
        parameters: dict[tuple[str, str], Any] = {}
        for item in [*as_list(path_item.get("parameters")), *as_list(operation.get("parameters"))]:
            parameter = as_mapping(self.resolve_ref(item))
            if parameter.get("in") != "body" and parameter:
                parameters[str(parameter.get("in")), str(parameter.get("name"))] = parameter
        return list(parameters.values())[:_MAX_PARAMETERS]

    def find_request_schema(self, operation: Mapping[str, Any]) -> Any:
        """The schema of the body that an operation takes; None if it takes none."""
        body = as_mapping(self.resolve_ref(operation.get("requestBody")))
        if body:
            return _find_content_schema(body)
        for item in as_list(operation.get("parameters")):
            parameter = as_mapping(self.resolve_ref(item))
            if parameter.get("in") == "body":
                return parameter.get("schema")
        return None

    def list_response_schemas(self, operation: Mapping[str, Any]) -> dict[str, Any]:
        """The schema of each response by status; None where a response has no body."""
        schemas: dict[str, Any] = {}
        for status, item in as_mapping(operation.get("responses")).items():
            response = as_mapping(self.resolve_ref(item))
            schemas[status] = response.get("schema") or _find_content_schema(response)
        return schemas

    def format_schema(self, schema: Any) -> str:
        """A schema in a line of at most 300 characters: `Pet {id: integer, tags: [string]}`."""
        return truncate(self._format_schema(schema, 0, ()), _FORMATTED_CHARS)

    def _format_schema(self, schema: Any, depth: int, seen: tuple[str, ...]) -> str:
        ref = as_mapping(schema).get("$ref")
        if isinstance(ref, str):
            file, _, pointer = ref.partition("#")
            name = (pointer or posixpath.splitext(file)[0]).rpartition("/")[2]
            if ref in seen or depth >= _FORMATTED_DEPTH or not self.can_follow(ref):
                return name
            inner = self._format_schema(self._follow_ref(ref), depth, (*seen, ref))
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
            if depth >= _FORMATTED_DEPTH:
                return "{…}"
            shown = [
                f"{name}: {self._format_schema(schema, depth + 1, seen)}"
                for name, schema in list(properties.items())[:_FORMATTED_PROPERTIES]
            ]
            more = ["…"] if len(properties) > _FORMATTED_PROPERTIES else []
            return "{" + ", ".join([*shown, *more]) + "}"
        kind = schema.get("type", "any")
        return "|".join(map(str, as_list(kind))) if isinstance(kind, list) else str(kind)

    def find_value(self, path: KeyPath) -> Any:
        """What is written at a path of keys; None where nothing is."""
        value = self._value
        for key in path:
            value = as_mapping(value).get(key)
        return value

    def _follow_ref(self, ref: str) -> Any:
        if not ref.startswith("#/"):
            with suppress(ValueError):  # of a text that a sanitizer went through
                return json.loads(self._references[ref])
            return None
        return resolve_pointer(self._value, ref[1:])


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
            return [self.resolve(item, seen, depth + 1) for item in kept]
        if not is_object(value):
            return value
        ref = value.get("$ref")
        if self._api.can_follow(ref) and ref not in seen:
            target = self._api.resolve_ref(value)
            rest = {key: inner for key, inner in value.items() if key != "$ref"}
            resolved = self.resolve({**as_mapping(target), **rest}, (*seen, ref), depth)
            return {"$ref": ref, **as_mapping(resolved)}
        entries = takewhile(lambda _: self._remaining_values > 0, value.items())
        return {key: self.resolve(inner, seen, depth + 1) for key, inner in entries}


def _find_content_schema(body_or_response: Mapping[str, Any]) -> Any:
    """The schema of a body or response of OpenAPI 3: that of JSON, else of its first media type."""
    content = as_mapping(body_or_response.get("content"))
    if not content:
        return None
    media = next((media for name, media in content.items() if "json" in name), next(iter(content.values())))
    return as_mapping(media).get("schema")
