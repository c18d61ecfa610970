"""Judges responses to golden questions, scores them, and compares two ways of answering. Pure.

ir-measures, that is trec_eval, computes the measures; this module computes means, and the intervals that few
questions leave. The difficulty of a question is the same for both of two ways of answering, so a paired
interval shows differences that the intervals of the two means hide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.evaluation.golden import GoldenQuestion
from knowledge_pipeline.extras import describe_missing, require_modules

_ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """What judging needs of a chunk that a search found."""

    id: str
    source: str
    uri: str
    path: str
    symbols: frozenset[str] = frozenset()  # qualified names that it is, or contains: "Store.get"


@dataclass(frozen=True, slots=True)
class QuestionResponse:
    """The response to a question, best chunk first."""

    question: GoldenQuestion
    chunks: tuple[RetrievedChunk, ...]
    took_ms: float = 0.0
    timings_ms: Mapping[str, float] = field(default_factory=dict[str, float])  # by step of the search
    degraded: tuple[str, ...] = ()  # steps that were skipped: "rerank"


@dataclass(frozen=True, slots=True)
class RetrievalJudgement:
    """One response in the terms of retrieval measures."""

    qrels: Mapping[str, int]  # place -> how relevant it is
    run: Mapping[str, float]  # place -> score, higher is earlier


def judge_by_file(response: QuestionResponse) -> RetrievalJudgement:
    """A file's best chunk counts; each file that answers is one thing to find."""
    relevance: dict[str, int] = {}
    for answer in response.question.answers:
        relevance[answer.path] = max(answer.relevance, relevance.get(answer.path, 0))
    # a chunk's path if an answer names it, else "source:uri", which an answer may name as well
    names = ((chunk.path, f"{chunk.source}:{chunk.uri}") for chunk in response.chunks)
    files = (path if path in relevance else uri for path, uri in names)
    return RetrievalJudgement(relevance, _score_by_rank(files))


def judge_by_place(response: QuestionResponse) -> RetrievalJudgement:
    """If answers name symbols, the first chunk that is or contains one of them; else as `judge_by_file`."""
    answers = response.question.answers
    if not any(answer.symbol for answer in answers):
        return judge_by_file(response)
    places: list[str] = []
    for chunk in response.chunks:
        files = (chunk.path, f"{chunk.source}:{chunk.uri}")
        names = {None, *chunk.symbols, *(name.rsplit(".", 1)[-1] for name in chunk.symbols)}
        matches = any(answer.path in files and answer.symbol in names for answer in answers)
        places.append(_ANSWER if matches else chunk.id)
    return RetrievalJudgement({_ANSWER: 1}, _score_by_rank(places))


def find_first_rank(judgement: RetrievalJudgement) -> int | None:
    """The rank of the first place that answers, from 1; None if none was found."""
    ranks = (rank for rank, document in enumerate(judgement.run, start=1) if document in judgement.qrels)
    return next(ranks, None)


def is_answered(response: QuestionResponse) -> bool:
    """Whether any of the retrieved chunks answers, by place."""
    return find_first_rank(judge_by_place(response)) is not None


def _score_by_rank(places: Iterable[str]) -> dict[str, float]:
    """The first occurrence of each place, scored by its rank."""
    return {document: 1.0 / rank for rank, document in enumerate(dict.fromkeys(places), start=1)}


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
    parts = ((name, *name.split("@")) for name in MEASURES)
    measures = {getattr(library, measure) @ int(cutoff): name for name, measure, cutoff in parts}
    qrels = {str(number): dict(judgement.qrels) for number, judgement in enumerate(judgements)}
    runs = {str(number): dict(judgement.run) for number, judgement in enumerate(judgements)}
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
        if self.better + self.worse < _MIN_CHANGED_QUESTIONS or self.change.low <= 0 <= self.change.high:
            return "undecided"
        return "better" if self.change.low > 0 else "worse"


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

    Raises `ValueError`: they are not responses to the same questions in the same order.
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

    Raises `ValueError`: as `compare`.
    """
    pairs = _pair_responses(before, after)
    judged = [[judge_by_place(response) for response in responses] for responses in (before, after)]
    scores = [score_questions(judgements)[QUALITY_MEASURE].tolist() for judgements in judged]
    ranks = [[find_first_rank(judgement) for judgement in judgements] for judgements in judged]
    changed = [
        ChangedQuestion(first.question, scores[0][at], scores[1][at], ranks[0][at], ranks[1][at])
        for at, (first, _) in enumerate(pairs)
    ]
    return sorted((it for it in changed if abs(it.change) > _MIN_CHANGE), key=lambda it: it.change)


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
    changes, means = after - before, (float(before.mean()), float(after.mean()))
    better, worse = int((changes > _MIN_CHANGE).sum()), int((changes < -_MIN_CHANGE).sum())
    equal = len(changes) - better - worse
    return MeasureDifference(*means, estimate_mean(changes), better, worse, equal)
