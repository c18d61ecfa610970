"""Typed conditions on rows, compiled to Lance's filter language in this one place.

Values are always escaped here; nothing else in the project writes a filter by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal
from unicodedata import normalize

from knowledge_pipeline.records import VARIANT_TAG

Value = str | int | float | bool | datetime

_WILDCARD = re.compile(r"(\*\*/|\*\*|\*|\?)")
_COLUMN = re.compile(r"^[a-z_][a-z0-9_]*$")


@dataclass(frozen=True, slots=True)
class ColumnPattern:
    """A text column matches a regular expression: what `ColumnValues` turns into a list of values."""

    column: str
    pattern: str
    of_list: bool = False  # the column holds lists: each of their values is a line to the expression

    @property
    def sql(self) -> str:
        """In Lance's filter language."""
        column = _require_column_name(self.column)
        text = f"array_to_string({column}, '\n')" if self.of_list else column
        return f"regexp_like({text}, {format_literal(self.pattern)})"

    def list_values(self, values: Iterable[str]) -> Filter:
        """The same condition, by the values that match."""
        return has_any(self.column, values) if self.of_list else one_of(self.column, values)


@dataclass(frozen=True, slots=True)
class BranchCondition:
    """A row stands in a branch that fits a pattern: what `Locations` turns into conditions on each source."""

    branches: tuple[str, ...]
    own: Filter  # what else holds of rows that stand in the main branch of their source

    @property
    def sql(self) -> str:
        """In Lance's filter language, for rows that say their branch themselves."""
        return (one_of("branch", self.branches) & self.own).sql


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """A simple condition, or one of several, which can be asked of columns in memory too."""

    kind: Literal["=", ">=", "in", "starts", "null", "and", "or", "not"]
    column: str = ""
    values: tuple[Value, ...] = ()
    parts: tuple[ColumnTest, ...] = ()

    @property
    def columns(self) -> set[str]:
        """The columns that it is about."""
        return {self.column, *(name for part in self.parts for name in part.columns)} - {""}


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on a row, already compiled; combine with `&`, `|` and `~`."""

    sql: str
    patterns: tuple[ColumnPattern | BranchCondition, ...] = field(default=(), compare=False)
    """In `sql`, none of them negated."""
    test: ColumnTest | None = field(default=None, compare=False)  # the same condition; None: in `sql` alone

    def __and__(self, other: Filter) -> Filter:
        if MATCH_NONE in (self, other):
            return MATCH_NONE
        if MATCH_ALL in (self, other):
            return other if self == MATCH_ALL else self
        test = ColumnTest("and", parts=(self.test, other.test)) if self.test and other.test else None
        return Filter(f"({self.sql} AND {other.sql})", self.patterns + other.patterns, test)

    def __or__(self, other: Filter) -> Filter:
        if MATCH_ALL in (self, other):
            return MATCH_ALL
        if MATCH_NONE in (self, other):
            return other if self == MATCH_NONE else self
        test = ColumnTest("or", parts=(self.test, other.test)) if self.test and other.test else None
        return Filter(f"({self.sql} OR {other.sql})", self.patterns + other.patterns, test)

    def __invert__(self) -> Filter:
        test = ColumnTest("not", parts=(self.test,)) if self.test else None
        negated = Filter(f"(NOT {self.sql})", test=test)
        return {MATCH_NONE: MATCH_ALL, MATCH_ALL: MATCH_NONE}.get(self, negated)


MATCH_NONE = Filter("false")
MATCH_ALL = Filter("true")


def any_of(conditions: Sequence[Filter]) -> Filter:
    """At least one of them holds. Nested as flat as can be: Lance reads no more than some fifty levels."""
    if len(conditions) < 2:
        return conditions[0] if conditions else MATCH_NONE
    half = len(conditions) // 2
    return any_of(conditions[:half]) | any_of(conditions[half:])


def _require_column_name(name: str) -> str:
    if not _COLUMN.match(name):
        raise ValueError(f"{name!r} is not a column name")
    return name


def format_literal(value: Value) -> str:
    """A value in Lance's filter language.

    Double quotes would name a column there, so strings take single quotes, doubled inside.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case datetime():
            return f"timestamp '{value.astimezone(UTC).strftime('%Y-%m-%d %H:%M:%S.%f')}'"
        case str():
            return "'" + value.replace("\x00", "").replace("'", "''") + "'"


