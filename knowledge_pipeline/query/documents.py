"""Reads documents by name: their chunks, what made them, and how they are related to others.

Two documents are related where one mentions a name of the other (`relations.names`). Names and mentions
are columns of the index, so a caller who may not see a document sees no relation to it either.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from knowledge_pipeline.config.settings import build_run_url
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import (
    RelatedDocument,
    Relation,
    RelationsResponse,
    SearchResponse,
    TracedRefresh,
    TraceResponse,
)
from knowledge_pipeline.embedding.query_embedder import to_unit_length
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Access, build_visibility_filter
from knowledge_pipeline.query.answer_cache import Stopwatch
from knowledge_pipeline.query.filters import compile_filter, replace_invalid_characters
from knowledge_pipeline.query.hits import CHUNK_COLUMNS, IndexedChunk
from knowledge_pipeline.query.open_release import Index, find_rows
from knowledge_pipeline.query.places import Place, parse_place
from knowledge_pipeline.records import FAILED_STAGE, Mention
from knowledge_pipeline.relations import (
    KINDS,
    DocumentContext,
    build_called_name,
    iter_spellings,
    keep_most_specific,
    resolve_name,
)
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter, eq, equals_path
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.release import list_releases
from knowledge_pipeline.store.search import IndexReader, Row
from knowledge_pipeline.sync_facade import gather_all

_MAX_DOCUMENTS = 20  # that one target may mean: the same path in several sources
_MAX_NAMES = 500  # in one condition
_MAX_ROWS = 1_000  # that mention a name
_DOCUMENT_COLUMNS = (
    *("source", "source_type", "uri", "path", "title", "url"),
    *("status", "last_modified", "archived"),
)
_GET_DOCUMENT = itemgetter(*_DOCUMENT_COLUMNS)  # the fields of `RelatedDocument`, in their order


@dataclass(frozen=True, slots=True)
class Subject:
    """A document whose relations are wanted."""

    source: str
    uri: str
    names: tuple[str, ...]
    mentions: tuple[Mention, ...]


async def describe_relations(index: Index, target: str, access: Access) -> RelationsResponse:
    """How a document is related to others: what it closes, implements or references; what mentions it.

    The target is a ticket's key, "owner/name#12", a commit, an address, a path, the id or the title that a
    document gives itself, or the id of a result. What several sources have means the documents of all.
    Archived documents are named where no other is, and related in both directions.

    Raises:
        NotFound: no document that the caller may see has this name or mentions it, or nothing is released
            yet.
        InvalidQuery: too many documents have such a path.
    """
    open_release = await index.open_release()
    watch, visible = Stopwatch(), compile_filter(access, Filters(include_archived=True))
    target = replace_invalid_characters(target).strip()
    not_found = NotFound(
        f"no document is called {target[:200]!r}, and none mentions it: give a ticket's key, "
        "owner/name#12, a commit, an address, a path, the id of a record or of a result of a search"
    )
    readers = await open_release.open_readers()
    documents: list[RelatedDocument] = []
    subjects: list[Subject] = []
    for rows in await _read_documents(readers, visible, target):
        metadata = [json.loads(row["metadata"]) for row in rows]
        leading = (row for row, values in zip(rows, metadata, strict=True) if values.get("leads"))
        first = next(leading, rows[0])
        mentions = keep_most_specific(
            Mention(**mention) for values in metadata for mention in values.get("mentions", ())
        )
        documents.append(RelatedDocument(*_GET_DOCUMENT(first)))
        names = tuple(metadata[0].get("names", ()))
        subjects.append(Subject(first["source"], first["uri"], names, tuple(mentions)))
    if not subjects:  # others may mention it all the same
        name = _parse_global_name(target)
        if name is None:
            raise not_found
        subjects.append(Subject("", "", tuple(iter_spellings(name)), ()))
    by_subject, is_truncated = await find_relations(readers, visible, subjects)
    relations = tuple(dict.fromkeys(relation for of_subject in by_subject for relation in of_subject))
    if not documents and not relations:
        raise not_found
    resolved = {relation.target for relation in relations if relation.direction == "to"}
    mentioned = dict.fromkeys(mention for subject in subjects for mention in subject.mentions)
    return RelationsResponse(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=open_release.release.release,
        degraded=tuple(open_release.missing),
        documents=tuple(documents),
        relations=relations,
        unresolved_mentions=tuple(mention for mention in mentioned if mention.target not in resolved),
        is_truncated=is_truncated,
    )


async def _read_documents(readers: Sequence[IndexReader], visible: Filter, target: str) -> list[list[Row]]:
    """The rows of each document that a target means, if not too many."""
    documents = await _find_documents(readers, visible, [*_iter_conditions(target)])
    if not documents:
        called = await _build_called_condition(readers, visible, target)
        documents = await _find_documents(readers, visible, [called])
    if len(documents) > _MAX_DOCUMENTS:
        raise InvalidQuery(f"{len(documents)} documents are called {target[:200]!r}: give more of the path")
    columns = (*_DOCUMENT_COLUMNS, "metadata")
    conditions = (eq("source", source) & eq("uri", uri) for source, uri in documents)
    return [await find_rows(readers, visible & condition, columns) for condition in conditions]


async def _find_documents(
    readers: Sequence[IndexReader], visible: Filter, conditions: Sequence[Filter]
) -> list[tuple[str, str]]:
    """Source and uri of the documents that the first of some conditions finds; archived ones come last."""
    for archived in (False, True):
        for condition in conditions:
            where = visible & condition & eq("archived", archived)
            if rows := await find_rows(readers, where, ("source", "uri")):
                return sorted({(row["source"], row["uri"]) for row in rows})
    return []


async def _build_called_condition(readers: Sequence[IndexReader], visible: Filter, name: str) -> Filter:
    """A document gives itself a name, such as a record's id; it means something within its source."""
    by_reader = await gather_all(reader.list_values("source", visible) for reader in readers)
    names = {build_called_name(source, name) for sources in by_reader for source in sources}
    return filters.has_any("names", sorted(names))


