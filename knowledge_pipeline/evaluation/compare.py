"""Two ways of answering the same questions, compared question by question.

The difficulty of a question is the same for both, so a paired interval tells differences
apart that the two intervals of the means do not. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from knowledge_pipeline.evaluation.golden import Question
from knowledge_pipeline.evaluation.judge import Judged, Response, by_file, by_place, rank
from knowledge_pipeline.evaluation.scores import ALL, QUALITY, Estimate, estimate, per_question

Verdict = Literal["better", "worse", "undecided"]

_SAME = 1e-9  # a smaller change is one of rounding
_FEWEST = 6  # changed questions: even if all of fewer change one way, a sign test gives no 95 %


@dataclass(frozen=True, slots=True)
class Difference:
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
        if self.better + self.worse < _FEWEST:
            return "undecided"
        if self.change.low > 0:
            return "better"
        return "worse" if self.change.high < 0 else "undecided"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the measures of one search type became."""

    type: str  # a search type, or "all"
    questions: int
    by_place: dict[str, Difference]  # measure ->
    by_file: dict[str, Difference]


@dataclass(frozen=True, slots=True)
class Changed:
    """A question that is answered better or worse than before, by place."""

    question: Question
    before: float  # nDCG@10
    after: float
    rank_before: int | None  # of the first answer, from 1; None: not found
    rank_after: int | None

    @property
    def change(self) -> float:
        """Above 0: won; below: lost."""
        return self.after - self.before


def compare(before: Sequence[Response], after: Sequence[Response]) -> list[Comparison]:
    """One for all questions, then one for each search type, by name; none of no responses.

    Raises:
        ValueError: they are not responses to the same questions in the same order.
    """
    pairs = _paired(before, after)
    types = sorted({one.question.type for one, _ in pairs})
    of_types = [
        _comparison(name, [pair for pair in pairs if pair[0].question.type == name]) for name in types
    ]
    return [_comparison(ALL, pairs), *of_types] if pairs else []


def changed(before: Sequence[Response], after: Sequence[Response]) -> list[Changed]:
    """Every question whose nDCG@10 by place changed: lost ones first, the largest loss first of all.

    Raises:
        ValueError: as `compare`.
    """
    _paired(before, after)
    judged_before, judged_after = [by_place(one) for one in before], [by_place(one) for one in after]
    values_before, values_after = per_question(judged_before)[QUALITY], per_question(judged_after)[QUALITY]
    made = [
        Changed(one.question, float(values_before[at]), float(values_after[at]), rank(first), rank(second))
        for at, (one, first, second) in enumerate(zip(before, judged_before, judged_after, strict=True))
    ]
    return sorted((each for each in made if abs(each.change) > _SAME), key=lambda each: each.change)


def _paired(before: Sequence[Response], after: Sequence[Response]) -> list[tuple[Response, Response]]:
    if [one.question for one in before] != [one.question for one in after]:
        raise ValueError("responses to different questions do not compare")
    return list(zip(before, after, strict=True))


def _comparison(type_: str, pairs: Sequence[tuple[Response, Response]]) -> Comparison:
    return Comparison(type_, len(pairs), _differences(pairs, by_place), _differences(pairs, by_file))


def _differences(
    pairs: Sequence[tuple[Response, Response]], judge: Callable[[Response], Judged]
) -> dict[str, Difference]:
    before = per_question([judge(one) for one, _ in pairs])
    after = per_question([judge(one) for _, one in pairs])
    return {measure: difference(before[measure], after[measure]) for measure in before}


def difference(before: np.ndarray, after: np.ndarray) -> Difference:
    """Of one measure over the same questions: two of shape (questions,), at least one question.

    The interval is that of the paired bootstrap: questions are resampled, each with both of its values.

    Source: Sakai 2006, "Evaluating evaluation metrics based on the bootstrap", section 3.
    """
    changes = after - before
    better, worse = int((changes > _SAME).sum()), int((changes < -_SAME).sum())
    return Difference(
        before=float(before.mean()),
        after=float(after.mean()),
        change=estimate(changes),
        better=better,
        worse=worse,
        equal=len(changes) - better - worse,
    )