def _clean(value: Value) -> Value:
    """As a literal says it."""
    return value.replace("\x00", "") if isinstance(value, str) else value


def eq(column: str, value: Value) -> Filter:
    """The column holds exactly this value."""
    return replace(_compare(column, "=", value), test=ColumnTest("=", column, (_clean(value),)))


def at_least(column: str, value: Value) -> Filter:
    """The column is not below the value."""
    return replace(_compare(column, ">=", value), test=ColumnTest(">=", column, (_clean(value),)))


def below(column: str, value: Value) -> Filter:
    """The column is below the value."""
    return _compare(column, "<", value)


def is_null(column: str) -> Filter:
    """The column holds nothing."""
    return Filter(f"({_require_column_name(column)} IS NULL)", test=ColumnTest("null", column))


def one_of(column: str, values: Iterable[Value]) -> Filter:
    """The column holds one of the values; no values match nothing."""
    values = tuple(values)
    if not values:
        return MATCH_NONE
    listed = ", ".join(map(format_literal, values))
    test = ColumnTest("in", column, tuple(map(_clean, values)))
    return Filter(f"({_require_column_name(column)} IN ({listed}))", test=test)


def on_branch(branches: Iterable[str], own: Filter = MATCH_ALL) -> Filter:
    """The row stands in a branch that one of the patterns names.

    `own`: what holds besides of rows of main branches. A variant, which only further branches have, needs no
    more.
    """
    condition = BranchCondition(tuple(branches), own)
    return Filter(condition.sql, (condition,))


def has_any(column: str, values: Iterable[str]) -> Filter:
    """The list column holds at least one of the values; no values match nothing."""
    listed = ", ".join(format_literal(value) for value in values)
    return Filter(f"array_has_any({_require_column_name(column)}, [{listed}])") if listed else MATCH_NONE


def has_all(column: str, values: Iterable[str]) -> Filter:
    """The list column holds each of the values; it always holds none."""
    listed = ", ".join(format_literal(value) for value in values)
    return Filter(f"array_has_all({_require_column_name(column)}, [{listed}])") if listed else MATCH_ALL


def contains(column: str, value: str) -> Filter:
    """The text column holds the value, wherever in it."""
    return Filter(f"contains({_require_column_name(column)}, {format_literal(value)})")


def has_non_ascii(column: str) -> Filter:
    """The text column holds a character that is not ASCII."""
    name = _require_column_name(column)
    return Filter(f"(octet_length({name}) > character_length({name}))")


def starts_with(column: str, value: str) -> Filter:
    """The text column begins with the value."""
    sql = f"starts_with({_require_column_name(column)}, {format_literal(value)})"
    return Filter(sql, test=ColumnTest("starts", column, (_clean(value),)))


def starts_with_folded(column: str, value: str) -> Filter:
    """The text column begins with the value, letter case aside."""
    return _match_regex(column, f"(?i)^{re.escape(value)}")


def equals_folded(column: str, value: str) -> Filter:
    """The text column holds this value, letter case aside."""
    return _match_regex(column, f"(?i)^{re.escape(value)}$")


def contains_words(column: str, value: str, *, of_list: bool = False) -> Filter:
    """The text column holds the value as whole words, letter case aside: `jane` in "Jane Doe".

    `of_list`: the column holds lists, of which one text is enough.
    """
    return _match_regex(column, rf"(?im)(^|\W){re.escape(value)}(\W|$)", of_list=of_list)


def lists_ending(column: str, value: str) -> Filter:
    """The list column holds the value, or one that ends with it after a dot, letter case aside."""
    return _match_regex(column, rf"(?im)(^|\.){re.escape(value)}$", of_list=True)


def in_any_form(build: Callable[[str], Filter], text: str) -> Filter:
    """What is built of a text, whether its accents are parts of letters or, as on macOS, apart."""
    return any_of(list(map(build, _list_forms(text))))


