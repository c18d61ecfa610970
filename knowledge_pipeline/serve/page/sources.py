"""What there is to be found, and how fresh it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.serve.inventory import collections_of
from knowledge_pipeline.serve.page.rendering import PageRoute, page
from knowledge_pipeline.serve.page.sessions import Visiting

routes = APIRouter(include_in_schema=False, route_class=PageRoute)


@routes.get("/sources")
async def sources(request: Request, visiting: Visiting) -> Response:
    """The sources that the caller may see something of."""
    settings = visiting.service.settings
    try:
        held = await visiting.ask(lambda base, access: collections_of(settings, base, access))
    except NotFound:
        return page(request, "unreleased.html.j2")
    rows = [{**row, "refreshed_at": _moment(row["refreshed_at"])} for row in held["collections"]]
    most = max((row["chunks"] for row in rows), default=0)
    released_at = _moment(held["released_at"])
    shown: dict[str, Any] = {"rows": rows, "most": most, "release": held["release"]}
    return page(request, "sources.html.j2", released_at=released_at, **shown)


def _moment(told: str | None) -> datetime | None:
    return datetime.fromisoformat(told) if told else None
