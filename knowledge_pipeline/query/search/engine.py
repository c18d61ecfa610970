"""Answers questions from an index: understand, retrieve, fuse, rerank, assemble.

Every public method takes an `Access`; what it may see is decided inside the store's query.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from knowledge_pipeline.config.query import CacheSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.query import lookup
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import Filters, where
from knowledge_pipeline.query.open_release import Index, LiveIndex
from knowledge_pipeline.query.relations import Relations, related_to
from knowledge_pipeline.query.search.assemble import Answer, result_of
from knowledge_pipeline.query.search.cache import AnswerCache
from knowledge_pipeline.query.search.enrichment import beside
from knowledge_pipeline.query.search.explain import understood
from knowledge_pipeline.query.search.llm_rerank import LLMReranker
from knowledge_pipeline.query.search.pipeline import Answering
from knowledge_pipeline.query.search.profiles import PROFILES, SearchType, profile_of
from knowledge_pipeline.query.search.query_expansion import Generator
from knowledge_pipeline.query.search.query_vectors import QueryVectors
from knowledge_pipeline.query.search.request import MAX_EXAMPLE_CHARS, Asked, again, answer_of, bounded
from knowledge_pipeline.query.search.rerank import Reranker
from knowledge_pipeline.query.search.understand import as_is, understand
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.store.lake import Lake

if TYPE_CHECKING:
    from knowledge_pipeline.llm.model import LanguageModel, Recorder


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
        self._answering = Answering(query, self._vectors, self._reranker, self._generator)
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
            question = as_is(bounded(text)) if profile.as_is else understand(text)
            narrowed = (filters, question.filters, profile.filters)
            condition = where(access, *narrowed)
        explained = understood(question, *narrowed) if explain else None
        asked = Asked(question, type, profile.limit(limit), condition, access, explained, copies)
        with watch.step("open"):
            opened = await self._index.opened()
            await opened.readable()
        key = ("search", text, type, filters, limit, explain, copies, access)
        if known := self._cache.get(opened.release, key):
            return again(known, watch)
        answer = await self._answering.search(asked, opened, watch)
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
            return again(known, watch)
        narrowed, condition, vectors = filters, where(access, filters), {}
        with watch.step("look_up"):
            if path is not None:
                readers = await opened.readers()  # the file may be in any of them
                found = await lookup.example(readers, path, access, source=source)
                narrowed = replace(filters, source_types=filters.source_types or (found.source_type,))
                condition = where(access, narrowed) & found.others
                if text is None:
                    text, vectors = found.text[:MAX_EXAMPLE_CHARS], found.vectors
        question = as_is(bounded(text or ""))
        explained = understood(question, narrowed) if explain else None
        count = PROFILES["similar"].limit(limit)
        asked = Asked(question, "similar", count, condition, access, explained)
        answer = await self._answering.like(asked, opened, watch, known=vectors)
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
        return answer_of(opened, shown.results, watch)

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
        return await related_to(await self._index.opened(), target, access)

    async def without_rerank(self) -> str | None:
        """Why results could not be reranked now; None where they could."""
        return (await self._reranker.rerank("", [])).skipped


def _language_model(settings: Settings, record: Recorder | None) -> LanguageModel | None:
    """The configured model, if it is used; its client is imported only then."""
    if settings.language_model is None or not settings.query.uses_of_language_model():
        return None
    from knowledge_pipeline.llm.model import LanguageModel

    return LanguageModel(settings.language_model, record=record)
