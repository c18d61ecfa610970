"""The search as a tool, over HTTP: its schema, and what a model's call of it gets."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from knowledge_pipeline.serve.http.dependencies import CurrentContext
from knowledge_pipeline.serve.http.models import ResponseModel, SearchResponse
from knowledge_pipeline.serve.http.problems import QUERY_STATUSES, problem_responses
from knowledge_pipeline.serve.http.search import PREFIX
from knowledge_pipeline.serve.http.streaming import STREAMED_RESPONSES, to_response
from knowledge_pipeline.serve.openai_tools import TOOL_NAME, ToolFormat, build_search_tool, search_options_of
from knowledge_pipeline.serve.tool_inputs import KnowledgeQueryInput

routes = APIRouter(prefix=f"{PREFIX}/tools", tags=["search"])

_FormatParam = Annotated[
    ToolFormat, Query(alias="form", description="Of which of OpenAI's APIs the schema is.")
]


class ToolListResponse(ResponseModel):
    """What goes into `tools` of a request to a model."""

    tools: list[dict[str, Any]]


@routes.get(
    "",
    operation_id="list_tools",
    response_model=ToolListResponse,
    responses=problem_responses(401, 403, 421, 422, 429, 500, 503, 504),
)
async def list_tools(ctx: CurrentContext, form: _FormatParam = "chat_completions") -> JSONResponse:
    """The search as a tool, for the request to a model."""

    async def list_search_tool(*_: object) -> list[dict[str, Any]]:
        return [build_search_tool(form)]

    return JSONResponse({"tools": await ctx.execute(list_search_tool)})


@routes.post(
    f"/{TOOL_NAME}",
    operation_id=TOOL_NAME,
    response_model=SearchResponse,
    responses={**problem_responses(*QUERY_STATUSES), **STREAMED_RESPONSES},
)
async def call_search_tool(body: KnowledgeQueryInput, ctx: CurrentContext) -> Response:
    """Do what a model asks for: the body is the arguments of its call, as it wrote them."""
    answer = await ctx.execute(
        lambda base, access: base.asearch(body.query, access=access, **search_options_of(body))
    )
    return to_response(ctx.request, answer)
