"""Compares two ways of answering the same questions, question by question. Pure.

The difficulty of a question is the same for both, so a paired interval shows differences that the
intervals of the two means hide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from knowledge_pipeline.evaluation.golden import GoldenQuestion
from knowledge_pipeline.evaluation.judge import (
    QuestionResponse,
    RetrievalJudgement,
    find_first_rank,
    judge_by_file,
    judge_by_place,
)
from knowledge_pipeline.evaluation.scores import (
    QUALITY_MEASURE,
    Estimate,
    estimate_mean,
    group_by_type,
    score_questions,
)

Verdict = Literal["better", "worse", "undecided"]

_MIN_CHANGE = 1e-9  # smaller changes are due to rounding
_MIN_CHANGED_QUESTIONS = 6  # even if all of fewer change one way, a sign test gives no 95 %


@dataclass(frozen=True, slots=True)
class MeasureDifference:
    """How one measure changed."""

    before: float  # means over the questions, in [0, 1]
    after: float
    change: Estimate  # of each question, after - before
    better: int  # questions
    worse: int
    equal: int

    @property
    def verdict(self) -> Verdict:
        """Undecided where the 95 % interval of the change holds 0, or too few questions changed."""
        if self.better + self.worse < _MIN_CHANGED_QUESTIONS:
            return "undecided"
        if self.change.low > 0:
            return "better"
        return "worse" if self.change.high < 0 else "undecided"


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the measures of one search type changed."""

    type: str  # a search type, or "all"
    questions: int
    by_place: dict[str, MeasureDifference]  # measure ->
    by_file: dict[str, MeasureDifference]


@dataclass(frozen=True, slots=True)
class ChangedQuestion:
    """A question that is answered better or worse than before, by place."""

    question: GoldenQuestion
    before: float  # nDCG@10
    after: float
    rank_before: int | None  # of the first answer, from 1; None: not found
    rank_after: int | None

    @property
    def change(self) -> float:
        """Above 0: won; below: lost."""
        return self.after - self.before


def compare(before: Sequence[QuestionResponse], after: Sequence[QuestionResponse]) -> list[Comparison]:
    """A comparison of all questions, then one for each search type, by name; none of no responses.

    Raises:
        ValueError: they are not responses to the same questions in the same order.
    """
    groups = group_by_type(_pair_responses(before, after), lambda pair: pair[0].question.type)
    return [
        Comparison(type_, len(pairs), _compare_by(judge_by_place, pairs), _compare_by(judge_by_file, pairs))
        for type_, pairs in groups.items()
    ]


def list_changed_questions(
    before: Sequence[QuestionResponse], after: Sequence[QuestionResponse]
) -> list[ChangedQuestion]:
    """Every question whose nDCG@10 by place changed, from the largest loss to the largest gain.

    Raises:
        ValueError: as `compare`.
    """
    pairs = _pair_responses(before, after)
    judged = [[judge_by_place(response) for response in responses] for responses in (before, after)]
    scores = [score_questions(judgements)[QUALITY_MEASURE].tolist() for judgements in judged]
    ranks = [[find_first_rank(judgement) for judgement in judgements] for judgements in judged]
    changed = [
        ChangedQuestion(first.question, scores[0][at], scores[1][at], ranks[0][at], ranks[1][at])
        for at, (first, _) in enumerate(pairs)
    ]
    return sorted((each for each in changed if abs(each.change) > _MIN_CHANGE), key=lambda each: each.change)


def _pair_responses(
    before: Sequence[QuestionResponse], after: Sequence[QuestionResponse]
) -> list[tuple[QuestionResponse, QuestionResponse]]:
    if [response.question for response in before] != [response.question for response in after]:
        raise ValueError("responses to different questions cannot be compared")
    return list(zip(before, after, strict=True))


def _compare_by(
    judge: Callable[[QuestionResponse], RetrievalJudgement],
    pairs: Sequence[tuple[QuestionResponse, QuestionResponse]],
) -> dict[str, MeasureDifference]:
    before = score_questions([judge(response) for response, _ in pairs])
    after = score_questions([judge(response) for _, response in pairs])
    return {measure: compute_difference(before[measure], after[measure]) for measure in before}


def compute_difference(before: np.ndarray, after: np.ndarray) -> MeasureDifference:
    """The difference of one measure over the same questions: both of shape (questions,), at least one.

    The interval is that of the paired bootstrap: questions are resampled, each with both of its values.

    Source: Sakai 2006, "Evaluating evaluation metrics based on the bootstrap", section 3.
    """
    changes = after - before
    better, worse = int((changes > _MIN_CHANGE).sum()), int((changes < -_MIN_CHANGE).sum())
    return MeasureDifference(
        before=float(before.mean()),
        after=float(after.mean()),
        change=estimate_mean(changes),
        better=better,
        worse=worse,
        equal=len(changes) - better - worse,
    )
