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
nothing is known is bound to "": it hides what has its name.

Records are tuples, because a source has millions: those are made faster than data classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

SymbolKind = Literal["file", "module", "class", "interface", "function", "method", "variable", "type"]
UseKind = Literal["calls", "references", "extends", "implements"]
EdgeKind = Literal["calls", "references", "extends", "implements", "imports", "contains"]


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
