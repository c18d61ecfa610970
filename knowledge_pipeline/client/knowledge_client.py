"""The questions of `KnowledgeBase`, asked of a server: each at once, and to be awaited with an `a` before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any, Literal, Self
from urllib.parse import quote

from knowledge_pipeline.client.responses import Answer, Context, GraphAnswer, Relations, Status
from knowledge_pipeline.client.transport import Request, Wire

API = "/api/v1/knowledge"

GraphQuestion = Literal[
    "find_usages",
    "find_references",
    "get_call_graph",
    "get_class_hierarchy",
    "get_dependencies",
    "analyze_dependencies",
    "find_related_code",
]
_GRAPH_PATHS: Mapping[GraphQuestion, str] = {
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
        self._wire = Wire(url, token, timeout_s=timeout_s, tries=tries)

    def search(self, query: str, **how: Any) -> Answer:
        """The passages that answer a question best; `how`: type, filters, limit, explain."""
        return self._wire.send(_posted("/search", query=query, **how))

    def similar(self, **how: Any) -> Answer:
        """What is like a `text`, or like the file at a `path`; `how`: source, filters, limit, explain."""
        return self._wire.send(_posted("/similar", **how))

    def get(self, id: str) -> Answer:
        """One chunk by its id, or all chunks of a document by "source:uri"."""
        return self._wire.send(_got(id))

    def related(self, target: str) -> Relations:
        """What a document closes, implements, references; what says so of it."""
        return self._wire.send(_related(target))

    def context(self, task: str, **how: Any) -> Context:
        """What to read before a task; `how`: kind, file, source, snippet, filters, max_tokens, template."""
        return self._wire.send(_posted("/context", task=task, **how))

    def graph(self, question: GraphQuestion, target: str, **how: Any) -> GraphAnswer:
        """A question to the code graph; `how`: depth, direction, filters, limit, as the question has them."""
        return self._wire.send(_of_graph(question, target, how))

    def status(self) -> Status:
        """What is live, as far as the token may see it."""
        return self._wire.send(Request("GET", f"{API}/status"))

    def feedback(
        self, query_id: str, result_id: str, judgement: Literal["clicked", "useful", "useless"]
    ) -> None:
        """Say what a result of an answer was worth."""
        self._wire.send(_judged(query_id, result_id, judgement))

    async def asearch(self, query: str, **how: Any) -> Answer:
        """See `search`."""
        return await self._wire.asend(_posted("/search", query=query, **how))

    async def asimilar(self, **how: Any) -> Answer:
        """See `similar`."""
        return await self._wire.asend(_posted("/similar", **how))

    async def aget(self, id: str) -> Answer:
        """See `get`."""
        return await self._wire.asend(_got(id))

    async def arelated(self, target: str) -> Relations:
        """See `related`."""
        return await self._wire.asend(_related(target))

    async def acontext(self, task: str, **how: Any) -> Context:
        """See `context`."""
        return await self._wire.asend(_posted("/context", task=task, **how))

    async def agraph(self, question: GraphQuestion, target: str, **how: Any) -> GraphAnswer:
        """See `graph`."""
        return await self._wire.asend(_of_graph(question, target, how))

    async def astatus(self) -> Status:
        """See `status`."""
        return await self._wire.asend(Request("GET", f"{API}/status"))

    async def afeedback(
        self, query_id: str, result_id: str, judgement: Literal["clicked", "useful", "useless"]
    ) -> None:
        """See `feedback`."""
        await self._wire.asend(_judged(query_id, result_id, judgement))

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    async def aclose(self) -> None:
        """Close the connections, those of asynchronous questions too."""
        await self._wire.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _posted(route: str, /, **body: Any) -> Request:
    """What is not given is left to the server."""
    given = {name: _plain(value) for name, value in body.items() if value is not None}
    return Request("POST", f"{API}{route}", given)


def _got(id_: str) -> Request:
    return Request("GET", f"{API}/{quote(id_, safe='')}")


def _related(target: str) -> Request:
    return _posted("/related", target=target)


def _of_graph(question: GraphQuestion, target: str, how: Mapping[str, Any]) -> Request:
    return _posted(f"/graph/{_GRAPH_PATHS[question]}", target=target, **how)


def _judged(query_id: str, result_id: str, judgement: str) -> Request:
    body = {"query_id": query_id, "result_id": result_id, "judgement": judgement}
    return Request("POST", f"{API}/feedback", body, repeatable=False)


def _plain(value: Any) -> Any:
    """As JSON has it; of a `Filters` only what is set."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(inner) for name, inner in asdict(value).items() if inner}
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value.isoformat() if isinstance(value, datetime) else value
