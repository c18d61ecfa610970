"""From a question to its answer: seek, follow, rerank, assemble, and what goes beside the results."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from knowledge_pipeline import identifiers
from knowledge_pipeline.config.settings import QuerySettings
from knowledge_pipeline.contract.responses import SearchResponse, SearchResult
from knowledge_pipeline.query.filters import replace_invalid_characters
from knowledge_pipeline.query.open_release import OpenRelease
from knowledge_pipeline.query.search.assemble import assemble
from knowledge_pipeline.query.search.enrichment import (
    Enrichment,
    GraphUnavailable,
    enrich_results,
    open_visible_graph,
)
from knowledge_pipeline.query.search.explain import explain_expansion, explain_missing_vectors
from knowledge_pipeline.query.search.graph_boost import boost_linked_hits
from knowledge_pipeline.query.search.hits import Hit, IndexedChunk
from knowledge_pipeline.query.search.llm_rerank import LLMReranker
from knowledge_pipeline.query.search.query_expansion import QueryExpander, QueryExpansion, expand_query
from knowledge_pipeline.query.search.query_vectors import QueryEmbedder, compute_mean_vector
from knowledge_pipeline.query.search.request import SearchRequest, build_answer
from knowledge_pipeline.query.search.rerank import Reranker
from knowledge_pipeline.query.search.retrieve import EmbedQuery
from knowledge_pipeline.query.search.text_search import (
    RetrievalResult,
    SearchScope,
    SearchText,
    TextSearcher,
    merge_hits,
)
from knowledge_pipeline.query.search.understand import parse_plain_text
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.store.readers import IndexReader, SpaceUnreadable

MIN_CANDIDATES = 100  # by each search of each space, at least: fusion sees more than it hands on


class SearchPipeline:
    """The steps between a question that is understood and its answer, as the settings have them."""

    def __init__(
        self,
        settings: QuerySettings,
        embedder: QueryEmbedder,
        reranker: Reranker | LLMReranker,
        generator: QueryExpander | None,
    ) -> None:
        self._settings, self._vectors = settings, embedder
        self._reranker, self._generator = reranker, generator
        self._seeker = TextSearcher(settings, embedder.unrelated_similarity)

    async def search(
        self, request: SearchRequest, open_release: OpenRelease, watch: Stopwatch
    ) -> SearchResponse:
        """The passages that answer a question, and what the settings ask for beside it."""
        made = await self._expand_query(request, watch)
        return await self._run(
            request, open_release, self._build_search_texts(request, made, watch), watch, made
        )

    async def search_similar(
        self,
        request: SearchRequest,
        open_release: OpenRelease,
        watch: Stopwatch,
        *,
        known_vectors: Mapping[str, np.ndarray],
    ) -> SearchResponse:
        """The passages that are like an example, whose vectors by space may be known."""
        text = request.query.text
        sought = SearchText(
            request.query, request.keywords, self._build_embed_query(text, watch, known_vectors=known_vectors)
        )
        return await self._run(request, open_release, [sought], watch, QueryExpansion())

    async def _expand_query(self, request: SearchRequest, watch: Stopwatch) -> QueryExpansion:
        """What goes with the question, where the settings ask for any of it."""
        if request.profile.is_example or not self._settings.rewrites_queries:
            return QueryExpansion()
        with watch.step("prepare"):
            form = "code" if request.type == "code" else "prose"
            return await expand_query(request.query.text, self._settings, self._generator, form=form)

    def _build_search_texts(
        self, request: SearchRequest, expansion: QueryExpansion, watch: Stopwatch
    ) -> list[SearchText]:
        """The question as a whole, then its parts."""
        question = request.query
        words = " ".join((request.keywords, *map(identifiers.expand_identifiers, expansion.terms)))
        whole = SearchText(
            question,
            words,
            self._build_embed_query(question.text, watch, hypothetical=expansion.hypothetical_passage),
        )
        texts = [
            part
            for part in expansion.parts
            if part != question.text and replace_invalid_characters(part).strip()
        ]
        parts = [parse_plain_text(text) for text in texts]
        return [
            whole,
            *(SearchText(part, part.words, self._build_embed_query(part.text, watch)) for part in parts),
        ]

    async def _run(
        self,
        request: SearchRequest,
        open_release: OpenRelease,
        search_texts: Sequence[SearchText],
        watch: Stopwatch,
        expansion: QueryExpansion,
    ) -> SearchResponse:
        caught, lost = await self._retrieve(request, open_release, search_texts, watch)
        hits = merge_hits(each.hits for each in caught)
        reasons: dict[str, Any] = {**lost, **explain_missing_vectors(caught), **expansion.problems}
        hits, without_graph = await self._boost_linked(request, open_release, hits, watch)
        reasons |= {"graph": without_graph} if without_graph else {}
        if self._reranker.is_enabled_for(request.type):
            with watch.step("rerank"):
                reranked = await self._reranker.rerank(request.query.text, hits[: request.rerank_limit])
            hits = reranked.hits
            reasons |= {"rerank": reranked.skip_reason} if reranked.skip_reason else {}
        with watch.step("assemble"):
            near_once = request.profile.drop_near_duplicates and not request.include_near_duplicates
            results = assemble(
                hits,
                limit=request.limit,
                explain=request.query_explanation is not None,
                drop_near_duplicates=near_once,
            )
        shown = await self._enrich(open_release, request, [hit.chunk for hit in hits], results, watch)
        reasons |= {"graph": shown.graph_problem} if shown.graph_problem else {}
        explained = request.query_explanation
        if explained is not None:
            explained = {**explained, **explain_expansion(expansion, caught), "degraded": reasons}
        return build_answer(open_release, shown.results, watch, degraded=tuple(reasons), explain=explained)

    async def _retrieve(
        self,
        request: SearchRequest,
        open_release: OpenRelease,
        search_texts: Sequence[SearchText],
        watch: Stopwatch,
    ) -> tuple[Sequence[RetrievalResult], Mapping[str, Any]]:
        """What was found, and as `index` the spaces that could not be read."""
        while True:
            readers, lost = await open_release.open_readable_readers()
            ground = SearchScope(readers, request.condition, max(MIN_CANDIDATES, request.rerank_limit))
            seeking = (self._seeker.search(each, ground, request.profile, watch) for each in search_texts)
            try:
                caught = await asyncio.gather(*seeking)
            except SpaceUnreadable as error:
                await open_release.mark_unreadable(error)  # the others are asked again, while there are any
                continue
            return caught, {"index": {space: str(error) for space, error in lost.items()}} if lost else {}

    async def _boost_linked(
        self, request: SearchRequest, open_release: OpenRelease, hits: list[Hit], watch: Stopwatch
    ) -> tuple[list[Hit], str | None]:
        """Hits of which linked ones are favoured, where the settings ask for it; or why they are not."""
        weight = self._settings.graph.expand if request.profile.boost_linked else 0.0
        if not weight or not hits:
            return hits, None
        with watch.step("follow"):
            try:
                return await boost_linked_hits(
                    await open_visible_graph(open_release, request.access), hits, weight=weight
                ), None
            except GraphUnavailable as reason:
                return hits, str(reason)

    async def _enrich(
        self,
        open_release: OpenRelease,
        request: SearchRequest,
        chunks: Sequence[IndexedChunk],
        results: tuple[SearchResult, ...],
        watch: Stopwatch,
    ) -> Enrichment:
        enrich = self._settings.graph.enrich and request.profile.enrich
        return await enrich_results(
            open_release,
            request.access,
            chunks,
            results,
            watch,
            max_relations=self._settings.related,
            enrich=enrich,
        )

    def _build_embed_query(
        self,
        text: str,
        watch: Stopwatch,
        *,
        hypothetical: str = "",
        known_vectors: Mapping[str, np.ndarray] | None = None,
    ) -> EmbedQuery:
        """A text's vector in each space, unless it is known already; with another, the mean of both."""

        async def embed_query(reader: IndexReader) -> np.ndarray:
            if known_vectors and reader.space in known_vectors:
                return known_vectors[reader.space]
            place = {"space": reader.space, "dimensions": reader.dimensions}
            texts = [text, hypothetical] if hypothetical else [text]
            with watch.substep("embed"):
                vectors = await asyncio.gather(*(self._vectors.embed(each, **place) for each in texts))
            return compute_mean_vector(vectors)

        return embed_query
