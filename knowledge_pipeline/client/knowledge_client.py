"""The questions of `KnowledgeBase`, asked of a server: each at once, and to be awaited with an `a` before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any, Literal, Self
from urllib.parse import quote

from knowledge_pipeline.client.responses import (
    ContextResponseDict,
    GraphResponseDict,
    RelationsResponseDict,
    SearchResponseDict,
    StatusResponseDict,
)
from knowledge_pipeline.client.transport import ApiRequest, Transport

API_PREFIX = "/api/v1/knowledge"

GraphQuery = Literal[
    "find_usages",
    "find_references",
    "get_call_graph",
    "get_class_hierarchy",
    "get_dependencies",
    "analyze_dependencies",
    "find_related_code",
]
_GRAPH_PATHS: Mapping[GraphQuery, str] = {
    "find_usages": "usages",
    "find_references": "references",
    "get_call_graph": "calls",
    "get_class_hierarchy": "hierarchy",
    "get_dependencies": "dependencies",
    "analyze_dependencies": "impact",
    "find_related_code": "related",
}


class KnowledgeClient:
    """One server, asked as the holder of a token. Threads may share it; tasks of one event loop, too.

    Args:
        url: where the server is: `https://knowledge.example.org`.
        token: of `knowledge token create`; None: without one.
        timeout_s: how long one try may take.
        tries: how often a question is asked at most, where trying again may help: no connection, too
            many requests, a server that cannot answer now.

    Every method takes `filters` as `Filters` or a plain dictionary of the same names.

    Raises (all methods):
        KnowledgeError: as the server tells it: `NotFound`, `QuestionRefused`, `Unauthenticated`, …;
            `TransientError`, where the server does not answer.
    """

    def __init__(
        self, url: str, token: str | None = None, *, timeout_s: float = 60.0, tries: int = 4
    ) -> None:
        self._transport = Transport(url, token, timeout_s=timeout_s, max_attempts=tries)

    def search(self, query: str, **options: Any) -> SearchResponseDict:
        """The passages that answer a question best; `how`: type, filters, limit, explain."""
        return self._transport.send(_build_post("/search", query=query, **options))

    def similar(self, **options: Any) -> SearchResponseDict:
        """What is like a `text`, or like the file at a `path`; `how`: source, filters, limit, explain."""
        return self._transport.send(_build_post("/similar", **options))

    def get(self, id: str) -> SearchResponseDict:
        """One chunk by its id, or all chunks of a document by "source:uri"."""
        return self._transport.send(_build_get(id))

    def related(self, target: str) -> RelationsResponseDict:
        """What a document closes, implements, references; what says so of it."""
        return self._transport.send(_build_related(target))

    def context(self, task: str, **options: Any) -> ContextResponseDict:
        """What to read before a task; `how`: kind, file, source, snippet, filters, max_tokens, template."""
        return self._transport.send(_build_post("/context", task=task, **options))

    def graph(self, question: GraphQuery, target: str, **options: Any) -> GraphResponseDict:
        """A question to the code graph; `how`: depth, direction, filters, limit, as the question has them."""
        return self._transport.send(_build_graph_request(question, target, options))

    def status(self) -> StatusResponseDict:
        """What is live, as far as the token may see it."""
        return self._transport.send(ApiRequest("GET", f"{API_PREFIX}/status"))

    def feedback(
        self, query_id: str, result_id: str, judgement: Literal["clicked", "useful", "useless"]
    ) -> None:
        """Say what a result of an answer was worth."""
        self._transport.send(_build_feedback(query_id, result_id, judgement))

    async def asearch(self, query: str, **options: Any) -> SearchResponseDict:
        """See `search`."""
        return await self._transport.asend(_build_post("/search", query=query, **options))

    async def asimilar(self, **options: Any) -> SearchResponseDict:
        """See `similar`."""
        return await self._transport.asend(_build_post("/similar", **options))

    async def aget(self, id: str) -> SearchResponseDict:
        """See `get`."""
        return await self._transport.asend(_build_get(id))

    async def arelated(self, target: str) -> RelationsResponseDict:
        """See `related`."""
        return await self._transport.asend(_build_related(target))

    async def acontext(self, task: str, **options: Any) -> ContextResponseDict:
        """See `context`."""
        return await self._transport.asend(_build_post("/context", task=task, **options))

    async def agraph(self, question: GraphQuery, target: str, **options: Any) -> GraphResponseDict:
        """See `graph`."""
        return await self._transport.asend(_build_graph_request(question, target, options))

    async def astatus(self) -> StatusResponseDict:
        """See `status`."""
        return await self._transport.asend(ApiRequest("GET", f"{API_PREFIX}/status"))

    async def afeedback(
        self, query_id: str, result_id: str, judgement: Literal["clicked", "useful", "useless"]
    ) -> None:
        """See `feedback`."""
        await self._transport.asend(_build_feedback(query_id, result_id, judgement))

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    async def aclose(self) -> None:
        """Close the connections, those of asynchronous questions too."""
        await self._transport.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _build_post(route: str, /, **body: Any) -> ApiRequest:
    """What is not given is left to the server."""
    given = {name: _to_json_value(value) for name, value in body.items() if value is not None}
    return ApiRequest("POST", f"{API_PREFIX}{route}", given)


def _build_get(id_: str) -> ApiRequest:
    return ApiRequest("GET", f"{API_PREFIX}/{quote(id_, safe='')}")


def _build_related(target: str) -> ApiRequest:
    return _build_post("/related", target=target)


def _build_graph_request(operation: GraphQuery, target: str, options: Mapping[str, Any]) -> ApiRequest:
    return _build_post(f"/graph/{_GRAPH_PATHS[operation]}", target=target, **options)


def _build_feedback(query_id: str, result_id: str, judgement: str) -> ApiRequest:
    body = {"query_id": query_id, "result_id": result_id, "judgement": judgement}
    return ApiRequest("POST", f"{API_PREFIX}/feedback", body, idempotent=False)


def _to_json_value(value: Any) -> Any:
    """As JSON has it; of a `Filters` only what is set."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _to_json_value(inner) for name, inner in asdict(value).items() if inner}
    if isinstance(value, Mapping):
        return {name: _to_json_value(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json_value(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime) else value
