"""Answers questions from an index: understand, retrieve, fuse, rerank, assemble.

Every public method takes an `Access`; what it may see is decided inside the store's query.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from knowledge_pipeline import identifiers
from knowledge_pipeline.config import CacheSettings, Settings
from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.query import lookup
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.assemble import Answer, Result, assemble, result_of
from knowledge_pipeline.query.beside import Beside, NoGraph, beside, graph_of
from knowledge_pipeline.query.cache import AnswerCache
from knowledge_pipeline.query.expand import expanded
from knowledge_pipeline.query.explain import searched_beside, understood, without_vector
from knowledge_pipeline.query.filters import Filters, clean, where
from knowledge_pipeline.query.generate import Generator, Preparation, prepared
from knowledge_pipeline.query.hits import Hit, Passage
from knowledge_pipeline.query.live import Index, LiveIndex, Opened
from knowledge_pipeline.query.llm_rerank import LLMReranker
from knowledge_pipeline.query.profiles import PROFILES, Profile, SearchType, profile_of
from knowledge_pipeline.query.relations import (
    Relations,
    absent,
    document_of,
    relations_of,
    subject_of,
    subjects,
    unknown,
)
from knowledge_pipeline.query.rerank import Reranker
from knowledge_pipeline.query.retrieve import VectorIn
from knowledge_pipeline.query.seek import Caught, Ground, Seeker, Sought, merged
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.query.understand import Question, as_is, understand, without_filters
from knowledge_pipeline.query.vectors import QueryVectors, mean_of
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.readers import IndexReader, SpaceUnreadable

if TYPE_CHECKING:
    from knowledge_pipeline.llm.model import LanguageModel, Recorder

RETRIEVED = 100  # by each search of each space, at least: fusion sees more than it hands on
MAX_EXAMPLE_CHARS = 20_000
MAX_EXAMPLE_WORDS = 200  # distinct ones: full-text search pays for each


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question on its way through the steps."""

    question: Question
    type: SearchType
    limit: int
    condition: Filter
    access: Access
    explained: Mapping[str, Any] | None  # what the answer says of the question; None: nothing
    copies: bool = False  # nearly equal results are all given

    @property
    def profile(self) -> Profile:
        return PROFILES[self.type]

    @property
    def candidates(self) -> int:
        return max(self.profile.candidates, 2 * self.limit)


