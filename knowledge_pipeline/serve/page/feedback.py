"""Judgements of results."""

from __future__ import annotations

from typing import cast

from fastapi import APIRouter, Request, Response

from knowledge_pipeline.contract.types import Judgement
from knowledge_pipeline.serve.page.rendering import PageRoute, render_page, safe_redirect_path
from knowledge_pipeline.serve.page.sessions import PageContext, read_form

routes = APIRouter(include_in_schema=False, route_class=PageRoute)


@routes.post("/feedback")
async def judge(request: Request, ctx: PageContext) -> Response:
    """Record a judgement of a result; a script gets no content, a form a page that leads back."""
    fields = await read_form(request)
    query_id, result_id = fields.get("query_id", ""), fields.get("result_id", "")
    judgement = cast("Judgement", fields.get("judgement", ""))  # `afeedback` checks it
    await ctx.execute(lambda base, access: base.feedback(query_id, result_id, judgement, access=access))
    if fields.get("background"):
        return Response(status_code=204)
    return render_page(
        request, "thanks.html.j2", judgement=judgement, back=safe_redirect_path(fields.get("back", ""))
    )
