"""Judging and scoring, against figures worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion
from knowledge_pipeline.evaluation.scores import (
    QuestionResponse,
    RetrievedChunk,
    estimate_mean,
    is_answered,
    judge_by_file,
    judge_by_place,
    score_questions,
    summarize,
)


def found(path: str, *symbols: str, source: str = "app", line: int = 1) -> RetrievedChunk:
    return RetrievedChunk(f"{source}:{path}#{line}", source, path, path, frozenset(symbols))


def response(
    answers: list[GoldenAnswer], *results: RetrievedChunk, took_ms: float = 1.0, type: str = "code"
) -> QuestionResponse:
    return QuestionResponse(GoldenQuestion("q", tuple(answers), type), results, took_ms)  # type: ignore[arg-type]


def score(judge, given: QuestionResponse) -> dict[str, float]:
    return {name: float(values[0]) for name, values in score_questions([judge(given)]).items()}


def test_a_file_counts_once_by_its_best_passage() -> None:
    given = response(
        [GoldenAnswer("b.py")], found("a.py"), found("a.py", line=9), found("b.py"), found("b.py", line=9)
    )
    scores = score(judge_by_file, given)
    assert scores["RR@10"] == 0.5 and scores["Success@1"] == 0 and scores["Success@5"] == 1
    assert scores["nDCG@10"] == pytest.approx(1 / math.log2(3))


def test_by_place_the_passage_must_hold_the_symbol() -> None:
    answers = [GoldenAnswer("a.py", "Store.get"), GoldenAnswer("b.py", "load")]
    given = response(
        answers,
        found("a.py"),
        found("a.py", "Store.put", line=2),
        found("a.py", "Store.get", "Store", line=3),
    )
    assert score(judge_by_file, given)["RR@10"] == 1.0
    assert score(judge_by_place, given)["RR@10"] == pytest.approx(1 / 3)
    assert (
        score(judge_by_place, response(answers, found("b.py", "io.load")))["R@10"] == 1.0
    )  # any answer will do


def test_by_place_is_by_file_where_no_symbol_is_named() -> None:
    given = response(
        [GoldenAnswer("a.md"), GoldenAnswer("b.md")], found("x.md"), found("x.md", line=5), found("b.md")
    )
    assert score(judge_by_place, given) == score(judge_by_file, given)
    assert score(judge_by_place, given)["R@10"] == 0.5


def test_a_document_may_be_named_by_source_and_uri() -> None:
    given = response([GoldenAnswer("docs:a.md")], found("a.md"), found("a.md", source="docs"))
    assert score(judge_by_file, given)["RR@10"] == 0.5


def test_a_more_relevant_document_is_worth_more() -> None:
    answers = [GoldenAnswer("best.md", relevance=3), GoldenAnswer("good.md", relevance=1)]
    well = score(judge_by_file, response(answers, found("best.md"), found("good.md")))["nDCG@10"]
    worse = score(judge_by_file, response(answers, found("good.md"), found("best.md")))["nDCG@10"]
    assert well == 1.0 and worse == pytest.approx((1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3)))


def test_a_question_without_results_scores_nothing_and_counts() -> None:
    empty = response([GoldenAnswer("a.py", "f")])
    assert not is_answered(empty) and is_answered(response([GoldenAnswer("a.py")], found("a.py")))
    (everything, code) = summarize([empty, response([GoldenAnswer("a.py", "f")], found("a.py", "f"))])
    assert everything.by_place["nDCG@10"].mean == everything.by_file["RR@10"].mean == 0.5
    assert (everything.type, code.type, code.questions) == ("all", "code", 2)


def test_summaries_are_by_type_with_the_latency_of_each() -> None:
    given = [response([GoldenAnswer("a")], found("a"), took_ms=ms, type="semantic") for ms in range(1, 101)]
    given.append(response([GoldenAnswer("a")], found("b"), took_ms=1000, type="code"))
    everything, code, semantic = summarize(given)
    assert [each.type for each in (everything, code, semantic)] == ["all", "code", "semantic"]
    assert (code.p50_ms, semantic.p50_ms) == (1000, 50.5) and 95 < semantic.p95_ms < 96
    assert semantic.by_file["Success@1"].mean == 1 and code.by_file["Success@1"].mean == 0
    assert summarize([]) == []


def test_the_interval_is_that_of_the_binomial_and_the_same_each_time() -> None:
    values = np.array([1.0] * 60 + [0.0] * 40)
    half = 1.96 * math.sqrt(0.6 * 0.4 / 100)
    made = estimate_mean(values)
    assert made.mean == 0.6
    assert made.low == pytest.approx(0.6 - half, abs=0.02) and made.high == pytest.approx(
        0.6 + half, abs=0.02
    )
    assert estimate_mean(values) == made
    assert estimate_mean(np.ones(3)) == estimate_mean(np.ones(5))


def test_a_summary_has_the_median_of_each_step_and_what_was_left_out() -> None:
    question = GoldenQuestion("q", (GoldenAnswer("a"),))
    spent = [{"fuse": 1.0, "rerank": 9.0}, {"fuse": 3.0}, {"fuse": 2.0}]
    (everything, _) = summarize(
        [
            QuestionResponse(question, (), timings_ms=each, degraded=() if "rerank" in each else ("rerank",))
            for each in spent
        ]
    )
    assert everything.timings_ms == {"fuse": 2.0, "rerank": 9.0}
    assert everything.degraded == {"rerank": 2}
