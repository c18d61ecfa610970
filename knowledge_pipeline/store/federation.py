"""Reads one space's index, and the code graph, of several stores as if all their rows were in one table.

Every store is asked at once. Vectors compare across stores as they are. Scores of words do not, because a
word that is rare in one store may be common in another: so the stores' statistics are added up, each store
searches with the rarities of all, and what it finds is scored again by them (`SharedKeywords`).
"""

from __future__ import annotations

import asyncio
import heapq
import math
import re
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np
import Stemmer
from cachetools import LRUCache

from knowledge_pipeline.store.damage import LANCE_ERRORS
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.fragments import OutlineColumns
from knowledge_pipeline.store.graph import GraphReader, KeyedTable, RowLookup
from knowledge_pipeline.store.matching_rows import ListedValues
from knowledge_pipeline.store.search import (
    TIE_TOLERANCE,
    IndexReader,
    Locations,
    Row,
    ScoredRow,
    ScoredRows,
    SpaceUnreadable,
    count_with_tied,
    keep_tied,
)
from knowledge_pipeline.store.vectors import VectorMemory
from knowledge_pipeline.text_matches import TextMatches, TextPattern, unite_matches
from knowledge_pipeline.words import VOWEL_SIGNS, remove_accents

K1, B = 1.2, 0.75  # of Lance's BM25
MAX_TERM_BYTES = 79  # a longer word is not indexed

_ASCII_WORD = re.compile(r"[^\W_]+")
_WORD = re.compile(rf"(?:[^\W_]|[{VOWEL_SIGNS}])+")


@dataclass(frozen=True)
class TermStatistics:
    """How common some terms are in an index, or in several together, and what BM25 follows from it.

    Lance gives scores, and neither the terms nor the statistics behind them. Here they are computed again, to
    the precision of its floats, so that a score can be had under other statistics.
    """

    rows: int
    mean_terms: float  # of a row
    rows_with: Mapping[str, int]  # term -> how many rows have it

    def rarity(self, term: str) -> float:
        """What one more use of a term counts: its inverse document frequency, above 0."""
        with_term = min(self.rows_with.get(term, 0), self.rows)
        return math.log(1 + (self.rows - with_term + 0.5) / (with_term + 0.5))

    def score(self, question: Iterable[str], words: str) -> float:
        """BM25 of a row's words; a term that the question has twice counts twice.

        Source: Robertson & Zaragoza 2009, section 3.
        """
        counts = Counter(split_terms(words))
        length = counts.total()
        used = (term for term in question if counts[term])
        return math.fsum(self.rarity(term) * self.saturate(counts[term], length) for term in used)

    def saturate(self, count: int, length: int) -> float:
        """What `count` uses of a term count in a row of `length` terms, between 0 and K1 + 1."""
        return count * (K1 + 1) / (count + K1 * (1 - B + B * length / self.mean_terms))


def unite_statistics(several: Sequence[TermStatistics]) -> TermStatistics:
    """The statistics of several indexes as one: exactly those of an index with all their rows."""
    rows = sum(statistics.rows for statistics in several)
    terms = math.fsum(statistics.rows * statistics.mean_terms for statistics in several)
    rows_with: Counter[str] = Counter()
    for statistics in several:
        rows_with.update(statistics.rows_with)
    return TermStatistics(rows, max(terms / max(rows, 1), 1.0), rows_with)


def count_terms(words: Iterable[str], questions: Iterable[str]) -> TermStatistics:
    """Statistics of the terms of some questions over the words of all rows of an index."""
    question_terms = {term for question in questions for term in split_terms(question)}
    rows, terms = 0, 0
    rows_with: Counter[str] = Counter()
    for word in words:
        row_terms = split_terms(word)
        rows, terms = rows + 1, terms + len(row_terms)
        rows_with.update(question_terms.intersection(row_terms))
    return TermStatistics(rows, max(terms / max(rows, 1), 1.0), rows_with)


def split_words(text: str) -> list[str]:
    """The words of a text that full text looks at, in lower case."""
    words = _ASCII_WORD.findall(text.lower()) if text.isascii() else map(str.lower, _WORD.findall(text))
    return [word for word in words if len(word.encode()) <= MAX_TERM_BYTES]


def split_terms(text: str) -> list[str]:
    """The terms that full text finds in words: lower case, by their stems, Latin letters without accents."""
    return list(map(to_term, split_words(text)))


@lru_cache(maxsize=200_000)
def to_term(word: str) -> str:
    """The term of a word in lower case."""
    # A stemmer is made for each word, in 2 us, because threads cannot share one.
    return remove_accents(cast("Any", Stemmer).Stemmer("english", 0).stemWord(word))


