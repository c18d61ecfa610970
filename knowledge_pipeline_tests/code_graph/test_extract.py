"""What one Python file says, whatever is in it."""

from __future__ import annotations

import random
from pathlib import Path

import click
import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.code_graph import IndexedFile, extract, from_json, to_json
from knowledge_pipeline.code_graph.facts import Binding, Import, Use
from knowledge_pipeline.file_languages import EMBEDDING_LANGUAGES, GRAPH_LANGUAGES
from knowledge_pipeline_tests.code_graph.proportion import assert_in_proportion
from knowledge_pipeline_tests.thoroughness import examples

SOURCES = [
    path.read_text("utf-8")
    for module in (requests, click)
    for path in sorted(Path(module.__file__).parent.glob("*.py"))
]

_TOKENS = """class def ( ) [ ] : , . = -> import from as * ** lambda yield return with for in if '' " @ x
self f( := async await match case global del try except raise"""
_pieces = st.lists(
    st.one_of(st.text(max_size=20), st.sampled_from([*_TOKENS.split(), "\n", "\n    "])), max_size=60
).map(" ".join)


@settings(max_examples=examples(300), deadline=None)
@given(_pieces, st.sampled_from(sorted(GRAPH_LANGUAGES | EMBEDDING_LANGUAGES)))
def test_no_text_makes_extraction_raise(text: str, language: str) -> None:
    facts = extract("a/b", text, language)
    assert from_json(to_json(facts)) == facts
    assert IndexedFile(facts).interface_digest


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(SOURCES), st.integers(0, 2**32))
def test_damaged_files_are_read_as_far_as_they_go(text: str, seed: int) -> None:
    chance = random.Random(seed)
    start = chance.randrange(len(text))
    facts = extract("a.py", text[:start] + text[start + chance.randrange(1, 400) :], "python")
    assert all(0 < each.start_line <= each.end_line for each in facts.definitions)
    assert from_json(to_json(facts)) == facts


def test_real_files_survive_their_json() -> None:
    found = [extract("a.py", text, "python") for text in SOURCES]
    texts = [to_json(facts) for facts in found]
    assert [from_json(text) for text in texts] == found
    assert sum(map(len, texts)) < sum(map(len, SOURCES))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "unit",
    [
        "x = f(a.b().c[0], key=[g(y) for y in z])\n",
        "f(",
        "a().b",
        "[",
        "class A(B):\n  ",
        "x.y = ",
        "def f(a, b=1): return a\n",
        "lambda: ",
        "a, ",
    ],
)
def test_work_grows_with_length_alone(unit: str) -> None:
    assert_in_proportion("a.py", "python", unit * 500)


def test_declared_types_are_what_they_promise() -> None:
    text = (
        "class A:\n"
        "    rows: list[Row]\n"
        "    def f(self, a: 'Store | None', *more: Row, by: dict[str, tuple[Row, Col]]) -> Iterator[Row]:\n"
        "        ...\n"
        "    @property\n"
        "    def g(self) -> type[Store]: ...\n"
    )
    found = {(each.scope, each.path): each.value for each in extract("a.py", text, "python").bindings}
    assert found["A", "rows[]"] == "Row()"
    assert found["A.f", "self"] == "@self"
    assert found["A.f", "a"] == "Store()"
    assert found["A.f", "more[]"] == "Row()"
    assert (found["A.f", "by[][0]"], found["A.f", "by[][1]"]) == ("Row()", "Col()")
    assert found["A.f", "@()[]"] == "Row()"
    assert (found["A.g", "@()"], found["A.g", "@"]) == ("Store", "@()")


def test_values_of_containers_and_comprehensions_are_followed() -> None:
    text = (
        "table = {'a': f, **more}\n"
        "pairs = [(g(), h) for x in y]\n"
        "for i, (p, q) in enumerate(pairs): pass\n"
        "with opened() as o, other() as (s, t): pass\n"
        "rows.append(make())\n"
        "u, v = w\n"
    )
    found = set(extract("a.py", text, "python").bindings)
    assert {
        Binding("", "table[]", "f"),
        Binding("", "table", "more"),
        Binding("", "pairs[][0]", "g()"),
        Binding("", "pairs[][1]", "h"),
        Binding("", "p", "pairs[][0]"),
        Binding("", "q", "pairs[][1]"),
        Binding("", "o", "opened().__enter__()"),
        Binding("", "s", "other().__enter__()[0]"),
        Binding("", "rows[]", "make()"),
        Binding("", "u", "w[0]"),
    } <= found


def test_imports_keep_what_is_written() -> None:
    text = "import a.b, c as d\nfrom ..x import (y as z, w)\nfrom . import *\ndef f():\n    import g\n"
    assert extract("pkg/m.py", text, "python").imports == (
        Import("a.b", "", "", 1),
        Import("a", "", "a", 1),
        Import("c", "", "d", 1),
        Import("..x", "y", "z", 2),
        Import("..x", "w", "w", 2),
        Import(".", "*", "*", 3, exported=True),
        Import("g", "", "g", 5, "f"),
    )


def test_names_of_the_language_are_no_uses_unless_the_file_defines_them() -> None:
    assert extract("a.py", "print(len(x))\n", "python").uses == (Use("references", "x", "", 1),)
    defined = extract("a.py", "def print(x): pass\nprint(1)\n", "python")
    assert Use("calls", "print", "", 2) in defined.uses


def test_a_change_within_a_body_leaves_the_interface() -> None:
    before = "class A:\n    def f(self):\n        x = 1\n        return g(x)\n"
    within = "class A:\n    def f(self):\n        y = h()\n        print(y)\n\n        return g(y)\n"
    result = "class A:\n    def f(self):\n        x = 1\n        return h(x)\n"
    digests = [
        IndexedFile(extract("a.py", text, "python")).interface_digest for text in (before, within, result)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_a_local_variable_is_no_reference_to_anything() -> None:
    facts = extract("a.py", "def go(given):\n    held = []\n    return [held, given, other]\n", "python")
    assert {use.path for use in facts.uses if use.kind == "references"} == {"other"}
