"""How common terms are in an index, read from the scores that it gives.

Lance knows for each term how many rows have it, and how long rows are at the mean, and tells neither. Both
follow from its scores: those of one term, over how often rows have it and how long they are, lie on a line
whose two coefficients are the rarity of the term and the mean length. So a statistic costs one search, which
finds a row or a few, and never a reading of the table.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from cachetools import LRUCache

from knowledge_pipeline.store.index.bm25 import K1, B, TermStatistics, count_terms, split_terms, to_term

MAX_TERMS = 20_000  # kept of one version; about 100 bytes each
_SAMPLE_ROWS = 64  # in which a common term is looked for
_FITTED_ROWS = 256  # whose scores give the mean length


class TermCounts:
    """The statistics of one version of an index, each read when it is first asked for. For threads."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._rows_with: LRUCache[str, int] = LRUCache(MAX_TERMS)
        self._size: tuple[int, float] | None = None  # rows, and the mean number of their terms
        self._lock = threading.Lock()

    def read(self, words: Iterable[str]) -> TermStatistics:
        """The statistics of the terms of some words, which are in lower case."""
        with self._lock:
            if self._size is None:
                self._size = self._measure()
            rows, mean_terms = self._size
            found = {to_term(word): word for word in words}
            rows_with = {term: self._count(term, word) for term, word in found.items()}
        return TermStatistics(rows, mean_terms, rows_with)

    def _count(self, term: str, word: str) -> int:
        """How many rows have a term, by what its best row scores."""
        if term not in self._rows_with:
            assert self._size is not None
            rows, mean_terms = self._size
            best = self._search(word, limit=1)
            uses = Counter(split_terms(best[0]["words"])) if best else Counter[str]()
            rarity = 0.0
            if uses[term]:
                plain = TermStatistics(rows, mean_terms, {})
                rarity = best[0]["_score"] / plain.saturate(uses[term], uses.total())
            self._rows_with[term] = _invert_rarity(rarity, rows) if rarity else 0
        return self._rows_with[term]

    def _measure(self) -> tuple[int, float]:
        stats: Mapping[str, Any] = self._dataset.stats.index_stats("words_idx")
        rows = sum(segment["num_docs"] for segment in stats["indices"])
        sample = self._dataset.to_table(columns=["words"], limit=_SAMPLE_ROWS)["words"].to_pylist()
        commonness = Counter(word for words in sample for word in set(split_terms(words)))
        for term, _ in commonness.most_common(3):
            if mean_terms := self._fit_mean_terms(term):
                return rows, mean_terms
        every = self._dataset.to_table(columns=["words"])["words"].to_pylist()  # few, or all alike
        return rows, count_terms(every, ()).mean_terms

    def _fit_mean_terms(self, term: str) -> float | None:
        """The mean number of terms, by the scores of one; None where they do not tell."""
        points: list[tuple[float, float, float]] = []
        for row in self._search(term, limit=_FITTED_ROWS):
            uses = Counter(split_terms(row["words"]))
            if uses[term]:
                points.append((uses[term] + K1 * (1 - B), K1 * B * uses.total(), uses[term] / row["_score"]))
        if len(points) < 3:
            return None
        values = np.array(points)
        (per_use, per_term), _, rank, _ = np.linalg.lstsq(values[:, :2], values[:, 2], rcond=1e-6)
        fitted = values[:, :2] @ (per_use, per_term)
        is_exact = np.allclose(fitted, values[:, 2], rtol=1e-5, atol=0)
        return float(per_use / per_term) if rank == 2 and per_term > 0 and is_exact else None

    def _search(self, word: str, *, limit: int) -> list[dict[str, Any]]:
        from lance.query import MatchQuery

        found = self._dataset.scanner(
            ["words", "_score"],
            full_text_query=MatchQuery(word, "words"),
            limit=limit,
            disable_scoring_autoprojection=True,
        )
        return found.to_table().to_pylist()


def _invert_rarity(rarity: float, rows: int) -> int:
    """How many rows have a term of such a rarity; see `TermStatistics.rarity`."""
    odds = math.expm1(rarity)  # (rows - n + 0.5) / (n + 0.5)
    return min(max(1, round((rows + 0.5 - 0.5 * odds) / (odds + 1))), max(rows, 1))
