"""What there is, how it is used, and what readers think of it, over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from knowledge_pipeline.serve.http.dependencies import CurrentContext
from knowledge_pipeline.serve.http.models_documents import (
    CollectionsResponse,
    FeedbackRequest,
    StatsResponse,
    StatusResponse,
)
from knowledge_pipeline.serve.http.problems import QUERY_STATUSES, problem_responses
from knowledge_pipeline.serve.http.search import PREFIX
from knowledge_pipeline.serve.inventory import MAX_HOURS, compute_stats, list_collections

Hours = Annotated[int, Query(ge=1, le=MAX_HOURS, description="How far back questions are counted.")]

routes = APIRouter(prefix=PREFIX, tags=["holdings"])
_READ_RESPONSES = problem_responses(401, 403, 404, 421, 429, 503, 504)


@routes.get(
    "/collections", operation_id="collections", response_model=CollectionsResponse, responses=_READ_RESPONSES
)
async def collections(ctx: CurrentContext) -> JSONResponse:
    """The sources that can be searched, how much of each, and when each was last read."""
    settings = ctx.service.settings
    return JSONResponse(await ctx.execute(lambda base, access: list_collections(settings, base, access)))


@routes.get("/status", operation_id="status", response_model=StatusResponse, responses=_READ_RESPONSES)
async def status(ctx: CurrentContext) -> JSONResponse:
    """What is live: the release, and its rows by source, type and space."""
    return JSONResponse((await ctx.execute(lambda base, access: base.astatus(access=access))).as_json())


@routes.get(
    "/stats",
    operation_id="stats",
    response_model=StatsResponse,
    responses=_READ_RESPONSES | problem_responses(422),
)
async def stats(ctx: CurrentContext, hours: Hours = 24) -> JSONResponse:
    """How much there is, and the number and speed of the questions of the last hours."""
    settings = ctx.service.settings
    return JSONResponse(
        await ctx.execute(lambda base, access: compute_stats(settings, base, access, hours=hours))
    )


@routes.post(
    "/feedback", operation_id="feedback", status_code=204, responses=problem_responses(*QUERY_STATUSES)
)
async def feedback(body: FeedbackRequest, ctx: CurrentContext) -> Response:
    """Say whether a result was clicked, useful or useless; evaluation learns from it."""
    told = (body.query_id, body.result_id, body.judgement)
    await ctx.execute(lambda base, access: base.afeedback(*told, access=access))
    return Response(status_code=204)
