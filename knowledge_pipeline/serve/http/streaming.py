"""Answers as JSON, or as a stream of events where the client asks for one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from fastapi.sse import format_sse_event

from knowledge_pipeline.contract.responses.search import SearchResponse
from knowledge_pipeline.serve.http.json_response import AnswerResponse

EVENT_STREAM = "text/event-stream"
STREAMED_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer; as a stream each result is an event `result`, and the rest, with how "
        "many there were, the last event, `answer`.",
        "content": {
            EVENT_STREAM: {
                "schema": {"type": "string"},
                "example": 'event: result\ndata: {"id": "…", "content": "…"}\n\n'
                'event: answer\ndata: {"query_id": "…", "results": 1}\n\n',
            }
        },
    }
}
"""The `responses` of a route whose answers can be streamed."""


def to_response(request: Request, answer: SearchResponse) -> Response:
    """An answer in the form that the request accepts."""
    if not wants_events(request.headers.get("accept", "")):
        return AnswerResponse(answer.as_json())
    headers = {"X-Accel-Buffering": "no"}  # a proxy sends on what it has
    return StreamingResponse(_iter_events(answer), media_type=EVENT_STREAM, headers=headers)


def wants_events(accept: str) -> bool:
    """Whether events are preferred to JSON by an `Accept` header."""
    wanted: dict[str, float] = {}
    for part in accept.split(","):
        kind, *parameters = (each.strip().lower() for each in part.split(";"))
        given = next((each[2:] for each in parameters if each.startswith("q=")), "1")
        wanted[kind] = float(given) if given.replace(".", "", 1).isdecimal() else 0.0
    return wanted.get(EVENT_STREAM, 0.0) > wanted.get("application/json", 0.0)


def _iter_events(answer: SearchResponse) -> Iterator[bytes]:
    rest = answer.as_json()
    results = rest.pop("results")
    for result in results:
        yield format_sse_event(event="result", data_str=json.dumps(result, ensure_ascii=False))
    last = {**rest, "results": len(results)}
    yield format_sse_event(event="answer", data_str=json.dumps(last, ensure_ascii=False))