MAX_TERMS = 20_000  # kept of one version; about 100 bytes each
_SAMPLE_ROWS = 64  # in which a common term is looked for
_FITTED_ROWS = 256  # whose scores give the mean length


class TermCounts:
    """The statistics of one version of an index, each read when it is first asked for. For threads.

    Lance tells neither how many rows have a term nor how long rows are at the mean. Both follow from its
    scores: those of one term, over how often rows have it and how long they are, lie on a line whose two
    coefficients are the rarity of the term and the mean length. So a statistic costs one search, which finds
    a row or a few, and never a reading of the table.
    """

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
            words_by_term = {to_term(word): word for word in words}
            rows_with = {term: self._count(term, word) for term, word in words_by_term.items()}
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
            odds = math.expm1(rarity)  # (rows - n + 0.5) / (n + 0.5), as `TermStatistics.rarity` has them
            with_term = min(max(1, round((rows + 0.5 - 0.5 * odds) / (odds + 1))), max(rows, 1))
            self._rows_with[term] = with_term if rarity else 0
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

        scanner = self._dataset.scanner(
            ["words", "_score"],
            full_text_query=MatchQuery(word, "words"),
            limit=limit,
            disable_scoring_autoprojection=True,
        )
        return scanner.to_table().to_pylist()


MAX_WEIGHTED_WORDS = 32  # each is a search of its own: 200 take 15 times as long as one search for all
DEEPER = 4  # how many times as many rows are asked for
MAX_DEPTH = 16  # times the limit


class SharedKeywords:
    """Full text over several indexes with the statistics of all. Threads may share it.

    Given weights, an index searches with the rarities of all, and differs only by its own mean length of
    rows; so what it finds is scored again, exactly. A row that it did not give can score at most what its
    last one does, times how far the two means are apart: where that reaches the last of the results, the
    index is asked for more rows.
    """

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
    _unseen: dict[int, float] = field(default_factory=dict[int, float])  # the most a row not given scores

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
        own, rows_with = self._own[at], self._own[at].rows_with
        words = [word for word in self._words if rows_with.get(to_term(word))]
        weights = [self._of_all.rarity(to_term(word)) / own.rarity(to_term(word)) for word in words]
        is_weighted = len(words) <= MAX_WEIGHTED_WORDS
        used_weights = weights if is_weighted else None
        rows = _scan(self._datasets[at], words, used_weights, where, depth) if words else []
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
    scanner: Any = dataset.scanner(
        ["words", "_score", "_rowid"],
        filter=where.sql,
        prefilter=True,
        with_row_id=True,
        full_text_query=query,
        limit=limit,
        disable_scoring_autoprojection=True,
    )
    return scanner.to_table().to_pylist()


_MEMBER_BITS = 56  # of a row id; what is above says which store
_ROW_MASK = (1 << _MEMBER_BITS) - 1

ResultT = TypeVar("ResultT")


class StoreUnreadable(SpaceUnreadable):
    """One store of several cannot be read; the others may be."""

    def __init__(self, message: str, space: str, store: str = "", *, is_late: bool = False) -> None:
        super().__init__(message, space)
        self.store = store
        self.is_late = is_late  # whether it did not answer in time

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.space), {"store": self.store, "is_late": self.is_late}


