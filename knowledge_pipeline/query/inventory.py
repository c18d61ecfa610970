"""What there is to search: sources, their repositories and languages, as far as a caller may see them."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Any

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.operation import IndexedSource, IndexedSourcesResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.open_release import Index

_COLUMNS = ("source", "source_type", "repo", "language")


async def list_indexed_sources(index: Index, filters: Filters, access: Access) -> IndexedSourcesResponse:
    """The sources of the live release that have a chunk which the caller may see and the filters take.

    Raises:
        NotFound: nothing is released yet.
        StoreError: an index cannot be read.
    """
    opened = await index.open_release()
    readers = await opened.open_readers()
    where = compile_filter(access, filters)
    counts: Counter[tuple[Any, ...]] = Counter()
    for of_space in await asyncio.gather(*(reader.count_by(_COLUMNS, where) for reader in readers)):
        counts.update(of_space)
    chunks = Counter[tuple[str, str]]()
    repos, languages = (defaultdict[str, Counter[str | None]](Counter) for _ in range(2))
    for (source, type_, repo, language), rows in counts.items():
        chunks[source, type_] += rows
        repos[source][repo] += rows
        languages[source][language] += rows
    sources = tuple(
        IndexedSource(source, type_, rows, _rank(repos[source]), _rank(languages[source]))
        for (source, type_), rows in sorted(chunks.items())
    )
    return IndexedSourcesResponse(opened.release.release, tuple(opened.missing), sources)


async def count_documents(index: Index, access: Access) -> int:
    """The documents of the live release that have a chunk which the caller may see; raises as above."""
    readers = await (await index.open_release()).open_readers()
    where, columns = compile_filter(access), ("source", "uri")
    counts = await asyncio.gather(*(reader.count_by(columns, where) for reader in readers))
    return len(set[tuple[Any, ...]]().union(*counts))


def _rank(counts: Counter[str | None]) -> tuple[str, ...]:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0] or ""))
    return tuple(name for name, _ in ranked if name)