async def find_relations(
    readers: Sequence[IndexReader], visible_rows: Filter, subjects: Sequence[Subject]
) -> tuple[list[list[Relation]], bool]:
    """The relations of each of some documents, and whether more rows mention them than were read."""
    mentions = sorted(
        (mention for subject in subjects for mention in subject.mentions),
        key=lambda mention: KINDS.index(mention.kind),  # the most telling ones, where there are too many
    )
    mentioned_names = list(dict.fromkeys(mention.name for mention in mentions))[:_MAX_NAMES]
    own_names = list(dict.fromkeys(name for subject in subjects for name in subject.names))[:_MAX_NAMES]

    async def find_listing(column: str, values: Sequence[str], read: str) -> list[Row]:
        columns = (*_DOCUMENT_COLUMNS, read)
        by_space = await gather_all(
            reader.find_rows_listing(column, values, visible_rows, limit=_MAX_ROWS, columns=columns)
            for reader in readers
        )
        return [row for rows in by_space for row in rows]

    mentioned, mentioning = await asyncio.gather(
        find_listing("names", mentioned_names, "names"), find_listing("mentions", own_names, "metadata")
    )
    rows_by_name: dict[str, list[Row]] = {}
    for row in mentioned:
        for name in row["names"]:
            rows_by_name.setdefault(name, []).append(row)
    for name, rows in rows_by_name.items():  # a document that moved is archived where it was
        rows_by_name[name] = [row for row in rows if not row["archived"]] or rows
    every_name = frozenset(name for subject in subjects for name in subject.names)
    incoming = [
        (Mention(**mention), row)
        for row in mentioning
        for mention in json.loads(row["metadata"]).get("mentions", ())
        if mention["name"] in every_name
    ]
    related = [_relate(subject, rows_by_name, incoming) for subject in subjects]
    return related, len(mentioning) >= _MAX_ROWS


