"""Questions to the code graph over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from knowledge_pipeline.serve.http.dependencies import Asks, Inquiry
from knowledge_pipeline.serve.http.models_graph import (
    GraphAsked,
    GraphCalls,
    GraphHierarchy,
    GraphImpact,
    GraphRelated,
    GraphTold,
    GraphWalk,
)
from knowledge_pipeline.serve.http.problems import ANSWERING, problems
from knowledge_pipeline.serve.http.search import PREFIX

routes = APIRouter(prefix=f"{PREFIX}/graph", tags=["code graph"], responses=problems(*ANSWERING))


@routes.post("/related", operation_id="graph_related", response_model=GraphTold)
async def related(body: GraphRelated, asks: Asks) -> JSONResponse:
    """Definitions that have most to do with one, ranked."""
    return await _answer(asks, "find_related_code", body)


@routes.post("/usages", operation_id="graph_usages", response_model=GraphTold)
async def usages(body: GraphAsked, asks: Asks) -> JSONResponse:
    """What uses a definition, or anything defined in it."""
    return await _answer(asks, "find_usages", body)


@routes.post("/references", operation_id="graph_references", response_model=GraphTold)
async def references(body: GraphAsked, asks: Asks) -> JSONResponse:
    """Every place that names exactly this definition or file."""
    return await _answer(asks, "find_references", body)


@routes.post("/calls", operation_id="graph_calls", response_model=GraphTold)
async def calls(body: GraphCalls, asks: Asks) -> JSONResponse:
    """What calls a function and what it calls, step by step."""
    return await _answer(asks, "get_call_graph", body, depth=body.depth, direction=body.direction)


@routes.post("/hierarchy", operation_id="graph_hierarchy", response_model=GraphTold)
async def hierarchy(body: GraphHierarchy, asks: Asks) -> JSONResponse:
    """What a class extends or implements, and what extends or implements it."""
    return await _answer(asks, "get_class_hierarchy", body, depth=body.depth)


@routes.post("/dependencies", operation_id="graph_dependencies", response_model=GraphTold)
async def dependencies(body: GraphWalk, asks: Asks) -> JSONResponse:
    """What a definition, file or folder depends on."""
    return await _answer(asks, "get_dependencies", body, depth=body.depth)


@routes.post("/impact", operation_id="graph_impact", response_model=GraphTold)
async def impact(body: GraphImpact, asks: Asks) -> JSONResponse:
    """What a change could break, also by way of others, and what this depends on itself."""
    return await _answer(asks, "analyze_dependencies", body, depth=body.depth)


async def _answer(asks: Inquiry, question: str, body: GraphAsked, **walk: Any) -> JSONResponse:
    how = {"filters": body.filters.meant().meant(), "limit": body.limit, **walk}
    found = await asks.ask(
        lambda base, access: getattr(base.agraph, question)(body.target, **how, access=access)
    )
    return JSONResponse(found.as_json())
