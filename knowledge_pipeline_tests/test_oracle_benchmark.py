"""What `benchmarks.oracle` compares, and what it leaves out."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.oracle import condense, hash_tables, iter_differences
from benchmarks.oracle_asks import build_texts, find_headings, find_symbols, list_variants, vary


def build_answer(*, score: float = 0.5, query_id: str = "q1", related: str = "b.md") -> dict[str, Any]:
    citation = {"source": "code", "path": "a.py", "lines": "L1-L3"}
    result = {"id": "f00", "score": score, "citation": citation, "related": [related]}
    return {"query_id": query_id, "took_ms": 3.1, "results": [result]}


def list_lines(answer: dict[str, Any]) -> list[bytes]:
    return [json.dumps(["python search 'x' {}", condense(answer)]).encode()]


def list_differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return list(iter_differences(list_lines(before), list_lines(after)))


def test_answers_that_differ_by_their_run_alone_are_equal():
    assert list_differences(build_answer(score=0.5), build_answer(score=0.50000004, query_id="q2")) == []


def test_the_first_rank_that_differs_is_shown():
    (difference,) = list_differences(build_answer(score=0.5), build_answer(score=0.6))
    assert difference.splitlines() == [
        "python search 'x' {}",
        "    rank 1: ['f00', 0.5, 'code:a.py:L1-L3'] -> ['f00', 0.6, 'code:a.py:L1-L3']",
        "    fields: results.score",
    ]


def test_what_is_not_listed_is_compared_too():
    (difference,) = list_differences(build_answer(), build_answer(related="c.md"))
    assert difference.splitlines()[1:] == ["    fields: results.related"]


def test_an_answer_that_fails_or_is_missing_differs():
    assert list_differences(build_answer(), {"error": "404: gone"})[0].splitlines()[1] == (
        "    error: None -> 404: gone"
    )
    assert "no longer there" in next(iter_differences(list_lines(build_answer()), []))


def test_questions_come_of_all_kinds_first_and_in_every_way():
    subjects = {"symbol": ["Store", "open"], "heading": ["Retries"], "file": [], "commit": [], "set": []}
    texts = build_texts(subjects, 4)
    assert texts == ["Store", "Retries", "open", "where is Store defined"]
    variants = list_variants(["src/a.py", "src/b.py", "README.md"])
    questions = vary(build_texts(subjects, 100), variants)
    assert [question.how for question in questions[:2]] == [{}, {"type": "code"}]
    assert {"filters": {"languages": ["py"]}} in variants and {"filters": {"paths": ["src"]}} in variants


def test_symbols_and_headings_are_read_from_texts():
    assert find_symbols("class Store:\n    async def open(self): ...\nexport function send() {}\n") == [
        "Store",
        "open",
        "send",
    ]
    assert find_headings("# Retries #\ntext\n### Limits\n#no heading\n") == ["Retries", "Limits"]


def test_tables_are_hashed_by_their_rows_whatever_the_order_and_the_time(tmp_path):
    import lance
    import pyarrow as pa

    def write(name: str, rows: list[tuple[str, int]]) -> dict[str, Any]:
        columns = {"id": [key for key, _ in rows], "at": pa.array([at for _, at in rows], pa.timestamp("us"))}
        lance.write_dataset(pa.table(columns), str(tmp_path / name / "a.lance"))
        return hash_tables(tmp_path / name, {})

    first = write("first", [("x", 1), ("y", 2)])
    assert first == write("second", [("y", 3), ("x", 4)])
    assert first["a.lance"]["rows"] == 2 and list(first["a.lance"]["columns"]) == ["id"]
    assert write("third", [("x", 1), ("z", 2)]) != first
