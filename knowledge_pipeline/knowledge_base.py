"""The Python interface: open a project's knowledge and query it, with or without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from knowledge_pipeline.background import BackgroundProcess
from knowledge_pipeline.config import file
from knowledge_pipeline.config.connections import WorktreeConnection
from knowledge_pipeline.config.operation import ContextSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.describe import TAKEN_AS_CODE
from knowledge_pipeline.contract.filters import (
    ContentType,
    Filters,
    FiltersLike,
    Judgement,
    SearchMode,
    SearchType,
    SourceType,
    build_filters,
)
from knowledge_pipeline.contract.responses import GraphResponse, RelationsResponse, SearchResponse
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.garbage import collect_less_often
from knowledge_pipeline.llm.model_calls import ModelCall, build_reported_call
from knowledge_pipeline.query import limits
from knowledge_pipeline.query.access import Access, Audiences, DeclaredSources, may_see_source
from knowledge_pipeline.query.answer_cache import AnswerCache
from knowledge_pipeline.query.code_places import CodePlace
from knowledge_pipeline.query.documents import describe_relations, trace_result
from knowledge_pipeline.query.freshness import Answer, Freshness, FreshnessRequest, ResponseT
from knowledge_pipeline.query.graph_queries import AsyncGraph, Graph, GraphRequest
from knowledge_pipeline.query.logs import FeedbackLog, ModelCallLog, QueryIds, QueryLog
from knowledge_pipeline.query.open_release import Index, LiveIndex
from knowledge_pipeline.query.places import SourceFolders
from knowledge_pipeline.query.plan import (
    SearchQuestion,
    choose_type,
    detect_content_type,
    get_profile,
    localize_paths,
)
from knowledge_pipeline.query.search import Engine
from knowledge_pipeline.query.working_tree import Blame, WorkingTree
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.listings import load_shared_settings
from knowledge_pipeline.sync_facade import BackgroundLoop, SyncFacade, blocking

if TYPE_CHECKING:
    from knowledge_pipeline.contract.operation import (
        ComponentHealth,
        IndexedSourcesResponse,
        ModelCallResponse,
        StatusResponse,
    )
    from knowledge_pipeline.contract.requests import ModelCallRequest, Task
    from knowledge_pipeline.contract.responses import ContextResponse, TraceResponse
    from knowledge_pipeline.extensions.federation import FederatedIndex, MemberStores
    from knowledge_pipeline.llm.budgets import Budgets
    from knowledge_pipeline.llm.model import RecordCall


_NO_FILTERS = Filters()

ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")

ResponseListener = Callable[[str, str, Access, Answer], None]
"""Called with the kind and text of a query, the caller's access and the response; must not raise."""


@dataclass(frozen=True, slots=True)
class ContextBuilder:
    """Builds contexts for one knowledge base; what that takes is imported with the first of them."""

    engine: Engine
    blame: Blame
    working_tree: WorkingTree
    settings: ContextSettings

    async def build(
        self, access: Access, task: Task, *, max_tokens: int | None, template: str | Path | None
    ) -> ContextResponse:
        """See `get_context`; that of a review says who last changed the lines."""
        from knowledge_pipeline.context.build import get_context  # most processes only search

        blame = self.blame if task.kind == "code_review" else None
        return await get_context(
            self.engine,
            access,
            task,
            self.settings,
            max_tokens=max_tokens,
            template=template,
            blame=blame,
            working_tree=self.working_tree,
        )


def open_engine(
    settings: Settings,
    lake: Lake,
    index: Index,
    *,
    record: RecordCall,
    budgets: Budgets | None = None,
    cache: AnswerCache | None = None,
) -> Engine:
    """An engine, with its extension where the settings ask for what the core lacks.

    Every use of a model that has a price is passed to `record`, and none of the language model happens for a
    caller whose `budgets` are spent.
    """
    extension = None
    if settings.query.rewrites_queries or settings.query.list_language_model_keys():
        from knowledge_pipeline.extensions.llm_steps import LanguageModelSteps  # and the model's client

        extension = LanguageModelSteps(settings, record, budgets)
    return Engine(settings, lake, index=index, extension=extension, cache=cache, record=record)


def _note_content_type(question: SearchQuestion, response: SearchResponse) -> SearchResponse:
    if question.content_type is None and detect_content_type(question):
        return replace(response, notes=(TAKEN_AS_CODE, *response.notes))
    return response


