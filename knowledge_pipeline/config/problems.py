"""The text of `knowledge.yaml` as plain values with the line of every key, and what is wrong with them.

Only the node graph of ruamel.yaml is used: nothing is constructed, whatever tags a file holds, and every
scalar stays the text as written (`since: 2024-01-31` is not a date, `branch: 1.10` not a number); the schema
decides what it means. Pydantic's errors become one problem each: where, what was found, what is allowed, what
was probably meant. Values are shown as written, before `${NAME}` is replaced; secrets never are.
"""

# ruamel.yaml leaves its nodes untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from pydantic import SecretStr
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode
from ruamel.yaml.reader import ReaderError

from knowledge_pipeline.config.model import SPELLINGS, SettingsModel
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import FILTER_NAMES
from knowledge_pipeline.errors import ConfigError

ConfigPath = tuple[str | int, ...]  # ("sources", 0, "chunking", "strategy")

MAX_CHARS = 2_000_000  # about ten thousand sources
MAX_VALUES = 200_000  # after aliases are followed
MAX_DEPTH = 16

_CORE_TAGS = {"str", "int", "float", "bool", "null", "timestamp", "merge", "value", "map", "seq"}
_TAG_PREFIX = "tag:yaml.org,2002:"
_MIN_LIKENESS = 0.7  # of a key or value and the one that it was probably meant to be
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

    def list_at(self, key: str) -> list[Any]:
        """The items of a list at the top; none if it is missing or not a list."""
        items = self.value_at((key,))
        return items if isinstance(items, list) else []

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
    """Read YAML; duplicate keys and foreign tags become problems, and what cannot be read a ConfigError."""
    if len(text) > MAX_CHARS:
        raise ConfigError(f"{name}:1: the file has {len(text)} characters; at most {MAX_CHARS} are read")
    last_line = text.count("\n") + (not text.endswith("\n")) or 1
    try:
        yaml = YAML(typ="safe", pure=True)
        yaml.composer.warn_double_anchors = False  # pyright: ignore[reportAttributeAccessIssue]
        return _NodeConverter(yaml.compose(text), last_line).parsed
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
    def __init__(self, root: Node | None, last_line: int) -> None:
        self.parsed, self.last_line = ParsedConfig(lines={(): 1}), last_line
        self.remaining_values = MAX_VALUES
        self.parsed.value = {} if root is None else self._convert_node(root, ())

    def _convert_node(self, node: Node, key_path: ConfigPath) -> Any:
        self._check_bounds(key_path)
        if not (str(node.tag).startswith(_TAG_PREFIX) and str(node.tag)[len(_TAG_PREFIX) :] in _CORE_TAGS):
            self.parsed.add_problem(key_path, "found a YAML tag; allowed: plain values without tags")
            return None
        if isinstance(node, ScalarNode):
            return None if node.tag == _TAG_PREFIX + "null" else str(node.value)
        if isinstance(node, MappingNode):
            entries, merged = dict[str, Any](), list[Node]()
            for key, value in node.value:
                if key.tag == _TAG_PREFIX + "merge":
                    merged += value.value if value.tag == _TAG_PREFIX + "seq" else [value]
                else:
                    self._add_entry(key, value, key_path, entries)
            for other in merged:
                self._merge_mapping(other, key_path, entries)
            return entries
        values: list[Any] = []
        for index, child in enumerate(node.value):
            self._record_line((*key_path, index), child)
            values.append(self._convert_node(child, (*key_path, index)))
        return values

    def _add_entry(self, key: Node, value: Node, key_path: ConfigPath, values: dict[str, Any]) -> None:
        if not isinstance(key, ScalarNode):
            return self.parsed.add_problem(key_path, "found a key that is not text; allowed: plain keys")
        here = (*key_path, str(key.value))
        if key.value in values:
            line = min(key.start_mark.line + 1, self.last_line)
            problem = f"found the key twice, first on line {self.parsed.line_of(here)}; allowed: once"
            return self.parsed.problems.append(ConfigProblem(line, here, problem))
        self._record_line(here, key)
        values[str(key.value)] = self._convert_node(value, here)

    def _merge_mapping(self, node: Node, key_path: ConfigPath, values: dict[str, Any]) -> None:
        self._check_bounds(key_path)
        if not isinstance(node, MappingNode):
            problem = "found '<<' with a value that is not a mapping; allowed: *ANCHOR"
            return self.parsed.add_problem(key_path, problem)
        plain = [pair for pair in node.value if pair[0].tag != _TAG_PREFIX + "merge"]
        if len(plain) < len(node.value):
            problem = "found '<<' inside a merged mapping; allowed: one level of '<<'"
            self.parsed.add_problem(key_path, problem)
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


_ALLOWED_BY_KEY = {
    "id": "a-z, 0-9, - and _, at most 64, a letter or digit first",
    "custom": "package.module:function",
    "account": "a-z and 0-9, 3 to 24 characters",
    "container": "a-z, 0-9 and -, 3 to 63 characters, a letter or digit first and last",
}
_BOUNDS = {
    "greater_than": "a number above",
    "greater_than_equal": "a number of at least",
    "less_than": "a number below",
    "less_than_equal": "a number of at most",
}
_ALLOWED_BY_KIND = {
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "tuple_type": "a list",
    "too_short": "a list that is not empty",
    "path_type": "a path",
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "a mapping of keys to values"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
}


