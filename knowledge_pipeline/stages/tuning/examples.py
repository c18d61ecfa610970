"""What the ranker learns from: the features of what was found for each question, and what answers it.

Each question is one `Example`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knowledge_pipeline.evaluation.golden import GoldenAnswer
from knowledge_pipeline.query.search.features import compute_features
from knowledge_pipeline.query.search.hits import Hit, IndexedChunk, to_outlines
from knowledge_pipeline.query.search.text_features import TEXT_FEATURES
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
    features: np.ndarray  # shape (hits, FEATURES and TEXT_FEATURES)
    files: np.ndarray  # number of each hit's document
    views: tuple[View, ...]


Judge = Callable[[IndexedChunk], Mapping[str, str]]
"""View -> the place that a chunk shows."""


def build_example(
    origin: tuple[str, str],
    hits: Sequence[Hit[IndexedChunk]],
    query: ParsedQuery,
    judge: Judge,
    gains: Mapping[str, Mapping[str, float]],
) -> Example:
    """One question of a set and group; `gains` has, for each view, what each place that answers is worth.

    The features of texts are 0, because the question was taken out of the text that answers.
    """
    hits = sorted(_drop_equal_contents(hits), key=lambda hit: hit.chunk.id)
    chunks, fused = [hit.chunk for hit in hits], np.array([hit.explanation.fused for hit in hits])
    shown = list(map(judge, chunks))
    views = tuple(
        _build_view(name, [each[name] for each in shown], of_view) for name, of_view in gains.items()
    )
    similarities = np.array([hit.explanation.vector_score for hit in hits], np.float64)
    features = compute_features(to_outlines(chunks), fused, similarities, query)
    texts = np.zeros((len(chunks), len(TEXT_FEATURES)))
    files = [f"{chunk.source}:{chunk.path}" for chunk in chunks]
    return Example(
        set=origin[0],
        group=origin[1],
        question=query.text,
        features=np.hstack([features, texts]),
        files=np.unique(files, return_inverse=True)[1],
        views=views,
    )


def _drop_equal_contents(hits: Sequence[Hit[IndexedChunk]]) -> list[Hit[IndexedChunk]]:
    """Of equal contents the result list shows only the first."""
    best: dict[str, Hit[IndexedChunk]] = {}
    for hit in hits:
        best.setdefault(hit.chunk.content_hash, hit)
    return list(best.values())[:MAX_HITS]


def _build_view(name: str, shown: Sequence[str], gains: Mapping[str, float]) -> View:
    places, numbers = np.unique(shown, return_inverse=True)
    ideal = sum(
        gain / np.log2(rank + 1) for rank, gain in enumerate(sorted(gains.values(), reverse=True)[:10], 1)
    )
    return View(name, numbers, np.array([gains.get(str(place), 0.0) for place in places]), float(ideal))


def judge_by_symbol(answers: Sequence[GoldenAnswer]) -> Judge:
    """A chunk shows its file, and the answer if it defines one of the symbols.

    An answer's path is within its source, or "source:uri".
    """
    paths = {answer.path for answer in answers}

    def judge(chunk: IndexedChunk) -> Mapping[str, str]:
        names = {*chunk.symbols, *(symbol.rpartition(".")[2] for symbol in chunk.symbols)}
        path = chunk.path if chunk.path in paths else f"{chunk.source}:{chunk.uri}"
        is_answer = any(each.path == path and each.symbol in {None, *names} for each in answers)
        return {"file": path, "symbol": ANSWER if is_answer else chunk.id}

    return judge
