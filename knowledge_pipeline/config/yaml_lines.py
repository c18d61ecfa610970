"""The text of `knowledge.yaml` as plain values, with the line of every key.

Only the node graph of ruamel.yaml is used: nothing is constructed, whatever tags a
file holds, and every scalar stays the text as written (`since: 2024-01-31` is not a
date, `branch: 1.10` not a number); the schema decides what it means. Never prints values.
"""

# ruamel.yaml leaves its nodes untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode
from ruamel.yaml.reader import ReaderError

from knowledge_pipeline.errors import ConfigError

ConfigPath = tuple[str | int, ...]  # ("sources", 0, "chunking", "strategy")

MAX_CHARS = 2_000_000  # about ten thousand sources
MAX_VALUES = 200_000  # after aliases are followed
MAX_DEPTH = 16

_CORE_TAGS = {"str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq"}
_TAG_PREFIX = "tag:yaml.org,2002:"
_QUOTED_VALUE = re.compile(r"\b(alias|anchor|handle|directive)\b.*", re.DOTALL)  # `*secret` is an alias


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing that is wrong in the file; `text` holds no secret."""

    line: int
    key_path: ConfigPath
    text: str

    def __str__(self) -> str:
        path = format_key_path(self.key_path)
        return f"{path}: {self.text}" if path else self.text


@dataclass(slots=True)
class ParsedConfig:
    """Dicts, lists, text and None, as written; `lines` counts from 1."""

    value: Any = None
    lines: dict[ConfigPath, int] = field(default_factory=dict[ConfigPath, int])
    problems: list[ConfigProblem] = field(default_factory=list[ConfigProblem])

    def line_of(self, key_path: ConfigPath) -> int:
        """Line of a key, or of the nearest parent that the file has."""
        while key_path and key_path not in self.lines:
            key_path = key_path[:-1]
        return self.lines.get(key_path, 1)

    def value_at(self, key_path: ConfigPath) -> Any:
        """The value at a path; None if there is none."""
        value = self.value
        for part in key_path:
            if isinstance(value, dict):
                value = value.get(part)
            elif isinstance(value, list) and isinstance(part, int):
                value = value[part]
            else:
                return None
        return value

    @property
    def sources(self) -> list[Any]:
        """The items of `sources`; none if it is missing or not a list."""
        return self.list_at("sources")

    def list_at(self, key: str) -> list[Any]:
        """The items of a list at the top; none if it is missing or not a list."""
        found = self.value_at((key,))
        return found if isinstance(found, list) else []

    def add_problem(self, key_path: ConfigPath, text: str) -> None:
        """Add a problem at the line of its key."""
        self.problems.append(ConfigProblem(self.line_of(key_path), key_path, text))


def format_key_path(key_path: ConfigPath) -> str:
    """`sources[0].chunking.strategy`; keys with other characters are not shown."""
    path = ""
    for part in key_path:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if re.fullmatch(r"[\w -]{1,60}", part) else ".(unprintable key)"
    return path.removeprefix(".")


def parse_config(text: str, *, name: str) -> ParsedConfig:
    """Read YAML; duplicate keys and foreign tags become problems.

    Raises:
        ConfigError: the text is not YAML, or too large; the message names line and column.
    """
    if len(text) > MAX_CHARS:
        raise ConfigError(f"{name}:1: the file has {len(text)} characters; at most {MAX_CHARS} are read")
    last_line = text.count("\n") + (not text.endswith("\n")) or 1
    try:
        yaml = YAML(typ="safe", pure=True)
        yaml.composer.warn_double_anchors = False  # pyright: ignore[reportAttributeAccessIssue]
        return _NodeConverter(last_line).convert(yaml.compose(text))
    except RecursionError:
        raise ConfigError(f"{name}:1: values are nested too deeply; at most {MAX_DEPTH} levels") from None
    except OverflowError as error:
        raise ConfigError(f"{name}:1: {error}") from None
    except (YAMLError, ValueError) as error:
        raise ConfigError(_format_syntax_error(error, text, name, last_line)) from None


def _format_syntax_error(error: Exception, text: str, name: str, last_line: int) -> str:
    line, column, what = 1, 1, "invalid YAML"
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        if mark is not None:
            line, column = mark.line + 1, mark.column + 1
            if line > last_line:  # the end of the text
                line, column = last_line, len(text.rstrip("\n").rpartition("\n")[2]) + 1
        what = _QUOTED_VALUE.sub(r"\1", error.problem or error.context or what)
    elif isinstance(error, ReaderError):
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        what = "found a character that YAML does not allow"
    fix = "correct the YAML there"
    if r"'\t'" in what:
        fix = "use spaces, not tabs"
    elif "${" in "".join(text.splitlines()[line - 1 : line]):
        fix = 'inside { } or [ ] write "${NAME}" with quotes'
    return f"{name}:{line}: column {column}: {what}; {fix}"


class _NodeConverter:
    """Turns nodes into plain values, following aliases within bounds."""

    def __init__(self, last_line: int) -> None:
        self.parsed, self.last_line = ParsedConfig(lines={(): 1}), last_line
        self.remaining_values = MAX_VALUES

    def convert(self, root: Node | None) -> ParsedConfig:
        self.parsed.value = {} if root is None else self._convert_node(root, ())
        return self.parsed

    def _convert_node(self, node: Node, key_path: ConfigPath) -> Any:
        self._check_bounds(key_path)
        if not (str(node.tag).startswith(_TAG_PREFIX) and str(node.tag)[len(_TAG_PREFIX) :] in _CORE_TAGS):
            self.parsed.add_problem(key_path, "found a YAML tag; allowed: plain values without tags")
            return None
        if isinstance(node, ScalarNode):
            return None if node.tag == _TAG_PREFIX + "null" else str(node.value)
        if isinstance(node, MappingNode):
            return self._convert_mapping(node, key_path)
        values: list[Any] = []
        for index, child in enumerate(node.value):
            self._record_line((*key_path, index), child)
            values.append(self._convert_node(child, (*key_path, index)))
        return values

    def _convert_mapping(self, node: MappingNode, key_path: ConfigPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: list[Node] = []
        for key, value in node.value:
            if key.tag == _TAG_PREFIX + "merge":
                merged += value.value if value.tag == _TAG_PREFIX + "seq" else [value]
            else:
                self._add_entry(key, value, key_path, values)
        for other in merged:
            self._merge_mapping(other, key_path, values)
        return values

    def _add_entry(self, key: Node, value: Node, key_path: ConfigPath, values: dict[str, Any]) -> None:
        if not isinstance(key, ScalarNode):
            return self.parsed.add_problem(key_path, "found a key that is not text; allowed: plain keys")
        here = (*key_path, str(key.value))
        if key.value in values:
            line = min(key.start_mark.line + 1, self.last_line)
            found = f"found the key twice, first on line {self.parsed.line_of(here)}; allowed: once"
            return self.parsed.problems.append(ConfigProblem(line, here, found))
        self._record_line(here, key)
        values[str(key.value)] = self._convert_node(value, here)

    def _merge_mapping(self, node: Node, key_path: ConfigPath, values: dict[str, Any]) -> None:
        self._check_bounds(key_path)
        if not isinstance(node, MappingNode):
            found = "found '<<' with a value that is not a mapping; allowed: *ANCHOR"
            return self.parsed.add_problem(key_path, found)
        plain = [pair for pair in node.value if pair[0].tag != _TAG_PREFIX + "merge"]
        if len(plain) < len(node.value):
            found = "found '<<' inside a merged mapping; allowed: one level of '<<'"
            self.parsed.add_problem(key_path, found)
        for key, value in plain:
            if key.value not in values:
                self._add_entry(key, value, key_path, values)

    def _record_line(self, key_path: ConfigPath, node: Node) -> None:
        self.parsed.lines[key_path] = min(node.start_mark.line + 1, self.last_line)

    def _check_bounds(self, key_path: ConfigPath) -> None:
        self.remaining_values -= 1
        if self.remaining_values < 0:
            raise OverflowError(f"aliases expand to more than {MAX_VALUES} values; write fewer '*' aliases")
        if len(key_path) > MAX_DEPTH:
            raise RecursionError