def _list_forms(text: str) -> list[str]:
    return list(dict.fromkeys((text, normalize("NFC", text), normalize("NFD", text))))


def equals_path(column: str, value: str) -> Filter:
    """The column holds this path or uri, in whatever form its accents are written."""
    return in_any_form(partial(eq, column), value)


def ends_with_parts(column: str, value: str, separator: str) -> Filter:
    """The value, or one that ends with it after a separator: `Store.get` in "lake.Store.get" by dots."""
    return in_any_form(
        lambda form: _match_regex(column, f"(^|{re.escape(separator)}){re.escape(form)}$"), value
    )


def glob(column: str, pattern: str) -> Filter:
    """The path column matches a glob: `*` within a folder, `**` across folders, `?` one character.

    A pattern without a wildcard also matches everything below that folder.
    """
    if not _WILDCARD.search(pattern):
        return _match_regex(column, f"^{re.escape(pattern.rstrip('/'))}(/|$)")
    wildcards = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = _WILDCARD.split(pattern)
    return _match_regex(column, "^" + "".join(wildcards.get(part, re.escape(part)) for part in parts) + "$")


_JSON_CHARACTER = (  # of a path's part: as it is, or escaped; those beyond 16 bits are two escapes
    r"(?:[^\"\\/]|\\[^u]|\\u(?:[0-9a-ce-f][0-9a-f]{3}|d[0-7][0-9a-f]{2})|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})"
)
_JSON_TEXT = r"(?:[^\"\\]|\\.)*"
_IN_SEGMENT = re.compile(r"\*+|\?|\[[!^]?[^\]\[/\\\"]+\]")


@dataclass(frozen=True, slots=True)
class _PathAlphabet:
    """How the parts of a path pattern are written in a regular expression, for one form of paths."""

    character: str  # any one but a slash
    text: str  # any number of any characters
    write: Callable[[str], str]  # a text as it is

    def translate(self, pattern: str) -> str:
        """The regular expression of a pattern, without its ends; see `gitignore`."""
        is_folder, pattern = pattern.endswith("/"), pattern.rstrip("/")
        segments = pattern.lstrip("/").split("/")
        if "/" not in pattern and segments != ["**"]:
            segments.insert(0, "**")
        *before, last = segments
        folders = (
            f"(?:{self.text}/)?" if part == "**" else f"{self._translate_part(part)}/" for part in before
        )
        if last == "**":
            inside = is_folder and set(segments) == {"**"}  # `**/` is what is in any folder
            return "".join([*([self.text, "/"] if inside else folders), self.character, self.text])
        below = f"/{self.text}" if is_folder else f"(?:/{self.text})?"
        return "".join([*folders, self._translate_part(last), below])

    def _translate_part(self, part: str) -> str:
        translated, end = list[str](), 0
        for match in _IN_SEGMENT.finditer(part):
            translated += [self.write(part[end : match.start()]), self._translate_wildcard(match.group())]
            end = match.end()
        return "".join([*translated, self.write(part[end:])])

    def _translate_wildcard(self, wildcard: str) -> str:
        if wildcard[0] in "*?":
            return self.character if wildcard == "?" else f"{self.character}*"
        if not wildcard.isascii() or wildcard[1] in "!^":
            return self.write(wildcard)
        members = wildcard[1:-1].replace("&", r"\&").replace("~", r"\~").replace("^", r"\^")
        try:
            re.compile(f"[{members}]")
        except re.error:  # such as `[z-a]`
            return self.write(wildcard)
        return f"(?:{self.write(wildcard)}|[{members}])"  # `[slug]` may be the name of a folder, too


_PLAIN_PATHS = _PathAlphabet("[^/]", "(?s:.)*", re.escape)


def _escape_json(text: str) -> str:
    """A text as `json.dumps` writes it, without its quotes, in a regular expression."""
    return re.escape(json.dumps(text)[1:-1])


_JSON_PATHS = _PathAlphabet(_JSON_CHARACTER, _JSON_TEXT, _escape_json)


