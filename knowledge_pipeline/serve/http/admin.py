"""Sources and their refreshes over HTTP, for holders of the scope `admin`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse

from knowledge_pipeline.config import edit as config_edit
from knowledge_pipeline.config.settings import SourceConfig, trigger_of
from knowledge_pipeline.errors import KnowledgeError, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.knowledge_base import KnowledgeBase
from knowledge_pipeline.serve.declared_sources import Declared, place_of, require_all
from knowledge_pipeline.serve.http.dependencies import Asks, Inquiry
from knowledge_pipeline.serve.http.models_operation import (
    RefreshesTold,
    RefreshTold,
    RemovedTold,
    SourceEntry,
    SourcesTold,
    SourceTold,
    SyncAsked,
)
from knowledge_pipeline.serve.http.problems import ANSWERING, problems
from knowledge_pipeline.serve.http.search import PREFIX
from knowledge_pipeline.serve.refresh_queue import Refreshes

Named = Annotated[
    str, Path(min_length=1, max_length=64, description="A source's id, or a type: all of its sources.")
]
SourceNamed = Annotated[str, Path(min_length=1, max_length=64, description="The source's id.")]
Erase = Annotated[bool, Query(description="Also erase what is stored of it, and all earlier releases.")]

_bodiless = tuple(status for status in ANSWERING if status not in (400, 408, 413))
routes = APIRouter(prefix=PREFIX, tags=["operation"])


@routes.post(
    "/sync",
    operation_id="sync",
    status_code=202,
    response_model=RefreshTold,
    responses=problems(*ANSWERING),
)
async def sync(body: SyncAsked, asks: Asks) -> JSONResponse:
    """Start to bring sources up to date: some, or all that the caller manages."""
    return await _started(asks, body.sources)


@routes.get(
    "/sync/status",
    operation_id="sync_status",
    response_model=RefreshesTold,
    responses=problems(401, 403, 421, 422, 429, 503, 504),
)
async def sync_status(asks: Asks) -> JSONResponse:
    """The refreshes that this server was asked for."""

    async def told(_: KnowledgeBase, access: Access) -> list[dict[str, Any]]:
        managed = {source.id for source in declared_of(asks).managed_by(access)}
        mine = [
            each for each in refreshes_of(asks).all() if access.everything or set(each.sources) <= managed
        ]
        return [each.as_json() for each in mine]

    return JSONResponse({"refreshes": await asks.ask(told, scope="admin")})


@routes.post(
    "/sync/{name}",
    operation_id="sync_named",
    status_code=202,
    response_model=RefreshTold,
    responses=problems(*_bodiless),
)
async def sync_named(name: Named, asks: Asks) -> JSONResponse:
    """Start to bring one source up to date, or all of a type."""
    return await _started(asks, [name])


@routes.get(
    "/sources",
    operation_id="list_sources",
    response_model=SourcesTold,
    responses=problems(401, 403, 421, 422, 429, 503, 504),
)
async def list_sources(asks: Asks) -> JSONResponse:
    """The declared sources that the caller manages, without their secrets."""

    async def told(_: KnowledgeBase, access: Access) -> list[dict[str, Any]]:
        sources = await asyncio.to_thread(declared_of(asks).managed_by, access)
        return [_told(source) for source in sources]

    return JSONResponse({"sources": await asks.ask(told, scope="admin")})


@routes.post(
    "/sources",
    operation_id="add_source",
    status_code=201,
    response_model=SourceTold,
    responses=problems(*ANSWERING),
)
async def add_source(body: SourceEntry, asks: Asks) -> JSONResponse:
    """Declare a source in knowledge.yaml. Nothing is read yet: `sync` does that."""

    async def added(_: KnowledgeBase, access: Access) -> SourceConfig:
        require_all(access)
        declared = declared_of(asks)
        await asyncio.to_thread(_edited, declared, config_edit.add_source, body.model_dump(mode="json"))
        return next(each for each in declared.sources() if each.id == body.id)

    return JSONResponse(_told(await asks.ask(added, scope="admin")), 201)


@routes.delete(
    "/sources/{id}",
    operation_id="remove_source",
    response_model=RemovedTold,
    responses=problems(*_bodiless),
)
async def remove_source(id: SourceNamed, asks: Asks, erase: Erase = False) -> JSONResponse:
    """Take a source out of knowledge.yaml. What is indexed of it stays, unless it is to be erased."""

    async def removed(_: KnowledgeBase, access: Access) -> dict[str, Any]:
        require_all(access)
        declared = declared_of(asks)
        if id not in {each.id for each in declared.sources()}:
            raise NotFound(f"there is no source {id!r}")
        await asyncio.to_thread(_edited, declared, config_edit.remove_source, id)
        erasing = refreshes_of(asks).erase(id).as_json() if erase else None
        return {"removed": id, "erasing": erasing}

    return JSONResponse(await asks.ask(removed, scope="admin"))


def declared_of(asks: Inquiry) -> Declared:
    """The sources as knowledge.yaml has them now."""
    return asks.request.app.state.declared


def refreshes_of(asks: Inquiry) -> Refreshes:
    """The refreshes of this server."""
    return asks.request.app.state.refreshes


async def _started(asks: Inquiry, names: Iterable[str]) -> JSONResponse:
    async def started(_: KnowledgeBase, access: Access) -> dict[str, Any]:
        declared = declared_of(asks)
        found = [source.id for name in names for source in declared.meant(access, name)]
        if not names:
            found = [source.id for source in declared.managed_by(access)]
        if not found:
            raise NotFound("there is no source that could be refreshed")
        return refreshes_of(asks).start(found, "sync").as_json()

    return JSONResponse(await asks.ask(started, scope="admin"), 202)


def _edited(declared: Declared, edit: Any, given: Any) -> None:
    """Edit the file; a message names it without its folder, which is no concern of a caller's."""
    path = declared.path
    try:
        edit(path, given)
    except KnowledgeError as error:
        raise type(error)(str(error).replace(str(path.resolve()), path.name)) from None


def _told(source: SourceConfig) -> dict[str, Any]:
    return {
        "id": source.id,
        "type": source.type,
        "place": place_of(source),
        "branch": getattr(source.connection, "branch", None),
        "refreshed": trigger_of(source),
        "visibility": source.access.visibility,
        "tenant": source.access.tenant,
        "principals": list(source.access.principals),
    }
