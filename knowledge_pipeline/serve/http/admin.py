"""Sources and their refreshes over HTTP, for holders of the scope `admin`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse

from knowledge_pipeline.config import edit as config_edit
from knowledge_pipeline.config.settings import SourceConfig, resolve_trigger
from knowledge_pipeline.errors import KnowledgeError, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.knowledge_base import KnowledgeBase
from knowledge_pipeline.serve.declared_sources import DeclaredSources, require_manage_all
from knowledge_pipeline.serve.http.dependencies import CurrentContext, RequestContext
from knowledge_pipeline.serve.http.models_operation import (
    RefreshListResponse,
    RefreshRequest,
    RefreshResponse,
    SourceEntry,
    SourceListResponse,
    SourceRemovedResponse,
    SourceResponse,
)
from knowledge_pipeline.serve.http.problems import QUERY_STATUSES, problem_responses
from knowledge_pipeline.serve.http.search import PREFIX
from knowledge_pipeline.serve.refresh_queue import RefreshQueue

SourceOrType = Annotated[
    str, Path(min_length=1, max_length=64, description="A source's id, or a type: all of its sources.")
]
SourceIdPath = Annotated[str, Path(min_length=1, max_length=64, description="The source's id.")]
Erase = Annotated[bool, Query(description="Also erase what is stored of it, and all earlier releases.")]

_NO_BODY_STATUSES = tuple(status for status in QUERY_STATUSES if status not in (400, 408, 413))
routes = APIRouter(prefix=PREFIX, tags=["operation"])


@routes.post(
    "/sync",
    operation_id="sync",
    status_code=202,
    response_model=RefreshResponse,
    responses=problem_responses(*QUERY_STATUSES),
)
async def sync(body: RefreshRequest, ctx: CurrentContext) -> JSONResponse:
    """Start to bring sources up to date: some, or all that the caller manages."""
    return await _start_refresh(ctx, body.sources)


@routes.get(
    "/sync/status",
    operation_id="sync_status",
    response_model=RefreshListResponse,
    responses=problem_responses(401, 403, 421, 422, 429, 503, 504),
)
async def sync_status(ctx: CurrentContext) -> JSONResponse:
    """The refreshes that this server was asked for."""

    async def load_refreshes(_: KnowledgeBase, access: Access) -> list[dict[str, Any]]:
        managed = {source.id for source in get_declared_sources(ctx).list_managed(access)}
        mine = [
            each
            for each in get_refresh_queue(ctx).list_all()
            if access.everything or set(each.sources) <= managed
        ]
        return [each.as_json() for each in mine]

    return JSONResponse({"refreshes": await ctx.execute(load_refreshes, scope="admin")})


@routes.post(
    "/sync/{name}",
    operation_id="sync_named",
    status_code=202,
    response_model=RefreshResponse,
    responses=problem_responses(*_NO_BODY_STATUSES),
)
async def sync_named(name: SourceOrType, ctx: CurrentContext) -> JSONResponse:
    """Start to bring one source up to date, or all of a type."""
    return await _start_refresh(ctx, [name])


@routes.get(
    "/sources",
    operation_id="list_sources",
    response_model=SourceListResponse,
    responses=problem_responses(401, 403, 421, 422, 429, 503, 504),
)
async def list_sources(ctx: CurrentContext) -> JSONResponse:
    """The declared sources that the caller manages, without their secrets."""

    async def load_sources(_: KnowledgeBase, access: Access) -> list[dict[str, Any]]:
        sources = await asyncio.to_thread(get_declared_sources(ctx).list_managed, access)
        return [_to_source_response(source) for source in sources]

    return JSONResponse({"sources": await ctx.execute(load_sources, scope="admin")})


@routes.post(
    "/sources",
    operation_id="add_source",
    status_code=201,
    response_model=SourceResponse,
    responses=problem_responses(*QUERY_STATUSES),
)
async def add_source(body: SourceEntry, ctx: CurrentContext) -> JSONResponse:
    """Declare a source in knowledge.yaml. Nothing is read yet: `sync` does that."""

    async def add(_: KnowledgeBase, access: Access) -> SourceConfig:
        require_manage_all(access)
        declared = get_declared_sources(ctx)
        await asyncio.to_thread(_edit_config, declared, config_edit.add_source, body.model_dump(mode="json"))
        return next(each for each in declared.sources() if each.id == body.id)

    return JSONResponse(_to_source_response(await ctx.execute(add, scope="admin")), 201)


@routes.delete(
    "/sources/{id}",
    operation_id="remove_source",
    response_model=SourceRemovedResponse,
    responses=problem_responses(*_NO_BODY_STATUSES),
)
async def remove_source(id: SourceIdPath, ctx: CurrentContext, erase: Erase = False) -> JSONResponse:
    """Take a source out of knowledge.yaml. What is indexed of it stays, unless it is to be erased."""

    async def remove(_: KnowledgeBase, access: Access) -> dict[str, Any]:
        require_manage_all(access)
        declared = get_declared_sources(ctx)
        if id not in {each.id for each in declared.sources()}:
            raise NotFound(f"there is no source {id!r}")
        await asyncio.to_thread(_edit_config, declared, config_edit.remove_source, id)
        erasing = get_refresh_queue(ctx).submit_erase(id).as_json() if erase else None
        return {"removed": id, "erasing": erasing}

    return JSONResponse(await ctx.execute(remove, scope="admin"))


def get_declared_sources(ctx: RequestContext) -> DeclaredSources:
    """The sources as knowledge.yaml has them now."""
    return ctx.request.app.state.declared


def get_refresh_queue(ctx: RequestContext) -> RefreshQueue:
    """The refreshes of this server."""
    return ctx.request.app.state.refreshes


async def _start_refresh(ctx: RequestContext, names: Iterable[str]) -> JSONResponse:
    async def start(_: KnowledgeBase, access: Access) -> dict[str, Any]:
        declared = get_declared_sources(ctx)
        found = [source.id for name in names for source in declared.find_managed(access, name)]
        if not names:
            found = [source.id for source in declared.list_managed(access)]
        if not found:
            raise NotFound("there is no source that could be refreshed")
        return get_refresh_queue(ctx).submit(found, "sync").as_json()

    return JSONResponse(await ctx.execute(start, scope="admin"), 202)


def _edit_config(declared: DeclaredSources, edit: Any, argument: Any) -> None:
    """Edit the file; a message names it without its folder, which is no concern of a caller's."""
    path = declared.path
    try:
        edit(path, argument)
    except KnowledgeError as error:
        raise type(error)(str(error).replace(str(path.resolve()), path.name)) from None


def _to_source_response(source: SourceConfig) -> dict[str, Any]:
    return {
        "id": source.id,
        "type": source.type,
        "place": source.connection.location,
        "branch": getattr(source.connection, "branch", None),
        "refreshed": resolve_trigger(source),
        "visibility": source.access.visibility,
        "tenant": source.access.tenant,
        "principals": list(source.access.principals),
    }
