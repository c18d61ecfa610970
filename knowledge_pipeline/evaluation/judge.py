"""Judges which retrieved chunks answer a golden question: by file, or by the definition if one is named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion

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
    files = (each.path if each.path in relevance else f"{each.source}:{each.uri}" for each in response.chunks)
    return RetrievalJudgement(relevance, _score_by_rank(files))


def judge_by_place(response: QuestionResponse) -> RetrievalJudgement:
    """If answers name symbols, the first chunk that is or contains one of them; else as `judge_by_file`."""
    answers = response.question.answers
    if not any(answer.symbol for answer in answers):
        return judge_by_file(response)
    places = (_ANSWER if _matches_any_answer(each, answers) else each.id for each in response.chunks)
    return RetrievalJudgement({_ANSWER: 1}, _score_by_rank(places))


def find_first_rank(judgement: RetrievalJudgement) -> int | None:
    """The rank of the first place that answers, from 1; None if none was found."""
    ranks = (rank for rank, place in enumerate(judgement.run, start=1) if place in judgement.qrels)
    return next(ranks, None)


def is_answered(response: QuestionResponse) -> bool:
    """Whether any of the retrieved chunks answers, by place."""
    return find_first_rank(judge_by_place(response)) is not None


def _score_by_rank(places: Iterable[str]) -> dict[str, float]:
    """The first occurrence of each place, scored by its rank."""
    return {place: 1.0 / rank for rank, place in enumerate(dict.fromkeys(places), start=1)}


def _matches_any_answer(chunk: RetrievedChunk, answers: Sequence[GoldenAnswer]) -> bool:
    names = chunk.symbols | {name.rsplit(".", 1)[-1] for name in chunk.symbols}
    return any(
        answer.path in (chunk.path, f"{chunk.source}:{chunk.uri}")
        and (answer.symbol is None or answer.symbol in names)
        for answer in answers
    )
