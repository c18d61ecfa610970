"""Which parts of answering work now, told without a word of content, a name or a path."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.responses import ComponentHealth
from knowledge_pipeline.errors import KnowledgeError, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.open_release import LiveIndex
from knowledge_pipeline.store.lake import Lake

if TYPE_CHECKING:
    from knowledge_pipeline.query.search.engine import Engine

TIMEOUT_S = 3.0  # for each part that may have to be waited for
MIN_FREE_SHARE, MIN_FREE_BYTES = 0.02, 200_000_000  # of the store's disk; less is too little


async def check_health(settings: Settings, lake: Lake, engine: Engine) -> Mapping[str, ComponentHealth]:
    """Every part by name: store, embedder, reranker, language_model, graph, disk.

    Asks the embedding model for one vector, past every cache; a language model is only connected to,
    for its answers cost money. On the engine's event loop.
    """
    store = await check_store(lake)
    reached = store.status == "ok"
    parts = {
        "embedder": _with_timeout(_check_embedder(engine)) if reached else _skip_check(),
        "reranker": _with_timeout(_check_reranker(settings, engine)),
        "language_model": _with_timeout(_check_language_model(settings)),
        "graph": _check_graph(lake) if reached else _skip_check(),
        "disk": asyncio.to_thread(_check_disk, lake),
    }
    told = await asyncio.gather(*parts.values())
    return {"store": store, **dict(zip(parts, told, strict=True))}


async def check_store(lake: Lake) -> ComponentHealth:
    """Whether there is a release, and its tables can be opened."""
    try:
        await (await LiveIndex(lake).open_release()).open_readers()
    except NotFound:
        return ComponentHealth("unhealthy", "nothing is released yet")
    except (KnowledgeError, OSError, RuntimeError, ValueError):
        return ComponentHealth("unhealthy", "the live release cannot be opened")
    return ComponentHealth("ok")


async def _check_embedder(engine: Engine) -> ComponentHealth:
    answer = await engine.similar(Access.public(), text=uuid.uuid4().hex, limit=1)
    if "vector" in answer.degraded:
        return ComponentHealth("unhealthy", "no vectors can be made: searches are by words alone")
    return ComponentHealth("ok")


async def _check_reranker(settings: Settings, engine: Engine) -> ComponentHealth:
    rerank = settings.query.rerank
    if not rerank.types or not (rerank.model or rerank.kind == "llm"):
        return ComponentHealth("disabled")
    if await engine.find_reranker_problem():
        return ComponentHealth("unhealthy", "results cannot be reranked: the fused order stands")
    return ComponentHealth("ok")


async def _check_language_model(settings: Settings) -> ComponentHealth:
    model = settings.language_model
    if model is None or not settings.query.list_language_model_keys():
        return ComponentHealth("disabled")
    parts = urlsplit(model.base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        _, writer = await asyncio.open_connection(parts.hostname, port)
    except OSError:
        return ComponentHealth("unhealthy", "it cannot be connected to: questions are answered without it")
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return ComponentHealth("ok")


async def _check_graph(lake: Lake) -> ComponentHealth:
    try:
        reader = await (await LiveIndex(lake).open_release()).open_graph_reader()
    except (KnowledgeError, OSError, RuntimeError, ValueError):
        return ComponentHealth("unhealthy", "the code graph cannot be opened")
    return ComponentHealth("ok") if reader else ComponentHealth("disabled")


def _check_disk(lake: Lake) -> ComponentHealth:
    try:
        disk = shutil.disk_usage(_find_existing_folder(lake))
    except OSError:
        return ComponentHealth("unhealthy", "the store's disk cannot be read")
    if disk.free < MIN_FREE_BYTES or disk.free < MIN_FREE_SHARE * disk.total:
        return ComponentHealth("unhealthy", "the store's disk is nearly full")
    return ComponentHealth("ok")


def _find_existing_folder(lake: Lake) -> Path:
    """The store's folder; beside a bucket it is made when first needed, so the nearest one above."""
    if lake.is_local:
        return lake.folder
    return next(folder for folder in (lake.folder, *lake.folder.absolute().parents) if folder.is_dir())


async def _with_timeout(check: Awaitable[ComponentHealth]) -> ComponentHealth:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await check
    except TimeoutError:
        return ComponentHealth("unknown", "it did not answer in time")
    except KnowledgeError:
        return ComponentHealth("unknown", "it could not be asked")


async def _skip_check() -> ComponentHealth:
    return ComponentHealth("unknown", "the store has to be well first")
