"""Chunks and documents by their ids, and how documents are related, over HTTP.

Ids hold slashes, colons and whole addresses. A client that writes a slash as `%2F` is always understood;
one that does not is understood but for a document whose own id ends in `/export`.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse, Response
from starlette.convertors import Convertor, register_url_convertor

from knowledge_pipeline.serve.documents import load_document
from knowledge_pipeline.serve.http.dependencies import CurrentContext
from knowledge_pipeline.serve.http.models import SearchResponse
from knowledge_pipeline.serve.http.models_documents import (
    DocumentResponse,
    RelationsRequest,
    RelationsResponse,
)
from knowledge_pipeline.serve.http.problems import QUERY_STATUSES, problem_responses
from knowledge_pipeline.serve.http.search import PREFIX

_ID_ROUTE_STATUSES = tuple(
    status for status in QUERY_STATUSES if status not in (400, 408, 413)
)  # there is no body
_EXPORT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The document as a file of text.",
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
        max_length=4_000,
        description="An `id` of a result, or `source:uri` of a document; a slash in it is written `%2F`.",
        examples=["docs:guides/retries.md"],
    ),
]

routes = APIRouter(prefix=PREFIX, tags=["documents"], responses=problem_responses(*QUERY_STATUSES))
id_routes = APIRouter(prefix=PREFIX, tags=["documents"], responses=problem_responses(*_ID_ROUTE_STATUSES))
"""To be included after all others of the prefix."""


@routes.post("/related", operation_id="related_documents", response_model=RelationsResponse)
async def related(body: RelationsRequest, ctx: CurrentContext) -> JSONResponse:
    """How a document is related to others: what it closes, implements, references; what mentions it."""
    found = await ctx.execute(lambda base, access: base.arelated(body.target, access=access))
    return JSONResponse(found.as_json())


@id_routes.get(
    "/docs/{id:knowledge_id}/export",
    operation_id="export_document",
    response_class=Response,
    responses=_EXPORT_RESPONSES,
)
async def export(id: KnowledgeId, ctx: CurrentContext) -> Response:
    """Give a document back as a file: the text that is indexed of it, secrets redacted."""
    if bytes(ctx.request.scope.get("raw_path", b"")).lower().endswith(b"%2fexport"):
        return await document(f"{id}/export", ctx)  # the end of the id, not of the route
    found = await ctx.execute(lambda base, access: load_document(base, id, access))
    name = PurePosixPath(found.path).name or "document"
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(found.text.encode("utf-8", "replace"), media_type="text/plain", headers=headers)


@id_routes.get("/docs/{id:knowledge_id}", operation_id="get_document", response_model=DocumentResponse)
async def document(id: KnowledgeId, ctx: CurrentContext) -> Response:
    """Give a document, put together from its chunks; of a chunk's id the document that it is of."""
    found = await ctx.execute(lambda base, access: load_document(base, id, access))
    return JSONResponse(found.as_json())


@id_routes.get("/{id:knowledge_id}", operation_id="get", response_model=SearchResponse)
async def get(id: KnowledgeId, ctx: CurrentContext) -> JSONResponse:
    """Give one chunk, or all chunks of a document, in their order."""
    found = await ctx.execute(lambda base, access: base.aget(id, access=access))
    return JSONResponse(found.as_json())
