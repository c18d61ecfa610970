"""What there is, how it is used, and what readers think of it, over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from knowledge_pipeline.serve.http.dependencies import Asks
from knowledge_pipeline.serve.http.models_documents import CollectionsTold, Feedback, StatsTold, StatusTold
from knowledge_pipeline.serve.http.problems import ANSWERING, problems
from knowledge_pipeline.serve.http.search import PREFIX
from knowledge_pipeline.serve.inventory import MAX_HOURS, collections_of, stats_of

Hours = Annotated[int, Query(ge=1, le=MAX_HOURS, description="How far back questions are counted.")]

routes = APIRouter(prefix=PREFIX, tags=["holdings"])
_read = problems(401, 403, 404, 421, 429, 503, 504)


@routes.get("/collections", operation_id="collections", response_model=CollectionsTold, responses=_read)
async def collections(asks: Asks) -> JSONResponse:
    """The sources that can be searched, how much of each, and when each was last read."""
    settings = asks.service.settings
    return JSONResponse(await asks.ask(lambda base, access: collections_of(settings, base, access)))


@routes.get("/status", operation_id="status", response_model=StatusTold, responses=_read)
async def status(asks: Asks) -> JSONResponse:
    """What is live: the release, and its rows by source, type and space."""
    return JSONResponse((await asks.ask(lambda base, access: base.astatus(access=access))).as_json())


@routes.get("/stats", operation_id="stats", response_model=StatsTold, responses=_read | problems(422))
async def stats(asks: Asks, hours: Hours = 24) -> JSONResponse:
    """How much there is, and the number and speed of the questions of the last hours."""
    settings = asks.service.settings
    return JSONResponse(await asks.ask(lambda base, access: stats_of(settings, base, access, hours=hours)))


@routes.post("/feedback", operation_id="feedback", status_code=204, responses=problems(*ANSWERING))
async def feedback(body: Feedback, asks: Asks) -> Response:
    """Say whether a result was clicked, useful or useless; evaluation learns from it."""
    told = (body.query_id, body.result_id, body.judgement)
    await asks.ask(lambda base, access: base.afeedback(*told, access=access))
    return Response(status_code=204)