def _relate(
    subject: Subject, rows_by_name: Mapping[str, Sequence[Row]], incoming: Sequence[tuple[Mention, Row]]
) -> list[Relation]:
    """Each document once for a direction, by its most telling kind; then the newest first."""
    names = frozenset(subject.names)
    both: dict[Literal["to", "from"], list[tuple[Mention, Row]]] = {
        "to": [(mention, row) for mention in subject.mentions for row in rows_by_name.get(mention.name, ())],
        "from": [(mention, row) for mention, row in incoming if mention.name in names],
    }
    related: list[tuple[int, str, Literal["to", "from"], Mention, Row]] = [
        (KINDS.index(mention.kind), str(row["last_modified"] or ""), direction, mention, row)
        for direction, pairs in both.items()
        for mention, row in pairs
        if (row["source"], row["uri"]) != (subject.source, subject.uri)
    ]
    related.sort(key=itemgetter(1), reverse=True)
    related.sort(key=itemgetter(0))
    best: dict[tuple[str, str, str], Relation] = {}
    for _, _, direction, mention, row in related:
        key = (direction, row["source"], row["uri"])
        if key not in best:
            document = RelatedDocument(*_GET_DOCUMENT(row))
            best[key] = Relation(mention.kind, direction, mention.target, document)
    return list(best.values())


def _iter_conditions(target: str) -> Iterator[Filter]:
    """What a target may mean, the most exact first."""
    source, _, uri = target.partition(":")
    exact = eq("id", target)
    yield exact | (eq("source", source) & equals_path("uri", uri)) if uri else exact
    if name := _parse_global_name(target):
        yield filters.has_any("names", [name])
    for path in dict.fromkeys((target, parse_place(target).path)):
        if path := path.removeprefix("./").lstrip("/"):
            yield equals_path("path", path)
            yield filters.ends_with_parts("path", path, "/")


