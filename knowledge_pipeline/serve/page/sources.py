"""The page of sources: how much is indexed of each, and how fresh it is."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.serve.inventory import list_collections
from knowledge_pipeline.serve.page.rendering import PageRoute, render_page
from knowledge_pipeline.serve.page.sessions import PageContext

routes = APIRouter(include_in_schema=False, route_class=PageRoute)


@routes.get("/sources")
async def sources(request: Request, ctx: PageContext) -> Response:
    """The sources with content that the caller may see."""
    settings, config = ctx.service.settings, ctx.service.config
    try:
        inventory = await ctx.execute(lambda base, access: list_collections(settings, base, access, config))
    except NotFound:
        return render_page(request, "unreleased.html.j2")
    max_chunks = max((collection.chunks for collection in inventory.collections), default=0)
    with_states = any(collection.state for collection in inventory.collections)
    return render_page(
        request, "sources.html.j2", inventory=inventory, max_chunks=max_chunks, with_states=with_states
    )
