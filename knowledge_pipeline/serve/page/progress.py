"""How far refreshes are, when a page is loaded and by a stream while it is open; the page of sources."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.sse import format_sse_event

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.operation import Collection, SourceState
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.query.access import Access, sees_whole_source
from knowledge_pipeline.serve.events import MAX_POSITION
from knowledge_pipeline.serve.http.dependencies import AppState, RequestContext
from knowledge_pipeline.serve.http.events import open_stream
from knowledge_pipeline.serve.page.rendering import PageRoute, render_page, render_part
from knowledge_pipeline.serve.page.results import PageQuery
from knowledge_pipeline.serve.page.sessions import PageContext, build_page_context
from knowledge_pipeline.serve.service import Identity
from knowledge_pipeline.serve.status import list_collections
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import Event
from knowledge_pipeline.store.progress import RefreshProgress, list_running_refreshes
from knowledge_pipeline.times import format_duration, format_rate

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

_ACTIVITIES: Mapping[str, str] = {
    "": "starting",
    "listing": "listing documents",
    "snapshot": "reading documents",
    "chunks": "splitting into chunks",
    "facts": "parsing code",
    "graph": "resolving the code graph",
    "embeddings": "embedding",
    "index": "writing the index",
}


@dataclass(frozen=True, slots=True)
class ProgressView:
    """One source that is being refreshed, in words."""

    source: str
    activity: str
    count: str  # "" where nothing is counted yet
    pace: str  # how fast, and how long the stage still takes
    share: float | None
    since: datetime

    @property
    def sentence(self) -> str:
        """`embedding, 120 of 400, 80/s, 0:04 left`."""
        return ", ".join(filter(None, (self.activity, self.count, self.pace)))


def list_declared(state: AppState, access: Access) -> list[SourceConfig]:
    """The sources of knowledge.yaml that a caller may know of before anything of them is released."""
    return [source for source in state.declared.list_known() if sees_whole_source(source.access, access)]


def list_progress(ctx: RequestContext) -> list[ProgressView]:
    """The refreshes that run now, of sources that the caller may see whole. Reads a few small files."""
    return [_to_view(progress) for progress in _list_visible(ctx, ctx.identity.access)]


def render_unreleased(request: Request, ctx: RequestContext, page_query: PageQuery | None = None) -> Response:
    """The page of a store without a release: what to do first, or how far the first index is."""
    return render_page(
        request,
        "unreleased.html.j2",
        page_query=page_query or PageQuery(),
        declared=list_declared(ctx.state, ctx.identity.access),
        running=list_progress(ctx),
    )


@routes.get("/progress")
async def follow_progress(
    ctx: PageContext,
    after: Annotated[int | None, Query(ge=0, le=MAX_POSITION)] = None,
    follow: bool = True,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> Response:
    """Follow how far refreshes are, and when there is a new release."""
    shown: list[RefreshProgress] | None = None

    def write(events: Sequence[Event], access: Access) -> list[bytes]:
        nonlocal shown
        text: list[bytes] = []
        for event in events:
            if event.type == "release.published":  # everyone may know its number, and nothing else of it
                content = json.dumps({"release": event.release})
                text.append(format_sse_event(event=event.type, id=str(event.position), data_str=content))
        running = _list_visible(ctx, access)
        if running != shown:
            views = [_to_view(progress) for progress in running]
            content = {  # HTML for the list, and a sentence for each source and for who listens
                "html": render_part("progress.html.j2", running=views),
                "sources": {view.source: view.sentence for view in views},
                "summary": "; ".join(f"{view.source}: {view.activity}" for view in views[:3]),
            }
            text.append(format_sse_event(event="refresh.progress", data_str=json.dumps(content)))
            shown = running
        return text

    def identify() -> Identity:
        identity = build_page_context(ctx.request).identity
        identity.require_scope("query")
        return identity

    return await open_stream(
        ctx, write, identify, scope="query", after=after, last_event_id=last_event_id, follow=follow
    )


def _list_visible(ctx: RequestContext, access: Access) -> list[RefreshProgress]:
    running = list_running_refreshes(Lake(ctx.service.settings.store).folder)
    if access.everything or not running:
        return running
    visible = {source.id for source in list_declared(ctx.state, access)}
    return [progress for progress in running if progress.source in visible]


def _to_view(progress: RefreshProgress) -> ProgressView:
    done, total = progress.done, progress.total
    pace = [format_rate(progress.rate)] if progress.rate > 0 else []
    if progress.left_s is not None and done != total:
        pace.append(f"{format_duration(progress.left_s)} left")
    return ProgressView(
        progress.source,
        _ACTIVITIES.get(progress.stage, progress.stage),
        f"{done:,} of {total:,}" if total else f"{done:,}" if done else "",
        ", ".join(pace),
        min(1.0, done / total) if total else None,
        datetime.fromtimestamp(progress.since, UTC),
    )


@routes.get("/sources")
async def sources(request: Request, ctx: PageContext) -> Response:
    """How much is indexed of each source, how fresh it is, and how far its refresh is.

    Listed are the sources that the caller may see: those with content, and those that are declared alone.
    """
    source_states = ctx.service.source_states
    try:
        inventory = await ctx.execute(lambda base, access: list_collections(base, source_states, access))
    except NotFound:
        return render_unreleased(request, ctx)
    indexed = {collection.id for collection in inventory.collections}
    missing = [source for source in list_declared(ctx.state, ctx.identity.access) if source.id not in indexed]
    states: Mapping[str, SourceState] = {}
    if missing:
        states = await source_states.load(ctx.identity.access)
    rows = [
        *inventory.collections,
        *(Collection(source.id, source.type, 0, None, 0, states.get(source.id)) for source in missing),
    ]
    running = list_progress(ctx)
    return render_page(
        request,
        "sources.html.j2",
        inventory=inventory,
        rows=rows,
        with_states=any(row.state for row in rows),
        running=running,
        sentences={view.source: view.sentence for view in running},
    )
