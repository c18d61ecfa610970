"""Full-text search over several indexes with the statistics of all: BM25 as of one index with their rows.

An index searches with its own rarities of words. Given weights, it searches with those of all, and differs
only by its own mean length of rows; so what it finds is scored again, exactly. A row that it did not give can
score at most what its last one does, times how far the two means are apart: where that reaches the last of
the results, the index is asked for more rows.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.index.bm25 import TermStatistics, split_words, to_term, unite_statistics
from knowledge_pipeline.store.index.term_statistics import TermCounts
from knowledge_pipeline.store.readers import TIE_TOLERANCE, ScoredRow, count_with_tied

MAX_WEIGHTED_WORDS = 32  # each is a search of its own: 200 take 15 times as long as one search for all
DEEPER = 4  # how many times as many rows are asked for
MAX_DEPTH = 16  # times the limit


class SharedKeywords:
    """The words of several indexes, by their positions. Threads may share it."""

    def __init__(self, datasets: Sequence[Any]) -> None:
        self._datasets = datasets
        self._counts = tuple(TermCounts(dataset) for dataset in datasets)

    def count(self, at: int, words: str) -> TermStatistics:
        """How common the words of a question are in one index."""
        return self._counts[at].read(split_words(words))

    def start_search(self, words: str, own: Sequence[TermStatistics], *, limit: int) -> KeywordSearch:
        """A search of all indexes, by the statistics of each."""
        return KeywordSearch(
            self._datasets, split_words(words), own, unite_statistics(own), limit, [0] * len(own)
        )


@dataclass(slots=True)
class KeywordSearch:
    """One question to all indexes, as often as each has to be asked."""

    _datasets: Sequence[Any]
    _words: Sequence[str]
    _own: Sequence[TermStatistics]
    _of_all: TermStatistics
    _limit: int
    _depths: list[int]  # rows that each index was asked for
    _found: dict[int, Sequence[ScoredRow]] = field(default_factory=dict[int, Sequence[ScoredRow]])
    _unseen: dict[int, float] = field(
        default_factory=dict[int, float]
    )  # the most that a row not given scores

    @property
    def found(self) -> list[Sequence[ScoredRow]]:
        """What each index gave, best first, scored by the statistics of all."""
        return [self._found[at] for at in range(len(self._own))]

    def list_due(self) -> list[int]:
        """The indexes to ask next: all, then those that may have rows as good as the last result."""
        if not self._found:
            return list(range(len(self._own)))
        best = heapq.nlargest(self._limit, (row.score for rows in self._found.values() for row in rows))
        floor = best[-1] * (1 - TIE_TOLERANCE) if len(best) == self._limit else 0.0
        deepest = count_with_tied(self._limit) * MAX_DEPTH
        return [at for at, most in self._unseen.items() if most > floor and self._depths[at] < deepest]

    def find(self, at: int, where: Filter) -> None:
        """Ask one index, for more rows than before."""
        self._depths[at] = depth = self._depths[at] * DEEPER or count_with_tied(self._limit)
        own, known = self._own[at], self._own[at].rows_with
        words = [word for word in self._words if known.get(to_term(word))]
        weights = [self._of_all.rarity(to_term(word)) / own.rarity(to_term(word)) for word in words]
        is_weighted = len(words) <= MAX_WEIGHTED_WORDS
        rows = (
            _scan(self._datasets[at], words, weights if is_weighted else None, where, depth) if words else []
        )
        terms = [to_term(word) for word in words]
        scored = [ScoredRow(row["_rowid"], self._of_all.score(terms, row["words"])) for row in rows]
        self._found[at] = sorted(scored, key=lambda row: -row.score)
        excess = max(1.0, self._of_all.mean_terms / own.mean_terms) * (1.0 if is_weighted else max(weights))
        self._unseen[at] = rows[-1]["_score"] * excess if len(rows) == depth else 0.0


def _scan(
    dataset: Any, words: Sequence[str], weights: Sequence[float] | None, where: Filter, limit: int
) -> list[dict[str, Any]]:
    """Rows that match, best first, by the index's own statistics and the weights."""
    from lance.query import BooleanQuery, MatchQuery, Occur

    if weights is None:
        query: Any = MatchQuery(" ".join(words), "words")
    else:
        pairs = zip(words, weights, strict=True)
        query = BooleanQuery([(Occur.SHOULD, MatchQuery(word, "words", boost=w)) for word, w in pairs])
    found: Any = dataset.scanner(
        ["words", "_score", "_rowid"],
        filter=where.sql,
        prefilter=True,
        with_row_id=True,
        full_text_query=query,
        limit=limit,
        disable_scoring_autoprojection=True,
    )
    return found.to_table().to_pylist()
