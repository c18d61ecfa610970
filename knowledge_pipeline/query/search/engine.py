"""Answers questions from an index: understand, retrieve, fuse, rerank, assemble.

Every public method takes an `Access`; what it may see is decided inside the store's query.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from knowledge_pipeline.config.query import CacheSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import RelationsResponse, SearchResponse
from knowledge_pipeline.contract.types import MAX_EXAMPLE_CHARS, SearchType
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query import lookup
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.open_release import Index, LiveIndex
from knowledge_pipeline.query.relations import describe_relations
from knowledge_pipeline.query.search.assemble import to_result
from knowledge_pipeline.query.search.cache import AnswerCache
from knowledge_pipeline.query.search.enrichment import enrich_results
from knowledge_pipeline.query.search.explain import explain_query
from knowledge_pipeline.query.search.llm_rerank import LLMReranker
from knowledge_pipeline.query.search.pipeline import SearchPipeline
from knowledge_pipeline.query.search.profiles import PROFILES, get_profile
from knowledge_pipeline.query.search.query_expansion import QueryExpander
from knowledge_pipeline.query.search.query_vectors import QueryEmbedder
from knowledge_pipeline.query.search.request import (
    SearchRequest,
    build_answer,
    reissue_answer,
    require_example_length,
)
from knowledge_pipeline.query.search.rerank import Reranker
from knowledge_pipeline.query.search.understand import parse_verbatim, understand
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.store.lake import Lake

if TYPE_CHECKING:
    from knowledge_pipeline.llm.model import LanguageModel, RecordCall


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
        record: RecordCall | None = None,
        cache: AnswerCache | None = None,
    ) -> None:
        query = settings.query
        self._settings = query
        self._index = index or LiveIndex(lake)
        self._vectors = QueryEmbedder(settings)
        self._model = _open_language_model(settings, record)
        self._generator = QueryExpander(self._model, budget_s=query.llm_budget_s) if self._model else None
        by_model = self._model if query.rerank.kind == "llm" else None
        self._reranker = LLMReranker(query.rerank, by_model) if by_model else Reranker(query.rerank)
        self._answering = SearchPipeline(query, self._vectors, self._reranker, self._generator)
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
        include_near_duplicates: bool = False,
    ) -> SearchResponse:
        """The passages that answer a question best.

        Of equal contents the first is given; `copies` says whether nearly equal ones all are,
        as they always are where a type looks for examples or for history.

        Raises:
            QuestionRefused: the question, its filters, type or limit make no sense.
            NotFound: nothing is released yet.
        """
        watch = Stopwatch()
        profile = get_profile(type)
        with watch.step("understand"):
            question = (
                parse_verbatim(require_example_length(text)) if profile.is_example else understand(text)
            )
            narrowed = (filters, question.filters, profile.filters)
            condition = compile_filter(access, *narrowed)
        explained = explain_query(question, *narrowed) if explain else None
        asked = SearchRequest(
            question,
            type,
            profile.resolve_limit(limit),
            condition,
            access,
            explained,
            include_near_duplicates,
        )
        with watch.step("open"):
            opened = await self._index.open_release()
            await opened.open_readable_readers()
        key = ("search", text, type, filters, limit, explain, include_near_duplicates, access)
        if known := self._cache.get(opened.release, key):
            return reissue_answer(known, watch)
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
    ) -> SearchResponse:
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
            raise InvalidQuery("nothing to be similar to: give a text or a path")
        with watch.step("open"):
            opened = await self._index.open_release()
            readers, _ = await opened.open_readable_readers()
        key = ("similar", text, path, source, filters, limit, explain, access)
        if known := self._cache.get(opened.release, key):
            return reissue_answer(known, watch)
        narrowed, condition, vectors = filters, compile_filter(access, filters), {}
        with watch.step("look_up"):
            if path is not None:
                readers = await opened.open_readers()  # the file may be in any of them
                found = await lookup.read_example(readers, path, access, source=source)
                narrowed = replace(filters, source_types=filters.source_types or (found.source_type,))
                condition = compile_filter(access, narrowed) & found.other_files
                if text is None:
                    text, vectors = found.text[:MAX_EXAMPLE_CHARS], found.vectors
        question = parse_verbatim(require_example_length(text or ""))
        explained = explain_query(question, narrowed) if explain else None
        count = PROFILES["similar"].resolve_limit(limit)
        asked = SearchRequest(question, "similar", count, condition, access, explained)
        answer = await self._answering.search_similar(asked, opened, watch, known_vectors=vectors)
        self._cache.put(opened.release, key, answer)
        return answer

    async def get(self, id: str, access: Access) -> SearchResponse:
        """One chunk by its id, or all chunks of a document by "source:uri", in their order.

        Raises:
            NotFound: there is none that the caller may see, or nothing is released yet.
        """
        watch = Stopwatch()
        with watch.step("open"):
            opened = await self._index.open_release()
            readers = await opened.open_readers()
        with watch.step("look_up"):
            passages = await lookup.read_by_id(readers, id, access)
        results = tuple(to_result(passage, 1.0) for passage in passages)
        shown = await enrich_results(
            opened, access, passages, results, watch, max_relations=self._settings.related, enrich=False
        )
        return build_answer(opened, shown.results, watch)

    async def related(self, target: str, access: Access) -> RelationsResponse:
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
        return await describe_relations(await self._index.open_release(), target, access)

    async def find_reranker_problem(self) -> str | None:
        """Why results could not be reranked now; None where they could."""
        return (await self._reranker.rerank("", [])).skip_reason


def _open_language_model(settings: Settings, record: RecordCall | None) -> LanguageModel | None:
    """The configured model, if it is used; its client is imported only then."""
    if settings.language_model is None or not settings.query.list_language_model_keys():
        return None
    from knowledge_pipeline.llm.model import LanguageModel

    return LanguageModel(settings.language_model, record=record)
