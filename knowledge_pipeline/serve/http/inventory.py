"""What is indexed, how it is used, and what readers think of it, over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from knowledge_pipeline.contract.requests import FeedbackRequest, ModelCallRequest
from knowledge_pipeline.contract.responses.inventory import CollectionsResponse, StatusResponse
from knowledge_pipeline.contract.responses.usage import ModelCallResponse, StatsResponse
from knowledge_pipeline.serve.http.dependencies import CurrentContext
from knowledge_pipeline.serve.http.problems import QUERY_STATUSES, problem_responses
from knowledge_pipeline.serve.http.search import PREFIX
from knowledge_pipeline.serve.inventory import MAX_HOURS, compute_stats, list_collections

Hours = Annotated[int, Query(ge=1, le=MAX_HOURS, description="How many hours back queries are counted.")]

routes = APIRouter(prefix=PREFIX, tags=["inventory"])
_READ_RESPONSES = problem_responses(401, 403, 404, 421, 429, 503, 504)


@routes.get(
    "/collections", operation_id="collections", response_model=CollectionsResponse, responses=_READ_RESPONSES
)
async def collections(ctx: CurrentContext) -> JSONResponse:
    """The sources that can be searched, with their size and the time of their last refresh."""
    settings, config = ctx.service.settings, ctx.service.config
    return await ctx.respond(lambda base, access: list_collections(settings, base, access, config))


@routes.get("/status", operation_id="status", response_model=StatusResponse, responses=_READ_RESPONSES)
async def status(ctx: CurrentContext) -> JSONResponse:
    """The live release, and its rows by source, type and space."""
    return await ctx.respond(lambda base, access: base.status(access=access))


@routes.get(
    "/stats",
    operation_id="stats",
    response_model=StatsResponse,
    responses=_READ_RESPONSES | problem_responses(422),
)
async def stats(ctx: CurrentContext, hours: Hours = 24) -> JSONResponse:
    """How much is indexed, and the number and speed of recent queries."""
    settings = ctx.service.settings
    return await ctx.respond(lambda base, access: compute_stats(settings, base, access, hours=hours))


@routes.post(
    "/feedback", operation_id="feedback", status_code=204, responses=problem_responses(*QUERY_STATUSES)
)
async def feedback(body: FeedbackRequest, ctx: CurrentContext) -> Response:
    """Report whether a result was clicked, useful or useless; evaluation learns from it."""
    await ctx.execute(
        lambda base, access: base.feedback(body.query_id, body.result_id, body.judgement, access=access)
    )
    return Response(status_code=204)


@routes.post(
    "/model-calls",
    operation_id="report_model_call",
    status_code=201,
    response_model=ModelCallResponse,
    responses=problem_responses(*QUERY_STATUSES),
)
async def report_model_call(body: ModelCallRequest, ctx: CurrentContext) -> JSONResponse:
    """Report a call of a language model that the sender made; the token needs the scope `report`."""
    return await ctx.respond(
        lambda base, access: base.report_model_call(body, access=access), scope="report", status=201
    )
