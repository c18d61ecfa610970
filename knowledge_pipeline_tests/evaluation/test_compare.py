"""Comparing two evaluations, against figures worked out by hand and another bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
import scipy  # whose parts are imported when they are used

from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion
from knowledge_pipeline.evaluation.scores import (
    QuestionResponse,
    RetrievedChunk,
    compare,
    compute_difference,
    estimate_mean,
    list_changed_questions,
)


def response(text: str, *paths: str, type: str = "code") -> QuestionResponse:
    """What the question whose answer is `a.py` found."""
    question = GoldenQuestion(text, (GoldenAnswer("a.py"),), type)  # type: ignore[arg-type]
    return QuestionResponse(question, tuple(RetrievedChunk(path, "app", path, path) for path in paths))


def test_a_comparison_counts_questions_and_keeps_the_means() -> None:
    before = [response("q1", "a.py"), response("q2", "b.py", "a.py"), response("q3")]
    after = [response("q1", "b.py", "a.py"), response("q2", "a.py"), response("q3", "a.py")]
    everything, code = compare(before, after)
    found = everything.by_place["RR@10"]
    assert (found.better, found.worse, found.equal) == (2, 1, 0)
    assert found.before == pytest.approx(0.5) and found.after == pytest.approx(2.5 / 3)
    assert found.change.mean == pytest.approx(found.after - found.before)
    assert (everything.type, code.type, code.questions) == ("all", "code", 3)
    assert code.by_file == everything.by_file


def test_each_type_is_compared_by_itself() -> None:
    before = [response("q", "a.py"), response("q", "b.py", type="semantic")]
    after = [response("q", "b.py"), response("q", "a.py", type="semantic")]
    changes = {each.type: each.by_file["Success@1"].change.mean for each in compare(before, after)}
    assert changes == {"all": 0.0, "code": -1.0, "semantic": 1.0}


def test_changed_questions_are_those_that_moved_the_largest_loss_first() -> None:
    before = [response("same", "a.py"), response("lost", "a.py"), response("won"), response("slid", "a.py")]
    after = [response("same", "a.py"), response("lost"), response("won", "b.py", "a.py")]
    after.append(response("slid", "b.py", "a.py"))
    moved = list_changed_questions(before, after)
    assert [each.question.text for each in moved] == ["lost", "slid", "won"]
    assert [(each.rank_before, each.rank_after) for each in moved] == [(1, None), (1, 2), (None, 2)]
    assert moved[0].change == -1.0 and moved[2].change > 0


def test_responses_to_other_questions_do_not_compare() -> None:
    with pytest.raises(ValueError, match="different questions"):
        compare([response("q1")], [response("q2")])
    with pytest.raises(ValueError, match="different questions"):
        list_changed_questions([response("q1")], [response("q1"), response("q2")])
    assert compare([], []) == [] and list_changed_questions([], []) == []


def test_the_interval_is_that_of_a_paired_bootstrap() -> None:
    draw = np.random.default_rng(7)
    before = draw.beta(0.5, 0.5, size=120)
    after = np.clip(before + draw.normal(0.03, 0.1, size=120), 0, 1)
    made = compute_difference(before, after).change
    oracle = scipy.stats.bootstrap(
        (after, before),
        lambda one, other, axis: one.mean(axis) - other.mean(axis),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=9999,
        rng=draw,
    ).confidence_interval
    assert (made.low, made.high) == pytest.approx((oracle.low, oracle.high), abs=0.002)


def test_a_change_that_hides_in_two_intervals_shows_in_the_paired_one() -> None:
    before = np.linspace(0, 0.9, 100)
    after = before + 0.02
    assert estimate_mean(before).high > estimate_mean(after).low  # side by side nothing can be told
    assert compute_difference(before, after).verdict == "better"
    assert compute_difference(after, before).verdict == "worse"


def test_nothing_is_decided_where_the_interval_holds_zero() -> None:
    assert compute_difference(np.ones(5), np.ones(5)).verdict == "undecided"
    few = compute_difference(np.array([0.0, 1.0, 0.5]), np.array([1.0, 0.0, 1.0]))
    assert few.verdict == "undecided" and (few.better, few.worse, few.equal) == (2, 1, 0)


def test_a_handful_of_changes_decides_nothing_however_clear_they_are() -> None:
    oracle = [scipy.stats.binomtest(count, count).pvalue < 0.05 for count in (5, 6)]
    verdicts = [compute_difference(np.zeros(count), np.ones(count)).verdict for count in (5, 6)]
    assert oracle == [False, True] and verdicts == ["undecided", "better"]


def test_rounding_is_no_change() -> None:
    found = compute_difference(np.array([0.1 + 0.2]), np.array([0.3]))
    assert (found.better, found.worse, found.equal) == (0, 0, 1)
