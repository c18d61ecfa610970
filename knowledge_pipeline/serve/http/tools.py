"""The search as a tool, over HTTP: its schema, and what a model's call of it gets."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from knowledge_pipeline.serve.http.dependencies import Asks
from knowledge_pipeline.serve.http.models import AnswerTold, Told
from knowledge_pipeline.serve.http.problems import ANSWERING, problems
from knowledge_pipeline.serve.http.search import PREFIX
from knowledge_pipeline.serve.http.streaming import STREAMED, told
from knowledge_pipeline.serve.openai_tools import NAME, Form, how, search_knowledge_base
from knowledge_pipeline.serve.tool_inputs import KnowledgeQuery

routes = APIRouter(prefix=f"{PREFIX}/tools", tags=["search"])

_As = Annotated[Form, Query(alias="form", description="Of which of OpenAI's APIs the schema is.")]


class ToolsTold(Told):
    """What goes into `tools` of a request to a model."""

    tools: list[dict[str, Any]]


@routes.get(
    "",
    operation_id="list_tools",
    response_model=ToolsTold,
    responses=problems(401, 403, 421, 422, 429, 500, 503, 504),
)
async def list_tools(asks: Asks, form: _As = "chat_completions") -> JSONResponse:
    """The search as a tool, for the request to a model."""

    async def listed(*_: object) -> list[dict[str, Any]]:
        return [search_knowledge_base(form)]

    return JSONResponse({"tools": await asks.ask(listed)})


@routes.post(
    f"/{NAME}",
    operation_id=NAME,
    response_model=AnswerTold,
    responses={**problems(*ANSWERING), **STREAMED},
)
async def call(body: KnowledgeQuery, asks: Asks) -> Response:
    """Do what a model asks for: the body is the arguments of its call, as it wrote them."""
    answer = await asks.ask(lambda base, access: base.asearch(body.query, access=access, **how(body)))
    return told(asks.request, answer)
