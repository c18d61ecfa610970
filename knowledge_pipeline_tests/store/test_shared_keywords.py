"""Words searched for in several indexes score as in one index with all rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from knowledge_pipeline.store.federation import SharedKeywords, TermCounts, count_terms, split_words, to_term
from knowledge_pipeline.store.filters import MATCH_ALL
from knowledge_pipeline.store.indexes import FTS_OPTIONS

COMMON = ["the", "of", "returns", "store", "payment", "session", "Café", "retries", "index"]


def write_index(path: Path, words: Sequence[str]) -> Any:
    dataset = lance.write_dataset(pa.table({"words": list(words)}), path)
    dataset.create_scalar_index("words", "INVERTED", **FTS_OPTIONS)
    return dataset


def make_rows(chance: random.Random, count: int, favourite: str, length: int) -> list[str]:
    rare = [f"name{at}" for at in range(40)]
    pool = [*COMMON, *[favourite] * 10, *rare]
    return [" ".join(chance.choices(pool, k=chance.randrange(3, length))) for _ in range(count)]


def test_statistics_are_those_of_the_rows(tmp_path: Path) -> None:
    chance = random.Random(5)
    rows = make_rows(chance, 700, "payment", 60)
    counts = TermCounts(write_index(tmp_path / "table", rows))
    asked = sorted({word for row in rows for word in split_words(row)})
    found, expected = counts.read([*asked, "absent"]), count_terms(rows, [" ".join(asked)])
    assert found.rows == expected.rows
    assert found.mean_terms == pytest.approx(expected.mean_terms, rel=1e-6)
    assert found.rows_with == {**expected.rows_with, "absent": 0}


def test_statistics_of_rows_that_are_all_alike_are_counted(tmp_path: Path) -> None:
    counts = TermCounts(write_index(tmp_path / "table", ["one two three"] * 5))
    found = counts.read(["two"])
    assert (found.rows, found.mean_terms, found.rows_with) == (5, 3.0, {"two": 5})


@pytest.mark.parametrize("question", ["payment session", "the payment of name7", "retries retries café", "x"])
def test_rows_score_as_in_one_index_however_different_the_indexes_are(tmp_path: Path, question: str) -> None:
    chance = random.Random(11)
    parts = [
        make_rows(chance, 900, "payment", 20),
        make_rows(chance, 300, "session", 90),
        make_rows(chance, 40, "the", 8),
    ]
    union = write_index(tmp_path / "union", [row for part in parts for row in part])
    keywords = SharedKeywords([write_index(tmp_path / str(at), part) for at, part in enumerate(parts)])
    own = [keywords.count(at, question) for at in range(len(parts))]
    search = keywords.start_search(question, own, limit=10)
    while due := search.list_due():
        for at in due:
            search.find(at, MATCH_ALL)
    found = sorted((row.score for rows in search.found for row in rows), reverse=True)[:10]
    expected = union.scanner(
        ["_score"],
        full_text_query=lance.query.MatchQuery(question, "words"),
        limit=10,
        disable_scoring_autoprojection=True,
    )
    assert found == pytest.approx(expected.to_table()["_score"].to_pylist(), rel=1e-5)
    assert bool(found) == (question != "x")


def test_a_text_of_many_words_is_searched_deeper_and_scored_alike(tmp_path: Path) -> None:
    chance = random.Random(3)
    parts = [make_rows(chance, 400, "payment", 30), make_rows(chance, 400, "session", 30)]
    union = write_index(tmp_path / "union", [row for part in parts for row in part])
    question = " ".join([*COMMON, *(f"name{at}" for at in range(40))])
    keywords = SharedKeywords([write_index(tmp_path / str(at), part) for at, part in enumerate(parts)])
    own = [keywords.count(at, question) for at in range(2)]
    search = keywords.start_search(question, own, limit=5)
    while due := search.list_due():
        for at in due:
            search.find(at, MATCH_ALL)
    found = sorted((row.score for rows in search.found for row in rows), reverse=True)[:5]
    expected = union.scanner(
        ["_score"],
        full_text_query=lance.query.MatchQuery(question, "words"),
        limit=5,
        disable_scoring_autoprojection=True,
    )
    assert found == pytest.approx(expected.to_table()["_score"].to_pylist(), rel=1e-5)


def test_terms_are_those_of_the_index() -> None:
    assert [to_term(word) for word in split_words("Retries of CAFÉ_tables " + "a" * 80)] == [
        "retri",
        "of",
        "cafe",
        "tabl",
    ]
