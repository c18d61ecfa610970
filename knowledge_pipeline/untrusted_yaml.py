"""Reads YAML and JSON that others wrote: as plain values, with the position of every key near the top.

The only module that reads YAML, the operator's own configuration aside. Safe for hostile input: depth, size
and the growth by aliases are bounded, tags create no objects, and nothing is fetched. It reads PyYAML's
events instead of its nodes: no recursion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import yaml

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.text import is_list, is_object

KeyPath = tuple[str, ...]

_MAX_DEPTH = 100
_MAX_CHARS = 20_000_000
_MAX_ALIASED_VALUES = 200_000  # what aliases may add to the values that are written out
_MAX_POSITION_DEPTH = 4
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],]', re.DOTALL)
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})\Z")  # 0012 is a name
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_KEYWORDS = {"": None, "~": None} | {
    form: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for form in (word, word.title(), word.upper())
}


@dataclass(frozen=True, slots=True)
class PositionedYaml:
    """A value, and where its keys are written.

    `key_positions` holds the path and first character of every key whose path has at most
    four keys and no list in it, in the order of the text.
    """

    value: Any
    key_positions: list[tuple[KeyPath, int]]


def parse_yaml(text: str) -> PositionedYaml:
    """Read a JSON text, or the first document of a YAML text. Keys are strings; dates stay strings.

    Raises `DocumentSkipped`: it is neither, or too large, too deep, or grows by its aliases.
    """
    if len(text) > _MAX_CHARS:
        raise DocumentSkipped(f"it has more than {_MAX_CHARS} characters")
    if text.lstrip("\ufeff \t\r\n")[:1] in {"{", "["}:
        try:
            behind_mark = text.removeprefix("\ufeff")
            value = json.loads(behind_mark, parse_constant=str)
            return PositionedYaml(value, list(_find_json_keys(behind_mark, len(text) - len(behind_mark))))
        except RecursionError as error:
            raise DocumentSkipped("it is nested too deep") from error
        except ValueError:
            pass  # flow YAML begins alike
    try:
        return _parse_yaml_events(text, _parse_scalar)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise DocumentSkipped(f"it is not valid YAML: {error.problem} in line {line}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise DocumentSkipped("it is not valid YAML: it has characters that YAML does not allow") from error


def resolve_pointer(value: Any, pointer: str) -> Any:
    """What a JSON pointer, as a reference has it behind its `#`, points at; None where nothing is.

    Source: https://datatracker.ietf.org/doc/html/rfc6901
    """
    for key in split_pointer(pointer):
        if is_list(value):
            position = int(key) if key.isdecimal() and len(key) < 10 else len(value)
            value = value[position] if position < len(value) else None
        else:
            value = value.get(key) if is_object(value) else None
    return value


def split_pointer(pointer: str) -> KeyPath:
    """The keys of a JSON pointer: "/paths/~1pets" has "paths" and "/pets"."""
    parts = pointer.split("/")[1:]
    return tuple(unquote(part).replace("~1", "/").replace("~0", "~") for part in parts)


def load_yaml(text: str) -> Any:
    """A YAML text with every scalar as it is written, null as None: for a text whose values may share parts.

    Raises:
        DocumentSkipped: it is too large, too deep, or grows by its aliases.
        yaml.YAMLError, ValueError: it is not valid.
    """
    if len(text) > _MAX_CHARS:
        raise DocumentSkipped(f"it has more than {_MAX_CHARS} characters")
    return _parse_yaml_events(
        text, lambda scalar: None if _KEYWORDS.get(scalar, scalar) is None else scalar
    ).value


def _find_json_keys(text: str, shift: int) -> Iterator[tuple[KeyPath, int]]:
    """Walk the marks of a text that is known to be valid JSON."""
    path: list[str | None] = []  # the open key of each container around; None: a list
    wants_key = False
    for match in _JSON_TOKEN.finditer(text):
        mark = match[0]
        if mark in "{[":
            path.append("" if mark == "{" else None)
            if len(path) > _MAX_DEPTH:
                raise DocumentSkipped("it is nested too deep")
        elif mark in "}]":
            path.pop()
        elif mark != "," and wants_key and len(path) <= _MAX_POSITION_DEPTH:
            path[-1] = str(json.loads(mark))
            if None not in path:
                yield tuple(key for key in path if key is not None), match.start() + shift
        wants_key = mark in "{," and bool(path) and path[-1] is not None


@dataclass(slots=True)
class _OpenContainer:
    value: dict[str, Any] | list[Any]
    anchor: str | None
    size: int = 1  # values in it, those of aliases included
    key: str | None = None  # of a mapping: read, and waiting for its value


@dataclass(slots=True)
class _ValueBuilder:
    parse_scalar: Callable[[str], Any]
    key_positions: list[tuple[KeyPath, int]] = field(default_factory=list[tuple[KeyPath, int]])
    stack: list[_OpenContainer] = field(default_factory=list[_OpenContainer])
    anchors: dict[str, tuple[Any, int]] = field(default_factory=dict[str, tuple[Any, int]])
    aliased_values: int = 0
    value: Any = None

    def start_container(self, container: dict[str, Any] | list[Any], anchor: str | None) -> None:
        if self.stack and self._expects_key():
            raise DocumentSkipped("it has a key that is a list or a mapping")
        if len(self.stack) >= _MAX_DEPTH:
            raise DocumentSkipped("it is nested too deep")
        self.stack.append(_OpenContainer(container, anchor))

    def end_container(self) -> None:
        done = self.stack.pop()
        value = done.value
        if is_object(value) and "<<" in value:
            merge = value.pop("<<")
            merged: dict[str, Any] = {}
            for source in reversed(merge if is_list(merge) else [merge]):
                if is_object(source):
                    merged |= source
            value = merged | value  # what is written out wins
        self._add_value(value, done.size, done.anchor)

    def add_scalar(self, event: yaml.ScalarEvent, shift: int) -> None:
        text = str(event.value)
        if self.stack and self._expects_key():
            self.stack[-1].key = text
            path = tuple(around.key for around in self.stack if around.key is not None)
            if len(path) == len(self.stack) <= _MAX_POSITION_DEPTH:
                self.key_positions.append((path, event.start_mark.index + shift))
            return
        self._add_value(self.parse_scalar(text) if event.implicit[0] else text, 1, event.anchor)

    def add_alias(self, name: str) -> None:
        if name not in self.anchors:
            raise DocumentSkipped(f"its alias {name!r} has no anchor before it, or lies within it")
        value, size = self.anchors[name]
        self.aliased_values += size
        if self.aliased_values > _MAX_ALIASED_VALUES:
            raise DocumentSkipped("its aliases grow beyond all bounds")
        if self.stack and self._expects_key():
            self.stack[-1].key = str(value)
        else:
            self._add_value(value, size, None)

    def _expects_key(self) -> bool:
        top = self.stack[-1]
        return isinstance(top.value, dict) and top.key is None

    def _add_value(self, value: Any, size: int, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = value, size
        if not self.stack:
            self.value = value
            return
        top = self.stack[-1]
        top.size += size
        if isinstance(top.value, list):
            top.value.append(value)
        else:
            top.value[str(top.key)] = value
            top.key = None


def _parse_yaml_events(text: str, parse_scalar: Callable[[str], Any]) -> PositionedYaml:
    behind_mark = text.removeprefix("\ufeff")
    shift = len(text) - len(behind_mark)
    reader = _ValueBuilder(parse_scalar)
    for event in _read_events(behind_mark):
        if isinstance(event, yaml.MappingStartEvent):
            reader.start_container({}, event.anchor)
        elif isinstance(event, yaml.SequenceStartEvent):
            reader.start_container([], event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            reader.end_container()
        elif isinstance(event, yaml.ScalarEvent):
            reader.add_scalar(event, shift)
        elif isinstance(event, yaml.AliasEvent):
            reader.add_alias(str(event.anchor))
        elif isinstance(event, yaml.DocumentEndEvent):
            break
    return PositionedYaml(reader.value, reader.key_positions)


def _read_events(text: str) -> Iterator[yaml.Event]:
    loader = _LOADER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _parse_scalar(text: str) -> Any:
    """A scalar without quotes as YAML 1.2 reads it; what JSON cannot hold stays a string."""
    if text in _KEYWORDS:
        return _KEYWORDS[text]
    if _INT.match(text):
        return int(text)
    if _FLOAT.match(text) and str(number := float(text)) == text:  # 1.10 is a version
        return number
    return text
