"""The code graph over HTTP: one route for each operation."""

# No `from __future__ import annotations`: FastAPI reads the type of each route's body.

from collections.abc import Awaitable, Callable

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from knowledge_pipeline.contract.requests import (
    GRAPH_OPERATIONS,
    CallGraphRequest,
    GraphMethod,
    GraphTargetRequest,
    GraphTraversalRequest,
)
from knowledge_pipeline.contract.responses import GraphResponse
from knowledge_pipeline.query.graph_queries import GraphRequest
from knowledge_pipeline.serve.http.dependencies import CurrentContext
from knowledge_pipeline.serve.http.problems import QUERY_STATUSES, problem_responses
from knowledge_pipeline.serve.http.search import PREFIX

routes = APIRouter(
    prefix=f"{PREFIX}/graph", tags=["code graph"], responses=problem_responses(*QUERY_STATUSES)
)


def _build_endpoint(
    method: GraphMethod, request_type: type[GraphTargetRequest]
) -> Callable[..., Awaitable[JSONResponse]]:
    async def endpoint(body: GraphTargetRequest, ctx: CurrentContext) -> JSONResponse:
        request = GraphRequest(
            method,
            body.target,
            body.filters,
            limit=body.limit,
            depth=body.depth if isinstance(body, GraphTraversalRequest) else None,
            direction=body.direction if isinstance(body, CallGraphRequest) else "both",
        )
        return await ctx.respond(lambda base, access: base.graph.query(request, access=access))

    endpoint.__annotations__["body"] = request_type  # what FastAPI reads
    return endpoint


for _method, _operation in GRAPH_OPERATIONS.items():
    _request_type = GraphTargetRequest
    if _operation.default_depth is not None:
        _request_type = CallGraphRequest if _operation.has_direction else GraphTraversalRequest
    routes.add_api_route(
        f"/{_operation.path}",
        _build_endpoint(_method, _request_type),
        methods=["POST"],
        operation_id=f"graph_{_operation.path}",
        summary=_operation.title,
        description=_operation.summary,
        response_model=GraphResponse,
    )
