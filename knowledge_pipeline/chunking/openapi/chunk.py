"""An OpenAPI 3 or Swagger 2 file as chunks: each operation one, and the rest by its keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from knowledge_pipeline.chunking.base import Limits, Measured, Span
from knowledge_pipeline.chunking.openapi.schemas import Api, mapping, sequence
from knowledge_pipeline.chunking.openapi.yaml_positions import KeyPath, Placed, read_placed
from knowledge_pipeline.chunking.pack import pack, split_span
from knowledge_pipeline.chunking.sentences import Range, lines
from knowledge_pipeline.config.settings import Chunking
from knowledge_pipeline.errors import DocumentSkipped

VERSION = 1

_METHODS = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace", "query"})
_OPERATIONS = ("paths", "webhooks")
_NAMED = frozenset(
    {*_OPERATIONS, "components", "definitions", "parameters", "responses", "securityDefinitions"}
)
_HEADER_LINE_CHARS = 200
_LOOK_BACK_CHARS = 1000
_CUT_DEPTH = 4  # the keys of an operation or of a schema


@dataclass(frozen=True, slots=True)
class _Part:
    """What lies under one key, up to the next part."""

    path: KeyPath
    start_char: int
    end_char: int

    @property
    def is_operation(self) -> bool:
        return len(self.path) == 3 and self.path[0] in _OPERATIONS and self.path[2].lower() in _METHODS

    @property
    def anchor(self) -> str:
        if self.is_operation:
            place = self.path[1] if self.path[0] == "paths" else f"webhook {self.path[1]}"
            return f"{self.path[2].upper()} {place}"
        return "/".join(self.path)


def chunk_endpoints(measured: Measured, chunking: Chunking, limits: Limits) -> Iterator[Span]:
    """One span for each operation, schema and other part; small neighbours that are no operations join.

    The text is the part as it is written in the file. What it refers to is in the header in
    short, and in the metadata resolved. A part that is too long is cut at its keys, then lines.

    Raises:
        DocumentSkipped: the text is no such file, or none that can be read in bounds.
    """
    placed = read_placed(measured.document.text)
    root = mapping(placed.value)
    if not str(root.get("openapi") or root.get("swagger") or "").startswith(("2", "3")):
        raise DocumentSkipped("it is no OpenAPI 3 or Swagger 2 file")
    api = Api(root)
    text = measured.document.text
    inner = sorted({_line_start(text, at) for path, at in placed.places if len(path) == _CUT_DEPTH})
    for group in _joined(_parts(placed, measured), measured, limits):
        pieces = list(_pieces(group, inner, measured, limits))
        header = _header(api, group, measured.document.path)
        for number, (start, end) in enumerate(pieces):
            metadata = _metadata(api, group[0], whole=number == 0) if group[0].is_operation else {}
            yield Span(start, end, group[0].anchor, header, metadata)


def _parts(placed: Placed, measured: Measured) -> list[_Part]:
    """The whole text, cut before each key that opens a part."""
    text = measured.document.text
    opening = [(path, _line_start(text, at)) for path, at in _opening(placed.places)]
    if not opening:
        return [_Part((), 0, len(text))]
    starts = [0, *(start for _, start in opening[1:]), len(text)]
    parts = (
        _Part(path, start, end)
        for (path, _), start, end in zip(opening, starts, starts[1:], strict=False)
        if start < end
    )
    return [part for part in parts if not text[part.start_char : part.end_char].isspace()]


def _opening(places: Sequence[tuple[KeyPath, int]]) -> Iterator[tuple[KeyPath, int]]:
    """The keys that open a part. What a path says before its first operation goes with that operation."""
    with_operation: set[KeyPath] = set()
    for path, at in places:
        if len(path) == 3 and path[0] in _OPERATIONS:
            if path[2].lower() in _METHODS:
                with_operation.add(path[:2])
            if path[:2] in with_operation:
                yield path, at
        elif len(path) <= (3 if path[0] == "components" else 2 if path[0] in _NAMED else 1):
            yield path, at


def _line_start(text: str, at: int) -> int:
    """The start of a key's line, and of the comment lines above it; the key itself behind anything else."""
    start = _line_before(text, at)
    if text[start:at].strip():
        return at
    while start > 0:
        above = _line_before(text, start - 1)
        if not text[above:start].lstrip().startswith("#"):
            break
        start = above
    return start


def _line_before(text: str, at: int) -> int:
    """The start of the line that ends or goes on at a character; looks back 1,000 characters at most."""
    return text.rfind("\n", max(0, at - _LOOK_BACK_CHARS), at) + 1 or max(0, at - _LOOK_BACK_CHARS)