def _parse_global_name(target: str) -> str | None:
    """The name that is meant wherever it is written: a key, an issue, a commit, an address."""
    name = resolve_name(target, DocumentContext("", "", ""))
    is_local = name is not None and name.startswith(("called:", "file:"))
    return None if is_local and not target.startswith(("http://", "https://")) else name


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

    Archived ones are found too, and say so. A path names a document as well, with or without its source: with
    lines or a name, as `parse_place` reads them, only its chunks that have them are returned. So does what
    `describe_relations` takes: a ticket's key, a commit, an address, the id of a record.

    Raises:
        NotFound: there is none that the caller may see.
        InvalidQuery: several documents have such a path or name.
    """
    visible, name = build_visibility_filter(access), replace_invalid_characters(name)
    rows = await find_rows(readers, visible & eq("id", name), CHUNK_COLUMNS)
    source, _, uri = name.partition(":")
    if not rows and uri:
        document = eq("source", source) & equals_path("uri", uri)
        rows = await find_rows(readers, visible & document, CHUNK_COLUMNS)
    place, named = Place(name), compile_filter(access, Filters(include_archived=True))
    if not rows and (global_name := _parse_global_name(name)):
        rows = await _read_named(readers, named, name, filters.has_any("names", [global_name]))
    if not rows:
        place = parse_place(name)
        rows = await _read_at_place(readers, compile_filter(access), place)
    if not rows:
        called = await _build_called_condition(readers, named, name)
        rows = await _read_named(readers, named, name, called)
    if not rows:
        shown = _format_name(name)
        raise NotFound(f"there is no chunk or document {shown}: ids are in the results of a search")
    chunks = {chunk.id: chunk for chunk in map(IndexedChunk.from_row, rows)}
    ordered = sorted(chunks.values(), key=lambda chunk: (chunk.start_char, chunk.id))
    return [chunk for chunk in ordered if _is_at(chunk, place)] or ordered


async def _read_named(
    readers: Sequence[IndexReader], visible: Filter, name: str, condition: Filter
) -> list[Row]:
    """The rows of the one document that has a name, by a condition on names."""
    documents = await _find_documents(readers, visible, [condition])
    if len(documents) > 1:
        listing = ", ".join(f"{source}:{uri}" for source, uri in documents[:_MAX_FILES_NAMED])
        raise InvalidQuery(f"several documents are called {_format_name(name)}: {listing}; give one of these")
    conditions = (eq("source", source) & eq("uri", uri) for source, uri in documents)
    return [row for one in conditions for row in await find_rows(readers, visible & one, CHUNK_COLUMNS)]


async def _read_at_place(readers: Sequence[IndexReader], visible: Filter, place: Place) -> list[Row]:
    """The rows of the one document at a path, before which its source may stand."""
    source, _, rest = place.path.partition(":")
    within = [(visible & eq("source", source), rest)] if rest else []
    for condition, path in (*within, (visible, place.path)):
        path = path.removeprefix("./").lstrip("/")
        for at_path in (
            (equals_path("path", path), filters.ends_with_parts("path", path, "/")) if path else ()
        ):
            if rows := await find_rows(readers, condition & at_path, CHUNK_COLUMNS):
                chunks = map(IndexedChunk.from_row, rows)
                _require_one_file(path, {(chunk.source, chunk.uri, chunk.path) for chunk in chunks})
                return rows
    return []


def _is_at(chunk: IndexedChunk, place: Place) -> bool:
    """Whether a chunk has some of the lines of a place, or defines its name."""
    if place.lines:
        return chunk.start_line <= place.lines[1] and place.lines[0] <= chunk.end_line
    name = re.sub(r"::|#|->", ".", place.name)
    return not name or any(symbol == name or symbol.endswith(f".{name}") for symbol in chunk.symbols)


async def read_lines(
    readers: Sequence[IndexReader], places: Collection[tuple[str, str, int]], condition: Filter
) -> list[IndexedChunk]:
    """The chunks that have some lines: source, path and line of each; where two have one, the first."""
    if not places:
        return []
    at_paths = filters.one_of("path", sorted({path for _, path, _ in places}))
    rows = await find_rows(readers, condition & at_paths, CHUNK_COLUMNS)
    chunks = sorted(map(IndexedChunk.from_row, rows), key=lambda chunk: (chunk.start_char, chunk.id))
    at_lines: dict[str, IndexedChunk] = {}
    for source, path, line in places:
        in_file = (chunk for chunk in chunks if (chunk.source, chunk.path) == (source, path))
        if at_line := next((chunk for chunk in in_file if chunk.start_line <= line <= chunk.end_line), None):
            at_lines[at_line.id] = at_line
    return list(at_lines.values())


async def read_example(
    readers: Sequence[IndexReader], path: str, access: Access, *, source: str | None = None
) -> ExampleFile:
    """The one file at a path, or at the end of one ("auth.py" for "src/auth.py").

    Raises `NotFound`: there is none that the caller may see; `InvalidQuery`: there are several.
    """
    condition = compile_filter(access, Filters(sources=(source,) if source else ()))
    path = replace_invalid_characters(path).removeprefix("./").lstrip("/")
    for at_path in (equals_path("path", path), filters.ends_with_parts("path", path, "/")):
        by_reader = await gather_all(
            find_rows([reader], condition & at_path, _EXAMPLE_COLUMNS) for reader in readers
        )
        by_space = {reader.space: rows for reader, rows in zip(readers, by_reader, strict=True) if rows}
        if by_space:
            return _build_example(path, by_space)
    raise NotFound(f"there is no file {_format_name(path)} in the index: give its path within its source")


def _require_one_file(path: str, files: Collection[tuple[str, str, str]]) -> tuple[str, str, str]:
    """The source, uri and path of the one file. Raises `InvalidQuery`: there are several."""
    if len(files) > 1:
        named = sorted(files)[:_MAX_FILES_NAMED]
        listing = ", ".join(f"{location} in {source}" for source, _, location in named)
        raise InvalidQuery(
            f"several files are called {_format_name(path)}: {listing}; give a source, or more of the path"
        )
    return next(iter(files))


def _build_example(path: str, by_space: Mapping[str, Sequence[Row]]) -> ExampleFile:
    rows = [row for of_space in by_space.values() for row in of_space]
    source, uri, _ = _require_one_file(path, {(row["source"], row["uri"], row["path"]) for row in rows})
    texts = {row["start_char"]: row["text"] for row in sorted(rows, key=lambda row: row["start_char"])}
    vectors: dict[str, np.ndarray] = {}
    for space, space_rows in by_space.items():
        embedded = [row["vector"] for row in space_rows if row["vector"] is not None]
        if embedded:
            chunk_vectors = np.asarray(embedded, dtype=np.float32)
            vectors[space] = to_unit_length(chunk_vectors.sum(axis=0), fallback=chunk_vectors[0])
    return ExampleFile(
        text="\n".join(texts.values()),
        source_type=rows[0]["source_type"],
        vectors=vectors,
        other_files=~(eq("source", source) & eq("uri", uri)),
    )


def _format_name(name: str) -> str:
    return repr(name if len(name) <= 200 else f"{name[:200]}…")


_LOGGED = ("at", "stage", "run", "code", "settings", "added", "changed", "removed", "seconds")


def trace_result(lake: Lake, response: SearchResponse) -> TraceResponse:
    """What made the first result of a response, as far as the store still knows it.

    A refresh is the first one of its source whose index was done after the row was written; a release is the
    first one after that. Logs and old releases are removed in time, and then say nothing.
    """
    result = response.results[0]
    metadata, source, uri = result.metadata, result.citation.source, result.span.uri
    source_type, written = metadata["source_type"], datetime.fromisoformat(metadata["updated_at"])
    snapshot = _read_row(lake.snapshot(source_type, source), "uri", uri, ("revision", "content_hash"))
    chunk = _read_row(lake.chunks(source_type, source), "id", result.id, ("fingerprint", "text_key"))
    later = sorted(
        (release for release in list_releases(lake) if release.created_at >= written),
        key=lambda release: release.release,
    )
    return TraceResponse(
        **response.list_shared(),
        id=result.id,
        citation=result.citation,
        revision=snapshot.get("revision"),
        document_hash=snapshot.get("content_hash"),
        chunk_fingerprint=chunk.get("fingerprint"),
        text_key=chunk.get("text_key"),
        indexed_at=datetime.fromisoformat(metadata["indexed_at"]),
        updated_at=written,
        first_release=later[0].release if later else None,
        first_released_at=later[0].created_at if later else None,
        stages=_find_refresh(lake, source, written),
    )


def _read_row(table: Any, key: str, value: str, columns: tuple[str, ...]) -> dict[str, Any]:
    """One row of a stage's table; empty where it is gone."""
    rows = table.read_rows(list(columns), eq(key, value)).to_pylist()
    return rows[0] if rows else {}


def _find_refresh(lake: Lake, source: str, written: datetime) -> tuple[TracedRefresh, ...]:
    """The stages of the refresh that wrote a row, in their order; the log has them stage by stage."""
    # The stages before the index were done earlier; those of one refresh follow each other in the log.
    of_stages = eq("source", source) & ~eq("stage", FAILED_STAGE)
    log = open_log(lake, "refreshes").read_rows(list(_LOGGED), of_stages)
    rows: list[dict[str, Any]] = sorted(log.to_pylist(), key=itemgetter("at"))
    done = next((n for n, row in enumerate(rows) if row["stage"] == "index" and row["at"] >= written), None)
    if done is None:
        return ()
    first = done
    while first > 0 and rows[first]["stage"] != "snapshot" and rows[first - 1]["stage"] != "index":
        first -= 1
    return tuple(
        TracedRefresh(
            stage=row["stage"],
            done_at=row["at"],
            seconds=row["seconds"],
            changes=row["added"] + row["changed"] + row["removed"],
            code=row["code"],
            settings=json.loads(row["settings"]) if row["settings"] else {},
            run=row["run"],
            run_url=build_run_url(row["run"]) if row["run"] else None,
        )
        for row in rows[first : done + 1]
    )
