"""The page of promises names tests that exist, and numbers its rows without a gap."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "specification.md"
ROW = re.compile(r"\| (\d+) \| (.+) \| (`[^|]+`) \|")


@cache
def list_tests(file: Path) -> set[str]:
    """The tests that a file defines outside of classes."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {node.name for node in functions if node.name.startswith("test_")}


def test_every_promise_is_numbered_and_names_tests_that_exist() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [match for line in lines if (match := ROW.fullmatch(line))]
    assert len(rows) == sum(line.startswith("| ") and line[2].isdigit() for line in lines) >= 50
    assert [int(row[1]) for row in rows] == list(range(1, len(rows) + 1))
    assert len({row[2] for row in rows}) == len(rows)
    for row in rows:
        for named in row[3].split("<br>"):
            path, _, test = named.strip("`").partition("::")
            assert (TESTS / path).is_file(), named
            assert test in list_tests(TESTS / path), named
