"""What one file says by itself: definitions, imports, what names stand for, and uses.

Nothing here looks at another file. Places in code are written as *paths*: names joined by dots,
`()` after what is called, `[]` after what is indexed or iterated (`[0]`, `[1]` where the place in
a tuple is known): `self.lake.index().rows`. Arguments are left out.

A name with `@` is no name of the program: `@self` is the instance that the scope belongs to,
`@class` its class, `@super` what that class extends, and `@` the scope's own definition. A declared
type is written as the value that it promises: `x: Store` binds `x` to `Store()`, `x: list[Store]`
binds `x[]` to `Store()`, and within `def f() -> Store`, `@()` is bound to `Store()`, as it is by
`return Store(…)`. `@in run@job` is what the scope `run` calls `job`: where one scope gives it to
another. `@around.get` is `get` as the types around a scope, and their file, know it: local
variables of that name are passed over, and in `@type.Store` also what is no type. `@receiver` is
bound to an instance of the type as whose member a function outside of it is called. What is read as
if it were a field, but is computed, binds `@` to `@()`. A parameter or local variable of which
nothing is known is bound to "": it hides what has its name. A name that starts with `…` stands for the
first part of a chain that is too long for one path, and `…` alone for what is nested too deep to be read.

Records are tuples, because a source has millions: those are made faster than data classes.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_type_hints

SymbolKind = Literal["file", "module", "class", "interface", "function", "method", "variable", "type"]
SystemKind = Literal["declares", "uses", "owns"]
UseKind = Literal["calls", "references", "extends", "implements"]
EdgeKind = Literal["calls", "references", "extends", "implements", "imports", "contains"] | SystemKind


class Definition(NamedTuple):
    """One named thing that a file defines. Lines count from 1, both inclusive."""

    name: str  # qualified within its file: "Store.get"; twins (overloads) share it
    kind: SymbolKind
    start_line: int
    end_line: int
    signature: str = ""  # its head on one line
    exported: bool = True  # whether others can name it: not what is private, or of its package alone


class Import(NamedTuple):
    """One name that a file takes from elsewhere."""

    module: str  # as it is written: "..store.tables", "./forms", "net/http", "crate::store"
    name: str  # what is taken out of the module; "": the module itself, "*": all that it exports
    local: str  # by which name this file knows it; "": it is only loaded, "*": by their own names
    line: int
    scope: str = ""  # the definition within which it holds; "": the file
    exported: bool = False  # whether others can take it from this file: `export … from`, `pub use`


class Binding(NamedTuple):
    """A path, within a scope, stands for the value of another one."""

    scope: str  # qualified name of the definition within which both are read; "": the file
    path: str  # "store", "self.lake", "rows[]", "@()"
    value: str  # "Store()", "request.session"; "": unknown
    declared: bool = False  # by a type, which says more than the values that are seen


class Use(NamedTuple):
    """A place in a file that calls, names or extends something."""

    kind: UseKind
    path: str  # what is used, as it is written: "self.lake.index"
    scope: str  # the definition that it stands in
    line: int


class SystemUse(NamedTuple):
    """A place in a file that declares or uses a name which repositories share: see `system_names`.

    A line of CODEOWNERS "owns" what its pattern means.
    """

    kind: SystemKind
    name: str  # "route POST /orders/{}", "topic orders"
    scope: str  # the definition that does so; "": the file
    line: int
    percent: int  # how sure it is


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Everything that one file says."""

    path: str  # POSIX, within the source
    language: str
    module: str = ""  # what the file itself says it belongs to: Java's package, Go's, C#'s namespace
    definitions: tuple[Definition, ...] = ()
    imports: tuple[Import, ...] = ()
    bindings: tuple[Binding, ...] = ()
    uses: tuple[Use, ...] = ()
    settings: dict[str, str] = field(default_factory=dict[str, str])
    """What a manifest says (go.mod's module), and Python's `__all__`."""
    system_uses: tuple[SystemUse, ...] = ()


class Edge(NamedTuple):
    """One definition has to do with another.

    Where `target_path` is None the target is outside of the source, or was not found:
    `target` is then its full name if an import says it ("requests.sessions.Session"), else the
    path as written.
    """

    kind: EdgeKind
    source: str  # qualified name within the file; "": the file itself
    target: str  # qualified name within `target_path`; "": that file itself
    target_path: str | None
    line: int
    confidence: float  # 0 to 1: how sure it is that this, and not another definition, is meant


CHAIN = "…"

_STEP = re.compile(r"\.[^.()\[\]]+|\(\)|\[\w*\]|[^.()\[\]]+")
split_head = re.compile(r"[.()\[\]]").split
"""`split_head(path, 1)[0]` is `first_segment(path)`, without a call for each of many paths."""


@lru_cache(100_000)
def split_steps(path: str) -> tuple[str, ...]:
    """The head of a path, and its steps: ".name", "()", "[]", "[1]"."""
    return tuple(_STEP.findall(path))