@dataclass(frozen=True, slots=True)
class FederatedReader(IndexReader):
    """The indexes of one space of several stores, each at its version.

    A row id has the position of its store above the id that the row has there.
    """

    stores: tuple[str, ...]  # their names
    members: tuple[IndexReader, ...]  # one of each
    timeout_s: float  # of each step, for each store
    keywords: SharedKeywords

    @classmethod
    def unite(cls, members: Mapping[str, IndexReader], *, timeout_s: float) -> FederatedReader:
        """The readers of one space as one, by the names of their stores."""
        stores, readers = tuple(members), tuple(members.values())
        files = {
            at << (_MEMBER_BITS - 32) | fragment: name
            for at, reader in enumerate(readers)
            for fragment, name in reader.files.items()
        }
        first = readers[0]
        nothing = VectorMemory(None, first.dimensions, max_bytes=0)  # each member has its own, and values
        keywords = SharedKeywords([reader.dataset for reader in readers])
        return cls(
            space=first.space,
            version=0,
            dimensions=first.dimensions,
            dataset=None,
            is_local=first.is_local,
            files=files,
            memory=nothing,
            listed=ListedValues(None),
            locations=Locations({}),  # each member fills its own rows
            stores=stores,
            members=readers,
            timeout_s=timeout_s,
            keywords=keywords,
        )

    async def is_readable(self) -> bool:
        """Whether any row of each store can be read."""
        return all(await asyncio.gather(*(member.is_readable() for member in self.members)))

    async def prewarm(self) -> None:
        """See `IndexReader.prewarm`."""
        await asyncio.gather(*(member.prewarm() for member in self.members))

    async def search_vector(self, vector: np.ndarray, where: Filter, *, limit: int) -> ScoredRows:
        """The nearest rows of all stores."""
        results = await self._ask(lambda at: self.members[at].search_vector(vector, where, limit=limit))
        return _keep_best(results, limit)

    async def search_text(self, words: str, where: Filter, *, limit: int) -> ScoredRows:
        """Rows by BM25 with the statistics of all stores."""
        if len(self.members) == 1:
            return await self.members[0].search_text(words, where, limit=limit)
        count, own = self.keywords.count, [member.locations.resolve(where) for member in self.members]
        statistics = await self._ask(lambda at: asyncio.to_thread(count, at, words))
        search = self.keywords.start_search(words, statistics, limit=limit)
        while due := search.list_due():
            await self._ask(lambda at: asyncio.to_thread(search.find, at, own[at]), due)
        return keep_tied(_keep_best(search.found, count_with_tied(limit)), limit)

    async def search_similar_stem(
        self, stem: str, where: Filter, *, limit: int, max_edits: int
    ) -> ScoredRows:
        """See `IndexReader.search_similar_stem`."""
        results = await self._ask(
            lambda at: self.members[at].search_similar_stem(stem, where, limit=limit, max_edits=max_edits)
        )
        return _keep_best(results, limit)

    async def take_rows(self, rows: Collection[int], columns: Sequence[str]) -> Mapping[int, Row]:
        """See `IndexReader.take_rows`."""
        return await self._take_from_stores(rows, lambda at, own: self.members[at].take_rows(own, columns))

    def count_file_rows(self, fragment: int) -> int:
        """See `IndexReader.count_file_rows`."""
        at, own = divmod(fragment, 1 << (_MEMBER_BITS - 32))
        return self.members[at].count_file_rows(own)

    async def read_outline_columns(self, fragment: int) -> OutlineColumns:
        """See `IndexReader.read_outline_columns`."""
        at, own = divmod(fragment, 1 << (_MEMBER_BITS - 32))
        (columns,) = await self._ask(lambda at: self.members[at].read_outline_columns(own), [at])
        return columns

    async def take_vectors(self, rows: Collection[int]) -> Mapping[int, np.ndarray]:
        """See `IndexReader.take_vectors`."""

        async def take(at: int, own: Collection[int]) -> Mapping[int, np.ndarray]:
            vectors = self.members[at].memory.loaded
            return vectors.take(own) if vectors else await self.members[at].take_vectors(own)

        return await self._take_from_stores(rows, take)

    async def find_rows(self, where: Filter, *, limit: int, columns: Sequence[str]) -> Sequence[Row]:
        """Rows that match, in no particular order."""
        results = await self._ask(lambda at: self.members[at].find_rows(where, limit=limit, columns=columns))
        return list(chain.from_iterable(results))[:limit]

    async def find_text(self, pattern: TextPattern, where: Filter, *, limit: int) -> TextMatches:
        """See `IndexReader.find_text`."""
        several = await self._ask(lambda at: self.members[at].find_text(pattern, where, limit=limit))
        return unite_matches((it.add_to_ids(at << _MEMBER_BITS) for at, it in enumerate(several)), limit)

    async def find_rows_listing(
        self, column: str, values: Collection[str], where: Filter, *, limit: int, columns: Sequence[str]
    ) -> Sequence[Row]:
        """See `IndexReader.find_rows_listing`."""
        results = await self._ask(
            lambda at: self.members[at].find_rows_listing(column, values, where, limit=limit, columns=columns)
        )
        return list(chain.from_iterable(results))[:limit]

    async def list_values(self, column: str, where: Filter) -> Sequence[str]:
        """See `IndexReader.list_values`."""
        results = await self._ask(lambda at: self.members[at].list_values(column, where))
        return sorted(set(chain.from_iterable(results)))

    async def count_rows(self, where: Filter) -> int:
        """How many rows match."""
        return sum(await self._ask(lambda at: self.members[at].count_rows(where)))

    async def count_by(self, columns: Sequence[str], where: Filter) -> Counter[tuple[Any, ...]]:
        """See `IndexReader.count_by`."""
        counts = await self._ask(lambda at: self.members[at].count_by(columns, where))
        return sum(counts, Counter[tuple[Any, ...]]())

    async def _ask(
        self, ask: Callable[[int], Awaitable[ResultT]], positions: Sequence[int] | None = None
    ) -> list[ResultT]:
        """The results of some stores, by default of all, which are asked at once.

        Raises `StoreUnreadable`: one cannot be read, or does not answer in time.
        """

        async def ask_one(at: int) -> ResultT:
            is_late = False
            try:
                async with asyncio.timeout(self.timeout_s):
                    return await ask(at)
            except TimeoutError:
                is_late, reason = True, f"it did not answer within {self.timeout_s:g} s"
            except SpaceUnreadable as error:
                reason = str(error)
            except LANCE_ERRORS as error:
                reason = f"its index {self.space!r} cannot be read ({type(error).__name__})"
            raise StoreUnreadable(reason, self.space, self.stores[at], is_late=is_late)

        targets = range(len(self.members)) if positions is None else positions
        return await asyncio.gather(*map(ask_one, targets))

    async def _take_from_stores(
        self,
        rows: Collection[int],
        take: Callable[[int, Collection[int]], Awaitable[Mapping[int, ResultT]]],
    ) -> Mapping[int, ResultT]:
        """What each store has of its own rows, by our row ids, in the order of `rows`."""
        own: dict[int, list[int]] = {}
        for row in rows:
            own.setdefault(row >> _MEMBER_BITS, []).append(row & _ROW_MASK)
        positions = list(own)
        results = await self._ask(lambda at: take(at, own[at]), positions)
        values_by_row = {
            at << _MEMBER_BITS | row: value
            for at, values in zip(positions, results, strict=True)
            for row, value in values.items()
        }
        return {row: values_by_row[row] for row in rows if row in values_by_row}


