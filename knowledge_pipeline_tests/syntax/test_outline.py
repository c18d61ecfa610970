"""Where the body of a definition begins, so that what precedes it is its head."""

from __future__ import annotations

import pytest

from knowledge_pipeline.syntax.grammars import parse
from knowledge_pipeline.syntax.outline import Outline

HEADS = [
    ("javascript", "const double = (x) => x * 2;\n", "double = (x) =>"),
    ("javascript", "const add = (a, b) => {\n  return a + b;\n};\n", "add = (a, b) =>"),
    ("javascript", "const Shop = class extends Base {\n  open() {}\n};\n", "Shop = class extends Base"),
    ("go", "package a\n\ntype Store struct {\n\trows int\n}\n", "Store struct"),
    ("python", "class Store(Base):\n    rows = 1\n", "class Store(Base):"),
]


@pytest.mark.parametrize(("language", "text", "head"), HEADS, ids=[each[2] for each in HEADS])
def test_a_head_ends_where_the_body_begins(language: str, text: str, head: str) -> None:
    tree = parse(text, language)
    assert tree is not None
    first = Outline(tree).definitions[0]
    assert text[first.start_char : first.body_start_char].strip() == head
