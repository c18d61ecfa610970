"""Rows that are kept are those of the table, whatever is written after; no more than the bound is kept."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.query.hits import CHUNK_COLUMNS, IndexedChunk, RowCache
from knowledge_pipeline.store.filters import MATCH_ALL, eq
from knowledge_pipeline.store.fragments import ChunkOutline
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.search import IndexReader, open_index
from knowledge_pipeline_tests.query.search import rows
from knowledge_pipeline_tests.thoroughness import examples

Write = tuple[str, int, str]  # "put", "delete" or "compact"; which chunk; its text
writes = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "put", "delete", "compact"]), st.integers(0, 4), st.text("ab", max_size=2)
        )
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(25), deadline=None)
@given(writes)
def test_after_any_writes_every_version_reads_as_without_a_cache(batches: Sequence[Sequence[Write]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_compare(Lake(Path(folder)), batches))


async def _compare(lake: Lake, batches: Sequence[Sequence[Write]]) -> None:
    table, readers = lake.index("space", rows.DIMENSIONS), list[IndexReader]()
    cache, holding = RowCache(), RowCache(max_outline_bytes=0)
    rows.write(lake, "space", [rows.row("first", "0.py")])
    for batch in batches:
        for kind, number, text in batch:
            if kind == "put":
                vector = None if text == "a" else rows.row(text)["vector"]
                rows.write(lake, "space", [rows.row(text, f"{number}.py", vector=vector)])
            elif kind == "delete":
                table.delete_where(eq("path", f"{number}.py"))
            else:
                table.open_newest().optimize.compact_files()
        readers.append(await open_index(lake.root, "space", table.version))
        await holding.load_outlines(readers[-1])
        for reader in readers:  # those of earlier releases too
            await _require_equal(cache, reader)
            await _require_equal(holding, reader)


async def _require_equal(cache: RowCache, reader: IndexReader) -> None:
    ids = reader.dataset.to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()
    stored: Mapping[int, Mapping[str, object]] = await reader.take_rows(ids, CHUNK_COLUMNS)
    read = await cache.read_chunks(reader, ids)
    assert read == {row: IndexedChunk.from_row(values) for row, values in stored.items()}
    outlines = await read_outlines(cache, reader, ids)
    assert outlines == {row: outline_of(chunk) for row, chunk in read.items()}
    vectors, stored_vectors = await cache.read_vectors(reader, ids), await reader.take_vectors(ids)
    assert vectors.keys() == stored_vectors.keys()
    assert all(np.array_equal(vectors[row], stored_vectors[row]) for row in vectors)


async def read_outlines(cache: RowCache, reader: IndexReader, ids: Sequence[int]) -> dict[int, ChunkOutline]:
    """By row."""
    return dict(zip(ids, await cache.read_outlines(reader, np.array(ids, np.int64)), strict=True))


def outline_of(chunk: IndexedChunk) -> ChunkOutline:
    """What ranking reads of a whole chunk."""
    return ChunkOutline(chunk.id, chunk.source, chunk.path, chunk.symbols, chunk.source_type)


def test_an_outline_says_what_the_whole_chunk_says(lake: Lake) -> None:
    metadata = json.dumps({"symbols": ["Store.get", "Store.put"], "names": ["x"], "leads": True})
    columns: tuple[dict[str, str], ...] = (
        {"symbol": "Store", "metadata": metadata},
        {"symbol": "Store.get", "metadata": metadata},
        {},
    )
    rows.write(lake, "space", [rows.row("a", f"{at}.py", **each) for at, each in enumerate(columns)])
    asyncio.run(_require_outlines(lake))


async def _require_outlines(lake: Lake) -> None:
    reader = await open_index(lake.root, "space", lake.index("space", rows.DIMENSIONS).version)
    ids = reader.dataset.to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()
    chunks = await RowCache().read_chunks(reader, ids)
    assert {chunk.symbols for chunk in chunks.values()} == {
        ("Store", "Store.get", "Store.put"), ("Store.get", "Store.put"), ()
    }  # fmt: skip
    assert await read_outlines(RowCache(), reader, ids) == {
        row: outline_of(chunk) for row, chunk in chunks.items()
    }


def test_what_is_kept_is_not_read_again_and_the_bound_holds(lake: Lake) -> None:
    rows.write(lake, "space", [rows.row(text * 1_000, f"{text}.py") for text in "abcd"])
    asyncio.run(_read_twice(lake))


async def _read_twice(lake: Lake) -> None:
    reader = await open_index(lake.root, "space", lake.index("space", rows.DIMENSIONS).version)
    found = await reader.find_rows(MATCH_ALL, limit=9, columns=["id"])
    ids = reader.dataset.to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()
    assert len(found) == len(ids) == 4
    roomy = RowCache()
    narrow = RowCache(max_outline_bytes=1_000, max_chunk_bytes=12_000, max_vector_bytes=600)
    first = [await each.read_chunks(reader, ids) for each in (roomy, narrow)]
    outlines = [await read_outlines(each, reader, ids) for each in (roomy, narrow)]
    vectors = [await each.read_vectors(reader, ids) for each in (roomy, narrow)]
    broken = replace(reader, dataset=pa.table({}))
    assert await roomy.read_chunks(broken, ids) == first[0] == first[1]
    assert (await roomy.read_vectors(broken, ids)).keys() == vectors[0].keys() == vectors[1].keys()
    assert await read_outlines(roomy, broken, ids) == outlines[0] == outlines[1]
    for kept in (narrow.read_chunks, partial(read_outlines, narrow), narrow.read_vectors):
        known = 0
        for row in ids:
            try:
                known += len(await kept(broken, [row]))
            except AttributeError:  # asked of the table
                continue
        assert 0 < known < len(ids)


def test_files_are_held_as_soon_as_that_pays(lake: Lake) -> None:
    rows.write(lake, "space", [rows.row("a", f"{number}.py") for number in range(20)])
    rows.write(lake, "space", [rows.row("b", f"b{number}.py") for number in range(20)])
    asyncio.run(_read_until_held(lake))


async def _read_until_held(lake: Lake) -> None:
    reader = await open_index(lake.root, "space", lake.index("space", rows.DIMENSIONS).version)
    ids = reader.dataset.to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()
    own = [row for row in ids if row >> 32 == ids[0] >> 32]
    assert len(own) == 20
    broken = replace(reader, dataset=pa.table({}))
    cache, small = (RowCache(max_outline_bytes=0, max_held_rows=count) for count in (20, 19))
    expected = await read_outlines(RowCache(), reader, own)
    for each in (cache, small):
        await read_outlines(each, reader, own)
        with pytest.raises(AttributeError):  # one question has read nothing more
            await read_outlines(each, broken, own)
        for _ in range(20):
            await read_outlines(each, reader, own)
    assert await read_outlines(cache, broken, own) == expected
    with pytest.raises(AttributeError):
        await read_outlines(small, broken, own)
    with pytest.raises(AttributeError):  # there is no room for the other file
        await cache.load_outlines(reader)
        await read_outlines(cache, broken, ids)


def test_what_a_purge_erased_is_forgotten_with_the_next_release(lake: Lake) -> None:
    rows.write(lake, "space", [rows.row(text, f"{text}.py") for text in "ab"])
    asyncio.run(_purge_between_reads(lake))


async def _purge_between_reads(lake: Lake) -> None:
    table, cache = lake.index("space", rows.DIMENSIONS), RowCache()
    before = await open_index(lake.root, "space", table.version)
    ids = before.dataset.to_table(columns=["id"], with_row_id=True)["_rowid"].to_pylist()
    cache.evict_other_files([before])
    assert {chunk.text for chunk in (await cache.read_chunks(before, ids)).values()} == {"a", "b"}
    await cache.load_outlines(before)
    await read_outlines(cache, before, ids)
    await cache.read_vectors(before, ids)
    table.delete_where(eq("path", "b.py"))
    table.purge_deleted_rows()
    cache.evict_other_files([await open_index(lake.root, "space", table.version)])
    erased = replace(before, dataset=pa.table({}))
    for read in (cache.read_chunks, partial(read_outlines, cache), cache.read_vectors):
        with pytest.raises(AttributeError):  # nothing is kept, so the table is asked
            await read(erased, ids)
