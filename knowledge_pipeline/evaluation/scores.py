"""Retrieval measures over many responses, with the uncertainty that few questions leave.

ir-measures, that is trec_eval, computes the measures; this module computes means and intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.evaluation.judge import (
    QuestionResponse,
    RetrievalJudgement,
    judge_by_file,
    judge_by_place,
)
from knowledge_pipeline.extras import describe_missing, require_modules

MEASURES = ("nDCG@10", "R@10", "RR@10", "Success@1", "Success@5")
QUALITY_MEASURE = "nDCG@10"  # decides whether to hold back a release, and comparisons
JUDGED_DEPTH = 10  # results of a question that are judged
ALL = "all"  # the questions of all search types together

ItemT = TypeVar("ItemT")

_RESAMPLES = 2000
_SEED = 0  # the same responses give the same interval


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over questions and its 95 % interval: of a measure in [0, 1], of its change in [-1, 1]."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Summary:
    """How well and how fast the questions of one search type were answered."""

    type: str  # a search type, or "all"
    questions: int
    by_place: dict[str, Estimate]  # measure ->
    by_file: dict[str, Estimate]
    p50_ms: float
    p95_ms: float
    timings_ms: dict[str, float]  # step of the search -> median of its time
    degraded: dict[str, int]  # step of the search -> questions that skipped it


def require_measures() -> None:
    """Raise `ConfigError`, before a question is asked, unless what computes the measures is installed."""
    require_modules("scoring golden questions", "ir_measures")


def summarize(responses: Sequence[QuestionResponse]) -> list[Summary]:
    """A summary of all questions, then one for each search type, by name; none of no responses."""
    summaries: list[Summary] = []
    for type_, group in group_by_type(responses, lambda response: response.question.type).items():
        p50_ms, p95_ms = np.percentile([response.took_ms for response in group], [50, 95])
        times_by_step: dict[str, list[float]] = {}
        for response in group:
            for step, ms in response.timings_ms.items():
                times_by_step.setdefault(step, []).append(ms)
        summaries.append(
            Summary(
                type=type_,
                questions=len(group),
                by_place=_estimate_measures(group, judge_by_place),
                by_file=_estimate_measures(group, judge_by_file),
                p50_ms=round(float(p50_ms), 2),
                p95_ms=round(float(p95_ms), 2),
                timings_ms={step: round(float(np.median(ms)), 2) for step, ms in times_by_step.items()},
                degraded=dict(Counter(step for response in group for step in response.degraded)),
            )
        )
    return summaries


def group_by_type(items: Sequence[ItemT], get_type: Callable[[ItemT], str]) -> dict[str, Sequence[ItemT]]:
    """All items under `ALL`, then those of each type, by name; empty without items."""
    groups: dict[str, Sequence[ItemT]] = {ALL: items} if items else {}
    for type_ in sorted({get_type(item) for item in items}):
        groups[type_] = [item for item in items if get_type(item) == type_]
    return groups


def score_questions(judgements: Sequence[RetrievalJudgement]) -> dict[str, np.ndarray]:
    """Measure -> its value for each response, in their order: float64, shape (responses,)."""
    try:
        import ir_measures
    except ModuleNotFoundError as error:
        raise ConfigError(describe_missing("scoring golden questions", "eval")) from error
    library: Any = ir_measures  # its types are partly unknown
    # as objects: the library's parser of their names uses what Python 3.14 lacks
    cutoffs = {name: name.partition("@") for name in MEASURES}
    measures = {
        getattr(library, measure) @ int(cutoff): name for name, (measure, _, cutoff) in cutoffs.items()
    }
    qrels = {str(number): dict(each.qrels) for number, each in enumerate(judgements)}
    runs = {str(number): dict(each.run) for number, each in enumerate(judgements)}
    values = {name: np.zeros(len(judgements)) for name in MEASURES}
    for metric in library.iter_calc(list(measures), qrels, runs):
        values[measures[metric.measure]][int(metric.query_id)] = metric.value
    return values


def estimate_mean(values: np.ndarray) -> Estimate:
    """Mean, and the middle 95 % of the means of resampled questions.

    Source: Sakai 2006, "Evaluating evaluation metrics based on the bootstrap", section 3.
    """
    draw, count = np.random.default_rng(_SEED), len(values)
    means = values[draw.integers(count, size=(_RESAMPLES, count))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return Estimate(float(values.mean()), float(low), float(high))


def _estimate_measures(
    responses: Sequence[QuestionResponse], judge: Callable[[QuestionResponse], RetrievalJudgement]
) -> dict[str, Estimate]:
    values = score_questions([judge(response) for response in responses])
    return {name: estimate_mean(scores) for name, scores in values.items()}
