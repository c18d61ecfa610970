"""Answers questions from an index: opens the release, answers from the cache or by a search.

Every public method takes an `Access`; what it may see is decided inside the store's query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from knowledge_pipeline.config.query import CacheSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses.documents import RelationsResponse
from knowledge_pipeline.contract.responses.graph import GraphNode
from knowledge_pipeline.contract.responses.search import SearchResponse
from knowledge_pipeline.contract.types import SearchMode, SearchType
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.llm.model_calls import charge_to
from knowledge_pipeline.query import lookup
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.code_graph.used_types import CodePlace, find_used_types
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.open_release import Index, LiveIndex
from knowledge_pipeline.query.relations import describe_relations
from knowledge_pipeline.query.search.assemble import build_response, to_result
from knowledge_pipeline.query.search.cache import AnswerCache, reissue_response
from knowledge_pipeline.query.search.enrichment import Enricher
from knowledge_pipeline.query.search.hits import Hit, IndexedChunk
from knowledge_pipeline.query.search.pipeline import AdjustCandidates, SearchPipeline, keep_candidates
from knowledge_pipeline.query.search.plan import plan_search, plan_similar
from knowledge_pipeline.query.search.query_expansion import QueryExpander
from knowledge_pipeline.query.search.query_vectors import QueryEmbedder
from knowledge_pipeline.query.search.rerank import Reranker
from knowledge_pipeline.query.search.understand import ParsedQuery
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.store.lake import Lake

if TYPE_CHECKING:
    from knowledge_pipeline.llm.budgets import Budgets
    from knowledge_pipeline.llm.model import LanguageModel, RecordCall

BuiltT = TypeVar("BuiltT")


class Engine:
    """Searches one store. Belongs to one event loop; end it with `aclose` there, or `close` anywhere.

    Reads the live release, or the `index` given. Every use of the language model, if one is configured,
    is passed to `record`, and none happens for a caller whose `budgets` are spent; a `cache` keeps responses.
    """

    def __init__(
        self,
        settings: Settings,
        lake: Lake,
        *,
        index: Index | None = None,
        record: RecordCall | None = None,
        budgets: Budgets | None = None,
        cache: AnswerCache | None = None,
    ) -> None:
        query = settings.query
        self._index = index or LiveIndex(lake)
        self._depths = query.depth
        self._embedder = QueryEmbedder(settings)
        self._model: LanguageModel | None = None
        if settings.language_model is not None and query.list_language_model_keys():
            from knowledge_pipeline.llm.model import LanguageModel  # and its client, only where it is used

            self._model = LanguageModel(
                settings.language_model, record=record, admit=budgets.require if budgets else None
            )
        self._expander = QueryExpander(self._model, budget_s=query.llm_budget_s) if self._model else None
        if self._model and query.rerank.kind == "llm":
            from knowledge_pipeline.query.search.llm_rerank import LLMReranker

            self._reranker = LLMReranker(query.rerank, self._model)
        else:
            self._reranker = Reranker(query.rerank)
        self._enricher = Enricher(query.max_related)
        self._pipeline = SearchPipeline(
            query,
            self._embedder,
            self._reranker,
            self._expander,
            self._enricher,
            budgets if self._model else None,
        )
        self._cache = cache or AnswerCache(CacheSettings(ttl_minutes=0))

    def close(self) -> None:
        """Free the threads; the engine answers nothing afterwards."""
        self._embedder.close()
        self._reranker.close()

    async def aclose(self) -> None:
        """`close`, and cancel the calls of the language model, on the engine's event loop."""
        self.close()
        if self._expander:
            await self._expander.aclose()
        if self._model:
            await self._model.aclose()

    async def prewarm(self) -> None:
        """Read what ranking needs of the live release before a query has to wait for it.

        Raises:
            NotFound: nothing is released yet.
            SpaceUnreadable: none can be read.
        """
        readers, _ = await (await self._index.open_release()).open_readable_readers()
        await self._pipeline.prewarm(readers)

    async def search(
        self,
        text: str,
        access: Access,
        *,
        type: SearchType = "semantic",
        filters: Filters = Filters(),  # noqa: B008 - frozen
        within: Filters = Filters(),  # noqa: B008 - frozen
        limit: int | None = None,
        explain: bool = False,
        diverse: bool = True,
        mode: SearchMode = "hybrid",
    ) -> SearchResponse:
        """The chunks that answer a question best, where both `filters` and `within` hold.

        Of equal contents only the first is returned. A list that is not `diverse` has nearly equal ones as
        well, and further chunks of a file count in full, as a reader of the whole list wants them. Examples
        and history are never diverse. By the mode `words` no model is asked; by `vectors` no full text.

        Raises:
            InvalidQuery: the question, its filters, type, mode or limit make no sense.
            NotFound: nothing is released yet.
        """
        watch = Stopwatch()
        with watch.step("understand"):
            plan = plan_search(
                text,
                access,
                type=type,
                filters=filters,
                within=within,
                limit=limit,
                explain=explain,
                diverse=diverse,
                mode=mode,
                depths=self._depths,
            )
        with watch.step("open"):
            open_release = await self._index.open_release()
            await open_release.open_readable_readers()
        key = ("search", text, type, filters, within, limit, explain, diverse, mode, access)
        if cached := self._cache.get(open_release.release, key):
            return reissue_response(cached, watch)
        with charge_to(access.account):
            response = await self._pipeline.run(plan, open_release, watch)
        self._cache.put(open_release.release, key, response)
        return response

    async def find_unranked(
        self,
        text: str,
        access: Access,
        *,
        type: SearchType,
        filters: Filters,
        adjust: AdjustCandidates = keep_candidates,
    ) -> tuple[list[Hit[IndexedChunk]], ParsedQuery]:
        """The hits that a search hands to the ranker, best first by `fused`, and the question as understood.

        Raises:
            InvalidQuery: the question, its filters or type make no sense.
            NotFound: nothing is released yet.
        """
        plan = plan_search(
            text,
            access,
            type=type,
            filters=filters,
            limit=None,
            explain=False,
            diverse=True,
            depths=self._depths,
        )
        open_release = await self._index.open_release()
        return await self._pipeline.find_unranked(plan, open_release, adjust), plan.query

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
        mode: SearchMode = "hybrid",
    ) -> SearchResponse:
        """Chunks of other files that are like a text, or like a file of the index.

        The chunks of the file at `path` within its source (`source` says which, where several have such a
        path) are left out. With a text as well, results are like the text, and the path says where it is
        from. By default results are narrowed to the file's source type.

        Raises:
            InvalidQuery: neither is given, the text is too long, or the path names several files.
            NotFound: there is no such file, or nothing is released yet.
        """
        watch = Stopwatch()
        if text is None and path is None:
            raise InvalidQuery("nothing to be similar to: give a text or a path")
        with watch.step("open"):
            open_release = await self._index.open_release()
            await open_release.open_readable_readers()
        key = ("similar", text, path, source, filters, limit, explain, mode, access)
        if cached := self._cache.get(open_release.release, key):
            return reissue_response(cached, watch)
        file = None
        with watch.step("look_up"):
            if path is not None:
                readers = await open_release.open_readers()  # the file may be in any of them
                file = await lookup.read_example(readers, path, access, source=source)
        plan = plan_similar(
            text,
            file,
            access,
            filters=filters,
            limit=limit,
            explain=explain,
            mode=mode,
            depths=self._depths,
        )
        with charge_to(access.account):
            response = await self._pipeline.run(plan, open_release, watch)
        self._cache.put(open_release.release, key, response)
        return response

    async def get(self, id: str, access: Access) -> SearchResponse:
        """One chunk by its id, or all chunks of a document by "source:uri", in their order.

        Raises:
            NotFound: there is none that the caller may see, or nothing is released yet.
        """
        watch = Stopwatch()
        with watch.step("open"):
            open_release = await self._index.open_release()
            readers = await open_release.open_readers()
        with watch.step("look_up"):
            chunks = await lookup.read_by_id(readers, id, access)
        results = tuple(to_result(chunk, 1.0) for chunk in chunks)
        enriched, _ = await self._enricher.enrich(open_release, access, chunks, results, watch)
        return build_response(open_release, enriched, watch)

    async def build_document(
        self, id: str, access: Access, build: Callable[[SearchResponse], BuiltT]
    ) -> tuple[SearchResponse, BuiltT]:
        """A document's response with its first chunk alone, and what `build` makes of all of its chunks.

        Where another process answers, its chunks stay there: hundreds take longer to hand over than to read.
        """
        response = await self.get(id, access)
        built = await asyncio.to_thread(build, response)
        return replace(response, results=response.results[:1]), built

    async def read_lines(
        self, places: Collection[tuple[str, str, int]], access: Access, filters: Filters
    ) -> SearchResponse:
        """The chunks that have some lines: source, path and line of each, in this order.

        Raises:
            NotFound: nothing is released yet.
        """
        watch = Stopwatch()
        with watch.step("open"):
            open_release = await self._index.open_release()
            readers, _ = await open_release.open_readable_readers()
        with watch.step("look_up"):
            chunks = await lookup.read_lines(readers, places, compile_filter(access, filters))
        return build_response(open_release, tuple(to_result(chunk, 0.0) for chunk in chunks), watch)

    async def related(self, target: str, access: Access) -> RelationsResponse:
        """How a document is related to others: what it closes, implements or references; what mentions it.

        The target is a ticket's key, "owner/name#12", a commit, an address, a path, or the id of a result.
        A path that several sources have means the documents of all.

        Raises:
            NotFound: no document that the caller may see has this name or mentions it, or nothing is
                released yet.
            InvalidQuery: too many documents have such a path.
        """
        return await describe_relations(await self._index.open_release(), target, access)

    async def find_used_types(self, places: Collection[CodePlace], access: Access) -> list[GraphNode]:
        """See `used_types.find_used_types`."""
        return await find_used_types(self._index, places, access)

    async def check_embedder(self) -> str | None:
        """Why queries cannot be embedded now; None if they can.

        Raises:
            NotFound: nothing is released yet.
        """
        readers, _ = await (await self._index.open_release()).open_readable_readers()
        return await self._embedder.check({reader.space: reader.dimensions for reader in readers})

    async def check_reranker(self) -> str | None:
        """Why results cannot be reranked now; None if they can."""
        return await self._reranker.check()
