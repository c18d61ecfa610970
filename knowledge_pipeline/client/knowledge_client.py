"""The methods of `KnowledgeBase` against a server; those with an `a` before the name are awaitable."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self
from urllib.parse import quote

from knowledge_pipeline.client.responses import (
    ContextResponseDict,
    GraphResponseDict,
    RelationsResponseDict,
    SearchResponseDict,
    StatusResponseDict,
)
from knowledge_pipeline.client.transport import ApiRequest, Transport
from knowledge_pipeline.contract.filters import FILTER_NAMES, Filters
from knowledge_pipeline.contract.graph_operations import GRAPH_OPERATIONS, GraphMethod
from knowledge_pipeline.contract.types import CallDirection, Judgement, SearchType, TaskKind

API_PREFIX = "/api/v1/knowledge"

FiltersLike = Filters | Mapping[str, Any]
"""Filters, or a dictionary with the names of their fields."""

_STATUS_REQUEST = ApiRequest("GET", f"{API_PREFIX}/status")


class KnowledgeClient:
    """One server, queried as the holder of a token. Threads may share it; tasks of one event loop, too.

    Args:
        url: the server: `https://knowledge.example.org`.
        token: from `knowledge token create`; None: anonymous.
        timeout_s: how long one attempt may take.
        tries: how many attempts at most, if another may help: no connection, too many requests, a server
            that cannot answer now.

    A parameter that is None has the server's default.

    Raises (all methods):
        KnowledgeError: as the server reports it: `NotFound`, `InvalidQuery`, `Unauthenticated`, …;
            `TransientError` if the server does not answer.
    """

    def __init__(
        self, url: str, token: str | None = None, *, timeout_s: float = 60.0, tries: int = 4
    ) -> None:
        self._transport = Transport(url, token, timeout_s=timeout_s, max_attempts=tries)

    def search(
        self,
        query: str,
        *,
        type: SearchType | None = None,
        filters: FiltersLike | None = None,
        limit: int | None = None,
        explain: bool | None = None,
    ) -> SearchResponseDict:
        """The results that answer a query best."""
        return self._transport.send(
            _post("search", query=query, type=type, filters=filters, limit=limit, explain=explain)
        )

    def similar(
        self,
        *,
        text: str | None = None,
        path: str | None = None,
        source: str | None = None,
        filters: FiltersLike | None = None,
        limit: int | None = None,
        explain: bool | None = None,
    ) -> SearchResponseDict:
        """Results similar to a `text`, or to the file at a `path`."""
        return self._transport.send(
            _post(
                "similar", text=text, path=path, source=source, filters=filters, limit=limit, explain=explain
            )
        )

    def get(self, id: str) -> SearchResponseDict:
        """One chunk by its id, or all chunks of a document by "source:uri"."""
        return self._transport.send(_get(id))

    def related(self, target: str) -> RelationsResponseDict:
        """What a document closes, implements, references, and the documents that do so with it."""
        return self._transport.send(_post("related", target=target))

    def context(
        self,
        task: str,
        *,
        kind: TaskKind | None = None,
        file: str | None = None,
        source: str | None = None,
        snippet: str | None = None,
        filters: FiltersLike | None = None,
        max_tokens: int | None = None,
        template: str | None = None,
    ) -> ContextResponseDict:
        """What an agent should read before a task."""
        return self._transport.send(
            _post(
                "context",
                task=task,
                kind=kind,
                file=file,
                source=source,
                snippet=snippet,
                filters=filters,
                max_tokens=max_tokens,
                template=template,
            )
        )

    def graph(
        self,
        method: GraphMethod,
        target: str,
        *,
        filters: FiltersLike | None = None,
        limit: int | None = None,
        depth: int | None = None,
        direction: CallDirection | None = None,
    ) -> GraphResponseDict:
        """One operation of the code graph; not all follow a `depth` or a `direction`."""
        return self._transport.send(_graph(method, target, filters, limit, depth, direction))

    def status(self) -> StatusResponseDict:
        """The live release, as far as the token may see it."""
        return self._transport.send(_STATUS_REQUEST)

    def feedback(self, query_id: str, result_id: str, judgement: Judgement) -> None:
        """Report what a result was worth."""
        self._transport.send(_feedback(query_id, result_id, judgement))

    async def asearch(
        self,
        query: str,
        *,
        type: SearchType | None = None,
        filters: FiltersLike | None = None,
        limit: int | None = None,
        explain: bool | None = None,
    ) -> SearchResponseDict:
        """See `search`."""
        return await self._transport.asend(
            _post("search", query=query, type=type, filters=filters, limit=limit, explain=explain)
        )

    async def asimilar(
        self,
        *,
        text: str | None = None,
        path: str | None = None,
        source: str | None = None,
        filters: FiltersLike | None = None,
        limit: int | None = None,
        explain: bool | None = None,
    ) -> SearchResponseDict:
        """See `similar`."""
        return await self._transport.asend(
            _post(
                "similar", text=text, path=path, source=source, filters=filters, limit=limit, explain=explain
            )
        )

    async def aget(self, id: str) -> SearchResponseDict:
        """See `get`."""
        return await self._transport.asend(_get(id))

    async def arelated(self, target: str) -> RelationsResponseDict:
        """See `related`."""
        return await self._transport.asend(_post("related", target=target))

    async def acontext(
        self,
        task: str,
        *,
        kind: TaskKind | None = None,
        file: str | None = None,
        source: str | None = None,
        snippet: str | None = None,
        filters: FiltersLike | None = None,
        max_tokens: int | None = None,
        template: str | None = None,
    ) -> ContextResponseDict:
        """See `context`."""
        return await self._transport.asend(
            _post(
                "context",
                task=task,
                kind=kind,
                file=file,
                source=source,
                snippet=snippet,
                filters=filters,
                max_tokens=max_tokens,
                template=template,
            )
        )

    async def agraph(
        self,
        method: GraphMethod,
        target: str,
        *,
        filters: FiltersLike | None = None,
        limit: int | None = None,
        depth: int | None = None,
        direction: CallDirection | None = None,
    ) -> GraphResponseDict:
        """See `graph`."""
        return await self._transport.asend(_graph(method, target, filters, limit, depth, direction))

    async def astatus(self) -> StatusResponseDict:
        """See `status`."""
        return await self._transport.asend(_STATUS_REQUEST)

    async def afeedback(self, query_id: str, result_id: str, judgement: Judgement) -> None:
        """See `feedback`."""
        await self._transport.asend(_feedback(query_id, result_id, judgement))

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    async def aclose(self) -> None:
        """Close the connections, those of asynchronous calls too."""
        await self._transport.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _post(route: str, /, *, filters: FiltersLike | None = None, **body: object) -> ApiRequest:
    """A request without what is None, for which the server has defaults; only filters that are set."""
    if isinstance(filters, Filters):
        filters = {name: value for name in FILTER_NAMES if (value := getattr(filters, name))}
    if filters is not None:
        body["filters"] = {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in filters.items()
        }
    given = {name: value for name, value in body.items() if value is not None}
    return ApiRequest("POST", f"{API_PREFIX}/{route}", given)


def _get(id_: str) -> ApiRequest:
    return ApiRequest("GET", f"{API_PREFIX}/{quote(id_, safe='')}")


def _graph(
    method: GraphMethod,
    target: str,
    filters: FiltersLike | None,
    limit: int | None,
    depth: int | None,
    direction: CallDirection | None,
) -> ApiRequest:
    path = f"graph/{GRAPH_OPERATIONS[method].path}"
    return _post(path, target=target, filters=filters, limit=limit, depth=depth, direction=direction)


def _feedback(query_id: str, result_id: str, judgement: Judgement) -> ApiRequest:
    body = {"query_id": query_id, "result_id": result_id, "judgement": judgement}
    return ApiRequest("POST", f"{API_PREFIX}/feedback", body, idempotent=False)
