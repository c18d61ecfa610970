"""The Python door: open a project's knowledge and ask it, from plain or from asynchronous code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, TypeVar

from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.requests import Task
from knowledge_pipeline.contract.responses import (
    ContextResponse,
    GraphResponse,
    RelationsResponse,
    SearchResponse,
    StatusResponse,
)
from knowledge_pipeline.contract.types import Judgement
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.build import get_context
from knowledge_pipeline.query.code_graph.engine import CodeGraph, GraphRequest
from knowledge_pipeline.query.code_graph.interface import GraphCall, GraphQueries
from knowledge_pipeline.query.health import ComponentHealth, check_health
from knowledge_pipeline.query.log.feedback import record_judgement
from knowledge_pipeline.query.log.model_calls import ModelCallLog
from knowledge_pipeline.query.log.queries import QueryLog
from knowledge_pipeline.query.open_release import LiveIndex
from knowledge_pipeline.query.search.cache import AnswerCache
from knowledge_pipeline.query.search.engine import Engine, SearchType
from knowledge_pipeline.query.status import read_status
from knowledge_pipeline.store.lake import Lake

CLOSE_S = 5.0  # how long `close` waits for the background loop to end
_CLOSED_MESSAGE = "this KnowledgeBase was closed before it had an answer"

ResultT = TypeVar("ResultT")
AnswerT = TypeVar("AnswerT", SearchResponse, GraphResponse, RelationsResponse)

AnswerListener = Callable[[str, str, Access, SearchResponse | GraphResponse | RelationsResponse], None]
"""Told of every answer, with the kind and the text of its question and who asked; must not raise."""


class KnowledgeBase:
    """A store and the settings that explain it. Threads may share one; it is a context manager.

    `access` is whose questions these are. Whoever opens the store's files can read them all, so
    the default sees everything; a service passes the access of its caller with every question. With
    `audited` an answer is given only when its line of the log is on disk. `heard` is told of every
    answer, in the context of its question, on the thread that answers.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        access: Access | None = None,
        audited: bool = False,
        heard: AnswerListener | None = None,
    ) -> None:
        self.settings = settings
        self.access = access or Access.operator()
        self._lake = Lake(settings.store)
        self._heard = heard
        self._calls = ModelCallLog(self._lake)
        live = LiveIndex(self._lake)
        cache = AnswerCache(settings.query.cache)
        self._engine = Engine(settings, self._lake, index=live, record=self._calls.record, cache=cache)
        self._log = QueryLog(self._lake, durable=audited) if settings.logs.queries else None
        code = CodeGraph(live)
        self.graph: GraphQueries[GraphResponse] = GraphQueries(
            code,
            lambda asked, question, who: self._run_blocking(self._run_graph_request(asked, question, who)),
        )
        self.agraph: GraphQueries[Awaitable[GraphResponse]] = GraphQueries(
            code,
            lambda asked, question, who: self._run_on_engine_loop(
                self._run_graph_request(asked, question, who)
            ),
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()

    @classmethod
    def open(cls, place: Path | str | Settings = ".", *, access: Access | None = None) -> KnowledgeBase:
        """Open by settings, by a `knowledge.yaml`, or by a folder in or under the one that has it.

        Raises:
            ConfigError: there is no `knowledge.yaml`, or it is wrong.
        """
        if isinstance(place, Settings):
            return cls(place, access=access)
        path = Path(place).expanduser()
        return cls(file.load_settings(file.find_config(path) if path.is_dir() else path), access=access)

    def search(
        self,
        text: str,
        *,
        type: SearchType = "semantic",
        filters: Filters = Filters(),  # noqa: B008 - frozen
        limit: int | None = None,
        explain: bool = False,
        access: Access | None = None,
    ) -> SearchResponse:
        """See `Engine.search`."""
        who = access or self.access
        return self._run_blocking(
            self._run_search(text, who, type, filters=filters, limit=limit, explain=explain)
        )

    def similar(
        self,
        *,
        text: str | None = None,
        path: str | None = None,
        source: str | None = None,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        limit: int | None = None,
        explain: bool = False,
        access: Access | None = None,
    ) -> SearchResponse:
        """See `Engine.similar`."""
        who = access or self.access
        how = {"source": source, "filters": filters, "limit": limit, "explain": explain}
        return self._run_blocking(self._run_similar(who, text, path, **how))

    def get(self, id: str, *, access: Access | None = None) -> SearchResponse:
        """See `Engine.get`."""
        return self._run_blocking(self._run_get(id, access or self.access))

    def related(self, target: str, *, access: Access | None = None) -> RelationsResponse:
        """See `Engine.related`."""
        return self._run_blocking(self._run_related(target, access or self.access))

    def context(
        self,
        task: Task | str,
        *,
        max_tokens: int | None = None,
        template: str | Path | None = None,
        access: Access | None = None,
    ) -> ContextResponse:
        """What an agent should read before it does a task; see `get_context`.

        A plain text is a task of the kind `code_generation`.
        """
        who = access or self.access
        return self._run_blocking(self._run_context(task, who, max_tokens=max_tokens, template=template))

    def status(self, *, access: Access | None = None) -> StatusResponse:
        """What is live and how much of it the caller may see; see `Status`."""
        return self._run_blocking(read_status(self.settings, self._lake, access or self.access))

    def feedback(
        self, query_id: str, result_id: str, judgement: Judgement, *, access: Access | None = None
    ) -> None:
        """Say whether a result of an answer was clicked, useful or useless; see `feedback.judge`."""
        self._run_blocking(self._record_judgement(query_id, result_id, judgement, access or self.access))

    async def asearch(
        self,
        text: str,
        *,
        type: SearchType = "semantic",
        filters: Filters = Filters(),  # noqa: B008 - frozen
        limit: int | None = None,
        explain: bool = False,
        access: Access | None = None,
    ) -> SearchResponse:
        """See `Engine.search`."""
        who = access or self.access
        asked = self._run_search(text, who, type, filters=filters, limit=limit, explain=explain)
        return await self._run_on_engine_loop(asked)

    async def asimilar(
        self,
        *,
        text: str | None = None,
        path: str | None = None,
        source: str | None = None,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        limit: int | None = None,
        explain: bool = False,
        access: Access | None = None,
    ) -> SearchResponse:
        """See `Engine.similar`."""
        who = access or self.access
        how = {"source": source, "filters": filters, "limit": limit, "explain": explain}
        return await self._run_on_engine_loop(self._run_similar(who, text, path, **how))

    async def aget(self, id: str, *, access: Access | None = None) -> SearchResponse:
        """See `Engine.get`."""
        return await self._run_on_engine_loop(self._run_get(id, access or self.access))

    async def arelated(self, target: str, *, access: Access | None = None) -> RelationsResponse:
        """See `Engine.related`."""
        return await self._run_on_engine_loop(self._run_related(target, access or self.access))

    async def acontext(
        self,
        task: Task | str,
        *,
        max_tokens: int | None = None,
        template: str | Path | None = None,
        access: Access | None = None,
    ) -> ContextResponse:
        """See `context`."""
        who = access or self.access
        return await self._run_on_engine_loop(
            self._run_context(task, who, max_tokens=max_tokens, template=template)
        )

    async def astatus(self, *, access: Access | None = None) -> StatusResponse:
        """See `status`."""
        return await self._run_on_engine_loop(read_status(self.settings, self._lake, access or self.access))

    async def ahealth(self) -> Mapping[str, ComponentHealth]:
        """Which parts of answering work now; see `health.health_of`."""
        return await self._run_on_engine_loop(check_health(self.settings, self._lake, self._engine))

    async def aprewarm(self) -> None:
        """Read the released indexes into memory, before the first question has to wait for them.

        Raises:
            NotFound: nothing is released yet.
            StoreError: they cannot be read.
        """
        await self._run_on_engine_loop(LiveIndex(self._lake).prewarm())

    async def afeedback(
        self, query_id: str, result_id: str, judgement: Judgement, *, access: Access | None = None
    ) -> None:
        """See `feedback`."""
        await self._run_on_engine_loop(
            self._record_judgement(query_id, result_id, judgement, access or self.access)
        )

    def close(self) -> None:
        """Free the threads and write the rest of the logs; nothing can be asked after.

        Questions that are still under way are given up: they raise `RuntimeError`.
        """
        with self._lock:
            running = None if self._closed else self._loop
            self._closed = True  # before the loop ends, and its questions are told so
            if running is not None:
                running.call_soon_threadsafe(running.stop)
        if self._thread is not None:
            self._thread.join(CLOSE_S)
        self._engine.close()
        self._calls.close()
        if self._log:
            self._log.close()

    def __enter__(self) -> KnowledgeBase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _run_search(
        self, text: str, access: Access, type: SearchType, **options: Any
    ) -> SearchResponse:
        return self._record_answer(
            type, text, access, await self._engine.search(text, access, type=type, **options)
        )

    async def _run_similar(
        self, access: Access, text: str | None, path: str | None, **options: Any
    ) -> SearchResponse:
        answer = await self._engine.similar(access, text=text, path=path, **options)
        return self._record_answer("similar", text or path or "", access, answer)

    async def _run_get(self, id: str, access: Access) -> SearchResponse:
        return self._record_answer("get", id, access, await self._engine.get(id, access))

    async def _run_related(self, target: str, access: Access) -> RelationsResponse:
        return self._record_answer("related", target, access, await self._engine.related(target, access))

    async def _run_graph_request(
        self, request: GraphRequest, call: GraphCall, access: Access | None
    ) -> GraphResponse:
        access = access or self.access
        return self._record_answer(
            "graph", f"{request.operation} {request.target}", access, await call(access)
        )

    async def _run_context(self, task: Task | str, access: Access, **options: Any) -> ContextResponse:
        asked = Task(task) if isinstance(task, str) else task
        made = await get_context(self._engine, access, asked, self.settings.context, **options)
        answer = SearchResponse(made.query_id, made.took_ms, made.release, made.degraded, made.results, {})
        self._record_answer("context", asked.text, access, answer)
        return made

    def _record_answer(self, kind: str, text: str, access: Access, answer: AnswerT) -> AnswerT:
        if self._log:
            self._log.record(kind, text, access, answer)
        if self._heard:
            self._heard(kind, text, access, answer)
        return answer

    async def _record_judgement(self, query_id: str, result_id: str, judgement: str, access: Access) -> None:
        told = {"query_id": query_id, "result_id": result_id, "judgement": judgement}
        await asyncio.to_thread(record_judgement, self._lake, self._log, access, **told)

    def _run_blocking(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        try:
            return self._submit(coroutine).result()
        except CancelledError:
            raise RuntimeError(_CLOSED_MESSAGE) from None

    async def _run_on_engine_loop(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """On the one loop that the engine belongs to, whatever loop the caller is on."""
        started = self._submit(coroutine)
        try:
            return await asyncio.wrap_future(started)
        except asyncio.CancelledError:
            if self._closed:
                raise RuntimeError(_CLOSED_MESSAGE) from None
            raise

    def _submit(self, coroutine: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        """Under way on the background loop, which starts with the first question."""
        with self._lock:
            if self._closed:
                coroutine.close()
                raise RuntimeError("this KnowledgeBase is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                running = {"target": _run_loop, "args": (self._loop, self._engine)}
                self._thread = threading.Thread(**running, name="knowledge-base", daemon=True)
                self._thread.start()
                if self._log:
                    self._log.start()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


def _run_loop(loop: asyncio.AbstractEventLoop, engine: Engine) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.run_until_complete(_shut_down(engine))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


async def _shut_down(engine: Engine) -> None:
    """Give up what is under way, and close what belongs to the loop."""
    under_way = asyncio.all_tasks() - {asyncio.current_task()}
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)
    await engine.aclose()
