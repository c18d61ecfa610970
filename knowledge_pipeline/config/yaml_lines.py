"""The text of `knowledge.yaml` as plain values, with the line of every key.

Only the node graph of ruamel.yaml is used: nothing is constructed, whatever tags a
file holds, and every scalar stays the text that was written (`since: 2024-01-31` is no
date, `branch: 1.10` no number); the schema decides what it means. Never prints values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode
from ruamel.yaml.reader import ReaderError

from knowledge_pipeline.errors import ConfigError

Place = tuple[str | int, ...]  # ("sources", 0, "chunking", "strategy")

MAX_CHARS = 2_000_000  # about ten thousand sources
MAX_VALUES = 200_000  # after aliases are followed
MAX_DEPTH = 16

_CORE = {"str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq"}
_TAG_PREFIX = "tag:yaml.org,2002:"
_NAMES_A_VALUE = re.compile(r"\b(alias|anchor|handle|directive)\b.*", re.DOTALL)  # `*secret` is an alias


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in the file; `text` holds no secret."""

    line: int
    place: Place
    text: str

    def __str__(self) -> str:
        path = path_of(self.place)
        return f"{path}: {self.text}" if path else self.text


@dataclass(slots=True)
class Parsed:
    """Dicts, lists, text and None, as written; `lines` counts from 1."""

    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, place: Place) -> int:
        """Line of a key, or of the nearest one around it that the file has."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def at(self, place: Place) -> Any:
        """The value at a place; None where there is none."""
        value = self.value
        for part in place:
            if isinstance(value, dict):
                value = value.get(part)
            elif isinstance(value, list) and isinstance(part, int):
                value = value[part]
            else:
                return None
        return value

    def report(self, place: Place, text: str) -> None:
        """Add one problem, at the line of its place."""
        self.problems.append(Problem(self.line(place), place, text))


def path_of(place: Place) -> str:
    """`sources[0].chunking.strategy`; keys that hold odd characters are not shown."""
    path = ""
    for part in place:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if re.fullmatch(r"[\w -]{1,60}", part) else ".(odd key)"
    return path.removeprefix(".")


def parse(text: str, *, name: str) -> Parsed:
    """Read YAML; duplicate keys and foreign tags become problems.

    Raises:
        ConfigError: the text is no YAML, or too large; the message names line and column.
    """
    if len(text) > MAX_CHARS:
        raise ConfigError(f"{name}:1: the file has {len(text)} characters; at most {MAX_CHARS} are read")
    last_line = text.count("\n") + (not text.endswith("\n")) or 1
    try:
        return _Walk(last_line).parse(_compose(text))
    except RecursionError:
        raise ConfigError(f"{name}:1: values are nested too deep; at most {MAX_DEPTH} levels") from None
    except OverflowError as error:
        raise ConfigError(f"{name}:1: {error}") from None
    except (YAMLError, ValueError) as error:
        raise ConfigError(_syntax(error, text, name, last_line)) from None


def _compose(text: str) -> Node | None:
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False  # pyright: ignore[reportAttributeAccessIssue]
    return yaml.compose(text)


def _syntax(error: Exception, text: str, name: str, last_line: int) -> str:
    line, column, what = 1, 1, "no valid YAML"
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        if mark is not None:
            line, column = mark.line + 1, mark.column + 1
            if line > last_line:  # the end of the text
                line, column = last_line, len(text.rstrip("\n").rpartition("\n")[2]) + 1
        what = _NAMES_A_VALUE.sub(r"\1", error.problem or error.context or what)
    elif isinstance(error, ReaderError):
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        what = "found a character that YAML does not allow"
    return f"{name}:{line}: column {column}: {what}; {_remedy(what, text, line)}"


def _remedy(what: str, text: str, line: int) -> str:
    if r"'\t'" in what:
        return "use spaces, not tabs"
    if "${" in "".join(text.splitlines()[line - 1 : line]):
        return 'inside { } or [ ] write "${NAME}" with quotes'
    return "correct the YAML there"


class _Walk:
    """Turns nodes into plain values, following aliases within bounds."""

    def __init__(self, last_line: int) -> None:
        self.parsed = Parsed(lines={(): 1})
        self.last_line = last_line
        self.left = MAX_VALUES

    def parse(self, root: Node | None) -> Parsed:
        self.parsed.value = {} if root is None else self._value(root, ())
        return self.parsed

    def _value(self, node: Node, place: Place) -> Any:
        self._bound(place)
        if not (str(node.tag).startswith(_TAG_PREFIX) and str(node.tag)[len(_TAG_PREFIX) :] in _CORE):
            self.parsed.report(place, "found a YAML tag; allowed: plain values without tags")
            return None
        if isinstance(node, ScalarNode):
            return None if node.tag == _TAG_PREFIX + "null" else str(node.value)
        if isinstance(node, MappingNode):
            return self._mapping(node, place)
        return [self._item(child, (*place, index)) for index, child in enumerate(node.value)]

    def _item(self, node: Node, place: Place) -> Any:
        self._mark(place, node)
        return self._value(node, place)

    def _mapping(self, node: MappingNode, place: Place) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: list[Node] = []
        for key, value in node.value:
            if key.tag == _TAG_PREFIX + "merge":
                merged += value.value if value.tag == _TAG_PREFIX + "seq" else [value]
            else:
                self._entry(key, value, place, values)
        for other in merged:
            self._merge(other, place, values)
        return values

    def _entry(self, key: Node, value: Node, place: Place, values: dict[str, Any]) -> None:
        if not isinstance(key, ScalarNode):
            return self.parsed.report(place, "found a key that is no text; allowed: plain keys")
        here = (*place, str(key.value))
        if key.value in values:
            line = min(key.start_mark.line + 1, self.last_line)
            found = f"found the key twice, first on line {self.parsed.line(here)}; allowed: once"
            return self.parsed.problems.append(Problem(line, here, found))
        self._mark(here, key)
        values[str(key.value)] = self._value(value, here)

    def _merge(self, node: Node, place: Place, values: dict[str, Any]) -> None:
        self._bound(place)
        if not isinstance(node, MappingNode):
            return self.parsed.report(place, "found '<<' with a value that is no mapping; allowed: *ANCHOR")
        for key, value in self._pairs(node, place):
            if key.value not in values:
                self._entry(key, value, place, values)

    def _pairs(self, node: MappingNode, place: Place) -> list[tuple[Node, Node]]:
        plain = [pair for pair in node.value if pair[0].tag != _TAG_PREFIX + "merge"]
        if len(plain) < len(node.value):
            self.parsed.report(place, "found '<<' inside a merged mapping; allowed: one level of '<<'")
        return plain

    def _mark(self, place: Place, node: Node) -> None:
        self.parsed.lines[place] = min(node.start_mark.line + 1, self.last_line)

    def _bound(self, place: Place) -> None:
        self.left -= 1
        if self.left < 0:
            raise OverflowError(f"aliases expand to more than {MAX_VALUES} values; write fewer '*' aliases")
        if len(place) > MAX_DEPTH:
            raise RecursionError
