"""From a question to its answer: seek, follow, rerank, assemble, and what goes beside the results."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from knowledge_pipeline import identifiers
from knowledge_pipeline.config.settings import QuerySettings
from knowledge_pipeline.query.filters import clean
from knowledge_pipeline.query.open_release import Opened
from knowledge_pipeline.query.search.assemble import Answer, Result, assemble
from knowledge_pipeline.query.search.enrichment import Beside, NoGraph, beside, graph_of
from knowledge_pipeline.query.search.explain import searched_beside, without_vector
from knowledge_pipeline.query.search.graph_boost import expanded
from knowledge_pipeline.query.search.hits import Hit, Passage
from knowledge_pipeline.query.search.llm_rerank import LLMReranker
from knowledge_pipeline.query.search.query_expansion import Generator, Preparation, prepared
from knowledge_pipeline.query.search.query_vectors import QueryVectors, mean_of
from knowledge_pipeline.query.search.request import Asked, answer_of
from knowledge_pipeline.query.search.rerank import Reranker
from knowledge_pipeline.query.search.retrieve import VectorIn
from knowledge_pipeline.query.search.text_search import Caught, Ground, Seeker, Sought, merged
from knowledge_pipeline.query.search.understand import without_filters
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.store.readers import IndexReader, SpaceUnreadable

RETRIEVED = 100  # by each search of each space, at least: fusion sees more than it hands on


class Answering:
    """The steps between a question that is understood and its answer, as the settings have them."""

    def __init__(
        self,
        settings: QuerySettings,
        vectors: QueryVectors,
        reranker: Reranker | LLMReranker,
        generator: Generator | None,
    ) -> None:
        self._settings, self._vectors = settings, vectors
        self._reranker, self._generator = reranker, generator
        self._seeker = Seeker(settings, vectors.unrelated)

    async def search(self, asked: Asked, opened: Opened, watch: Stopwatch) -> Answer:
        """The passages that answer a question, and what the settings ask for beside it."""
        made = await self._prepared(asked, watch)
        return await self._answer(asked, opened, self._sought(asked, made, watch), watch, made)

    async def like(
        self, asked: Asked, opened: Opened, watch: Stopwatch, *, known: Mapping[str, np.ndarray]
    ) -> Answer:
        """The passages that are like an example, whose vectors by space may be known."""
        text = asked.question.text
        sought = Sought(asked.question, asked.words, self._embedded(text, watch, known=known))
        return await self._answer(asked, opened, [sought], watch, Preparation())

    async def _prepared(self, asked: Asked, watch: Stopwatch) -> Preparation:
        """What goes with the question, where the settings ask for any of it."""
        if asked.profile.as_is or not self._settings.prepares:
            return Preparation()
        with watch.step("prepare"):
            form = "code" if asked.type == "code" else "prose"
            return await prepared(asked.question.text, self._settings, self._generator, form=form)

    def _sought(self, asked: Asked, made: Preparation, watch: Stopwatch) -> list[Sought]:
        """The question as a whole, then its parts."""
        question = asked.question
        words = " ".join((asked.words, *map(identifiers.searchable, made.terms)))
        whole = Sought(question, words, self._embedded(question.text, watch, beside=made.hypothetical))
        texts = [part for part in made.parts if part != question.text and clean(part).strip()]
        parts = [without_filters(text) for text in texts]
        return [whole, *(Sought(part, part.words, self._embedded(part.text, watch)) for part in parts)]

    async def _answer(
        self,
        asked: Asked,
        opened: Opened,
        sought: Sequence[Sought],
        watch: Stopwatch,
        made: Preparation,
    ) -> Answer:
        caught, lost = await self._caught(asked, opened, sought, watch)
        hits = merged(each.hits for each in caught)
        reasons: dict[str, Any] = {**lost, **without_vector(caught), **made.missing}
        hits, without_graph = await self._expanded(asked, opened, hits, watch)
        reasons |= {"graph": without_graph} if without_graph else {}
        if self._reranker.wanted(asked.type):
            with watch.step("rerank"):
                reranked = await self._reranker.rerank(asked.question.text, hits[: asked.candidates])
            hits = reranked.hits
            reasons |= {"rerank": reranked.skipped} if reranked.skipped else {}
        with watch.step("assemble"):
            near_once = asked.profile.near_once and not asked.copies
            how = {"explain": asked.explained is not None, "near_once": near_once}
            results = assemble(hits, limit=asked.limit, **how)
        shown = await self._beside(opened, asked, [hit.passage for hit in hits], results, watch)
        reasons |= {"graph": shown.without_graph} if shown.without_graph else {}
        explained = asked.explained
        if explained is not None:
            explained = {**explained, **searched_beside(made, caught), "degraded": reasons}
        return answer_of(opened, shown.results, watch, degraded=tuple(reasons), explain=explained)

    async def _caught(
        self, asked: Asked, opened: Opened, sought: Sequence[Sought], watch: Stopwatch
    ) -> tuple[Sequence[Caught], Mapping[str, Any]]:
        """What was found, and as `index` the spaces that could not be read."""
        while True:
            readers, lost = await opened.readable()
            ground = Ground(readers, asked.condition, max(RETRIEVED, asked.candidates))
            seeking = (self._seeker.seek(each, ground, asked.profile, watch) for each in sought)
            try:
                caught = await asyncio.gather(*seeking)
            except SpaceUnreadable as error:
                await opened.lose(error)  # the others are asked again, while there are any
                continue
            return caught, {"index": {space: str(error) for space, error in lost.items()}} if lost else {}

    async def _expanded(
        self, asked: Asked, opened: Opened, hits: list[Hit], watch: Stopwatch
    ) -> tuple[list[Hit], str | None]:
        """Hits of which linked ones are favoured, where the settings ask for it; or why they are not."""
        weight = self._settings.graph.expand if asked.profile.expanded else 0.0
        if not weight or not hits:
            return hits, None
        with watch.step("follow"):
            try:
                return await expanded(await graph_of(opened, asked.access), hits, weight=weight), None
            except NoGraph as reason:
                return hits, str(reason)

    async def _beside(
        self,
        opened: Opened,
        asked: Asked,
        passages: Sequence[Passage],
        results: tuple[Result, ...],
        watch: Stopwatch,
    ) -> Beside:
        enrich = self._settings.graph.enrich and asked.profile.enriched
        how = {"related": self._settings.related, "enrich": enrich}
        return await beside(opened, asked.access, passages, results, watch, **how)

    def _embedded(
        self,
        text: str,
        watch: Stopwatch,
        *,
        beside: str = "",
        known: Mapping[str, np.ndarray] | None = None,
    ) -> VectorIn:
        """A text's vector in each space, unless it is known already; with another, the mean of both."""

        async def vector_in(reader: IndexReader) -> np.ndarray:
            if known and reader.space in known:
                return known[reader.space]
            place = {"space": reader.space, "dimensions": reader.dimensions}
            texts = [text, beside] if beside else [text]
            with watch.part("embed"):
                vectors = await asyncio.gather(*(self._vectors.vector(each, **place) for each in texts))
            return mean_of(vectors)

        return vector_in
