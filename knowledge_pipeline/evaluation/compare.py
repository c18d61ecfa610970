"""Two ways of answering the same questions, compared question by question.

The difficulty of a question is the same for both, so a paired interval tells differences
apart that the two intervals of the means do not. Pure.
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
    ALL,
    QUALITY_MEASURE,
    Estimate,
    estimate_mean,
    score_questions,
)

Verdict = Literal["better", "worse", "undecided"]

_MIN_CHANGE = 1e-9  # a smaller change is one of rounding
_MIN_CHANGED_QUESTIONS = (
    6  # changed questions: even if all of fewer change one way, a sign test gives no 95 %
)


@dataclass(frozen=True, slots=True)
class MeasureDifference:
    """What one measure became."""

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
    """What the measures of one search type became."""

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
    """One for all questions, then one for each search type, by name; none of no responses.

    Raises:
        ValueError: they are not responses to the same questions in the same order.
    """
    pairs = _pair_responses(before, after)
    types = sorted({one.question.type for one, _ in pairs})
    of_types = [
        _build_comparison(name, [pair for pair in pairs if pair[0].question.type == name]) for name in types
    ]
    return [_build_comparison(ALL, pairs), *of_types] if pairs else []


def list_changed_questions(
    before: Sequence[QuestionResponse], after: Sequence[QuestionResponse]
) -> list[ChangedQuestion]:
    """Every question whose nDCG@10 by place changed: lost ones first, the largest loss first of all.

    Raises:
        ValueError: as `compare`.
    """
    _pair_responses(before, after)
    judged_before, judged_after = (
        [judge_by_place(one) for one in before],
        [judge_by_place(one) for one in after],
    )
    values_before, values_after = (
        score_questions(judged_before)[QUALITY_MEASURE],
        score_questions(judged_after)[QUALITY_MEASURE],
    )
    made = [
        ChangedQuestion(
            one.question,
            float(values_before[at]),
            float(values_after[at]),
            find_first_rank(first),
            find_first_rank(second),
        )
        for at, (one, first, second) in enumerate(zip(before, judged_before, judged_after, strict=True))
    ]
    return sorted((each for each in made if abs(each.change) > _MIN_CHANGE), key=lambda each: each.change)


def _pair_responses(
    before: Sequence[QuestionResponse], after: Sequence[QuestionResponse]
) -> list[tuple[QuestionResponse, QuestionResponse]]:
    if [one.question for one in before] != [one.question for one in after]:
        raise ValueError("responses to different questions do not compare")
    return list(zip(before, after, strict=True))


def _build_comparison(type_: str, pairs: Sequence[tuple[QuestionResponse, QuestionResponse]]) -> Comparison:
    return Comparison(
        type_,
        len(pairs),
        _compute_differences(pairs, judge_by_place),
        _compute_differences(pairs, judge_by_file),
    )


def _compute_differences(
    pairs: Sequence[tuple[QuestionResponse, QuestionResponse]],
    judge: Callable[[QuestionResponse], RetrievalJudgement],
) -> dict[str, MeasureDifference]:
    before = score_questions([judge(one) for one, _ in pairs])
    after = score_questions([judge(one) for _, one in pairs])
    return {measure: compute_difference(before[measure], after[measure]) for measure in before}


def compute_difference(before: np.ndarray, after: np.ndarray) -> MeasureDifference:
    """Of one measure over the same questions: two of shape (questions,), at least one question.

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