def _list_leaf_types(annotation: Any) -> list[Any]:
    inner = get_args(annotation)
    return [leaf for part in inner for leaf in _list_leaf_types(part)] if inner else [annotation]


def _list_settings_models(model: type[SettingsModel]) -> Iterator[type[SettingsModel]]:
    for subclass in model.__subclasses__():
        yield subclass
        yield from _list_settings_models(subclass)


SECRET_KEYS = frozenset(
    name
    for model in _list_settings_models(SettingsModel)
    for name, field in model.model_fields.items()
    if SecretStr in _list_leaf_types(field.annotation)
)


def list_models(annotation: Any) -> list[type[SettingsModel]]:
    """The settings that a field holds: none for a plain value, several for a tagged union."""
    types = (leaf for leaf in _list_leaf_types(annotation) if isinstance(leaf, type))
    return [leaf for leaf in types if issubclass(leaf, SettingsModel)]


@dataclass(frozen=True, slots=True)
class _ErrorLocation:
    """A path in the file, the settings that hold its last key, and the settings that it may open."""

    key_path: ConfigPath
    parent_model: type[SettingsModel] | None
    models: list[type[SettingsModel]]


def to_problem(
    error: ErrorDetails, parsed: ParsedConfig, model: type[SettingsModel] = Settings
) -> ConfigProblem:
    """Translate one of pydantic's errors about a file that `model` describes."""
    location = _locate_error(error["loc"], model)
    key_path = (*location.key_path, "type") if error["type"].startswith("union_tag") else location.key_path
    text = _describe_error(error, location, key_path, parsed)
    return ConfigProblem(parsed.line_of(key_path), key_path, text)


def _describe_error(
    error: ErrorDetails, location: _ErrorLocation, key_path: ConfigPath, parsed: ParsedConfig
) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        keys = sorted(location.parent_model.model_fields) if location.parent_model else []
        if kind == "unexpected_keyword_argument":  # of the one dataclass among the settings
            keys = FILTER_NAMES
        if (meaning := SPELLINGS.get(str(key_path[-1]))) in keys:
            return f"found another word for {meaning!r}, which is there too; allowed: one of the two"
        return f"found an unknown key; allowed: {', '.join(keys)}{_suggest_choice(key_path[-1], keys)}"
    if kind == "union_tag_not_found":
        tags = ", ".join(tag for model in location.models for tag in _list_type_tags(model))
        return f"found nothing; required: one of {tags}"
    if kind == "missing":
        return "found nothing; required: add the key"
    value = parsed.value_at(key_path)
    if value is None and isinstance(written := parsed.value_at(key_path[:-1]), str):
        value = written  # in place of a mapping with this key alone
    if kind in ("literal_error", "union_tag_invalid"):
        expected = str(context.get("expected") or context.get("expected_tags"))
        choices = re.findall(r"'([^']*)'", expected) or [expected]  # from "'a', 'b' or 'c'"
        allowed = f"{', '.join(choices)}{_suggest_choice(value, choices)}"
    else:
        allowed = _describe_allowed(error, key_path)
    if value is None:
        shown = "nothing"
    elif not isinstance(value, str):
        shown = "a list" if isinstance(value, list) else "a mapping"
    elif SECRET_KEYS.intersection(key_path) or "@" in value or "://" in value:
        shown = "text"
    else:
        shown = ascii(value if len(value) <= 60 else f"{value[:60]}...")
    return f"found {shown}; allowed: {allowed}"


def _locate_error(loc: tuple[int | str, ...], model: type[SettingsModel]) -> _ErrorLocation:
    """Follow pydantic's location through the settings; it names the tag of a union, the file does not."""
    location = _ErrorLocation((), None, [model])
    for part in loc:
        if isinstance(part, int):
            location = replace(location, key_path=(*location.key_path, part))
        elif len(location.models) > 1:
            tagged = [model for model in location.models if part in _list_type_tags(model)]
            location = replace(location, models=tagged)
        else:
            parent = location.models[0] if location.models else None
            field = parent.model_fields.get(part) if parent else None
            models = list_models(field.annotation) if field else []
            location = _ErrorLocation((*location.key_path, part), parent, models)
    return location


def _list_type_tags(model: type[SettingsModel]) -> tuple[str, ...]:
    return get_args(model.model_fields["type"].annotation)


def _suggest_choice(written: object, choices: Sequence[str]) -> str:
    """The choice that was mistyped, which begins alike: `include_labels` is no slip for `exclude_labels`."""
    word = written.lower() if isinstance(written, str) else ""
    words = [*choices, *(other for other, meaning in SPELLINGS.items() if meaning in choices)]
    alike = [choice for choice in words if choice[:1] == word[:1]]
    close = difflib.get_close_matches(word, alike, n=1, cutoff=_MIN_LIKENESS)
    return f"; did you mean '{close[0]}'?" if close else ""


def _describe_allowed(error: ErrorDetails, key_path: ConfigPath) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "string_pattern_mismatch":
        key = next((part for part in reversed(key_path) if isinstance(part, str)), "")
        return _ALLOWED_BY_KEY.get(key) or f"text like {context['pattern']}"
    if kind.startswith("int_"):
        return "a whole number"
    if kind in _BOUNDS:
        return f"{_BOUNDS[kind]} {next(iter(context.values()))}"
    return _ALLOWED_BY_KIND.get(kind) or error["msg"].removeprefix("Input should be ")
