"""Chunks and documents by their ids, and how documents are related, over HTTP.

Ids contain slashes, colons and whole addresses. A slash written as `%2F` always works; a plain one works
unless the id of the document itself ends in `/export`.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse, Response
from starlette.convertors import Convertor, register_url_convertor

from knowledge_pipeline.contract.requests import RelationsRequest
from knowledge_pipeline.contract.responses import (
    DocumentResponse,
    RelationsResponse,
    SearchResponse,
    TraceResponse,
)
from knowledge_pipeline.serve.documents import load_document
from knowledge_pipeline.serve.http.dependencies import CurrentContext
from knowledge_pipeline.serve.http.problems import BODILESS_STATUSES, QUERY_STATUSES, problem_responses
from knowledge_pipeline.serve.http.search import PREFIX

_EXPORT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The document as a text file.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


class _KnowledgeIdConvertor(Convertor[str]):
    """A chunk's id, or `source:uri`: nothing that could be the name of another route."""

    regex = r"[0-9a-f]{32}|[^/:]+:(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("knowledge_id", _KnowledgeIdConvertor())

KnowledgeId = Annotated[
    str,
    Path(
        min_length=1,
        description="An `id` of a result, or `source:uri` of a document; a slash in it is written `%2F`.",
        examples=["docs:guides/retries.md"],
    ),
]

Blame = Annotated[bool, Query(description="Say who last changed the lines of each chunk, by git.")]

routes = APIRouter(prefix=PREFIX, tags=["documents"], responses=problem_responses(*QUERY_STATUSES))
id_routes = APIRouter(prefix=PREFIX, tags=["documents"], responses=problem_responses(*BODILESS_STATUSES))
"""To be included after all others of the prefix."""


@routes.post("/related", operation_id="related_documents", response_model=RelationsResponse)
async def related(body: RelationsRequest, ctx: CurrentContext) -> JSONResponse:
    """How a document is related to others: what it closes, implements, references; what mentions it."""
    return await ctx.respond(lambda base, access: base.related(body.target, access=access))


@id_routes.get(
    "/docs/{id:knowledge_id}/export",
    operation_id="export_document",
    response_class=Response,
    responses=_EXPORT_RESPONSES,
)
async def export(id: KnowledgeId, ctx: CurrentContext) -> Response:
    """Return a document as a file: its indexed text, secrets redacted."""
    if bytes(ctx.request.scope.get("raw_path", b"")).lower().endswith(b"%2fexport"):
        return await document(f"{id}/export", ctx)  # the end of the id, not of the route
    answer = await ctx.execute(lambda base, access: load_document(base, id, access))
    name = PurePosixPath(answer.path).name or "document"
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(answer.text.encode("utf-8", "replace"), media_type="text/plain", headers=headers)


@id_routes.get("/trace/{id:knowledge_id}", operation_id="trace_result", response_model=TraceResponse)
async def trace(id: KnowledgeId, ctx: CurrentContext) -> JSONResponse:
    """Return what made a chunk: the document as read, the refresh, its Dagster run, the first release."""
    return await ctx.respond(lambda base, access: base.trace(id, access=access))


@id_routes.get("/docs/{id:knowledge_id}", operation_id="get_document", response_model=DocumentResponse)
async def document(id: KnowledgeId, ctx: CurrentContext) -> Response:
    """Return a document, assembled from its chunks; for a chunk's id, the document that holds it."""
    return await ctx.respond(lambda base, access: load_document(base, id, access))


@id_routes.get("/{id:knowledge_id}", operation_id="get_chunk", response_model=SearchResponse)
async def get_chunk(id: KnowledgeId, ctx: CurrentContext, blame: Blame = False) -> JSONResponse:
    """Return one chunk, or all chunks of a document in order."""
    return await ctx.respond(lambda base, access: base.get(id, blame=blame, access=access))
