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

from knowledge_pipeline.serve.documents import whole_document
from knowledge_pipeline.serve.http.dependencies import Asks
from knowledge_pipeline.serve.http.models import AnswerTold
from knowledge_pipeline.serve.http.models_documents import DocumentTold, RelatedAsked, RelationsTold
from knowledge_pipeline.serve.http.problems import ANSWERING, problems
from knowledge_pipeline.serve.http.search import PREFIX

_BY_ID = tuple(status for status in ANSWERING if status not in (400, 408, 413))  # there is no body
_EXPORTED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The document as a file of text.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


class _Ids(Convertor[str]):
    """A chunk's id, or `source:uri`: nothing that could be the name of another route."""

    regex = r"[0-9a-f]{32}|[^/:]+:(?s:.+)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("knowledge_id", _Ids())

Id = Annotated[
    str,
    Path(
        min_length=1,
        max_length=4_000,
        description="An `id` of a result, or `source:uri` of a document; a slash in it is written `%2F`.",
        examples=["docs:guides/retries.md"],
    ),
]

routes = APIRouter(prefix=PREFIX, tags=["documents"], responses=problems(*ANSWERING))
by_id = APIRouter(prefix=PREFIX, tags=["documents"], responses=problems(*_BY_ID))
"""To be included after all others of the prefix."""


@routes.post("/related", operation_id="related_documents", response_model=RelationsTold)
async def related(body: RelatedAsked, asks: Asks) -> JSONResponse:
    """How a document is related to others: what it closes, implements, references; what mentions it."""
    found = await asks.ask(lambda base, access: base.arelated(body.target, access=access))
    return JSONResponse(found.as_json())


@by_id.get(
    "/docs/{id:knowledge_id}/export",
    operation_id="export_document",
    response_class=Response,
    responses=_EXPORTED,
)
async def export(id: Id, asks: Asks) -> Response:
    """Give a document back as a file: the text that is indexed of it, secrets redacted."""
    if bytes(asks.request.scope.get("raw_path", b"")).lower().endswith(b"%2fexport"):
        return await document(f"{id}/export", asks)  # the end of the id, not of the route
    found = await asks.ask(lambda base, access: whole_document(base, id, access))
    name = PurePosixPath(found.path).name or "document"
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(found.text.encode("utf-8", "replace"), media_type="text/plain", headers=headers)


@by_id.get("/docs/{id:knowledge_id}", operation_id="get_document", response_model=DocumentTold)
async def document(id: Id, asks: Asks) -> Response:
    """Give a document, put together from its chunks; of a chunk's id the document that it is of."""
    found = await asks.ask(lambda base, access: whole_document(base, id, access))
    return JSONResponse(found.as_json())


@by_id.get("/{id:knowledge_id}", operation_id="get", response_model=AnswerTold)
async def get(id: Id, asks: Asks) -> JSONResponse:
    """Give one chunk, or all chunks of a document, in their order."""
    found = await asks.ask(lambda base, access: base.aget(id, access=access))
    return JSONResponse(found.as_json())
