"""Rows by name instead of by likeness: a chunk, a document, a file that others shall be like."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from knowledge_pipeline.errors import NotFound, QuestionRefused
from knowledge_pipeline.query import access as accesses
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import Filters, clean, where
from knowledge_pipeline.query.search.chunk_rows import COLUMNS, passage_of
from knowledge_pipeline.query.search.hits import Passage
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import IndexReader, Row

MAX_CHUNKS = 10_000  # of one document
_FILES_NAMED = 5  # in a message


@dataclass(frozen=True, slots=True)
class Example:
    """A file of the index that others shall be like."""

    text: str
    source_type: str
    vectors: Mapping[str, np.ndarray]  # space -> mean direction of its chunks there
    others: Filter  # every row but this file's


async def by_id(readers: Sequence[IndexReader], name: str, access: Access) -> list[Passage]:
    """One chunk by its id, or all chunks of a document by "source:uri", in their order.

    Archived ones are found too, and say so.

    Raises:
        NotFound: there is none that the caller may see.
    """
    visible, name = accesses.filter(access), clean(name)
    found = await _rows(readers, visible & filters.eq("id", name), COLUMNS)
    source, _, uri = name.partition(":")
    if not found and uri:
        document = filters.eq("source", source) & filters.eq("uri", uri)
        found = await _rows(readers, visible & document, COLUMNS)
    if not found:
        raise NotFound(
            f"there is no chunk or document {_shortened(name)}: ids are in the results of a search"
        )
    passages = {passage.id: passage for passage in map(passage_of, found)}
    return sorted(passages.values(), key=lambda passage: (passage.start_char, passage.id))


async def example(
    readers: Sequence[IndexReader], path: str, access: Access, *, source: str | None = None
) -> Example:
    """The one file at a path, or at the end of one ("auth.py" for "src/auth.py").

    Raises:
        NotFound: there is none that the caller may see.
        QuestionRefused: there are several.
    """
    columns = ("source", "source_type", "uri", "path", "start_char", "text", "vector")
    condition = where(access, Filters(sources=(source,) if source else ()))
    path = clean(path).removeprefix("./").lstrip("/")
    for named in (filters.eq("path", path), filters.glob("path", f"**/{path}")):
        by_space = await asyncio.gather(
            *(reader.rows(condition & named, limit=MAX_CHUNKS, columns=columns) for reader in readers)
        )
        if any(by_space):
            return _example(
                path, {reader.space: rows for reader, rows in zip(readers, by_space, strict=True)}
            )
    raise NotFound(f"there is no file {_shortened(path)} in the index: give its path within its source")


def _example(path: str, rows: Mapping[str, Sequence[Row]]) -> Example:
    every = [row for each in rows.values() for row in each]
    files = sorted({(row["source"], row["uri"], row["path"]) for row in every})
    if len(files) > 1:
        named = ", ".join(f"{found} in {source}" for source, _, found in files[:_FILES_NAMED])
        raise QuestionRefused(
            f"several files are called {_shortened(path)}: {named}; give a source, or more of the path"
        )
    source, uri, _ = files[0]
    texts = {row["start_char"]: row["text"] for row in sorted(every, key=lambda row: row["start_char"])}
    return Example(
        text="\n".join(texts.values()),
        source_type=every[0]["source_type"],
        vectors={space: _mean([row["vector"] for row in each]) for space, each in rows.items() if each},
        others=~(filters.eq("source", source) & filters.eq("uri", uri)),
    )


def _mean(vectors: Sequence[Sequence[float]]) -> np.ndarray:
    summed = np.asarray(vectors, dtype=np.float32).sum(axis=0)
    length = float(np.linalg.norm(summed))
    return summed / length if length > 1e-6 else np.asarray(vectors[0], dtype=np.float32)


async def _rows(readers: Sequence[IndexReader], condition: Filter, columns: Sequence[str]) -> list[Row]:
    found = await asyncio.gather(
        *(reader.rows(condition, limit=MAX_CHUNKS, columns=columns) for reader in readers)
    )
    return [row for rows in found for row in rows]


def _shortened(name: str) -> str:
    return repr(name if len(name) <= 200 else f"{name[:200]}…")
