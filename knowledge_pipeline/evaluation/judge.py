"""Which of the found passages answer a question: by file, and by the definition where one is named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion

_ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """A passage that a search found, as far as judging needs it."""

    id: str
    source: str
    uri: str
    path: str
    symbols: frozenset[str] = frozenset()  # qualified names that it is, or holds: "Store.get"


@dataclass(frozen=True, slots=True)
class QuestionResponse:
    """What a question got, best first."""

    question: GoldenQuestion
    chunks: tuple[RetrievedChunk, ...]
    took_ms: float = 0.0
    timings_ms: Mapping[str, float] = field(default_factory=dict)  # by step of the search
    degraded: tuple[str, ...] = ()  # steps that it had to do without: "rerank"


@dataclass(frozen=True, slots=True)
class RetrievalJudgement:
    """One response in the terms of retrieval measures."""

    qrels: Mapping[str, int]  # place -> how relevant it is
    run: Mapping[str, float]  # place -> score, higher is earlier


def judge_by_file(response: QuestionResponse) -> RetrievalJudgement:
    """A file's best passage counts; every answering file is one thing to be found."""
    relevant: dict[str, int] = {}
    for place in response.question.answers:
        relevant[place.path] = max(place.relevance, relevant.get(place.path, 0))
    return RetrievalJudgement(
        relevant, _score_by_rank(_file_key(found, response.question.answers) for found in response.chunks)
    )


def judge_by_place(response: QuestionResponse) -> RetrievalJudgement:
    """Where answers name symbols, the first passage that is or holds any of them; else as `by_file`."""
    answers = response.question.answers
    if not any(place.symbol for place in answers):
        return judge_by_file(response)
    ranked = (_ANSWER if _matches_any_answer(found, answers) else found.id for found in response.chunks)
    return RetrievalJudgement({_ANSWER: 1}, _score_by_rank(ranked))


def find_first_rank(judgement: RetrievalJudgement) -> int | None:
    """Of the first place that answers, from 1; None where none was found."""
    ranks = (at for at, place in enumerate(judgement.run, start=1) if place in judgement.qrels)
    return next(ranks, None)


def is_answered(response: QuestionResponse) -> bool:
    """Whether any of the found passages answers, by place."""
    return find_first_rank(judge_by_place(response)) is not None


def _score_by_rank(places: Iterable[str]) -> dict[str, float]:
    """The first occurrence of each place, scored by its rank."""
    return {place: 1.0 / rank for rank, place in enumerate(dict.fromkeys(places), start=1)}


def _file_key(found: RetrievedChunk, answers: Sequence[GoldenAnswer]) -> str:
    """The answer's name for the passage's file, if it is one; else its own."""
    named = {place.path for place in answers}
    own = f"{found.source}:{found.uri}"
    return found.path if found.path in named else own


def _matches_any_answer(found: RetrievedChunk, answers: Sequence[GoldenAnswer]) -> bool:
    names = found.symbols | {name.rsplit(".", 1)[-1] for name in found.symbols}
    return any(
        _file_key(found, [place]) == place.path and (place.symbol is None or place.symbol in names)
        for place in answers
    )
