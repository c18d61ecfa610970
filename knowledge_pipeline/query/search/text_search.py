"""One text on its way through the searches: retrieve, fuse, and look again where that is configured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from knowledge_pipeline.config.settings import QuerySettings
from knowledge_pipeline.query.search.corpus_expansion import find_related_names
from knowledge_pipeline.query.search.fuse import fuse
from knowledge_pipeline.query.search.hits import Hit
from knowledge_pipeline.query.search.profiles import SearchProfile
from knowledge_pipeline.query.search.recency import boost_recent
from knowledge_pipeline.query.search.relevance_feedback import apply_relevance_feedback
from knowledge_pipeline.query.search.retrieve import (
    EmbedQuery,
    RetrievedCandidates,
    replace_keyword_matches,
    retrieve,
)
from knowledge_pipeline.query.search.understand import ParsedQuery
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import IndexReader

MAX_CONCURRENT = 16  # texts in the store: more of them only wait for each other


@dataclass(frozen=True, slots=True)
class SearchText:
    """One text that is searched for; a question may be several."""

    query: ParsedQuery
    keywords: str  # that full text is asked for
    embed_query: EmbedQuery


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Where is searched."""

    readers: Sequence[IndexReader]
    condition: Filter
    limit: int  # candidates of each search of each space


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """What one text found."""

    hits: Sequence[Hit]  # best first
    retrieved: RetrievedCandidates
    expansion_names: tuple[str, ...] = ()  # of the corpus, that full text was asked for as well


class TextSearcher:
    """Searches for texts as the settings say. For one event loop.

    `unrelated` tells what a space's model gives texts that have nothing in common.
    """

    def __init__(self, settings: QuerySettings, unrelated_similarity: Callable[[str], float]) -> None:
        self._settings = settings
        self._unrelated = unrelated_similarity  # by name of a space
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def search(
        self, search_text: SearchText, scope: SearchScope, profile: SearchProfile, watch: Stopwatch
    ) -> RetrievalResult:
        """What is relevant, best first."""
        with watch.step("retrieve"):
            async with self._slots:
                retrieved = await retrieve(
                    scope.readers,
                    search_text.keywords,
                    search_text.embed_query,
                    scope.condition,
                    limit=scope.limit,
                )
        with watch.step("fuse"):
            caught = self._fuse(search_text, retrieved)
        if not profile.is_example:
            caught = await self._search_again(search_text, caught, scope, watch)
        return RetrievalResult(
            self._filter_relevant(caught.hits, profile), caught.retrieved, caught.expansion_names
        )

    async def _search_again(
        self, search_text: SearchText, result: RetrievalResult, scope: SearchScope, watch: Stopwatch
    ) -> RetrievalResult:
        """After the second looks that are configured."""
        if self._settings.expansion == "corpus" and (
            names := find_related_names(search_text.query, result.hits)
        ):
            with watch.step("expand"):
                words = " ".join((search_text.keywords, *(name.replace("_", "") for name in names)))
                async with self._slots:
                    retrieved = await replace_keyword_matches(
                        scope.readers, result.retrieved, words, scope.condition, limit=scope.limit
                    )
                result = self._fuse(search_text, retrieved, names)
        if share := self._settings.feedback:
            with watch.step("refine"):
                where, limit = scope.condition, scope.limit
                async with self._slots:
                    retrieved = await apply_relevance_feedback(
                        scope.readers, result.retrieved, result.hits, where, share=share, limit=limit
                    )
                result = self._fuse(search_text, retrieved, result.expansion_names)
        return result

    def _fuse(
        self, search_text: SearchText, retrieved: RetrievedCandidates, names: tuple[str, ...] = ()
    ) -> RetrievalResult:
        method, weight = self._settings.fusion, self._settings.vector_weight
        scaled = [
            replace(each, unrelated_similarity=self._unrelated(each.space)) for each in retrieved.candidates
        ]
        hits = fuse(scaled, search_text.query, method=method, vector_weight=weight)
        return RetrievalResult(hits, retrieved, names)

    def _filter_relevant(self, hits: Sequence[Hit], profile: SearchProfile) -> Sequence[Hit]:
        """Hits from the floor on, the recent ones favoured where the profile says so.

        Only `following` gives scores that mean the same for every question. What another hit is
        boosted by takes nothing from a hit here, so the score before boosts counts as well.
        """
        floor = max(profile.floor, self._settings.floor) if self._settings.fusion == "following" else 0.0
        relevant = [hit for hit in hits if max(hit.score, hit.explanation.fused) >= floor]
        return boost_recent(relevant, profile.recency_boost) if profile.recency_boost else relevant


def merge_hits(hit_lists: Iterable[Sequence[Hit]]) -> list[Hit]:
    """Several lists as one, best first; a passage of several counts once, by its best score."""
    best: dict[str, Hit] = {}
    for hit in (hit for hits in hit_lists for hit in hits):
        known = best.get(hit.chunk.id)
        if known is None or hit.score > known.score:
            best[hit.chunk.id] = hit
    return sorted(best.values(), key=lambda hit: (-hit.score, hit.chunk.id))
