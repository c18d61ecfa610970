"""Finds how documents are related: what one says of others, and what others say of it.

Two documents are related where one mentions a name of the other (`relations.names`). Names and mentions
are columns of the index, so a caller who may not see a document sees no relation to it either.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from knowledge_pipeline.contract.responses.documents import RelatedDocument, Relation, RelationsResponse
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter, replace_invalid_characters
from knowledge_pipeline.query.open_release import OpenRelease, find_rows
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.records import Mention
from knowledge_pipeline.relations.mentions import KINDS, keep_most_specific
from knowledge_pipeline.relations.names import DocumentContext, iter_spellings, resolve_name
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import IndexReader, Row

_MAX_DOCUMENTS = 20  # that one target may mean: the same path in several sources
_MAX_NAMES = 500  # in one condition
_MAX_ROWS = 1_000  # that mention a name
_DOCUMENT_COLUMNS = ("source", "source_type", "uri", "path", "title", "url", "status", "last_modified")


@dataclass(frozen=True, slots=True)
class Subject:
    """A document whose relations are wanted."""

    source: str
    uri: str
    names: tuple[str, ...]
    mentions: tuple[Mention, ...]


async def describe_relations(open_release: OpenRelease, target: str, access: Access) -> RelationsResponse:
    """How a document is related to others; see `Engine.related`."""
    watch, visible = Stopwatch(), compile_filter(access)
    target = replace_invalid_characters(target).strip()
    not_found = NotFound(
        f"no document is called {target[:200]!r}, and none mentions it: give a ticket's key, "
        "owner/name#12, a commit, an address, a path, or an id from the results of a search"
    )
    readers = await open_release.open_readers()
    documents: list[RelatedDocument] = []
    subjects: list[Subject] = []
    for rows in await _read_documents(readers, visible, target):
        metadata = [json.loads(row["metadata"]) for row in rows]
        leading = (row for row, values in zip(rows, metadata, strict=True) if values.get("leads"))
        first = next(leading, rows[0])
        mentions = keep_most_specific(mention for values in metadata for mention in _parse_mentions(values))
        documents.append(_to_related_document(first))
        names = tuple(metadata[0].get("names", ()))
        subjects.append(Subject(first["source"], first["uri"], names, tuple(mentions)))
    if not subjects:  # others may mention it all the same
        name = _parse_global_name(target)
        if name is None:
            raise not_found
        subjects.append(Subject("", "", tuple(iter_spellings(name)), ()))
    found, is_truncated = await find_relations(readers, visible, subjects)
    relations = tuple(dict.fromkeys(relation for each in found for relation in each))
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
    """The rows of each document that a key, number, commit, address, path or id means, if not too many."""
    found: list[Row] = []
    for condition in _iter_conditions(target):
        found = found or await find_rows(readers, visible & condition, ("source", "uri"))
    documents = sorted({(row["source"], row["uri"]) for row in found})
    if len(documents) > _MAX_DOCUMENTS:
        raise InvalidQuery(f"{len(documents)} documents are called {target[:200]!r}: give more of the path")
    columns = (*_DOCUMENT_COLUMNS, "metadata")
    conditions = [filters.eq("source", source) & filters.eq("uri", uri) for source, uri in documents]
    return [await find_rows(readers, visible & condition, columns) for condition in conditions]


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
    mentioned, mentioning = await asyncio.gather(
        _find_listing(readers, "names", mentioned_names, visible_rows, (*_DOCUMENT_COLUMNS, "names")),
        _find_listing(readers, "mentions", own_names, visible_rows, (*_DOCUMENT_COLUMNS, "metadata")),
    )
    rows_by_name: dict[str, list[Row]] = {}
    for row in mentioned:
        for name in row["names"]:
            rows_by_name.setdefault(name, []).append(row)
    rows_with_mentions = [(row, list(_parse_mentions(json.loads(row["metadata"])))) for row in mentioning]
    found = [_relate(subject, rows_by_name, rows_with_mentions) for subject in subjects]
    return found, len(mentioning) >= _MAX_ROWS


async def _find_listing(
    readers: Sequence[IndexReader],
    column: str,
    values: Sequence[str],
    where: Filter,
    columns: Sequence[str],
) -> list[Row]:
    """Rows of all spaces that have any of the values in a list column, at most `_MAX_ROWS` of each."""
    found = await asyncio.gather(
        *(each.find_rows_listing(column, values, where, limit=_MAX_ROWS, columns=columns) for each in readers)
    )
    return [row for rows in found for row in rows]


def _relate(
    subject: Subject,
    rows_by_name: Mapping[str, Sequence[Row]],
    rows_with_mentions: Iterable[tuple[Row, Sequence[Mention]]],
) -> list[Relation]:
    """Each document once for a direction, by its most telling kind; then the newest first."""
    names = frozenset(subject.names)
    out = [(mention, row) for mention in subject.mentions for row in rows_by_name.get(mention.name, ())]
    back = [(mention, row) for row, found in rows_with_mentions for mention in found if mention.name in names]
    both: dict[Literal["to", "from"], list[tuple[Mention, Row]]] = {"to": out, "from": back}
    relations = [
        Relation(mention.kind, direction, mention.target, _to_related_document(row))
        for direction, pairs in both.items()
        for mention, row in pairs
        if (row["source"], row["uri"]) != (subject.source, subject.uri)
    ]
    newest = sorted(relations, key=lambda each: str(each.document.last_modified or ""), reverse=True)
    best: dict[tuple[str, str, str], Relation] = {}
    for each in sorted(newest, key=lambda each: KINDS.index(each.kind)):
        best.setdefault((each.direction, each.document.source, each.document.uri), each)
    return list(best.values())


def _to_related_document(row: Row) -> RelatedDocument:
    return RelatedDocument(**{name: row[name] for name in _DOCUMENT_COLUMNS})


def _parse_mentions(metadata: Mapping[str, Any]) -> Iterator[Mention]:
    yield from (Mention(**mention) for mention in metadata.get("mentions", ()))


def _iter_conditions(target: str) -> Iterator[Filter]:
    """What a target may mean, the most exact first."""
    source, _, uri = target.partition(":")
    exact = filters.eq("id", target)
    yield exact | (filters.eq("source", source) & filters.eq("uri", uri)) if uri else exact
    if name := _parse_global_name(target):
        yield filters.has_any("names", [name])
    path = target.removeprefix("./").lstrip("/")
    if path:
        yield filters.eq("path", path)
        yield filters.glob("path", f"**/{path}")


def _parse_global_name(target: str) -> str | None:
    """The name that is meant wherever it is written: a key, an issue, a commit, an address."""
    name = resolve_name(target, DocumentContext("", "", ""))
    is_local = name is not None and name.startswith(("called:", "file:"))
    return None if is_local and not target.startswith(("http://", "https://")) else name
