"""The page of sources: how much is indexed of each, how fresh it is, and how far its refresh is."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response

from knowledge_pipeline.contract.responses.inventory import Collection, SourceState
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.serve.inventory import list_collections
from knowledge_pipeline.serve.page.progress import list_declared, list_progress, render_unreleased
from knowledge_pipeline.serve.page.rendering import PageRoute, render_page
from knowledge_pipeline.serve.page.sessions import PageContext
from knowledge_pipeline.serve.source_states import load_states

routes = APIRouter(include_in_schema=False, route_class=PageRoute)


@routes.get("/sources")
async def sources(request: Request, ctx: PageContext) -> Response:
    """The sources that the caller may see: those with content, and those that are declared alone."""
    settings, config = ctx.service.settings, ctx.service.config
    try:
        inventory = await ctx.execute(lambda base, access: list_collections(settings, base, access, config))
    except NotFound:
        return render_unreleased(request, ctx)
    indexed = {collection.id for collection in inventory.collections}
    missing = [each for each in list_declared(ctx.state, ctx.identity.access) if each.id not in indexed]
    states: Mapping[str, SourceState] = {}
    if missing:
        states = await load_states(settings, config, ctx.identity.access)
    rows = [
        *inventory.collections,
        *(Collection(each.id, each.type, 0, None, 0, states.get(each.id)) for each in missing),
    ]
    running = list_progress(ctx)
    return render_page(
        request,
        "sources.html.j2",
        inventory=inventory,
        rows=rows,
        max_chunks=max((row.chunks for row in rows), default=0),
        with_states=any(row.state for row in rows),
        running=running,
        sentences={each.source: each.sentence for each in running},
    )
