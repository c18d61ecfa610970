"""Reads rows by name instead of by likeness: a chunk, a document, a file to find others like it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query import access as accesses
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter, replace_invalid_characters
from knowledge_pipeline.query.open_release import find_rows
from knowledge_pipeline.query.search.hits import CHUNK_COLUMNS, IndexedChunk
from knowledge_pipeline.query.search.query_vectors import to_unit_length
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import IndexReader, Row

_EXAMPLE_COLUMNS = ("source", "source_type", "uri", "path", "start_char", "text", "vector")
_MAX_FILES_NAMED = 5  # in a message


@dataclass(frozen=True, slots=True)
class ExampleFile:
    """A file of the index, to find others like it."""

    text: str
    source_type: str
    vectors: Mapping[str, np.ndarray]  # space -> mean direction of its chunks there; none if not embedded
    other_files: Filter  # every row but this file's


async def read_by_id(readers: Sequence[IndexReader], name: str, access: Access) -> list[IndexedChunk]:
    """One chunk by its id, or all chunks of a document by "source:uri", in their order.

    Archived ones are found too, and say so.

    Raises:
        NotFound: there is none that the caller may see.
    """
    visible, name = accesses.build_visibility_filter(access), replace_invalid_characters(name)
    rows = await find_rows(readers, visible & filters.eq("id", name), CHUNK_COLUMNS)
    source, _, uri = name.partition(":")
    if not rows and uri:
        document = filters.eq("source", source) & filters.eq("uri", uri)
        rows = await find_rows(readers, visible & document, CHUNK_COLUMNS)
    if not rows:
        shown = _format_name(name)
        raise NotFound(f"there is no chunk or document {shown}: ids are in the results of a search")
    chunks = {chunk.id: chunk for chunk in map(IndexedChunk.from_row, rows)}
    return sorted(chunks.values(), key=lambda chunk: (chunk.start_char, chunk.id))


async def read_lines(
    readers: Sequence[IndexReader], places: Collection[tuple[str, str, int]], condition: Filter
) -> list[IndexedChunk]:
    """The chunks that have some lines: source, path and line of each; where two have one, the first."""
    if not places:
        return []
    at_paths = filters.one_of("path", sorted({path for _, path, _ in places}))
    rows = await find_rows(readers, condition & at_paths, CHUNK_COLUMNS)
    chunks = sorted(map(IndexedChunk.from_row, rows), key=lambda chunk: (chunk.start_char, chunk.id))
    found: dict[str, IndexedChunk] = {}
    for source, path, line in places:
        in_file = (chunk for chunk in chunks if (chunk.source, chunk.path) == (source, path))
        if at_line := next((each for each in in_file if each.start_line <= line <= each.end_line), None):
            found[at_line.id] = at_line
    return list(found.values())


async def read_example(
    readers: Sequence[IndexReader], path: str, access: Access, *, source: str | None = None
) -> ExampleFile:
    """The one file at a path, or at the end of one ("auth.py" for "src/auth.py").

    Raises:
        NotFound: there is none that the caller may see.
        InvalidQuery: there are several.
    """
    condition = compile_filter(access, Filters(sources=(source,) if source else ()))
    path = replace_invalid_characters(path).removeprefix("./").lstrip("/")
    for at_path in (filters.eq("path", path), filters.glob("path", f"**/{path}")):
        by_reader = await asyncio.gather(
            *(find_rows([reader], condition & at_path, _EXAMPLE_COLUMNS) for reader in readers)
        )
        by_space = {reader.space: rows for reader, rows in zip(readers, by_reader, strict=True) if rows}
        if by_space:
            return _build_example(path, by_space)
    raise NotFound(f"there is no file {_format_name(path)} in the index: give its path within its source")


def _build_example(path: str, by_space: Mapping[str, Sequence[Row]]) -> ExampleFile:
    rows = [row for found in by_space.values() for row in found]
    files = sorted({(row["source"], row["uri"], row["path"]) for row in rows})
    if len(files) > 1:
        named = ", ".join(f"{found} in {source}" for source, _, found in files[:_MAX_FILES_NAMED])
        raise InvalidQuery(
            f"several files are called {_format_name(path)}: {named}; give a source, or more of the path"
        )
    source, uri, _ = files[0]
    texts = {row["start_char"]: row["text"] for row in sorted(rows, key=lambda row: row["start_char"])}
    vectors: dict[str, np.ndarray] = {}
    for space, found in by_space.items():
        embedded = [row["vector"] for row in found if row["vector"] is not None]
        if embedded:
            chunk_vectors = np.asarray(embedded, dtype=np.float32)
            vectors[space] = to_unit_length(chunk_vectors.sum(axis=0), fallback=chunk_vectors[0])
    return ExampleFile(
        text="\n".join(texts.values()),
        source_type=rows[0]["source_type"],
        vectors=vectors,
        other_files=~(filters.eq("source", source) & filters.eq("uri", uri)),
    )


def _format_name(name: str) -> str:
    return repr(name if len(name) <= 200 else f"{name[:200]}…")