def first_segment(path: str) -> str:
    """The name that a path starts with."""
    return split_head(path, 1)[0]


def parent_scope(scope: str) -> str:
    """The scope around a scope; "" around the outermost."""
    return scope.rpartition(".")[0]


def last_segment(name: str) -> str:
    """The last segment of a qualified name or path, calls left off."""
    return name.rpartition(".")[2].rstrip("()[]0123456789") or name


Value = tuple[str, str]
"""A suffix, and a path whose value the name has with that suffix.

`List<Store> rows` says that `rows` is a `List()`, and that what it holds, `rows[]`, is a `Store()`: the
values ("", "List()") and ("[]", "Store()").
"""

Values = list[Value]


def add_prefix(prefix: str, values: Iterable[Value]) -> Values:
    """The values beneath a suffix."""
    return [(prefix + suffix, value) for suffix, value in values if value]


def tuple_values(places: Iterable[Iterable[Value]]) -> Values:
    """The values of a tuple's places: "[0]", "[1]"."""
    return [value for position, values in enumerate(places) for value in add_prefix(f"[{position}]", values)]


def own_value(values: Iterable[Value]) -> str | None:
    """The value of the name itself."""
    return next((value for suffix, value in values if not suffix), None)


def step_from(values: Iterable[Value], step: str) -> Values:
    """The values of what "()" or "[]" gives: what is known of it, or that step from the name's own value."""
    return [
        (suffix.removeprefix(step), value) if suffix else ("", value + step)
        for suffix, value in values
        if not suffix or suffix.startswith(step)
    ]


def called_values(values: Iterable[Value]) -> Values:
    """The values of what calling the name gives."""
    return step_from(values, "()")


def element_values(values: Iterable[Value]) -> Values:
    """The values of what iterating gives."""
    return step_from(values, "[]")


def iterated_values(values: Iterable[Value]) -> Values:
    """The values of what iterating gives, tuples included."""
    return [
        (suffix[suffix.index("]") + 1 :], value) if suffix else ("", f"{value}[]")
        for suffix, value in values
        if not suffix or suffix.startswith("[")
    ]


def step_values(values: Iterable[Value], step: str) -> Values:
    """The values of what a step leads to: ".rows" or "[1]"; any element is also the one at a position."""
    steps = (step, "[]") if step[0] == "[" else (step,)
    result: Values = []
    for suffix, value in values:
        start = next((step for step in steps if suffix.startswith(step)), None)
        if start is not None and suffix[len(start) : len(start) + 1] in ("", ".", "(", "["):
            result.append((suffix[len(start) :], value))
        elif not suffix:
            result.append(("", value + step))
    return result


def values_at(values: Values, step: str) -> Values:
    """The values that are known of a step; if none are, the step taken from the name's own value."""
    inner = [(suffix.removeprefix(step), value) for suffix, value in values if suffix.startswith(step)]
    return inner or [("", value + step) for suffix, value in values if not suffix]


_VERSION = 1
_RECORD_TYPES: tuple[Any, ...] = (Definition, Import, Binding, Use, SystemUse)
_FIELD_TYPES = {part: tuple(get_type_hints(part).values()) for part in _RECORD_TYPES}


def to_json(facts: FileFacts) -> str:
    """A text that `from_json` turns into equal facts."""
    strings: defaultdict[str, int] = defaultdict()  # each with its place in the list of all
    strings.default_factory = strings.__len__
    columns = [
        [strings[value] if isinstance(value, str) else int(value) for record in records for value in record]
        for records in (facts.definitions, facts.imports, facts.bindings, facts.uses, facts.system_uses)
    ]
    return json.dumps(
        [_VERSION, facts.path, facts.language, facts.module, facts.settings, list(strings), *columns],
        ensure_ascii=False,
        separators=(",", ":"),
    )


def from_json(text: str) -> FileFacts:
    """The facts that `to_json` wrote.

    Raises:
        ValueError: it is not such a text, or one of another version.
    """
    version, path, language, module, settings, strings, *columns = json.loads(text)
    if version != _VERSION:
        raise ValueError(f"facts of version {version}, expected {_VERSION}: extract them again")
    if len(columns) < len(_RECORD_TYPES):
        columns.append([])  # written before system names were read
    definitions, imports, bindings, uses, system_uses = (
        _decode_records(part, cells, strings) for part, cells in zip(_RECORD_TYPES, columns, strict=True)
    )
    return FileFacts(path, language, module, definitions, imports, bindings, uses, settings, system_uses)


def _decode_records(record_type: Any, cells: list[int], strings: list[str]) -> tuple[Any, ...]:
    """Records of one type; by columns, because that is faster than each by itself."""
    types = _FIELD_TYPES[record_type]
    columns = (
        map(type_ if type_ in (bool, int) else strings.__getitem__, cells[position :: len(types)])
        for position, type_ in enumerate(types)
    )
    return tuple(map(record_type._make, zip(*columns, strict=True)))
