"""Describes the live release: its rows by source, type and space."""

from __future__ import annotations

import asyncio
from collections import Counter

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses.inventory import StatusResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.open_release import Index
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.filters import UNEMBEDDED
from knowledge_pipeline.store.lake import Lake


async def read_status(settings: Settings, lake: Lake, index: Index, access: Access) -> StatusResponse:
    """Count the rows of the live release that the caller may see.

    Raises:
        NotFound: nothing is released yet.
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