def _joined(parts: Sequence[_Part], measured: Measured, limits: Limits) -> list[list[_Part]]:
    """Groups of parts: a key that only holds others joins its first one, small siblings join each other.

    The part that names the group comes first in it, wherever it lies.
    """
    groups: list[list[_Part]] = []
    for part in parts:
        last = groups[-1] if groups else []
        if not last or measured.tokens(_start(last), part.end_char) > limits.max_tokens:
            groups.append([part])
        elif part.path[: len(last[0].path)] == last[0].path and len(part.path) > len(last[0].path):
            groups[-1] = [part, *last]
        elif _are_small_siblings(last, part, measured, limits):
            last.append(part)
        else:
            groups.append([part])
    return groups


def _are_small_siblings(group: Sequence[_Part], part: _Part, measured: Measured, limits: Limits) -> bool:
    if part.is_operation or group[0].is_operation or group[0].path[:-1] != part.path[:-1]:
        return False
    if len(part.path) == 1 and part.path[0] in _NAMED:
        return False  # it goes with what it holds
    return measured.tokens(_start(group), group[-1].end_char) < limits.min_tokens


def _start(group: Sequence[_Part]) -> int:
    return min(part.start_char for part in group)


def _pieces(
    group: Sequence[_Part], inner: Sequence[int], measured: Measured, limits: Limits
) -> Iterator[Range]:
    """A group whole, or cut at the `inner` starts of its keys, or else at lines."""

    def keys(_: str, start_char: int, end_char: int) -> Iterator[Range]:
        within = inner[bisect_right(inner, start_char) : bisect_left(inner, end_char)]
        yield from pairwise([start_char, *within, end_char])

    whole = _start(group), max(part.end_char for part in group)
    pieces = split_span(measured, whole, limits.max_tokens, (keys, lines))
    for piece in pack(pieces, limit=limits.max_tokens, size=measured.tokens, overlap=limits.overlap_tokens):
        if not measured.document.text[piece[0] : piece[1]].isspace():
            yield piece


def _operation(api: Api, part: _Part) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """An operation, and the path item that it lies in."""
    owner = mapping(mapping(api.root.get(part.path[0])).get(part.path[1]))
    return mapping(owner.get(part.path[2])), owner


def _header(api: Api, group: Sequence[_Part], path: str) -> str:
    part = group[0]
    title = mapping(api.root.get("info")).get("title")
    told = [path, title if isinstance(title, str) else ""]
    if part.is_operation:
        told += [part.anchor, *_summary(api, part)]
    elif part.path:
        told.append(", ".join(each.anchor for each in group if len(each.path) == len(part.path)))
    return "\n".join(" ".join(line.split())[:_HEADER_LINE_CHARS] for line in told if line)


def _summary(api: Api, part: _Part) -> Iterator[str]:
    """What an operation does, takes and gives, a line each."""
    operation, owner = _operation(api, part)
    for key in ("summary", "operationId"):
        if isinstance(operation.get(key), str):
            yield operation[key]
    names = [_parameter(api, each) for each in api.parameters(operation, owner)]
    if names:
        yield "Parameters: " + ", ".join(names)
    request = api.request_schema(operation)
    if request is not None:
        yield "Request: " + api.shape(request)
    answers = [
        f"{status} {api.shape(schema)}"
        for status, schema in api.response_schemas(operation).items()
        if schema
    ]
    if answers:
        yield "Responses: " + "; ".join(answers)


def _parameter(api: Api, parameter: Mapping[str, Any]) -> str:
    kind = api.shape(parameter.get("schema") or {"type": parameter.get("type", "any")})
    required = ", required" if parameter.get("required") is True else ""
    return f"{parameter.get('name')} ({parameter.get('in')}, {kind}{required})"


def _metadata(api: Api, part: _Part, *, whole: bool) -> dict[str, Any]:
    """What identifies an operation; on its first chunk, its resolved parameters and schemas too."""
    operation, owner = _operation(api, part)
    known: dict[str, Any] = {"method": part.path[2].upper(), "path": part.path[1]}
    known["operation_id"] = operation.get("operationId")
    known["tags"] = [str(tag) for tag in sequence(operation.get("tags"))][:50]
    known["deprecated"] = operation.get("deprecated") is True or None
    if whole:
        known["parameters"] = api.resolved(api.parameters(operation, owner))
        known["request_schema"] = api.resolved(api.request_schema(operation))
        known["response_schemas"] = api.resolved(api.response_schemas(operation))
    return {key: fact for key, fact in known.items() if fact not in (None, [], {})}
