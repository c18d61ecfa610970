"""Rows by name instead of by likeness: a chunk, a document, a file that others shall be like."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query import access as accesses
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter, replace_invalid_characters
from knowledge_pipeline.query.search.chunk_rows import CHUNK_COLUMNS, to_chunk
from knowledge_pipeline.query.search.hits import IndexedChunk
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import IndexReader, Row

MAX_CHUNKS = 10_000  # of one document
_MAX_FILES_NAMED = 5  # in a message


@dataclass(frozen=True, slots=True)
class ExampleFile:
    """A file of the index that others shall be like."""

    text: str
    source_type: str
    vectors: Mapping[str, np.ndarray]  # space -> mean direction of its chunks there
    other_files: Filter  # every row but this file's


async def read_by_id(readers: Sequence[IndexReader], name: str, access: Access) -> list[IndexedChunk]:
    """One chunk by its id, or all chunks of a document by "source:uri", in their order.

    Archived ones are found too, and say so.

    Raises:
        NotFound: there is none that the caller may see.
    """
    visible, name = accesses.build_visibility_filter(access), replace_invalid_characters(name)
    found = await _read_rows(readers, visible & filters.eq("id", name), CHUNK_COLUMNS)
    source, _, uri = name.partition(":")
    if not found and uri:
        document = filters.eq("source", source) & filters.eq("uri", uri)
        found = await _read_rows(readers, visible & document, CHUNK_COLUMNS)
    if not found:
        raise NotFound(
            f"there is no chunk or document {_format_name(name)}: ids are in the results of a search"
        )
    passages = {passage.id: passage for passage in map(to_chunk, found)}
    return sorted(passages.values(), key=lambda passage: (passage.start_char, passage.id))


async def read_example(
    readers: Sequence[IndexReader], path: str, access: Access, *, source: str | None = None
) -> ExampleFile:
    """The one file at a path, or at the end of one ("auth.py" for "src/auth.py").

    Raises:
        NotFound: there is none that the caller may see.
        QuestionRefused: there are several.
    """
    columns = ("source", "source_type", "uri", "path", "start_char", "text", "vector")
    condition = compile_filter(access, Filters(sources=(source,) if source else ()))
    path = replace_invalid_characters(path).removeprefix("./").lstrip("/")
    for named in (filters.eq("path", path), filters.glob("path", f"**/{path}")):
        by_space = await asyncio.gather(
            *(reader.find_rows(condition & named, limit=MAX_CHUNKS, columns=columns) for reader in readers)
        )
        if any(by_space):
            return _build_example(
                path, {reader.space: rows for reader, rows in zip(readers, by_space, strict=True)}
            )
    raise NotFound(f"there is no file {_format_name(path)} in the index: give its path within its source")


def _build_example(path: str, rows: Mapping[str, Sequence[Row]]) -> ExampleFile:
    every = [row for each in rows.values() for row in each]
    files = sorted({(row["source"], row["uri"], row["path"]) for row in every})
    if len(files) > 1:
        named = ", ".join(f"{found} in {source}" for source, _, found in files[:_MAX_FILES_NAMED])
        raise InvalidQuery(
            f"several files are called {_format_name(path)}: {named}; give a source, or more of the path"
        )
    source, uri, _ = files[0]
    texts = {row["start_char"]: row["text"] for row in sorted(every, key=lambda row: row["start_char"])}
    return ExampleFile(
        text="\n".join(texts.values()),
        source_type=every[0]["source_type"],
        vectors={
            space: _compute_mean_vector([row["vector"] for row in each])
            for space, each in rows.items()
            if each
        },
        other_files=~(filters.eq("source", source) & filters.eq("uri", uri)),
    )


def _compute_mean_vector(vectors: Sequence[Sequence[float]]) -> np.ndarray:
    summed = np.asarray(vectors, dtype=np.float32).sum(axis=0)
    length = float(np.linalg.norm(summed))
    return summed / length if length > 1e-6 else np.asarray(vectors[0], dtype=np.float32)


async def _read_rows(readers: Sequence[IndexReader], condition: Filter, columns: Sequence[str]) -> list[Row]:
    found = await asyncio.gather(
        *(reader.find_rows(condition, limit=MAX_CHUNKS, columns=columns) for reader in readers)
    )
    return [row for rows in found for row in rows]


def _format_name(name: str) -> str:
    return repr(name if len(name) <= 200 else f"{name[:200]}…")
