"""Which modules an import statement names, and which names it brings into its file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_QUOTED = re.compile(r"""["'<`]([^"'<>`\n]+)["'>`]""")
_GO = re.compile(r"""(?:(?<![\w.])([\w.]++)[ \t]+)?["`]([^"`\n]+)["`]""")
_VERSION = re.compile(r"v\d+$")
_PYTHON_FROM = re.compile(r"from\s+(\S+)\s+import\b(.*)", re.DOTALL)
_BOUND_NAME = re.compile(r"[^\W\d]\w*(?!\w)(?!\s*(?:\.|::|\\|=>|as\b))")
_PATH = re.compile(r"[^\W\d]\w*(?:(?:\.|::|\\)[^\W\d]\w*)*|\\[\w\\]+")
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
        import from use using as static type typeof pub crate self super require const let
        var namespace default extern open function global func class struct enum protocol
        include define require_once include_once require_relative load source mod in given
        async await
        """,
    )
)
_QUOTED_MODULE_LANGUAGES = frozenset(
    {"javascript", "typescript", "tsx", "c", "cpp", "ruby", "php", "bash", "lua", "zig"}
)
_LUA_SCOPE = re.compile(r"^\s*local\s+")
_BARE_LANGUAGES = frozenset({"elixir", "haskell", "powershell"})
_BARE = re.compile(
    r"""\s*(?:using\s+\w+|[\w.-]+)\s+(?:qualified\s+|-Name\s+)?["']?([^\s"'{(,;]+)""", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ImportBinding:
    """One imported module and the names by which a file uses it; none where they cannot be told."""

    module: str
    names: frozenset[str]


def parse_import(statement: str, language: str) -> Iterator[ImportBinding]:
    """The modules of one import statement, as they are written there.

    Without a name where the language does not say which ones an import brings (C's
    headers, wildcards, Ruby's and Bash's files).
    """
    if language == "go":
        for alias, path in _GO.findall(statement):
            parts = [part for part in path.split("/") if not _VERSION.match(part)]
            name = parts[-1] if parts else path
            yield ImportBinding(path, frozenset({alias if alias not in ("", "_", ".", "import") else name}))
    elif language == "python":
        yield from _parse_python(statement)
    elif language == "bash":
        yield from (ImportBinding(word.strip("\"'"), frozenset()) for word in statement.split()[1:2])
    elif language in _BARE_LANGUAGES:  # `alias Shop.{Item, Price}`, `import qualified Data.Map as Map`
        if found := _BARE.match(statement):
            names = _find_bound_names(statement[found.start(1) :]) | {found[1].rpartition(".")[2]}
            yield ImportBinding(found[1].rstrip("."), names - {"as", "hiding", "qualified", ""})
    elif language in _QUOTED_MODULE_LANGUAGES and (quoted := _QUOTED.search(statement)):
        clause = _LUA_SCOPE.sub("", statement) if language == "lua" else statement
        yield ImportBinding(quoted[1], _find_bound_names(_QUOTED.sub("", clause)))
    else:
        # `use std::fmt;`, `import java.util.List;`, `using Json = System.Text.Json;`
        clause = statement.split("=", 1)[-1] if re.search(r"\w\s*=\s", statement) else statement
        paths = (path for path in _PATH.findall(clause) if path not in _KEYWORDS)
        if (module := next(paths, None)) is not None:
            yield ImportBinding(module, _find_bound_names(statement))


def _find_bound_names(clause: str) -> frozenset[str]:
    return frozenset(name for name in _BOUND_NAME.findall(clause) if name not in _KEYWORDS)


def _parse_python(statement: str) -> Iterator[ImportBinding]:
    if found := _PYTHON_FROM.match(statement):
        yield ImportBinding(found[1], _find_bound_names(found[2]))
        return
    for clause in statement.removeprefix("import").split(","):
        if words := clause.split():
            yield ImportBinding(words[0], frozenset({words[-1] if "as" in words else words[0].split(".")[0]}))
