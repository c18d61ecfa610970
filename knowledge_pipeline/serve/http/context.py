"""An agent's task in, context out, over HTTP."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from knowledge_pipeline.query.agent_context.searches import Task
from knowledge_pipeline.serve.http.dependencies import Asks
from knowledge_pipeline.serve.http.models_documents import ContextTold, TaskAsked
from knowledge_pipeline.serve.http.problems import ANSWERING, problems
from knowledge_pipeline.serve.http.search import PREFIX

routes = APIRouter(prefix=PREFIX, tags=["search"], responses=problems(*ANSWERING))


@routes.post("/context", operation_id="context", response_model=ContextTold)
async def context(body: TaskAsked, asks: Asks) -> JSONResponse:
    """What an agent should read before it does a task: a prompt within a budget, with citations."""
    told = {"file": body.file, "source": body.source, "snippet": body.snippet}
    task = Task(body.task, body.kind, **told, filters=body.filters.meant())
    how = {"max_tokens": body.max_tokens, "template": body.template}
    made = await asks.ask(lambda base, access: base.acontext(task, **how, access=access))
    return JSONResponse(made.as_json())
