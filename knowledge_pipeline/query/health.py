"""Which parts of answering work now, told without a word of content, a name or a path."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import KnowledgeError, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.open_release import LiveIndex
from knowledge_pipeline.store.lake import Lake

if TYPE_CHECKING:
    from knowledge_pipeline.query.search.engine import Engine

State = Literal["ok", "ill", "off", "unknown"]
"""off: not configured; unknown: not told in time."""

BUDGET_S = 3.0  # for each part that may have to be waited for
FREE_SHARE, FREE_BYTES = 0.02, 200_000_000  # of the store's disk; less is too little


@dataclass(frozen=True, slots=True)
class Component:
    """One part; `detail` says what it means, where it is not well."""

    status: State
    detail: str | None = None


async def health_of(settings: Settings, lake: Lake, engine: Engine) -> Mapping[str, Component]:
    """Every part by name: store, embedder, reranker, language_model, graph, disk.

    Asks the embedding model for one vector, past every cache; a language model is only connected to,
    for its answers cost money. On the engine's event loop.
    """
    store = await store_of(lake)
    reached = store.status == "ok"
    parts = {
        "embedder": _in_time(_embedder(engine)) if reached else _untold(),
        "reranker": _in_time(_reranker(settings, engine)),
        "language_model": _in_time(_language_model(settings)),
        "graph": _graph(lake) if reached else _untold(),
        "disk": asyncio.to_thread(_disk, lake),
    }
    told = await asyncio.gather(*parts.values())
    return {"store": store, **dict(zip(parts, told, strict=True))}


async def store_of(lake: Lake) -> Component:
    """Whether there is a release, and its tables can be opened."""
    try:
        await (await LiveIndex(lake).opened()).readers()
    except NotFound:
        return Component("ill", "nothing is released yet")
    except (KnowledgeError, OSError, RuntimeError, ValueError):
        return Component("ill", "the live release cannot be opened")
    return Component("ok")


async def _embedder(engine: Engine) -> Component:
    answer = await engine.similar(Access.public(), text=uuid.uuid4().hex, limit=1)
    if "vector" in answer.degraded:
        return Component("ill", "no vectors can be made: searches are by words alone")
    return Component("ok")


async def _reranker(settings: Settings, engine: Engine) -> Component:
    rerank = settings.query.rerank
    if not rerank.types or not (rerank.model or rerank.kind == "llm"):
        return Component("off")
    if await engine.without_rerank():
        return Component("ill", "results cannot be reranked: the fused order stands")
    return Component("ok")


async def _language_model(settings: Settings) -> Component:
    model = settings.language_model
    if model is None or not settings.query.uses_of_language_model():
        return Component("off")
    parts = urlsplit(model.base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        _, writer = await asyncio.open_connection(parts.hostname, port)
    except OSError:
        return Component("ill", "it cannot be connected to: questions are answered without it")
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return Component("ok")


async def _graph(lake: Lake) -> Component:
    try:
        reader = await (await LiveIndex(lake).opened()).graph()
    except (KnowledgeError, OSError, RuntimeError, ValueError):
        return Component("ill", "the code graph cannot be opened")
    return Component("ok") if reader else Component("off")


def _disk(lake: Lake) -> Component:
    try:
        disk = shutil.disk_usage(_standing(lake))
    except OSError:
        return Component("ill", "the store's disk cannot be read")
    if disk.free < FREE_BYTES or disk.free < FREE_SHARE * disk.total:
        return Component("ill", "the store's disk is nearly full")
    return Component("ok")


def _standing(lake: Lake) -> Path:
    """The store's folder; beside a bucket it is made when first needed, so the nearest one above."""
    if lake.is_local:
        return lake.folder
    return next(folder for folder in (lake.folder, *lake.folder.absolute().parents) if folder.is_dir())


async def _in_time(told: Awaitable[Component]) -> Component:
    try:
        async with asyncio.timeout(BUDGET_S):
            return await told
    except TimeoutError:
        return Component("unknown", "it did not answer in time")
    except KnowledgeError:
        return Component("unknown", "it could not be asked")


async def _untold() -> Component:
    return Component("unknown", "the store has to be well first")