def gitignore(column: str, pattern: str) -> Filter:
    """The path column matches a pattern as a line of `.gitignore` does, or is below what does.

    One without a slash before its end matches at any depth, any other from the root. `*` and `?` match within
    a folder, `**` folders, `[abc]` one of some characters, a slash at the end folders alone. Nothing negates,
    and no character is escaped.

    Source: https://git-scm.com/docs/gitignore#_pattern_format
    """
    return in_any_form(lambda form: _match_regex(column, f"^{_PLAIN_PATHS.translate(form)}$"), pattern)


def select_paths(paths: Sequence[str], patterns: Iterable[str]) -> set[str]:
    """Those of some paths that a pattern matches as `gitignore` says; in time linear in their length."""
    import pyarrow as pa
    import pyarrow.compute as pc

    compute: Any = pc
    column = pa.array(paths, pa.string())
    forms = {form for pattern in patterns for form in _list_forms(pattern)}
    expressions = (f"^{_PLAIN_PATHS.translate(form)}$" for form in forms)
    matches = [compute.match_substring_regex(column, pattern=it).to_pylist() for it in expressions]
    return {path for path, *fits in zip(paths, *matches, strict=True) if any(fits)}


def gitignore_in_json_list(column: str, key: str, pattern: str) -> Filter:
    """The column holds a JSON object whose list of paths under a key has one that matches; see `gitignore`.

    The JSON is as `json.dumps` writes it.
    """

    def match(form: str) -> Filter:
        listing = rf'"{re.escape(key)}": \[(?:"{_JSON_TEXT}", )*"{_JSON_PATHS.translate(form)}"'
        return Filter(ColumnPattern(column, listing).sql)  # not by values: hardly two rows have the same JSON

    return in_any_form(match, pattern)


def equals_in_json(column: str, key: str, value: str) -> Filter:
    """The column holds a JSON object with this text under a key, letter case aside.

    The JSON is as `json.dumps` writes it; the key is not the first of an object within it.
    """
    return _match_regex(column, rf'(?i)(^\{{|, )"{re.escape(key)}": "{_escape_json(value)}"')


def has_name_in_json_list(column: str, key: str, name: str, *, fold: bool = False) -> Filter:
    """The column holds a JSON object whose list under a key has the name, or one below it.

    `requests` is there with "requests.sessions", `./util` with "./util/io". The JSON is as `json.dumps`
    writes it. `fold`: letter case aside.
    """
    case = "(?i)" if fold else ""
    below = f"(?:[./:]{_JSON_TEXT})?"
    names = rf'"{re.escape(key)}": \[(?:"{_JSON_TEXT}", )*"{_escape_json(name)}{below}"'
    return _match_regex(column, case + names)


def time_in_json_at_least(column: str, key: str, moment: datetime) -> Filter:
    """The column holds a JSON object whose time under a key, ISO 8601 in UTC, is not before a moment."""
    return _compare_time_in_json(column, key, ">=", moment)


def time_in_json_below(column: str, key: str, moment: datetime) -> Filter:
    """The column holds a JSON object whose time under a key, ISO 8601 in UTC, is before a moment."""
    return _compare_time_in_json(column, key, "<", moment)


def _compare_time_in_json(column: str, key: str, operator: str, moment: datetime) -> Filter:
    """To the second: such times have the order of their texts."""
    pattern = format_literal(rf'^.*"{re.escape(key)}": "([0-9]{{4}}-[0-9T:-]{{13}}[0-9])[^"]*".*$')
    text = format_literal(moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    name = _require_column_name(column)
    has_time, time = f"regexp_like({name}, {pattern})", f"regexp_replace({name}, {pattern}, '$1')"
    return Filter(f"({has_time} AND {time} {operator} {text})")


def _compare(column: str, operator: str, value: Value) -> Filter:
    return Filter(f"({_require_column_name(column)} {operator} {format_literal(value)})")


def _match_regex(column: str, pattern: str, *, of_list: bool = False) -> Filter:
    matching = ColumnPattern(column, pattern, of_list)
    return Filter(matching.sql, (matching,))


IS_VARIANT = has_any("tags", [VARIANT_TAG])
"""Rows of the index that only further branches of a repository have. They are archived, too."""

UNEMBEDDED = eq("unembedded", True)
"""Rows of an index table whose text has no vector yet."""
