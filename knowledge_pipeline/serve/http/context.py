"""An agent's task in, context out, over HTTP."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from knowledge_pipeline.contract.requests import Task
from knowledge_pipeline.serve.http.dependencies import CurrentContext
from knowledge_pipeline.serve.http.models_documents import ContextRequest, ContextResponse
from knowledge_pipeline.serve.http.problems import QUERY_STATUSES, problem_responses
from knowledge_pipeline.serve.http.search import PREFIX

routes = APIRouter(prefix=PREFIX, tags=["search"], responses=problem_responses(*QUERY_STATUSES))


@routes.post("/context", operation_id="context", response_model=ContextResponse)
async def context(body: ContextRequest, ctx: CurrentContext) -> JSONResponse:
    """What an agent should read before it does a task: a prompt within a budget, with citations."""
    told = {"file": body.file, "source": body.source, "snippet": body.snippet}
    task = Task(body.task, body.kind, **told, filters=body.filters.to_filters())
    how = {"max_tokens": body.max_tokens, "template": body.template}
    made = await ctx.execute(lambda base, access: base.acontext(task, **how, access=access))
    return JSONResponse(made.as_json())
