"""Sources and their refreshes over HTTP (scope `admin`); what is indexed, and how it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from fastapi import APIRouter, Query
from fastapi import Path as PathParam
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from knowledge_pipeline import pushed
from knowledge_pipeline.config import edit as config_edit
from knowledge_pipeline.config.sources import SourceConfig, SourceId, WrittenType, resolve_trigger
from knowledge_pipeline.contract import operation
from knowledge_pipeline.contract.requests import (
    MAX_DOCUMENT_ID_CHARS,
    FeedbackRequest,
    ModelCallRequest,
    PushRequest,
    RefreshRequest,
)
from knowledge_pipeline.errors import KnowledgeError, NotFound
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query.access import Access, may_see_source, require_manage_all, sees_whole_source
from knowledge_pipeline.serve.declared_sources import require_reachable, require_safe_entry
from knowledge_pipeline.serve.http.dependencies import CurrentContext, RequestContext
from knowledge_pipeline.serve.http.problems import BODILESS_PROBLEMS, QUERY_PROBLEMS, problem_responses
from knowledge_pipeline.serve.http.queries import PREFIX
from knowledge_pipeline.serve.refresh_history import choose_error
from knowledge_pipeline.serve.status import MAX_HOURS, compute_stats, list_collections
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.progress import list_running_refreshes

_ServiceType = Literal["local", "git", "github", "gitlab", "jira", "confluence", "slack"]
_FileType = Literal["slack_export", "s3", "gcs", "azure", "archive_file", "table_files", "push"]
ConnectionType = Literal[_ServiceType, _FileType]
SourceOrType = Annotated[
    str, PathParam(min_length=1, max_length=64, description="A source's id, or a type: all of its sources.")
]
SourceIdPath = Annotated[str, PathParam(min_length=1, max_length=64, description="The source's id.")]
RefreshIdPath = Annotated[str, PathParam(pattern="^[0-9a-f]{32}$", description="The refresh's id.")]
Purge = Annotated[bool, Query(description="Also delete what is stored of it, and all earlier releases.")]
PushSource = Annotated[str, Query(min_length=1, max_length=64, description="A source of type `push`.")]
DocumentId = Annotated[
    str, Query(min_length=1, max_length=MAX_DOCUMENT_ID_CHARS, description="That of the push.")
]
ArgumentT = TypeVar("ArgumentT")

routes = APIRouter(
    prefix=PREFIX,
    tags=["operations"],
    responses=problem_responses(401, 403, 421, 422, 429, 503, 504),
    generate_unique_id_function=attrgetter("name"),
)


class ConnectionEntry(BaseModel):
    """Where documents are read from; other keys depend on the type: see docs/configuration.md."""

    model_config = ConfigDict(extra="allow")

    type: ConnectionType


class SourceEntry(BaseModel):
    """An entry of `sources` in knowledge.yaml, as it is written there: `${NAME}` for a secret."""

    model_config = ConfigDict(extra="allow")

    id: SourceId
    type: WrittenType
    connection: ConnectionEntry = Field(
        examples=[{"type": "git", "url": "https://github.com/pallets/flask", "token": "${GITHUB_TOKEN}"}]
    )


@routes.post("/sync", status_code=202, response_model=operation.Refresh, responses=QUERY_PROBLEMS)
async def start_refresh(body: RefreshRequest, ctx: CurrentContext) -> JSONResponse:
    """Start to refresh sources: those named, or all that the caller manages."""
    return await _start_refresh(ctx, body.sources)


@routes.get("/sync/status", response_model=operation.RefreshListResponse)
async def list_refreshes(ctx: CurrentContext) -> JSONResponse:
    """List the refreshes that were requested from this server, and from those before it."""
    return await ctx.manage(
        lambda access: operation.RefreshListResponse(tuple(_list_managed_refreshes(ctx, access)))
    )


@routes.get("/sync/status/{id}", response_model=operation.Refresh, responses=problem_responses(404))
async def get_refresh(id: RefreshIdPath, ctx: CurrentContext) -> JSONResponse:
    """Return one refresh, which keeps its id when another server takes it over."""

    def find_refresh(access: Access) -> operation.Refresh:
        refreshes = _list_managed_refreshes(ctx, access)
        refresh = next((refresh for refresh in refreshes if refresh.id == id), None)
        if refresh is None:
            raise NotFound("there is no such refresh, or it is no longer kept")
        return refresh

    return await ctx.manage(find_refresh)


@routes.post("/sync/{name}", status_code=202, response_model=operation.Refresh, responses=BODILESS_PROBLEMS)
async def refresh_source(name: SourceOrType, ctx: CurrentContext) -> JSONResponse:
    """Start to refresh one source, or all sources of a type."""
    return await _start_refresh(ctx, [name])


@routes.post("/documents", status_code=202, response_model=operation.PushResponse, responses=QUERY_PROBLEMS)
async def push_document(body: PushRequest, ctx: CurrentContext) -> JSONResponse:
    """Add a document to a source of type `push`, or replace it; the token needs the scope `push`."""
    return await _change_document(ctx, body.source, body.id, partial(pushed.push_document, request=body))


@routes.delete(
    "/documents", status_code=202, response_model=operation.PushResponse, responses=BODILESS_PROBLEMS
)
async def delete_document(source: PushSource, id: DocumentId, ctx: CurrentContext) -> JSONResponse:
    """Delete a document of a source of type `push`; the token needs the scope `push`."""
    return await _change_document(ctx, source, id, partial(pushed.delete_document, uri=id))


@routes.get("/sources", response_model=operation.SourceListResponse)
async def list_sources(ctx: CurrentContext) -> JSONResponse:
    """List the declared sources that the caller manages, without their secrets."""

    async def load_sources(_: AsyncKnowledgeBase, access: Access) -> operation.SourceListResponse:
        sources = await asyncio.to_thread(ctx.state.declared.list_managed, access)
        return operation.SourceListResponse(tuple(map(_to_response, sources)))

    return await ctx.respond(load_sources, scope="admin")


@routes.post("/sources", status_code=201, response_model=operation.SourceResponse, responses=QUERY_PROBLEMS)
async def add_source(body: SourceEntry, ctx: CurrentContext) -> JSONResponse:
    """Declare a source in knowledge.yaml. Nothing is read yet: start a refresh to read it."""

    async def declare(_: AsyncKnowledgeBase, access: Access) -> operation.SourceResponse:
        require_manage_all(access)
        declared = ctx.state.declared
        entry, serve = body.model_dump(mode="json"), ctx.service.settings.serve
        require_safe_entry(entry)
        add = partial(config_edit.add_source, check=partial(require_reachable, entry, serve=serve))
        await asyncio.to_thread(_edit_config, declared.path, add, entry)
        return _to_response(next(source for source in declared.sources() if source.id == body.id))

    return await ctx.respond(declare, scope="admin", status=201)


@routes.delete("/sources/{id}", response_model=operation.SourceRemovedResponse, responses=BODILESS_PROBLEMS)
async def remove_source(id: SourceIdPath, ctx: CurrentContext, purge: Purge = False) -> JSONResponse:
    """Remove a source from knowledge.yaml. Its indexed content stays, unless it is purged."""

    async def remove(_: AsyncKnowledgeBase, access: Access) -> operation.SourceRemovedResponse:
        require_manage_all(access)
        declared = ctx.state.declared
        if id not in {source.id for source in declared.sources()}:
            raise NotFound(f"there is no source {id!r}")
        await asyncio.to_thread(_edit_config, declared.path, config_edit.remove_source, id)
        return operation.SourceRemovedResponse(id, ctx.state.refreshes.submit_purge(id) if purge else None)

    return await ctx.respond(remove, scope="admin")


def _list_managed_refreshes(ctx: RequestContext, access: Access) -> list[operation.Refresh]:
    """The refreshes of sources that a caller manages; others are as if they did not exist."""
    managed = {source.id: source.access for source in ctx.state.declared.list_managed(access)}

    def may_see(id: str) -> bool:
        return id in managed and sees_whole_source(managed[id], access)

    progress = [
        operation.StageProgress(
            *(it.source, it.stage, it.done, it.total, round(it.rate, 2)),
            seconds_left=None if it.left_s is None else round(it.left_s, 1),
        )
        for it in list_running_refreshes(Lake(ctx.service.settings.store).folder)
    ]

    def find_progress(refresh: operation.Refresh) -> tuple[operation.StageProgress, ...]:
        is_running = refresh.status == "running"
        return tuple(it for it in progress if is_running and it.source in refresh.sources)

    return [
        replace(refresh, error=choose_error(refresh, access, may_see), progress=find_progress(refresh))
        for refresh in ctx.state.refreshes.list_all()
        if access.everything or managed.keys() >= set(refresh.sources)
    ]


async def _start_refresh(ctx: RequestContext, names: Iterable[str]) -> JSONResponse:
    def start(access: Access) -> operation.Refresh:
        declared = ctx.state.declared
        ids = [source.id for name in names for source in declared.find_managed(access, name)]
        if not names:
            ids = [source.id for source in declared.list_managed(access)]
        if not ids:
            raise NotFound("there is no source to refresh")
        return ctx.state.refreshes.submit(ids, "sync")

    return await ctx.manage(start, status=202)


async def _change_document(
    ctx: RequestContext, name: str, id: str, change: Callable[[Lake, SourceConfig], None]
) -> JSONResponse:
    """Keep a change of one document, and start a refresh of its source."""

    def keep_change(access: Access) -> None:
        managed = ctx.state.declared.list_managed(access)
        source = next((source for source in managed if source.id == name), None)
        if source is None or not may_see_source(source.access, access):
            raise NotFound(f"there is no source called {name!r}")
        change(Lake(ctx.service.settings.store), source)

    async def run(_: AsyncKnowledgeBase, access: Access) -> operation.PushResponse:
        await asyncio.to_thread(keep_change, access)
        return operation.PushResponse(name, id, ctx.state.refreshes.submit([name], "push").id)

    return await ctx.respond(run, scope="push", status=202)


def _edit_config(path: Path, edit: Callable[[Path, ArgumentT], object], argument: ArgumentT) -> None:
    """Edit knowledge.yaml; messages omit its folder, which callers have no business to know."""
    try:
        edit(path, argument)
    except KnowledgeError as error:
        raise type(error)(str(error).replace(str(path.resolve()), path.name)) from None


def _to_response(source: SourceConfig) -> operation.SourceResponse:
    return operation.SourceResponse(
        id=source.id,
        type=source.type,
        location=source.connection.location,
        branch=getattr(source.connection, "branch", None),
        refresh_trigger=resolve_trigger(source),
        visibility=source.access.visibility,
        tenant=source.access.tenant,
        principals=source.access.principals,
    )


Hours = Annotated[int, Query(ge=1, le=MAX_HOURS, description="How many hours back queries are counted.")]

inventory_routes = APIRouter(
    prefix=PREFIX,
    tags=["inventory"],
    responses=problem_responses(401, 403, 404, 421, 429, 503, 504),
    generate_unique_id_function=attrgetter("name"),
)


@inventory_routes.get("/collections", response_model=operation.CollectionsResponse)
async def collections(ctx: CurrentContext) -> JSONResponse:
    """The sources that can be searched, with their size and the time of their last refresh."""
    states = ctx.service.source_states
    return await ctx.respond(lambda base, access: list_collections(base, states, access))


@inventory_routes.get("/status", response_model=operation.StatusResponse)
async def status(ctx: CurrentContext) -> JSONResponse:
    """The live release, and its rows by source, type and space."""
    return await ctx.respond(lambda base, access: base.status(access=access))


@inventory_routes.get("/stats", response_model=operation.StatsResponse, responses=problem_responses(422))
async def stats(ctx: CurrentContext, hours: Hours = 24) -> JSONResponse:
    """How much is indexed, and the number and speed of recent queries."""
    settings = ctx.service.settings
    return await ctx.respond(lambda base, access: compute_stats(settings, base, access, hours=hours))


@inventory_routes.post("/feedback", status_code=204, responses=QUERY_PROBLEMS)
async def feedback(body: FeedbackRequest, ctx: CurrentContext) -> Response:
    """Report whether a result was clicked, useful or useless; evaluation learns from it."""
    await ctx.execute(
        lambda base, access: base.feedback(body.query_id, body.result_id, body.judgement, access=access)
    )
    return Response(status_code=204)


@inventory_routes.post(
    "/model-calls", status_code=201, response_model=operation.ModelCallResponse, responses=QUERY_PROBLEMS
)
async def report_model_call(body: ModelCallRequest, ctx: CurrentContext) -> JSONResponse:
    """Report a call of a language model that the sender made; the token needs the scope `report`."""
    return await ctx.respond(
        lambda base, access: base.report_model_call(body, access=access), scope="report", status=201
    )
