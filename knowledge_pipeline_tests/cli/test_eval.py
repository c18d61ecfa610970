"""`eval` and `feedback` on a real index."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from knowledge_pipeline_tests.cli.conftest import Run

QUESTIONS = """
- question: sign the payload of a session
  type: code
  answers: [{path: src/sessions.py, symbol: sign_session}]
- {question: how is a failed request tried again, answers: [{path: docs/guide.md}]}
- {question: session, answers: [{path: no/such.py}], type: code}
"""


@pytest.fixture
def golden(indexed: Path) -> Path:
    path = indexed / "golden.yaml"
    path.write_text(QUESTIONS)
    return path


def test_eval_scores_each_type_and_all_together(golden: Path, run: Run) -> None:
    told = run("eval", "--questions", "golden.yaml", "--json").json
    types = told["types"]
    assert set(types) == {"all", "code", "semantic"} and types["all"]["questions"] == 3
    best = types["semantic"]["by_place"]["nDCG@10"]
    assert 0 <= best["low"] <= best["mean"] <= best["high"] <= 1
    assert types["code"]["by_file"]["Success@5"]["mean"] == 0.5
    assert types["all"]["p95_ms"] >= types["all"]["p50_ms"] > 0
    assert told["release"] is None and list(told["tables"].values())


def test_eval_is_a_table_for_people(golden: Path, run: Run) -> None:
    shown = run("eval", "--questions", "golden.yaml").out
    assert "MEASURE" in shown and "nDCG@10" in shown and " to " in shown
    assert "code: 2 questions, p50 " in shown and "all: 3 questions" in shown


def test_eval_lists_the_misses(golden: Path, run: Run) -> None:
    shown = run("eval", "--questions", "golden.yaml", "--misses").out
    assert "1 question without an answer in ten results" in shown
    assert "wanted: no/such.py" in shown and "found:  src/sessions.py" in shown
    (missed,) = run("eval", "--questions", "golden.yaml", "--misses", "--json").json["misses"]
    assert (missed["question"], missed["file"]) == ("session", "golden.yaml")


def test_all_questions_may_be_asked_by_chosen_types(golden: Path, run: Run) -> None:
    told = run("eval", "--questions", "golden.yaml", "-t", "semantic", "-t", "code", "--json").json
    assert {name: each["questions"] for name, each in told["types"].items()} == {"code": 3, "semantic": 3}
    assert "found --type cod;" in run("eval", "--questions", "golden.yaml", "-t", "cod", code=2).err


@pytest.mark.slow
def test_the_newest_index_is_asked_or_a_named_release(golden: Path, shop: Path, run: Run) -> None:
    (shop / "src" / "sessions.py").write_text("nothing = 0\n")
    config = golden.parent / "knowledge.yaml"
    config.write_text(config.read_text() + "evaluation: {questions: [golden.yaml], floor: 1.0}\n")
    run("refresh", code=1)  # released or not, it is indexed
    now, before = run("eval", "--json").json, run("eval", "--release", "1", "--json").json
    assert now["tables"] != before["tables"] and before["release"] == 1
    assert now["golden"] == before["golden"]
    assert now["types"]["code"]["by_place"]["Success@5"]["mean"] == 0
    assert before["types"]["code"]["by_place"]["Success@5"]["mean"] == 0.5
    assert "kept releases: 1" in run("eval", "--release", "9", code=3).err


def test_eval_without_questions_says_what_to_do(indexed: Path, run: Run) -> None:
    assert "set evaluation.questions in knowledge.yaml" in run("eval", code=2).err
    assert "no golden questions at gone.yaml" in run("eval", "--questions", "gone.yaml", code=2).err


def test_eval_before_any_index_says_what_to_do(home: Path, run: Run) -> None:
    (home / "golden.yaml").write_text(QUESTIONS)
    assert "knowledge index" in run("eval", "--questions", "golden.yaml", code=3).err


def test_feedback_on_a_result_of_an_earlier_command(indexed: Path, run: Run) -> None:
    answer = run("search", "retry request", "--json").json
    given = (answer["query_id"], answer["results"][0]["id"])
    assert run("feedback", *given, "--useful").out == "Noted: useful.\n"
    assert run("feedback", *given, "--clicked", "--json").json["judgement"] == "clicked"
    assert answer["query_id"] not in run("search", "retry request", "--explain").out
    assert "query " in run("search", "retry request", "--explain").out


def test_feedback_that_makes_no_sense_is_refused(indexed: Path, run: Run) -> None:
    assert "give one of" in run("feedback", "q", "r", code=2).err
    assert "give one of" in run("feedback", "q", "r", "--useful", "--useless", code=2).err
    unknown = run("feedback", "q", "r", "--useful", "--json", code=3).error
    assert "no query 'q'" in unknown["error"] and json.dumps(unknown)


def test_questions_are_proposed_into_a_new_file_and_count_when_they_are_reviewed(indexed: Path, run: Run):
    shown = run("eval", "--mine", "proposed.yaml").out
    assert "None counts until you have reviewed it" in shown
    text = (indexed / "proposed.yaml").read_text()
    assert "Sign the payload of a session" in text
    assert "found no questions" in run("eval", "--questions", "proposed.yaml", code=2).err
    again = run("eval", "--mine", "proposed.yaml", code=2)
    assert "never overwritten" in again.err and (indexed / "proposed.yaml").read_text() == text
    assert "give no other option" in run("eval", "--mine", "other.yaml", "--misses", code=2).err
    made = run("eval", "--mine", "other.yaml", "--json").json
    assert made["questions"] == sum(made["kinds"].values()) > 0


def test_an_empty_store_proposes_nothing_in_one_sentence(home: Path, run: Run):
    assert "nothing that is indexed asks a question" in run("eval", "--mine", "proposed.yaml", code=3).err
    assert not (home / "proposed.yaml").exists()


def test_without_what_computes_the_measures_nothing_is_asked_nor_indexed(
    golden: Path, shop: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = golden.parent / "knowledge.yaml"
    config.write_text(config.read_text() + "evaluation: {questions: [golden.yaml]}\n")
    (shop / "src" / "new.py").write_text("def brand_new():\n    return 7\n")
    installed = importlib.util.find_spec
    monkeypatch.setattr(
        "knowledge_pipeline.extras.find_spec",
        lambda name: None if name == "ir_measures" else installed(name),
    )
    for command in ("eval", "refresh", "tune"):
        refused = run(command, code=2).err
        assert "golden questions needs a package that is not installed" in refused
        assert "pip install 'knowledge-pipeline[eval]'" in refused
    assert run("status", "--json").json["release"]["release"] == 1
