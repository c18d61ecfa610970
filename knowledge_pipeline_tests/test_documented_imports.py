"""What programs in the documentation import exists."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])


def iter_imports(text: str) -> Iterator[tuple[str, str]]:
    """Module and name of each import of this package in blocks of Python."""
    for block in re.findall(r"^ *```python\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(textwrap.dedent(block))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("knowledge_pipeline"):
                yield from ((node.module or "", alias.name) for alias in node.names)


IMPORTS = sorted({each for page in PAGES for each in iter_imports(page.read_text(encoding="utf-8"))})


def test_pages_have_programs():
    assert len(IMPORTS) > 20


@pytest.mark.parametrize(("module", "name"), IMPORTS)
def test_what_a_page_imports_exists(module: str, name: str):
    assert hasattr(importlib.import_module(module), name)
