"""Questions over HTTP."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from knowledge_pipeline.serve.http.asking import Asking, Serving
from knowledge_pipeline.serve.http.models import AnswerTold, Search
from knowledge_pipeline.serve.http.problems import problems

PREFIX = "/api/v1/knowledge"

routes = APIRouter(prefix=PREFIX, tags=["search"], responses=problems(401, 403, 404, 413, 422, 429, 503, 504))


@routes.post("/search", operation_id="search", response_model=AnswerTold)
async def search(body: Search, asker: Asking, service: Serving) -> JSONResponse:
    """Find the passages that answer a question best."""
    how = {"filters": body.filters, "limit": body.limit, "explain": body.explain}
    answer = await service.ask(
        asker, lambda: service.base.asearch(body.query, type=body.type, access=asker.access, **how)
    )
    return JSONResponse(answer.as_json())