def _on_background_loop(
    method: Callable[Concatenate[AsyncKnowledgeBase, ParamsT], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[AsyncKnowledgeBase, ParamsT], Coroutine[Any, Any, ResultT]]:
    """Run a method on the loop that the engine belongs to, whatever loop awaits it."""

    @wraps(method)
    async def run(base: AsyncKnowledgeBase, /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        return await base.loop.run(method(base, *args, **kwargs))

    return run


class AsyncKnowledgeBase:
    """A store and the settings that explain it, for asynchronous code.

    Any event loops and threads may share one: everything runs on one loop in the background.

    Args:
        settings: of the store, and of searches.
        config: the knowledge.yaml that they are from: who may see a source is decided by what it says now.
        access: the caller's, where a method is given none. By default that of an operator, who can read
            the store's files anyway; a service passes the access of its caller to every method.
        audited: give a response only when its row of the query log is on disk.
        heard: is called with every response, in the context of its query.
        is_shared: whether others ask as well: what `limits` calls expensive is then computed in a process of
            its own, so that they do not wait for it. None: everything is computed in this process.
        cache: of responses, in place of one of this process.
        choose_lake: says whose release answers, before questions: the store, or an overlay of it; must not
            raise. By default the store's.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        config: Path | None = None,
        access: Access | None = None,
        audited: bool = False,
        heard: ResponseListener | None = None,
        is_shared: Callable[[], bool] | None = None,
        cache: AnswerCache | None = None,
        choose_lake: Callable[[], Lake] | None = None,
    ) -> None:
        self._choose_lake = choose_lake
        self._members: MemberStores | None = None
        if settings.federation.stores:
            from knowledge_pipeline.extensions.federation import MemberStores

            self._members = MemberStores.open(settings.federation.stores)
            settings = self._members.unite_settings(settings)
        self.settings = settings
        self.access = access or Access.operator()
        self._lake = Lake(settings.store)
        self._declared = DeclaredSources(config, settings.sources)
        connections = {source.id: source.connection for source in settings.sources}
        self._moved = {id_: it for id_, it in connections.items() if isinstance(it, WorktreeConnection)}
        self._heard = heard
        # a second process would not know which store is down, or which overlay answers
        is_wanted = None if self._members or choose_lake else is_shared
        self._background = BackgroundProcess(settings, is_wanted=is_wanted or (lambda: False))
        self._calls = ModelCallLog(self._lake)
        self._index = self.open_index()
        self._audiences = Audiences(self._lake, self._index)
        members = self._members.opened if self._members else ()
        lakes = {f"{it.name}/": it.lake for it in members} or {"": self._lake}
        self._freshness = Freshness(self._index, lakes, None if members else self._audiences)
        cache = cache or AnswerCache(settings.query.cache)
        self._budgets: Budgets | None = None
        if settings.costs.budgets:
            from knowledge_pipeline.llm.budgets import Budgets

            self._budgets = Budgets(settings.costs.budgets, self._lake)
        self._engine = open_engine(
            settings, self._lake, self._index, record=self._record_call, budgets=self._budgets, cache=cache
        )
        self._working_tree = WorkingTree(settings.sources)
        self._blame = Blame(settings.sources, self._lake.cache, self._index)
        self._contexts = ContextBuilder(self._engine, self._blame, self._working_tree, settings.context)
        self.components: Mapping[type[Any], Any] = {Engine: self._engine, ContextBuilder: self._contexts}
        self._query_ids = QueryIds(self._lake)
        self._feedback = FeedbackLog(self._lake, self._query_ids)
        required = settings.logs.required
        self._log = (
            QueryLog(self._lake, durable=audited, required=required) if settings.logs.queries else None
        )
        on_start = self._log.start if self._log else lambda: None
        self.loop = BackgroundLoop("KnowledgeBase", on_start=on_start, on_close=self._aclose)
        self.graph = AsyncGraph(self._query_graph)

    @classmethod
    def open(
        cls, location: Path | str | Settings = ".", *, access: Access | None = None
    ) -> AsyncKnowledgeBase:
        """Open by settings, by a `knowledge.yaml`, or by a folder in or under the one that has it.

        Raises `ConfigError`: there is no `knowledge.yaml`, or it is wrong.
        """
        settings, config = _load_settings(location)
        return cls(settings, config=config, access=access)

    @_on_background_loop
    async def search(
        self,
        text: str,
        *,
        type: SearchType | None = "semantic",
        filters: FiltersLike = _NO_FILTERS,
        limit: int | None = None,
        explain: bool = False,
        blame: bool = False,
        mode: SearchMode = "hybrid",
        max_age: str | None = None,
        access: Access | None = None,
    ) -> SearchResponse:
        """See `Engine.search`; `limits` refuses what asks for too much, here and in all methods.

        Without a type it is the one that suits the intent of the question. With `blame` results say who last
        changed their lines: see `Blame.mark_results`. Sources that are not known to be as new as `max_age`
        ("15m") are named, and their results stay.
        """
        filters, mode = build_filters(filters), mode or "hybrid"
        question = SearchQuestion(text, type or "semantic", filters, limit=limit, explain=explain, mode=mode)
        limits.check_search(self.settings.limits, question)
        access, is_expensive = await self._resolve_access(access), limits.is_expensive(text, filters)
        if type is None and not question.is_exact:
            compute = self._background.compute
            chosen = await compute(choose_type, text) if is_expensive else choose_type(text)
            if set(filters.source_types) <= set(get_profile(chosen).filters.source_types):
                question = replace(question, type=chosen)  # else it would find nothing of the others
        folders = self._folders_of(access)
        question = replace(question, filters=folders.localize_filters(filters))
        types = question.filters.source_types or get_profile(question.type).filters.source_types
        age = FreshnessRequest(max_age, replace(question.filters, source_types=types))
        if question.type != "similar" and not question.is_exact:  # which are searched for as they are
            question = replace(question, text=localize_paths(text, folders.localize_pattern))
        search = self._engine.search
        if is_expensive:
            search = self._background.choose(self._engine, Engine.search)
        response = _note_content_type(question, await self._ask(lambda: search(question, access)))
        return await self._record_search(question.type, text, access, response, age, blame)

    @_on_background_loop
    async def similar(
        self,
        *,
        text: str | None = None,
        path: str | None = None,
        source: str | None = None,
        filters: FiltersLike = _NO_FILTERS,
        limit: int | None = None,
        explain: bool = False,
        mode: SearchMode = "hybrid",
        content_type: ContentType | None = None,
        max_age: str | None = None,
        access: Access | None = None,
    ) -> SearchResponse:
        """Chunks like a text, or like the file at a path: see `Engine.search` and `SearchQuestion`.

        `max_age` as for `search`.
        """
        question = SearchQuestion(
            text or None,
            "similar",
            build_filters(filters),
            limit=limit,
            explain=explain,
            mode=mode or "hybrid",
            path=path or None,
            source=source or None,
            content_type=content_type or None,
        )
        limits.check_search(self.settings.limits, question)
        access = await self._resolve_access(access)
        folders = self._folders_of(access)
        question = replace(question, filters=folders.localize_filters(question.filters))
        age = FreshnessRequest(max_age, question.filters)
        similar = self._background.choose(self._engine, Engine.search)
        response, places = None, folders.locate(path) if path else [(None, None)]
        for at, (place, of_source) in enumerate(places, start=1):
            located = replace(question, path=place, source=question.source or of_source)
            with suppress(NotFound) if at < len(places) else nullcontext():
                response = await self._ask(partial(similar, located, access))
                break
        assert response
        response = _note_content_type(question, response)
        return await self._record_search("similar", text or path or "", access, response, age, False)

    @_on_background_loop
    async def get(
        self, id: str, *, blame: bool = False, max_age: str | None = None, access: Access | None = None
    ) -> SearchResponse:
        """See `Engine.get`; `blame` and `max_age` as for `search`."""
        id, access = await self._localize_id(id, access)
        age = FreshnessRequest(max_age)
        is_document = limits.is_document(id)
        get = self._background.choose(self._engine, Engine.get) if is_document else self._engine.get
        response = await self._ask(lambda: get(id, access))
        return await self._record_search("get", id, access, response, age, blame)

    @_on_background_loop
    async def build_document(
        self,
        id: str,
        build: Callable[[SearchResponse], ResultT],
        *,
        max_age: str | None = None,
        access: Access | None = None,
    ) -> tuple[SearchResponse, ResultT]:
        """See `Engine.build_document`; `build` is a function of a module, or a `partial` of one."""
        id, access = await self._localize_id(id, access)
        age = FreshnessRequest(max_age)
        read = self._engine.build_document
        if limits.is_document(id):
            read = self._background.choose(self._engine, Engine.build_document)
        response, built = await self._ask(lambda: read(id, access, build))
        return await self._record("get", id, access, response, age), built

    @_on_background_loop
    async def trace(
        self, id: str, *, max_age: str | None = None, access: Access | None = None
    ) -> TraceResponse:
        """What made a result: see `trace_result`. Of a document, its first chunk. `max_age` as for `search`.

        Raises `NotFound`: there is none that the caller may see.
        """
        id, access = await self._localize_id(id, access)
        age = FreshnessRequest(max_age)
        response = await self._ask(lambda: self._engine.get(id, access))
        response = await self._record("trace", id, access, response, age)
        source = response.results[0].citation.source
        lake = self._members.find_lake(source) if self._members else self._lake
        return await asyncio.to_thread(trace_result, lake, response)

    @_on_background_loop
    async def related(
        self, target: str, *, max_age: str | None = None, access: Access | None = None
    ) -> RelationsResponse:
        """See `describe_relations`; `max_age` as for `search`."""
        target, access = await self._localize_id(target, access)
        age = FreshnessRequest(max_age)
        response = await self._ask(lambda: describe_relations(self._index, target, access))
        return await self._record("related", target, access, response, age)

    @_on_background_loop
    async def context(
        self,
        task: Task | str,
        *,
        max_tokens: int | None = None,
        template: str | Path | None = None,
        max_age: str | None = None,
        access: Access | None = None,
    ) -> ContextResponse:
        """What an agent should read before it does a task; see `get_context`.

        A plain text is a task of the kind `code_generation`. `max_age` as for `search`.
        """
        from knowledge_pipeline.contract.requests import Task  # most processes only search

        access = await self._resolve_access(access)
        task = Task(task) if isinstance(task, str) else task
        limits.check_task(self.settings.limits, task, max_tokens)
        task = self._folders_of(access).localize_task(task)
        age = FreshnessRequest(max_age, task.filters)
        build = self._background.choose(self._contexts, ContextBuilder.build)
        context = await self._ask(lambda: build(access, task, max_tokens=max_tokens, template=template))
        response = await self._record("context", task.text, access, context.to_search_response(), age)
        context = replace(
            context, query_id=response.query_id, freshness=response.freshness, notes=response.notes
        )
        return await asyncio.to_thread(self._working_tree.mark_context, context)

    def compute(
        self, function: Callable[ParamsT, ResultT], *args: ParamsT.args, **kwargs: ParamsT.kwargs
    ) -> Coroutine[Any, Any, ResultT]:
        """What an expensive function of a module returns: see `BackgroundProcess.compute`."""
        return self.loop.run(self._background.compute(function, *args, **kwargs))

    @_on_background_loop
    async def status(self, *, access: Access | None = None) -> StatusResponse:
        """The live release, and how much of it the caller may see."""
        access = await self._resolve_access(access)
        if self._members:
            from knowledge_pipeline.extensions.federation import read_federation_status

            return await read_federation_status(self._members, access)
        from knowledge_pipeline.query.status import read_status  # most processes only search

        return await read_status(self.settings, self._lake, self._index, access)

    @_on_background_loop
    async def count_documents(self, *, access: Access | None = None) -> int:
        """How many documents the caller may see."""
        from knowledge_pipeline.query.inventory import count_documents  # most processes only search

        access = await self._resolve_access(access)
        return await self._ask(lambda: count_documents(self._index, access))

    @_on_background_loop
    async def list_sources(
        self, *, filters: Filters = _NO_FILTERS, access: Access | None = None
    ) -> IndexedSourcesResponse:
        """The sources that can be searched, what filters can name of them: see `list_indexed_sources`.

        With filters, those that have a chunk which the filters take.
        """
        from knowledge_pipeline.query.inventory import list_indexed_sources  # most processes only search

        limits.check_filters(self.settings.limits, filters)
        access = await self._resolve_access(access)
        return await self._ask(lambda: list_indexed_sources(self._index, filters, access))

    @_on_background_loop
    async def health(self) -> Mapping[str, ComponentHealth]:
        """Which components work now; see `check_health`."""
        from knowledge_pipeline.query.status import check_health  # most processes only search

        return await check_health(self.settings, self._lake, self._index, self._engine, self._log)

    @_on_background_loop
    async def prewarm(self) -> None:
        """Read what a first query would have to wait for: the released indexes, a local model, the graph.

        From then on this process looks for garbage less often, unless it already does.

        Raises:
            NotFound: nothing is released yet.
            StoreError: they cannot be read.
        """
        await self._index.prewarm()
        await self._engine.prewarm()
        asks_nobody = not self.settings.query.list_language_model_keys()
        if self.settings.embedding.provider == "local" and asks_nobody:
            await self._engine.search(SearchQuestion("what is this"), self.access)
        collect_less_often()

    @_on_background_loop
    async def feedback(
        self, query_id: str, result_id: str, judgement: Judgement, *, access: Access | None = None
    ) -> None:
        """Record whether a result was clicked, useful or useless; see `FeedbackLog.record`."""
        await asyncio.to_thread(
            self._feedback.record,
            await self._resolve_access(access),
            query_id=query_id,
            result_id=result_id,
            judgement=judgement,
        )

    @_on_background_loop
    async def report_model_call(
        self, report: ModelCallRequest, *, access: Access | None = None
    ) -> ModelCallResponse:
        """Record a call of a language model that an agent made itself, on the account of the caller.

        Raises `InvalidQuery`: see `build_reported_call`.
        """
        from knowledge_pipeline.contract.operation import ModelCallResponse  # most processes only search

        access = (access or self.access).with_current_labels()
        caller = access.caller
        call = build_reported_call(
            report, access.account, self.settings, interface=caller.interface, token=caller.token
        )
        self._record_call(call)
        reached = await self._budgets.describe_reached(call.account) if self._budgets else None
        return ModelCallResponse(call.cost, reached)

    def _record_call(self, call: ModelCall) -> None:
        if self._budgets:
            self._budgets.note(call)
        self._calls.record(call)

    def open_index(self) -> LiveIndex | FederatedIndex:
        """What questions are asked of, opened anew: for one event loop."""
        if self._members is None:
            return LiveIndex(self._lake, self._choose_lake)
        from knowledge_pipeline.extensions.federation import FederatedIndex

        return FederatedIndex(self._lake, self._members, timeout_s=self.settings.federation.timeout_s)

    @property
    def is_logging(self) -> bool:
        """Whether the last query could be logged, or none has to be."""
        return self._log is None or not self._log.is_failing

    def close(self) -> None:
        """Free the threads and write the rest of the logs; no query is possible after.

        Queries that are still running raise `RuntimeError`.
        """
        self.loop.close()
        self._engine.close()
        self._calls.close()
        self._feedback.close()
        if self._log:
            self._log.close()

    async def __aenter__(self) -> AsyncKnowledgeBase:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    @_on_background_loop
    async def _query_graph(self, request: GraphRequest, access: Access | None) -> GraphResponse:
        limits.check_graph(self.settings.limits, request)
        access = await self._resolve_access(access)
        folders = self._folders_of(access)
        filters = folders.localize_filters(request.filters)
        located = replace(request, target=folders.localize(request.target), filters=filters)
        query = self._background.choose(self._engine, Engine.query_graph)
        age = FreshnessRequest(request.max_age, replace(filters, source_types=("code",)))
        try:
            response = replace(await self._ask(lambda: query(located, access)), target=request.target)
        except NotFound as error:
            _, note = await self._freshness.describe((), self._list_sources(), access, age, in_vain=True)
            raise NotFound("; ".join(filter(None, [str(error), note]))) from None
        text = f"{request.operation.path} {request.target}"
        response = await self._record("graph", text, access, response, age)
        return await self._working_tree.mark_graph(response, partial(self._read_lines, access))

    async def _read_lines(self, access: Access, places: Collection[CodePlace]) -> SearchResponse:
        code = Filters(source_types=("code",))
        return await self._ask(lambda: self._engine.read_lines(places, access, code))

    async def _aclose(self) -> None:
        await self._background.aclose()
        await self._engine.aclose()

    async def _ask(self, operation: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """What the engine or the code graph answers; of several stores, without one that fails."""
        return await operation() if isinstance(self._index, LiveIndex) else await self._index.ask(operation)

    def list_visible_types(self, access: Access) -> set[SourceType]:
        """The types of the declared sources that a caller may know of."""
        return {source.type for source in self._list_sources() if may_see_source(source.access, access)}

    def _list_sources(self) -> tuple[SourceConfig, ...]:
        """As declared now, in the folders of the working tree that is asked from."""
        if self._members:
            return self.settings.sources
        known, moved = self._declared.list_known(), self._moved
        return tuple(
            it.model_copy(update={"connection": moved[it.id]}) if it.id in moved else it for it in known
        )

    def _folders_of(self, access: Access) -> SourceFolders:
        return SourceFolders(self._list_sources(), access)

    async def _localize_id(self, id: str, access: Access | None) -> tuple[str, Access]:
        """What is named in the folders of this machine as its source has it, and the access of the caller."""
        limits.check_id(self.settings.limits, id)
        access = await self._resolve_access(access)
        return self._folders_of(access).localize(id), access

    async def _resolve_access(self, access: Access | None) -> Access:
        access = (access or self.access).with_current_labels()
        if self._members:
            return await self._members.resolve_access(access)
        stored = frozenset[str]() if access.everything else await self._audiences.list_stored()
        declared = self._declared
        return await self._audiences.add(declared.narrow(access, stored), declared.list_permission_ages())

    async def _record_search(
        self,
        kind: str,
        text: str,
        access: Access,
        response: SearchResponse,
        age: FreshnessRequest,
        blame: bool,
    ) -> SearchResponse:
        """Log a response, and say of its results whether their files have changed since."""
        response = await self._record(kind, text, access, response, age)
        if blame:
            response = await self._blame.mark_search(response, access)
        return await self._working_tree.mark_search(response, partial(self._read_lines, access))

    async def _record(
        self, kind: str, text: str, access: Access, response: ResponseT, request: FreshnessRequest
    ) -> ResponseT:
        """The response with the id that its caller gets, and how current its sources are; logged."""
        response = await self._freshness.annotate(response, self._list_sources(), access, request)
        response = replace(response, query_id=self._query_ids.issue(response.query_id, access))
        if self._log and access.caller.is_logged:
            self._log.record(kind, text, access, response)
        if self._heard:
            self._heard(kind, text, access, response)
        return response


class KnowledgeBase(SyncFacade[AsyncKnowledgeBase]):
    """`AsyncKnowledgeBase`, for code that waits for the response. Threads may share one."""

    def __init__(
        self,
        settings: Settings,
        *,
        config: Path | None = None,
        access: Access | None = None,
        audited: bool = False,
        heard: ResponseListener | None = None,
        choose_lake: Callable[[], Lake] | None = None,
    ) -> None:
        base = AsyncKnowledgeBase(
            settings, config=config, access=access, audited=audited, heard=heard, choose_lake=choose_lake
        )
        super().__init__(base, base.loop)
        self.settings = settings
        self.asynchronous = base  # the same, for asynchronous code
        self.graph = Graph(base.graph, base.loop)

    @classmethod
    def open(cls, location: Path | str | Settings = ".", *, access: Access | None = None) -> KnowledgeBase:
        """See `AsyncKnowledgeBase.open`."""
        settings, config = _load_settings(location)
        return cls(settings, config=config, access=access)

    search = blocking(AsyncKnowledgeBase.search)
    similar = blocking(AsyncKnowledgeBase.similar)
    get = blocking(AsyncKnowledgeBase.get)
    build_document = blocking(AsyncKnowledgeBase.build_document)
    trace = blocking(AsyncKnowledgeBase.trace)
    related = blocking(AsyncKnowledgeBase.related)
    context = blocking(AsyncKnowledgeBase.context)
    status = blocking(AsyncKnowledgeBase.status)
    count_documents = blocking(AsyncKnowledgeBase.count_documents)
    list_sources = blocking(AsyncKnowledgeBase.list_sources)
    health = blocking(AsyncKnowledgeBase.health)
    prewarm = blocking(AsyncKnowledgeBase.prewarm)
    feedback = blocking(AsyncKnowledgeBase.feedback)
    report_model_call = blocking(AsyncKnowledgeBase.report_model_call)

    def close(self) -> None:
        """Free the threads and write the rest of the logs; see `AsyncKnowledgeBase.close`."""
        self.asynchronous.close()

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _load_settings(location: Path | str | Settings) -> tuple[Settings, Path | None]:
    if isinstance(location, Settings):
        return location, None
    path = Path(location).expanduser()
    config = file.find_config(path) if path.is_dir() else path
    return load_shared_settings(config), config