class Engine:
    """Searches one store. Asynchronous, for one event loop; `aclose` there, or `close` anywhere, ends it.

    Asks the live release, unless an `index` says otherwise. `record` is told of every use of the
    language model, if one is configured; a `cache` keeps answers.
    """

    def __init__(
        self,
        settings: Settings,
        lake: Lake,
        *,
        index: Index | None = None,
        record: Recorder | None = None,
        cache: AnswerCache | None = None,
    ) -> None:
        query = settings.query
        self._settings = query
        self._index = index or LiveIndex(lake)
        self._vectors = QueryVectors(settings)
        self._model = _language_model(settings, record)
        self._generator = Generator(self._model, budget_s=query.llm_budget_s) if self._model else None
        by_model = self._model if query.rerank.kind == "llm" else None
        self._reranker = LLMReranker(query.rerank, by_model) if by_model else Reranker(query.rerank)
        self._seeker = Seeker(query, self._vectors.unrelated)
        self._cache = cache or AnswerCache(CacheSettings(minutes=0))

    def close(self) -> None:
        """Free the threads; the engine answers nothing after."""
        self._vectors.close()
        self._reranker.close()

    async def aclose(self) -> None:
        """`close`, and give up what a language model is still asked, on the engine's event loop."""
        self.close()
        if self._generator:
            await self._generator.aclose()
        if self._model:
            await self._model.aclose()

    async def search(
        self,
        text: str,
        access: Access,
        *,
        type: SearchType = "semantic",
        filters: Filters = Filters(),  # noqa: B008 - frozen
        limit: int | None = None,
        explain: bool = False,
        copies: bool = False,
    ) -> Answer:
        """The passages that answer a question best.

        Of equal contents the first is given; `copies` says whether nearly equal ones all are,
        as they always are where a type looks for examples or for history.

        Raises:
            QuestionRefused: the question, its filters, type or limit make no sense.
            NotFound: nothing is released yet.
        """
        watch = Stopwatch()
        profile = profile_of(type)
        with watch.step("understand"):
            question = as_is(_bounded(text)) if profile.as_is else understand(text)
            narrowed = (filters, question.filters, profile.filters)
            condition = where(access, *narrowed)
        explained = understood(question, *narrowed) if explain else None
        asked = _Asked(question, type, profile.limit(limit), condition, access, explained, copies)
        with watch.step("open"):
            opened = await self._index.opened()
            await opened.readable()
        key = ("search", text, type, filters, limit, explain, copies, access)
        if known := self._cache.get(opened.release, key):
            return _again(known, watch)
        made = await self._prepared(asked, watch)
        answer = await self._answer(asked, opened, self._sought(asked, made, watch), watch, made)
        self._cache.put(opened.release, key, answer)
        return answer

    async def similar(
        self,
        access: Access,
        *,
        text: str | None = None,
        path: str | None = None,
        source: str | None = None,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        limit: int | None = None,
        explain: bool = False,
    ) -> Answer:
        """Passages of other files that are like a text, or like a file of the index.

        Args:
            access: who asks.
            text: a piece of code or prose.
            path: a file within its source, whose own passages are left out. With `text` as
                well, the text is what others shall be like, and the path says where it is from.
            source: the file's source, where several have such a path.
            filters: what the results are narrowed to; by default the file's source type.
            limit: how many results.
            explain: whether each result says where its score is from.

        Raises:
            QuestionRefused: neither is given, the text is too long, or the path names several files.
            NotFound: there is no such file, or nothing is released yet.
        """
        watch = Stopwatch()
        if text is None and path is None:
            raise QuestionRefused("nothing to be similar to: give a text or a path")
        with watch.step("open"):
            opened = await self._index.opened()
            readers, _ = await opened.readable()
        key = ("similar", text, path, source, filters, limit, explain, access)
        if known := self._cache.get(opened.release, key):
            return _again(known, watch)
        narrowed, condition, vectors = filters, where(access, filters), {}
        with watch.step("look_up"):
            if path is not None:
                readers = await opened.readers()  # the file may be in any of them
                found = await lookup.example(readers, path, access, source=source)
                narrowed = replace(filters, source_types=filters.source_types or (found.source_type,))
                condition = where(access, narrowed) & found.others
                if text is None:
                    text, vectors = found.text[:MAX_EXAMPLE_CHARS], found.vectors
        question = as_is(_bounded(text or ""))
        explained = understood(question, narrowed) if explain else None
        count = PROFILES["similar"].limit(limit)
        asked = _Asked(question, "similar", count, condition, access, explained)
        sought = Sought(question, _words(asked), self._embedded(question.text, watch, known=vectors))
        answer = await self._answer(asked, opened, [sought], watch)
        self._cache.put(opened.release, key, answer)
        return answer

    async def get(self, id: str, access: Access) -> Answer:
        """One chunk by its id, or all chunks of a document by "source:uri", in their order.

        Raises:
            NotFound: there is none that the caller may see, or nothing is released yet.
        """
        watch = Stopwatch()
        with watch.step("open"):
            opened = await self._index.opened()
            readers = await opened.readers()
        with watch.step("look_up"):
            passages = await lookup.by_id(readers, id, access)
        results = tuple(result_of(passage, 1.0) for passage in passages)
        how = {"related": self._settings.related, "enrich": False}
        shown = await beside(opened, access, passages, results, watch, **how)
        return _answer(opened, shown.results, watch)

    async def related(self, target: str, access: Access) -> Relations:
        """How a document is related to others: what it closes, implements, references; what mentions it.

        Args:
            target: a ticket's key, "owner/name#12", a commit, an address, a path, or an id of a
                search's result. A path may be in several sources; all are meant.
            access: who asks.

        Raises:
            NotFound: no document that the caller may see is called so or mentions it, or nothing is
                released yet.
            QuestionRefused: too many documents have such a path.
        """
        watch, visible = Stopwatch(), where(access)
        opened = await self._index.opened()
        readers = await opened.readers()
        rows = await subjects(readers, visible, target)
        asked = [subject_of(row) for row in rows] or [absent(target)]
        found, cut = await relations_of(readers, visible, asked)
        relations = tuple(dict.fromkeys(each for one in found for each in one))
        if not rows and not relations:
            raise unknown(target)
        known = {each.target for each in relations if each.direction == "to"}
        mentions = dict.fromkeys(each for subject in asked for each in subject.mentions)
        elsewhere = tuple(each for each in mentions if each.target not in known)
        documents = tuple(map(document_of, rows))
        release, id_ = opened.release.release, str(uuid.uuid4())
        return Relations(id_, watch.took_ms, release, (), documents, relations, elsewhere, cut)

    async def without_rerank(self) -> str | None:
        """Why results could not be reranked now; None where they could."""
        return (await self._reranker.rerank("", [])).skipped

    async def _prepared(self, asked: _Asked, watch: Stopwatch) -> Preparation:
        """What goes with the question, where the settings ask for any of it."""
        if asked.profile.as_is or not self._settings.prepares:
            return Preparation()
        with watch.step("prepare"):
            form = "code" if asked.type == "code" else "prose"
            return await prepared(asked.question.text, self._settings, self._generator, form=form)

    def _sought(self, asked: _Asked, made: Preparation, watch: Stopwatch) -> list[Sought]:
        """The question as a whole, then its parts."""
        question = asked.question
        words = " ".join((_words(asked), *map(identifiers.searchable, made.terms)))
        whole = Sought(question, words, self._embedded(question.text, watch, beside=made.hypothetical))
        texts = [part for part in made.parts if part != question.text and clean(part).strip()]
        parts = [without_filters(text) for text in texts]
        return [whole, *(Sought(part, part.words, self._embedded(part.text, watch)) for part in parts)]

    async def _answer(
        self,
        asked: _Asked,
        opened: Opened,
        sought: Sequence[Sought],
        watch: Stopwatch,
        made: Preparation = Preparation(),  # noqa: B008 - frozen
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
        return _answer(opened, shown.results, watch, degraded=tuple(reasons), explain=explained)

    async def _caught(
        self, asked: _Asked, opened: Opened, sought: Sequence[Sought], watch: Stopwatch
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
        self, asked: _Asked, opened: Opened, hits: list[Hit], watch: Stopwatch
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
        asked: _Asked,
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


def _language_model(settings: Settings, record: Recorder | None) -> LanguageModel | None:
    """The configured model, if it is used; its client is imported only then."""
    if settings.language_model is None or not settings.query.uses_of_language_model():
        return None
    from knowledge_pipeline.llm.model import LanguageModel

    return LanguageModel(settings.language_model, record=record)


def _bounded(text: str) -> str:
    if len(text) > MAX_EXAMPLE_CHARS:
        raise QuestionRefused(f"the text has {len(text)} characters; allowed: at most {MAX_EXAMPLE_CHARS}")
    return text


def _again(known: Answer, watch: Stopwatch) -> Answer:
    times = {"took_ms": watch.took_ms, "timings_ms": watch.timings_ms, "steps": tuple(watch.steps)}
    return replace(known, query_id=str(uuid.uuid4()), **times)


def _words(asked: _Asked) -> str:
    if not asked.profile.as_is:
        return asked.question.words
    return " ".join(list(dict.fromkeys(asked.question.words.split()))[:MAX_EXAMPLE_WORDS])


def _answer(
    opened: Opened,
    results: tuple[Result, ...],
    watch: Stopwatch,
    *,
    degraded: tuple[str, ...] = (),
    explain: Mapping[str, Any] | None = None,
) -> Answer:
    return Answer(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=opened.release.release,
        degraded=degraded,
        results=results,
        timings_ms=watch.timings_ms,
        steps=tuple(watch.steps),
        explain=explain,
    )
