"""Questions to the code graph over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from knowledge_pipeline.serve.http.dependencies import CurrentContext, RequestContext
from knowledge_pipeline.serve.http.models_graph import (
    CallGraphRequest,
    ClassHierarchyRequest,
    GraphRequestBody,
    GraphResponse,
    GraphTraversalRequest,
    ImpactRequest,
    RelatedCodeRequest,
)
from knowledge_pipeline.serve.http.problems import QUERY_STATUSES, problem_responses
from knowledge_pipeline.serve.http.search import PREFIX

routes = APIRouter(
    prefix=f"{PREFIX}/graph", tags=["code graph"], responses=problem_responses(*QUERY_STATUSES)
)


@routes.post("/related", operation_id="graph_related", response_model=GraphResponse)
async def related(body: RelatedCodeRequest, ctx: CurrentContext) -> JSONResponse:
    """Definitions that have most to do with one, ranked."""
    return await _query_graph(ctx, "find_related_code", body)


@routes.post("/usages", operation_id="graph_usages", response_model=GraphResponse)
async def usages(body: GraphRequestBody, ctx: CurrentContext) -> JSONResponse:
    """What uses a definition, or anything defined in it."""
    return await _query_graph(ctx, "find_usages", body)


@routes.post("/references", operation_id="graph_references", response_model=GraphResponse)
async def references(body: GraphRequestBody, ctx: CurrentContext) -> JSONResponse:
    """Every place that names exactly this definition or file."""
    return await _query_graph(ctx, "find_references", body)


@routes.post("/calls", operation_id="graph_calls", response_model=GraphResponse)
async def calls(body: CallGraphRequest, ctx: CurrentContext) -> JSONResponse:
    """What calls a function and what it calls, step by step."""
    return await _query_graph(ctx, "get_call_graph", body, depth=body.depth, direction=body.direction)


@routes.post("/hierarchy", operation_id="graph_hierarchy", response_model=GraphResponse)
async def hierarchy(body: ClassHierarchyRequest, ctx: CurrentContext) -> JSONResponse:
    """What a class extends or implements, and what extends or implements it."""
    return await _query_graph(ctx, "get_class_hierarchy", body, depth=body.depth)


@routes.post("/dependencies", operation_id="graph_dependencies", response_model=GraphResponse)
async def dependencies(body: GraphTraversalRequest, ctx: CurrentContext) -> JSONResponse:
    """What a definition, file or folder depends on."""
    return await _query_graph(ctx, "get_dependencies", body, depth=body.depth)


@routes.post("/impact", operation_id="graph_impact", response_model=GraphResponse)
async def impact(body: ImpactRequest, ctx: CurrentContext) -> JSONResponse:
    """What a change could break, also by way of others, and what this depends on itself."""
    return await _query_graph(ctx, "analyze_dependencies", body, depth=body.depth)


async def _query_graph(
    ctx: RequestContext, method_name: str, body: GraphRequestBody, **options: Any
) -> JSONResponse:
    how = {"filters": body.filters.to_search_filters().to_filters(), "limit": body.limit, **options}
    found = await ctx.execute(
        lambda base, access: getattr(base.agraph, method_name)(body.target, **how, access=access)
    )
    return JSONResponse(found.as_json())