def _keep_best(results: Sequence[Sequence[ScoredRow]], limit: int) -> ScoredRows:
    """The best rows of all stores, best first, by our row ids."""
    rows = (
        ScoredRow(at << _MEMBER_BITS | row.row_id, row.score)
        for at, of_store in enumerate(results)
        for row in of_store
    )
    return ScoredRows.of(heapq.nsmallest(limit, rows, key=lambda row: (-row.score, row.row_id)))


@dataclass(slots=True)
class FederatedGraphReader(GraphReader):
    """The code graphs of several stores: a name that one store exports is found from the others."""

    members: Sequence[GraphReader] = field(default_factory=tuple[GraphReader, ...])

    @classmethod
    def unite(cls, members: Mapping[str, GraphReader]) -> FederatedGraphReader:
        """The readers of several stores, by their names, as one."""
        versions = {
            f"{store}/{table}": version
            for store, reader in members.items()
            for table, version in reader.versions.items()
        }
        nothing = KeyedTable(None, (), ())  # each member has its own
        return cls(versions, None, None, nothing, nothing, Locations({}), members=tuple(members.values()))

    async def find_symbols(self, where: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """See `GraphReader.find_symbols`."""
        reads = (member.find_symbols(where, limit=limit, columns=columns) for member in self.members)
        return await _concatenate(reads, limit)

    async def find_edges(self, where: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """See `GraphReader.find_edges`."""
        reads = (member.find_edges(where, limit=limit, columns=columns) for member in self.members)
        return await _concatenate(reads, limit)

    async def look_up_symbols(
        self, lookup: RowLookup, visible: Filter, *, limit: int, columns: Sequence[str]
    ) -> list[Row]:
        """See `GraphReader.look_up_symbols`."""
        look_ups = [member.look_up_symbols for member in self.members]
        reads = (look_up(lookup, visible, limit=limit, columns=columns) for look_up in look_ups)
        return await _concatenate(reads, limit)

    async def look_up_edges(
        self, lookup: RowLookup, visible: Filter, *, limit: int, columns: Sequence[str]
    ) -> list[Row]:
        """See `GraphReader.look_up_edges`."""
        look_ups = [member.look_up_edges for member in self.members]
        reads = (look_up(lookup, visible, limit=limit, columns=columns) for look_up in look_ups)
        return await _concatenate(reads, limit)

    async def _read_several(self, where: Filter) -> bool:
        """Two of one store, or one each of two stores."""
        firsts = [member.find_symbols(where, limit=1, columns=("source",)) for member in self.members]
        if len({row["source"] for rows in await asyncio.gather(*firsts) for row in rows}) > 1:
            return True
        return any(await asyncio.gather(*(member.has_several_sources(where) for member in self.members)))


async def _concatenate(reads: Iterable[Awaitable[list[Row]]], limit: int) -> list[Row]:
    return list(chain.from_iterable(await asyncio.gather(*reads)))[:limit]
