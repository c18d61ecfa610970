"""The package's own source, parsed once for all tests of its shape."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def parse(path: Path) -> ast.Module:
    """The tree of a module, which nobody may change."""
    return ast.parse(path.read_text(encoding="utf-8"))


def iter_imports(path: Path) -> Iterator[ast.Import | ast.ImportFrom]:
    """All that a module imports, in functions and for types, too; an expression has no import in it."""
    nodes: list[ast.AST] = [parse(path)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        nodes += [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case)
        ]
