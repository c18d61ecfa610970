"""The methods of `KnowledgeBase` against a server, awaited or synchronous."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Self
from urllib.parse import quote, urlencode

import httpx2

from knowledge_pipeline.client import responses
from knowledge_pipeline.client.transport import EMPTY_RESPONSES, ApiRequest, OnError, Transport
from knowledge_pipeline.contract.filters import (
    FILTER_NAMES,
    CallDirection,
    ContentType,
    EventType,
    FiltersLike,
    Judgement,
    SearchMode,
    SearchType,
    TaskKind,
    build_filters,
)
from knowledge_pipeline.contract.requests import GRAPH_OPERATIONS, GraphMethod
from knowledge_pipeline.contract.usage_labels import UsageLabels
from knowledge_pipeline.errors import InvalidQuery, TooManyRequests, TransientError
from knowledge_pipeline.sync_facade import BackgroundLoop, SyncFacade, blocking, same_arguments

SILENT_S = 60.0  # without an event or a comment, after which a connection counts as broken
FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 30.0  # before connecting again


async def iter_events(
    transport: Transport, path: str, types: Sequence[str], after: str | None
) -> AsyncGenerator[responses.EventDict]:
    """Events as they come; where the connection breaks, it goes on after the last one.

    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
    """
    pause_s, position = FIRST_PAUSE_S, after
    while True:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": position} if position else {})
        try:
            async with transport.stream(path, {"types": list(types)}, headers, read_s=SILENT_S) as response:
                async for fields in _iter_fields(response.aiter_lines()):
                    pause_s, position = FIRST_PAUSE_S, fields.get("id", position)
                    if "data" in fields:
                        event: Any = json.loads(fields["data"])
                        event["position"] = position
                        yield event
        except (httpx2.TransportError, TransientError, TooManyRequests):
            pass
        await asyncio.sleep(pause_s)
        pause_s = min(MAX_PAUSE_S, pause_s * 2)


async def _iter_fields(lines: AsyncIterator[str]) -> AsyncIterator[dict[str, str]]:
    fields: dict[str, str] = {}
    async for line in lines:
        if not line:
            if fields:
                yield fields
            fields = {}
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name:
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value


API_PREFIX = "/api/v1/knowledge"

_PATIENCE: Mapping[OnError, tuple[float, int]] = {"raise": (60.0, 4), "empty": (10.0, 2)}
"""Seconds of an attempt, and attempts."""

_KINDS = {"search": "search", "similar": "search", "related": "related", "context": "context"}
"""By route, of which the others are of the code graph."""


class AsyncKnowledgeClient:
    """One server, queried as the holder of a token. The tasks of one event loop may share it.

    Args:
        url: the server: `https://knowledge.example.org`, with a path where a proxy serves it below one.
        token: from `knowledge token create`; None: anonymous.
        timeout_s: how long one attempt may take; by default 60, and 10 where errors give empty responses.
        tries: how many attempts at most, if another may help: no connection, too many requests, a server
            that cannot answer now; by default 4, or 2.
        on_error: "empty" is for an assistant that goes on without knowledge while the server cannot answer:
            `search`, `similar`, `related`, `context` and `graph` then have an empty response with the reason
            (`problem`, and "server" in `degraded`), and a server that failed three times in a row is left
            alone for 30 s. What is the caller's mistake is raised all the same.
        session, project, on_behalf_of: labels of all requests, for the server's logs and budgets; nobody sees
            more or less by them.

    A parameter that is None has the server's default.

    Raises:
        InvalidQuery: `url` or `on_error` is wrong.

    Raises (all methods):
        KnowledgeError: as the server reports it: `NotFound`, `InvalidQuery`, `Unauthenticated`, …;
            `TransientError` if the server does not answer.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float | None = None,
        tries: int | None = None,
        on_error: OnError = "raise",
        session: str | None = None,
        project: str | None = None,
        on_behalf_of: str | None = None,
    ) -> None:
        if on_error not in _PATIENCE:
            raise InvalidQuery(f"on_error is {str(on_error)[:50]!r}: give one of {', '.join(_PATIENCE)}")
        patience_s, attempts = _PATIENCE[on_error]
        self._transport = Transport(
            url,
            token,
            timeout_s=patience_s if timeout_s is None else timeout_s,
            max_attempts=attempts if tries is None else tries,
            on_error=on_error,
            labels=UsageLabels(session, project, on_behalf_of),
        )

    async def search(
        self,
        query: str,
        *,
        type: SearchType | None = None,
        filters: FiltersLike | None = None,
        limit: int | None = None,
        explain: bool | None = None,
        blame: bool | None = None,
        mode: SearchMode | None = None,
        include_metadata: bool | None = None,
        max_age: str | None = None,
    ) -> responses.SearchResponseDict:
        """The results that answer a query best; with `blame` they say who last changed their lines."""
        options = {"limit": limit, "explain": explain, "blame": blame, "include_metadata": include_metadata}
        question = {"query": query, "type": type, "mode": mode, "max_age": max_age}
        return await self._post("search", filters=filters, **question, **options)

    async def similar(
        self,
        *,
        text: str | None = None,
        path: str | None = None,
        source: str | None = None,
        filters: FiltersLike | None = None,
        limit: int | None = None,
        explain: bool | None = None,
        mode: SearchMode | None = None,
        content_type: ContentType | None = None,
        max_age: str | None = None,
    ) -> responses.SearchResponseDict:
        """Results similar to a `text`, or to the file at a `path`."""
        options = {"source": source, "limit": limit, "explain": explain, "mode": mode}
        options |= {"content_type": content_type, "max_age": max_age}
        return await self._post("similar", text=text, path=path, filters=filters, **options)

    async def get(
        self, id: str, *, blame: bool = False, max_age: str | None = None
    ) -> responses.SearchResponseDict:
        """One chunk by its id, or all chunks of a document by "source:uri"; `blame` as for `search`."""
        return await self._get(quote(id, safe=""), blame="true" if blame else None, max_age=max_age)

    async def trace(self, id: str, *, max_age: str | None = None) -> responses.TraceResponseDict:
        """What made a chunk: the document as read, the refresh, its Dagster run, the first release."""
        return await self._get(f"trace/{quote(id, safe='')}", max_age=max_age)

    async def related(self, target: str, *, max_age: str | None = None) -> responses.RelationsResponseDict:
        """What a document closes, implements, references, and the documents that do so with it."""
        return await self._post("related", target=target, max_age=max_age)

    async def context(
        self,
        task: str,
        *,
        kind: TaskKind | None = None,
        file: str | None = None,
        files: Sequence[str] | None = None,
        source: str | None = None,
        snippet: str | None = None,
        suffix: str | None = None,
        history: Sequence[Mapping[str, str]] | None = None,
        filters: FiltersLike | None = None,
        max_tokens: int | None = None,
        template: str | None = None,
        max_age: str | None = None,
        include_text: bool | None = None,
        include_metadata: bool | None = None,
    ) -> responses.ContextResponseDict:
        """What an agent should read before a task.

        The history of a chat is `{"role": "user", "content": "…"}` for each message. Excerpts have their
        text, which the prompt has too, and their metadata if these are included.
        """
        about = {"kind": kind, "file": file, "files": files, "source": source, "history": history}
        code, size = {"snippet": snippet, "suffix": suffix}, {"max_tokens": max_tokens, "template": template}
        parts = {"max_age": max_age, "include_text": include_text, "include_metadata": include_metadata}
        return await self._post("context", task=task, filters=filters, **about, **code, **size, **parts)

    async def graph(
        self,
        method: GraphMethod,
        target: str,
        *,
        filters: FiltersLike | None = None,
        limit: int | None = None,
        depth: int | None = None,
        direction: CallDirection | None = None,
        max_age: str | None = None,
    ) -> responses.GraphResponseDict:
        """One operation of the code graph; not all follow a `depth` or a `direction`."""
        options = {"target": target, "limit": limit, "depth": depth, "direction": direction}
        options |= {"max_age": max_age}
        return await self._post(f"graph/{GRAPH_OPERATIONS[method].path}", filters=filters, **options)

    async def status(self) -> responses.StatusResponseDict:
        """The live release, as far as the token may see it."""
        return await self._get("status")

    async def feedback(self, query_id: str, result_id: str, judgement: Judgement) -> None:
        """Report what a result was worth."""
        body = {"query_id": query_id, "result_id": result_id, "judgement": judgement}
        request = ApiRequest("POST", f"{API_PREFIX}/feedback", body, idempotent=False)
        await self._transport.send(request)

    def events(
        self, *, types: Sequence[EventType] = (), after: str | None = None
    ) -> AsyncGenerator[responses.EventDict]:
        """Follow what is refreshed, released, and what failed; it ends only when the caller stops.

        The token needs the scope `events`. `after` is the `position` of the last event that is known; by
        default it starts now. A broken connection is made again, and no event is lost or sent twice.
        """
        return iter_events(self._transport, f"{API_PREFIX}/events", types, after)

    async def report_model_call(
        self,
        provider: str,
        model: str,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cost: float | None = None,
        seconds: float = 0.0,
        error: str | None = None,
        prompt: str | None = None,
        response: str | None = None,
    ) -> responses.ModelCallResponseDict:
        """Report a call of a language model that this program made; the token needs the scope `report`."""
        body = {
            **{"provider": provider, "model": model, "input_tokens": input_tokens},
            **{"output_tokens": output_tokens, "cost": cost, "seconds": seconds, "error": error},
            **{"prompt": prompt, "response": response},
        }
        content = {name: value for name, value in body.items() if value is not None}
        request = ApiRequest("POST", f"{API_PREFIX}/model-calls", content, idempotent=False)
        return await self._transport.send(request)

    async def push(
        self,
        source: str,
        id: str,
        text: str,
        *,
        title: str | None = None,
        url: str | None = None,
        author: str | None = None,
        updated: datetime | None = None,
        created: datetime | None = None,
        language: str | None = None,
        labels: Sequence[str] = (),
        project: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> responses.PushResponseDict:
        """Add a document to a source of type `push`, or replace it; the token needs the scope `push`."""
        times = {"updated": updated, "created": created}
        body = {
            **{"source": source, "id": id, "text": text, "title": title, "url": url, "author": author},
            **{name: value and value.isoformat() for name, value in times.items()},
            **{"language": language, "labels": list(labels) or None, "project": project, "status": status},
            "metadata": metadata,
        }
        content = {name: value for name, value in body.items() if value is not None}
        return await self._transport.send(ApiRequest("POST", f"{API_PREFIX}/documents", content))

    async def delete(self, source: str, id: str) -> responses.PushResponseDict:
        """Delete a document that was pushed; the token needs the scope `push`."""
        path = f"{API_PREFIX}/documents?{urlencode({'source': source, 'id': id})}"
        return await self._transport.send(ApiRequest("DELETE", path, idempotent=False))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _get(self, path: str, **parameters: str | None) -> Any:
        query = urlencode({name: value for name, value in parameters.items() if value is not None})
        return await self._transport.send(ApiRequest("GET", f"{API_PREFIX}/{path}{'?' * bool(query)}{query}"))

    async def _post(self, route: str, /, *, filters: FiltersLike | None = None, **body: object) -> Any:
        """Send what is not None, for which the server has defaults; only filters that are set."""
        if filters is not None:
            checked = build_filters(filters)
            values = {name: value for name in FILTER_NAMES if (value := getattr(checked, name))}
            body["filters"] = {
                name: value.isoformat() if isinstance(value, datetime) else value
                for name, value in values.items()
            }
        content = {name: value for name, value in body.items() if value is not None}
        empty = EMPTY_RESPONSES[_KINDS.get(route, "graph")]
        return await self._transport.send(ApiRequest("POST", f"{API_PREFIX}/{route}", content, empty=empty))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class KnowledgeClient(SyncFacade[AsyncKnowledgeClient]):
    """`AsyncKnowledgeClient`, for code that waits for the response. Threads may share one."""

    @same_arguments(AsyncKnowledgeClient.__init__)
    def __init__(self, *arguments: Any, **options: Any) -> None:
        client = AsyncKnowledgeClient(*arguments, **options)
        loop = BackgroundLoop("KnowledgeClient", on_start=lambda: None, on_close=client.aclose)
        super().__init__(client, loop)

    search = blocking(AsyncKnowledgeClient.search)
    similar = blocking(AsyncKnowledgeClient.similar)
    get = blocking(AsyncKnowledgeClient.get)
    trace = blocking(AsyncKnowledgeClient.trace)
    related = blocking(AsyncKnowledgeClient.related)
    context = blocking(AsyncKnowledgeClient.context)
    graph = blocking(AsyncKnowledgeClient.graph)
    status = blocking(AsyncKnowledgeClient.status)
    feedback = blocking(AsyncKnowledgeClient.feedback)
    report_model_call = blocking(AsyncKnowledgeClient.report_model_call)
    push = blocking(AsyncKnowledgeClient.push)
    delete = blocking(AsyncKnowledgeClient.delete)

    def events(
        self, *, types: Sequence[EventType] = (), after: str | None = None
    ) -> Generator[responses.EventDict]:
        """Follow events as `AsyncKnowledgeClient.events` does; the caller waits for each."""
        events = self._target.events(types=types, after=after)

        async def find_next() -> responses.EventDict:
            return await anext(events)

        try:
            while True:
                yield self._loop.wait_for(find_next())
        finally:
            with suppress(RuntimeError):  # the client is closed, which ended them
                self._loop.wait_for(events.aclose())

    def close(self) -> None:
        """Close the connections; calls that still wait raise `RuntimeError`."""
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
