"""The live release, counted, and the health of what answers from it, without content, names or paths."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.operation import ComponentHealth, StatusResponse
from knowledge_pipeline.errors import KnowledgeError, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.open_release import Index
from knowledge_pipeline.store import filters, indexes
from knowledge_pipeline.store.damage import MEND
from knowledge_pipeline.store.filters import UNEMBEDDED
from knowledge_pipeline.store.lake import Lake

if TYPE_CHECKING:
    from knowledge_pipeline.query.logs import QueryLog
    from knowledge_pipeline.query.search import Engine


TIMEOUT_S = 3.0  # of each check that waits for a model or an endpoint
MIN_FREE_SHARE, MIN_FREE_BYTES = 0.02, 200_000_000  # of the store's disk; less is unhealthy
_READ_ERRORS = (KnowledgeError, OSError, RuntimeError, ValueError)


async def check_health(
    settings: Settings, lake: Lake, index: Index, engine: Engine, log: QueryLog | None
) -> Mapping[str, ComponentHealth]:
    """Every component by name: store, embedder, reranker, language_model, graph, disk, query_log.

    Embeds one text, past every cache. A language model is only connected to, because its answers cost
    money. Runs on the engine's event loop.
    """
    store = await check_store(index)
    checks: dict[str, Awaitable[ComponentHealth]] = {
        "reranker": _with_timeout(_check_reranker(settings, engine)),
        "language_model": _with_timeout(_check_language_model(settings)),
        "disk": asyncio.to_thread(_check_disk, lake),
    }
    missing: Mapping[str, Any] = {}
    if store.status == "ok":
        checks |= {"embedder": _with_timeout(_check_embedder(engine)), "graph": _check_graph(index)}
        missing = (await index.open_release()).missing  # stores of a federation, or a damaged index
    components = dict(zip(checks, await asyncio.gather(*checks.values()), strict=True))
    skipped = ComponentHealth("unknown", "it cannot be checked while the store is unhealthy")
    names = ("embedder", "reranker", "language_model", "graph", "disk")
    return {
        "store": store,
        **{name: ComponentHealth("unhealthy", _MISSING.get(name, _UNANSWERED)) for name in missing},
        **{name: components.get(name, skipped) for name in names},
        "query_log": _check_query_log(settings, log),
    }


_UNANSWERED = "it cannot be asked: answers do without it"
_MISSING = {"index": f"an index cannot be read, and searches do without it: {MEND}"}


async def check_store(index: Index) -> ComponentHealth:
    """Whether there is a release, and its tables can be read."""
    try:
        readers = await (await index.open_release()).open_readers()
    except NotFound:
        return ComponentHealth("unhealthy", "nothing is released yet")
    except _READ_ERRORS:
        return ComponentHealth("unhealthy", "the live release cannot be opened")
    if not all(await asyncio.gather(*(reader.is_readable() for reader in readers))):
        return ComponentHealth("unhealthy", "the live release cannot be read")
    return ComponentHealth("ok")


async def _check_embedder(engine: Engine) -> ComponentHealth:
    if await engine.check_embedder():
        return ComponentHealth("unhealthy", "queries cannot be embedded: searches use words alone")
    return ComponentHealth("ok")


async def _check_reranker(settings: Settings, engine: Engine) -> ComponentHealth:
    rerank = settings.query.rerank
    if not rerank.types or not (rerank.model or rerank.kind == "llm"):
        return ComponentHealth("disabled")
    if await engine.check_reranker():
        return ComponentHealth("unhealthy", "results cannot be reranked: they keep the fused order")
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
        return ComponentHealth("unhealthy", "it cannot be connected to: queries are answered without it")
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return ComponentHealth("ok")


async def _check_graph(index: Index) -> ComponentHealth:
    try:
        reader = await (await index.open_release()).open_graph_reader()
        if reader is None:
            return ComponentHealth("disabled")
        await reader.find_symbols(~filters.MATCH_NONE, limit=1, columns=("node",))
    except _READ_ERRORS:
        return ComponentHealth("unhealthy", "the code graph cannot be read")
    return ComponentHealth("ok")


def _check_disk(lake: Lake) -> ComponentHealth:
    folders = (lake.folder, *lake.folder.absolute().parents)  # with a bucket, it may not exist yet
    try:
        disk = shutil.disk_usage(next(folder for folder in folders if folder.is_dir()))
    except OSError:
        return ComponentHealth("unhealthy", "the store's disk cannot be read")
    if disk.free < MIN_FREE_BYTES or disk.free < MIN_FREE_SHARE * disk.total:
        return ComponentHealth("unhealthy", "the store's disk is nearly full")
    return ComponentHealth("ok")


def _check_query_log(settings: Settings, log: QueryLog | None) -> ComponentHealth:
    if log is None:
        return ComponentHealth("disabled")
    if log.is_failing:
        done = "refused" if settings.logs.required else "given without a row"
        return ComponentHealth("unhealthy", f"the last query could not be logged: such answers are {done}")
    return ComponentHealth("ok")


async def _with_timeout(check: Awaitable[ComponentHealth]) -> ComponentHealth:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await check
    except TimeoutError:
        return ComponentHealth("unknown", "it did not answer in time")
    except KnowledgeError:
        return ComponentHealth("unknown", "it could not be checked")


async def read_status(settings: Settings, lake: Lake, index: Index, access: Access) -> StatusResponse:
    """Count the rows of the live release that the caller may see.

    Raises `NotFound`: nothing is released yet.
    """
    opened = await index.open_release()
    readers = await opened.open_readers()
    types = lake.list_stored_sources() | {source.id: source.type for source in settings.sources}
    by_source: Counter[str] = Counter(dict.fromkeys(types, 0) if access.everything else ())
    for reader in readers:
        filters_by_source = {id_: compile_filter(access, Filters(sources=(id_,))) for id_ in types}
        counts = await asyncio.gather(*(reader.count_rows(where) for where in filters_by_source.values()))
        by_source.update({id_: count for id_, count in zip(filters_by_source, counts, strict=True) if count})
    by_type: Counter[str] = Counter()
    for id_, rows in by_source.items():
        by_type[types[id_]] += rows
    by_space = {reader.space: await reader.count_rows(compile_filter(access)) for reader in readers}
    unembedded: Counter[str] = Counter()
    for reader in readers if opened.release.unembedded else ():
        visible = compile_filter(access) & UNEMBEDDED
        rows = await reader.find_rows(visible, limit=opened.release.rows, columns=["source"])
        unembedded.update(row["source"] for row in rows)
    unindexed_rows: dict[str, int] = {}
    for reader in readers if access.everything else ():  # they are rows of all tenants
        table = lake.index(reader.space, reader.dimensions)
        unindexed_rows[reader.space] = await asyncio.to_thread(indexes.count_unindexed_rows, table)
    return StatusResponse(
        release=opened.release.release,
        released_at=opened.release.created_at,
        rows=sum(by_space.values()),
        by_source=dict(sorted(by_source.items())),
        by_type=dict(sorted(by_type.items())),
        by_space=by_space,
        unembedded_rows=dict(sorted(unembedded.items())),
        unindexed_rows=unindexed_rows,
        restores=opened.release.restores,
        pinned_since=opened.release.pinned_since,
        pin=opened.release.pin,
    )
