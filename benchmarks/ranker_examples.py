"""What the ranker learns from: the features of what was found for each question, and what answers it.

A repository's or a set's questions are asked of an index that `benchmarks.repositories` or
`benchmarks.retrieval` built. Each question is one `Example`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from knowledge_pipeline.config.query import CacheSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.types import SearchType
from knowledge_pipeline.evaluation.golden import GoldenAnswer
from knowledge_pipeline.query.knowledge_base import KnowledgeBase
from knowledge_pipeline.query.search import pipeline
from knowledge_pipeline.query.search.features import compute_features, has_path
from knowledge_pipeline.query.search.hits import Hit, IndexedChunk
from knowledge_pipeline.query.search.understand import ParsedQuery

ANSWER = "answer"
MAX_HITS = 80  # of a question, best first: those below rise too rarely to learn from


@dataclass(frozen=True)
class View:
    """One way to judge what was found: each hit shows one place, and some places answer."""

    name: str  # "file" or "symbol"
    places: np.ndarray  # of each hit, a number; shape (hits,)
    gains: np.ndarray  # of each number; shape (places,)
    ideal: float  # discounted gain of the best possible list of ten


@dataclass(frozen=True)
class Example:
    """One question with its hits, in the order of their ids."""

    set: str
    group: str  # a repository, or a set of documents: what is left out at once
    question: str
    features: np.ndarray  # shape (hits, FEATURES)
    files: np.ndarray  # number of each hit's file; those without a path are alone
    views: tuple[View, ...]


Judge = Callable[[IndexedChunk], Mapping[str, str]]
"""View -> the place that a chunk shows."""


def collect_hits(
    settings: Settings,
    questions: Iterable[str],
    type: SearchType,
    filters: Filters = Filters(),  # noqa: B008 - frozen
) -> list[tuple[list[Hit], ParsedQuery]]:
    """The fused hits of each question, before they are ranked."""
    query = settings.query.model_copy(update={"cache": CacheSettings(ttl_minutes=0)})
    collected: list[tuple[list[Hit], ParsedQuery]] = []
    with _record_hits() as recorded, KnowledgeBase(settings.model_copy(update={"query": query})) as knowledge:
        for question in questions:
            knowledge.search(question, type=type, filters=filters)
            collected.append(recorded[-1])
    return collected


@contextmanager
def _record_hits() -> Generator[list[tuple[list[Hit], ParsedQuery]]]:
    """What the search hands to the ranker while the context lasts."""
    recorded: list[tuple[list[Hit], ParsedQuery]] = []
    rank_hits = pipeline.rank_hits

    def record(hits: Sequence[Hit], query: ParsedQuery, *, diverse: bool = True) -> list[Hit]:
        recorded.append((list(hits), query))
        return rank_hits(hits, query, diverse=diverse)

    pipeline.rank_hits = record
    try:
        yield recorded
    finally:
        pipeline.rank_hits = rank_hits


def build_example(
    origin: tuple[str, str],
    hits: Sequence[Hit],
    query: ParsedQuery,
    judge: Judge,
    gains: Mapping[str, Mapping[str, float]],
) -> Example:
    """One question of a set and group; `gains` has, for each view, what each place that answers is worth."""
    hits = sorted(_drop_equal_contents(hits), key=lambda hit: hit.chunk.id)
    shown = [judge(hit.chunk) for hit in hits]
    views = tuple(
        _build_view(name, [each[name] for each in shown], of_view) for name, of_view in gains.items()
    )
    files = [f"{hit.chunk.source}:{hit.chunk.path if has_path(hit.chunk) else hit.chunk.id}" for hit in hits]
    return Example(
        set=origin[0],
        group=origin[1],
        question=query.text,
        features=compute_features(hits, query),
        files=np.unique(files, return_inverse=True)[1],
        views=views,
    )


def _drop_equal_contents(hits: Sequence[Hit]) -> list[Hit]:
    """Of equal contents the result list shows only the first."""
    best: dict[str, Hit] = {}
    for hit in hits:
        best.setdefault(hit.chunk.content_hash, hit)
    return list(best.values())[:MAX_HITS]


def _build_view(name: str, shown: Sequence[str], gains: Mapping[str, float]) -> View:
    places, numbers = np.unique(shown, return_inverse=True)
    ideal = sum(
        gain / np.log2(rank + 1) for rank, gain in enumerate(sorted(gains.values(), reverse=True)[:10], 1)
    )
    return View(name, numbers, np.array([gains.get(str(place), 0.0) for place in places]), float(ideal))


def judge_by_file(paths: Iterable[str]) -> Judge:
    """A chunk shows the answer that its path is, or ends with."""
    answers = sorted(paths)

    def judge(chunk: IndexedChunk) -> Mapping[str, str]:
        found = (path for path in answers if chunk.path == path or chunk.path.endswith(f"/{path}"))
        return {"file": next(found, chunk.path)}

    return judge


def judge_by_symbol(answers: Sequence[GoldenAnswer]) -> Judge:
    """A chunk shows its file, and the answer if it defines one of the symbols."""

    def judge(chunk: IndexedChunk) -> Mapping[str, str]:
        names = {*chunk.symbols, *(symbol.rpartition(".")[2] for symbol in chunk.symbols)}
        is_answer = any(each.path == chunk.path and each.symbol in {None, *names} for each in answers)
        return {"file": chunk.path, "symbol": ANSWER if is_answer else chunk.id}

    return judge
