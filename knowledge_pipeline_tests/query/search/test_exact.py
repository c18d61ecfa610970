"""The modes exact and regex: what grep would find in the released chunks that the caller may see."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.text_matches import TextPattern, find_matches
from knowledge_pipeline_tests.query.search.rows import publish, row, write

SIGN = 'def sign(key):\n\tkey->bar(\n\t"x": 1\n    return key  # größe'


PUBLIC = Access.public()


@pytest.fixture
def shelf(lake: Lake, space: str) -> None:
    """Some definitions and uses, one that only some may see, and one of another language."""
    method = {"symbol": "Store.sign", "metadata": json.dumps({"space_before": "\n\n    "})}
    rows = [
        row("sign(1)\nother\nsign(2)", "a/use.py", start_line=11),
        row(SIGN, "z/sign.py", start_line=7, symbol="sign"),
        row("def sign(self):\n        return 2", "z/store.py", start_line=20, **method),
        row("sign(secret)", "a/secret.py", visibility="private", tenant="acme", principals=["a"]),
        row("sign(of acme)", "a/acme.py", visibility="tenant", tenant="acme"),
        row("sign(old)", "a/old.py", archived=True),
        row("func sign() {}", "z/sign.go", language="go", symbol="sign"),
        row("Sign nothing", "docs/a.md", source="docs", source_type="markdown", language="markdown"),
    ]
    write(lake, space, rows)
    publish(lake)


def places(answer: Any) -> list[tuple[str, list[int]]]:
    return [(it.citation.path, [at.line for at in it.matches]) for it in answer.results]


def find(base: KnowledgeBase, text: str, mode: Any = "exact", **options: Any) -> list[tuple[str, list[int]]]:
    return places(base.search(text, mode=mode, **{"access": PUBLIC, **options}))


def test_definitions_come_first_then_paths_and_lines_are_those_of_the_file(shelf: None, base: KnowledgeBase):
    answer = base.search("sign(", mode="exact", limit=20, access=PUBLIC)
    assert places(answer) == [
        ("z/sign.go", [1]),
        ("z/sign.py", [7]),
        ("z/store.py", [20]),
        ("a/use.py", [11, 13]),
    ]
    assert [at.text for at in answer.results[-1].matches or ()] == ["sign(1)", "sign(2)"]
    assert answer.notes == () and answer.degraded == ()
    assert find(base, "sign(", limit=20) == places(answer)


def test_changes_come_last(lake: Lake, space: str, base: KnowledgeBase):
    write(lake, space, [row("+sign(1)", "a/commit", source_type="git_history"), row("sign(1)", "b.py")])
    publish(lake)
    assert find(base, "sign(") == [("b.py", [1]), ("a/commit", [1])]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("key->bar(", [8]),
        ('"x": 1', [9]),
        ("\tkey", [8]),
        ("größe", [10]),
        ('bar(\n\t"x"', [8, 9]),
        ("    return", [10]),
        ("path:z sign", []),  # no filter
        ("SIGN", []),  # letter case counts
    ],
)
def test_a_text_is_found_as_it_is_written(shelf: None, base: KnowledgeBase, text: str, lines: list[int]):
    assert find(base, text, filters=Filters(paths=("z/sign.py",))) == (
        [("z/sign.py", lines)] if lines else []
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"^def \w+\(", [("z/sign.py", [7])]),  # the other one is indented
        (r"^    def sign", [("z/store.py", [20])]),
        (r"(?i)^SIGN\b", [("a/use.py", [11, 13]), ("docs/a.md", [1])]),
        (r"bar\(\n\t.x.", [("z/sign.py", [8, 9])]),
        (r"sign\(\d\)$", [("a/use.py", [11, 13])]),
    ],
)
def test_a_regular_expression_is_of_lines_as_grep_has_it(
    shelf: None, base: KnowledgeBase, text: str, expected: list[tuple[str, list[int]]]
):
    assert find(base, text, "regex", limit=20) == expected


@pytest.mark.parametrize("text", ["it's", "' OR true --", "%_"])
def test_a_text_is_no_part_of_the_condition(lake: Lake, space: str, base: KnowledgeBase, text: str):
    hidden = row(f"a {text} b", "hidden.py", visibility="private", tenant="acme", principals=["a"])
    write(lake, space, [hidden, row(f"a {text} b", "a.py"), row("a b", "b.py")])
    publish(lake)
    assert find(base, text) == [("a.py", [1])]
    assert find(base, re.escape(text), "regex") == [("a.py", [1])]


PARTS = [
    "a",
    "b",
    " ",
    r"\.",
    r"\d",
    "[ab]",
    "[^a]",
    "(",
    "(a|b)",
    ")",
    "?",
    "*",
    "+",
    "{2}",
    "{0,1}",
    "|",
    ".",
    "^",
]


@bounded(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=7), st.text("ab .(1", max_size=8))
def test_a_match_has_what_its_expression_requires(parts: list[str], text: str):
    try:
        expression = re.compile("(?m)" + "".join(parts))
        required = TextPattern("".join(parts), is_regex=True).find_required_text()
    except (re.error, InvalidQuery):
        return
    assert required in text or not expression.search(text)


@pytest.mark.parametrize(
    ("text", "required"),
    [
        (r"def \w+\(key", "def "),
        (r"raise \w+Error\(f?\"", "raise "),
        (r"colou?r", "colo"),
        (r"a|b", ""),
        (r"(a|b)cd", "cd"),
        (r"(?i)abc", ""),
        (r"\Qa.b\E", ""),
        (r"[[:alpha:]x]", ""),
    ],
)
def test_an_expression_requires_its_longest_plain_text(text: str, required: str):
    assert TextPattern(text, is_regex=True).find_required_text() == required


def test_filters_and_permissions_hold_and_no_count_tells_of_the_rest(shelf: None, base: KnowledgeBase):
    def ask(access: Access = PUBLIC, **filters: Any) -> Any:
        return base.search("sign(", mode="exact", limit=1, filters=Filters(**filters), access=access)

    assert ask().notes == ("4 chunks in 4 documents match; the first 1 shown",)
    assert ask(Access("acme", frozenset())).notes[0].startswith("5 chunks")
    assert ask(Access("acme", frozenset({"a"}))).notes[0].startswith("6 chunks")
    assert ask(include_archived=True).notes[0].startswith("5 chunks")
    assert places(ask(languages=("go",))) == [("z/sign.go", [1])]
    assert places(ask(paths=("a/",))) == [("a/use.py", [11, 13])]
    assert find(base, "sign(secret)") == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [("sign(", r"missing \)"), ("(?=x)", "invalid perl operator"), (r"(a)\1", "invalid escape sequence")],
)
def test_an_expression_that_is_none_is_refused_in_a_sentence(
    shelf: None, base: KnowledgeBase, text: str, reason: str
):
    with pytest.raises(InvalidQuery, match=rf"the regular expression cannot be read: {reason}") as error:
        base.search(text, mode="regex")
    assert "(?m)" not in str(error.value)


def test_what_has_no_meaning_is_refused(shelf: None, base: KnowledgeBase):
    with pytest.raises(InvalidQuery, match="the question is empty"):
        base.search(" \t", mode="exact")
    with pytest.raises(InvalidQuery, match="found the mode exact for what is similar"):
        base.search("sign(", type="similar", mode="exact")


def test_quotes_in_other_modes_are_no_search_for_an_exact_text(shelf: None, base: KnowledgeBase):
    answer = base.search('"sign("', mode="words")
    assert answer.results and all(result.matches is None for result in answer.results)


def test_a_table_that_is_too_large_is_compared_as_far_as_allowed(shelf: None, lake: Lake, space: str):
    dataset = lake.index(space, 32).open_newest()
    assert find_matches(dataset, TextPattern("sign"), "true", limit=9).is_whole
    assert not find_matches(dataset, TextPattern("sign"), "true", limit=9, max_rows=3).is_whole


@bounded(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text("ab\n é\x02", max_size=30), st.text("ab\n é", min_size=1, max_size=4))
def test_lines_are_those_that_matches_touch(text: str, literal: str):
    starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text) + 1]
    spans = [match.span() for match in re.finditer(re.escape(literal), text)]
    expected = [
        number
        for number, (first, after) in enumerate(pairwise(starts))
        if any(start < after and end > first for start, end in spans)
    ]
    assert TextPattern(literal).find_lines(text) == expected
    assert TextPattern(re.escape(literal).replace("\\\n", "\n"), is_regex=True).find_lines(text) == expected
