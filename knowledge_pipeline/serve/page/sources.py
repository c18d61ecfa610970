"""What there is to be found, and how fresh it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.serve.inventory import list_collections
from knowledge_pipeline.serve.page.rendering import PageRoute, render_page
from knowledge_pipeline.serve.page.sessions import PageContext

routes = APIRouter(include_in_schema=False, route_class=PageRoute)


@routes.get("/sources")
async def sources(request: Request, ctx: PageContext) -> Response:
    """The sources that the caller may see something of."""
    settings = ctx.service.settings
    try:
        held = await ctx.execute(lambda base, access: list_collections(settings, base, access))
    except NotFound:
        return render_page(request, "unreleased.html.j2")
    rows = [{**row, "refreshed_at": _parse_datetime(row["refreshed_at"])} for row in held["collections"]]
    most = max((row["chunks"] for row in rows), default=0)
    released_at = _parse_datetime(held["released_at"])
    shown: dict[str, Any] = {"rows": rows, "most": most, "release": held["release"]}
    return render_page(request, "sources.html.j2", released_at=released_at, **shown)


def _parse_datetime(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value) if value else None
