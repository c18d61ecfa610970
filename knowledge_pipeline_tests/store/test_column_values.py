"""A pattern that became a list of values is met by the same rows as the pattern."""

from __future__ import annotations

from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.matching_rows import MAX_LISTED, ColumnValues

VALUES = [
    *(
        "src/auth/login.py",
        "src/auth.py",
        "src",
        "docs/a b.md",
        "a/b(c)[d].py",
        "x'y",
        'x"y',
        "a\nb",
        "a.py\n",
        "",
    ),
    *(
        "Jane Doe <jane@x.org>",
        "JANE",
        "ſ",
        "K",
        "Straße",
        "STRASSE",
        "e\u0301",
        "é",
        "½",
        "Ⓐ",
        "a_b",
        "a\\b",
        "%",
    ),
    *(
        "İstanbul",
        "istanbul",
        "pallets/flask",
        "flask",
        "ΣΊΣΥΦΟΣ",
        "σίσυφος",
        "#general/2024",
        "\x00",
        "a\x00b",
        None,
    ),
]
PIECES = [
    "src",
    "auth",
    "a",
    "b",
    "jane",
    "J",
    "s",
    "k",
    "é",
    "e",
    "½",
    "i",
    "σ",
    "x",
    "flask",
    "'",
    '"',
    "\n",
    "_",
]
WORDS = st.sampled_from(PIECES) | st.sampled_from([value for value in VALUES if value])
GLOBS = st.lists(WORDS | st.sampled_from(["*", "**", "**/", "?", "/", "."]), min_size=1, max_size=5).map(
    "".join
)
BUILD = (
    lambda text: filters.glob("path", text),
    lambda text: filters.contains_words("path", text),
    lambda text: filters.equals_folded("path", text),
    lambda text: filters.starts_with_folded("path", text),
    lambda text: filters.ends_with_parts("path", text, "."),
)
PATTERN = st.builds(lambda build, text: build(text), st.sampled_from(BUILD), WORDS | GLOBS)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("values") / "t.lance"
    rows = [*VALUES, *VALUES[:5]]
    table = pa.table({"id": range(len(rows)), "path": pa.array(rows, pa.string())})
    return lance.write_dataset(table, str(path))


@pytest.fixture(scope="module")
def values(dataset: Any) -> ColumnValues:
    return ColumnValues(dataset)


def ids(dataset: Any, where: Filter) -> list[int]:
    return sorted(dataset.to_table(columns=["id"], filter=where.sql)["id"].to_pylist())


@given(patterns=st.lists(PATTERN, min_size=1, max_size=4), below=st.integers(0, 40), together=st.booleans())
def test_values_and_patterns_are_met_by_the_same_rows(dataset, values, patterns, below, together):
    where = reduce(or_, patterns) if together else reduce(lambda one, other: one & other, patterns)
    where &= filters.below("id", below)
    listed = values.resolve(where)
    assert ids(dataset, listed) == ids(dataset, where)


@pytest.mark.parametrize("text", ["src", "**/*.py", "jane", "no such thing"])
def test_a_pattern_becomes_a_list(values, text):
    assert "regexp_like" not in values.resolve(filters.glob("path", text)).sql


def test_a_pattern_that_many_values_match_or_that_is_negated_stays_one(tmp_path: Path) -> None:
    names = [f"src/{number}" for number in range(MAX_LISTED + 1)]
    dataset = lance.write_dataset(pa.table({"path": [*names, *names, "docs"]}), str(tmp_path / "t.lance"))
    many, one = filters.glob("path", "src"), filters.glob("path", "src/1")
    assert ColumnValues(dataset).resolve(many) == many
    assert ColumnValues(dataset).resolve(~one) == ~one
    assert ColumnValues(dataset).resolve(one | many).sql == f"((path IN ('src/1')) OR {many.sql})"
    assert ColumnValues(dataset, max_values=MAX_LISTED).resolve(one) == one


@pytest.mark.parametrize(("most", "is_listed"), [(3, True), (2, False)])
def test_a_pattern_of_a_list_is_met_by_each_of_its_values(tmp_path: Path, most: int, is_listed: bool) -> None:
    rows = [["Store", "Store.get"], [], ["load", "Store.get"], ["load"]]
    table = pa.table({"id": range(4), "symbols": pa.array(rows, pa.list_(pa.string()))})
    dataset = lance.write_dataset(table, str(tmp_path / "t.lance"))
    for where, expected in (
        (filters.lists_ending("symbols", "GET"), [0, 2]),
        (filters.lists_ending("symbols", "et"), []),
        (filters.contains_words("symbols", "load", of_list=True), [2, 3]),
        (filters.contains_words("symbols", "Store Store", of_list=True), []),
    ):
        listed = ColumnValues(dataset, max_values=most).resolve(where)
        assert ("regexp_like" not in listed.sql) == is_listed
        assert ids(dataset, listed) == ids(dataset, where) == expected


def test_a_value_that_reads_like_a_pattern_stays_a_value(dataset, values):
    one = filters.glob("path", "src")
    where = one | filters.eq("path", one.sql) | filters.eq("path", "src/auth.py")
    assert ids(dataset, values.resolve(where)) == ids(dataset, where) != []
    assert filters.eq("path", one.sql).sql in values.resolve(where).sql


def test_every_filter_that_is_a_pattern_becomes_a_list_but_what_a_commit_changes(dataset):
    restriction = Filters(
        paths=("a",), authors=("b",), repos=("c",), projects=("d",), statuses=("e",), spaces=("f",)
    )
    where = compile_filter(Access.public(), restriction)
    assert {each.column for each in where.patterns} == {
        "path",
        "author",
        "repo",
        "project",
        "status",
        "wiki_space",
    }
    assert len(where.patterns) == 7  # a repository is meant by its whole name or by the last part
