"""What is live: the release, and its rows by source, type and space."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import StatusResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.open_release import Index
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.readers import IndexReader


async def read_status(settings: Settings, lake: Lake, index: Index, access: Access) -> StatusResponse:
    """Count the live release.

    Raises:
        NotFound: nothing is released yet.
    """
    opened = await index.open_release()
    readers = await opened.open_readers()
    sources = lake.list_stored_sources() | {source.id: source.type for source in settings.sources}
    counted = await asyncio.gather(*(_count_by_source(reader, sources, access) for reader in readers))
    by_space = {reader.space: await reader.count_rows(compile_filter(access)) for reader in readers}
    total: Counter[str] = Counter(dict.fromkeys(sources, 0) if access.everything else ())
    for counts in counted:
        total.update(counts)
    by_type: Counter[str] = Counter()
    for source, rows in total.items():
        by_type[sources[source]] += rows
    looked_at = readers if access.everything else ()  # they are rows of all tenants
    unindexed = {
        reader.space: await asyncio.to_thread(_count_unindexed, lake, reader) for reader in looked_at
    }
    return StatusResponse(
        release=opened.release.release,
        released_at=opened.release.created_at,
        rows=sum(by_space.values()),
        by_source=dict(sorted(total.items())),
        by_type=dict(sorted(by_type.items())),
        by_space=by_space,
        unindexed_rows=unindexed,
    )


async def _count_by_source(reader: IndexReader, sources: Mapping[str, str], access: Access) -> dict[str, int]:
    counts = await asyncio.gather(
        *(reader.count_rows(compile_filter(access, Filters(sources=(source,)))) for source in sources)
    )
    return {source: count for source, count in zip(sources, counts, strict=True) if count}


def _count_unindexed(lake: Lake, reader: IndexReader) -> int:
    return indexes.count_unindexed_rows(lake.index(reader.space, reader.dimensions))
