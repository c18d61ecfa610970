"""The search as a tool, over HTTP: its schema, and the results of a model's call."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.serve.http.dependencies import CurrentContext
from knowledge_pipeline.serve.http.problems import QUERY_STATUSES, problem_responses
from knowledge_pipeline.serve.http.search import PREFIX, STREAMED_RESPONSES, to_response
from knowledge_pipeline.serve.mcp.inputs import KnowledgeQueryInput
from knowledge_pipeline.serve.openai_tools import TOOL_NAME, ToolFormat, build_search_tool

routes = APIRouter(prefix=f"{PREFIX}/tools", tags=["search"])

_FormatParam = Annotated[ToolFormat, Query(description="Which of OpenAI's APIs the schema is for.")]


class ToolListResponse(BaseModel):
    """The value of `tools` in a request to a model."""

    tools: list[dict[str, Any]]


@routes.get(
    "",
    operation_id="list_tools",
    response_model=ToolListResponse,
    responses=problem_responses(401, 403, 421, 422, 429, 500, 503, 504),
)
async def list_tools(ctx: CurrentContext, format: _FormatParam = "chat_completions") -> JSONResponse:
    """The search as a tool, for the request to a model."""

    async def list_search_tool(*_: object) -> list[dict[str, Any]]:
        return [build_search_tool(format)]

    return JSONResponse({"tools": await ctx.execute(list_search_tool)})


@routes.post(
    f"/{TOOL_NAME}",
    operation_id=TOOL_NAME,
    response_model=SearchResponse,
    responses={**problem_responses(*QUERY_STATUSES), **STREAMED_RESPONSES},
)
async def call_search_tool(body: KnowledgeQueryInput, ctx: CurrentContext) -> Response:
    """Run a model's call: the body is the arguments of the call, as the model wrote them."""
    answer = await ctx.execute(
        lambda base, access: base.search(
            body.query, type=body.type, filters=body.to_filters(), limit=body.limit, access=access
        )
    )
    return to_response(ctx.request, answer)
