"""Golden questions: both formats, and what is said of a wrong file."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from knowledge_pipeline.contract.filters import Filters, SearchType
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.evaluation import golden
from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenFilters, GoldenQuestion, load_golden_set


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    queries = ['{"_id": "q1", "text": "first"}', '{"_id": "q2", "text": "never judged"}']
    write(folder / "queries.jsonl", "\n".join(queries) + "\n\n")
    write(folder / "qrels" / "dev.tsv", "query-id\tcorpus-id\tscore\nq1\ta.md\t2\nq1\tb.md\t0\n")
    write(folder / "qrels" / "test.tsv", "q1\tdocs:c.md\t1\n")
    return folder


def test_a_bare_list_is_asked_by_meaning_of_everything(tmp_path: Path) -> None:
    path = write(tmp_path / "q.yaml", "- question: where\n  answers: [{path: a.py, symbol: f}]\n")
    assert load_golden_set([path]).questions == (
        GoldenQuestion("where", (GoldenAnswer("a.py", "f"),), file="q.yaml"),
    )


def test_what_an_entry_says_replaces_what_the_file_says(tmp_path: Path) -> None:
    text = """
type: code
source: app
filters: {paths: [src/], languages: [python]}
questions:
  - {question: one, answers: [{path: a.py}]}
  - question: two
    answers: [{path: a.py, relevance: 3}]
    type: semantic
    source: docs
    filters: {paths: [b]}
"""
    one, two = load_golden_set([write(tmp_path / "q.yaml", text)]).questions
    assert (one.type, one.filters) == (
        "code",
        {"paths": ("src/",), "languages": ("python",), "sources": ("app",)},
    )
    assert (two.type, two.filters["paths"], two.filters["sources"]) == ("semantic", ("b",), ("docs",))
    assert two.answers == (GoldenAnswer("a.py", relevance=3),)


def test_a_beir_folder_gives_the_judged_queries(beir: Path) -> None:
    assert load_golden_set([beir]).questions == (
        GoldenQuestion("first", (GoldenAnswer("a.md", relevance=2), GoldenAnswer("docs:c.md")), file="set"),
    )


def test_a_yaml_file_may_say_how_a_beir_folder_is_asked(beir: Path) -> None:
    path = write(beir.parent / "q.yaml", "beir: set\ntype: historical\nsource: log\n")
    (question,) = load_golden_set([path]).questions
    assert (question.type, question.filters, question.text) == ("historical", {"sources": ("log",)}, "first")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- question: a\n  answers: []\n", "q.yaml:2: questions[0].answers: "),
        ("- question: a\n  answer: [{path: a}]\n", "did you mean 'answers'"),
        ("questions:\n- question: a\n  answers: [{path: a}]\n  type: cod\n", "did you mean 'code'"),
        ("- question: a\n  answers: [{path: a}]\n  filters: {path: [a]}\n", "questions[0].filters.path: "),
        ("- question: ''\n  answers: [{path: a}]\n", "q.yaml:1: questions[0].question: "),
        ("- question: a\n  answers: [{path: a, relevance: 0}]\n", "a number of at least 1"),
        ("", "required: `questions`, or `beir`"),
        ("- question: [\n", "q.yaml:"),
    ],
)
def test_a_wrong_file_is_told_with_line_and_entry(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path / "q.yaml", text)
    with pytest.raises(ConfigError) as refused:
        load_golden_set([path])
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("queries.jsonl", '{"_id": "q1"}\n', "queries.jsonl:1: no query"),
        ("queries.jsonl", "[1]\n", "queries.jsonl:1: no query"),
        ("queries.jsonl", '{"_id": "q7", "text": "x"}\n', "'q1' is not in queries.jsonl"),
        ("qrels/dev.tsv", "q1 a.md 1\n", "dev.tsv:1: no judgement"),
        ("qrels/dev.tsv", "q1\ta.md\thigh\n", "dev.tsv:1: no judgement"),
    ],
)
def test_a_wrong_beir_file_is_told_with_its_line(beir: Path, name: str, text: str, said: str) -> None:
    write(beir / name, text)
    with pytest.raises(ConfigError, match=r"^[^\n]*$") as refused:
        load_golden_set([beir])
    assert said in str(refused.value)


def test_a_beir_folder_without_its_parts_says_which(beir: Path) -> None:
    write(beir / "qrels" / "dev.tsv", "q1\ta.md\t0\n")
    (beir / "qrels" / "test.tsv").unlink()
    with pytest.raises(ConfigError, match="no document is judged relevant"):
        load_golden_set([beir])
    (beir / "qrels" / "dev.tsv").unlink()
    with pytest.raises(ConfigError, match="no judgement in"):
        load_golden_set([beir])
    (beir / "queries.jsonl").unlink()
    with pytest.raises(ConfigError, match=r"queries\.jsonl cannot be read"):
        load_golden_set([beir])


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^there are no golden questions at .*gone\.yaml: correct [^\n]*$"):
        load_golden_set([tmp_path / "gone.yaml"])


def test_the_digest_follows_what_is_asked_and_not_the_order(tmp_path: Path) -> None:
    one, two = "- {question: a, answers: [{path: a}]}\n", "- {question: b, answers: [{path: b}]}\n"
    first = write(tmp_path / "1.yaml", one + two)
    second = write(tmp_path / "2.yaml", "# as before\n" + two + one)
    assert load_golden_set([first]).digest == load_golden_set([second]).digest
    for changed in (one, one + two.replace("path: b", "path: c"), one + two.replace("b,", "b?,")):
        assert (
            load_golden_set([write(tmp_path / "3.yaml", changed)]).digest != load_golden_set([first]).digest
        )


def test_types_and_filters_are_those_of_the_search() -> None:
    assert get_args(golden.SearchType) == get_args(SearchType)
    assert set(GoldenFilters.model_fields) == {field.name for field in fields(Filters)}
