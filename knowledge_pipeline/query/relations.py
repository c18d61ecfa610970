"""How documents are related: what one says of others, and what others say of it.

A relation is found where a name that one document mentions is a name that another one answers to
(`relations.names`). Both are columns of the index, so whoever may not see a document sees no
relation to it either.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from knowledge_pipeline.contract.responses import RelatedDocument, Relation, RelationsResponse
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter, replace_invalid_characters
from knowledge_pipeline.query.open_release import OpenRelease
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.records import Mention
from knowledge_pipeline.relations.mentions import KINDS, keep_most_specific
from knowledge_pipeline.relations.names import DocumentContext, iter_spellings, resolve_name
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import IndexReader, Row

RelationDirection = Literal["to", "from", "both"]

_MAX_CHUNKS = 10_000  # of one document
_MAX_DOCUMENTS = 20  # that one target may mean: the same path in several sources
_MAX_NAMES = 500  # asked for at once
_MAX_ROWS = 1_000  # that mention a name
_DOCUMENT_COLUMNS = ("source", "source_type", "uri", "path", "title", "url", "status", "last_modified")


@dataclass(frozen=True, slots=True)
class Subject:
    """A document whose relations are wanted."""

    source: str
    uri: str
    names: tuple[str, ...]
    mentions: tuple[Mention, ...]


async def find_subjects(readers: Sequence[IndexReader], visible_rows: Filter, target: str) -> list[Row]:
    """The first row of each document that a key, number, commit, address, path or id means, if any.

    Raises:
        QuestionRefused: there are more than can be told apart.
    """
    wanted = replace_invalid_characters(target).strip()
    found: list[Row] = []
    for condition in _iter_conditions(wanted):
        found = found or await _read_rows(readers, visible_rows & condition, _MAX_CHUNKS, ("source", "uri"))
    documents = {(row["source"], row["uri"]) for row in found}
    if len(documents) > _MAX_DOCUMENTS:
        raise InvalidQuery(f"{len(documents)} documents are called {wanted[:200]!r}: give more of the path")
    of_them = [filters.eq("source", source) & filters.eq("uri", uri) for source, uri in sorted(documents)]
    every = [
        await _read_rows(readers, visible_rows & each, _MAX_CHUNKS, (*_DOCUMENT_COLUMNS, "metadata"))
        for each in of_them
    ]
    return [_merge_rows(rows) for rows in every]


def build_absent_subject(target: str) -> Subject:
    """A document that is not here, which others may mention all the same.

    Raises:
        NotFound: what it would be called cannot be told.
    """
    name = _parse_global_name(target)
    if name is None:
        raise build_not_found(target)
    return Subject("", "", tuple(iter_spellings(name)), ())


def build_not_found(target: str) -> NotFound:
    """Nothing here is called so, and nothing mentions it."""
    return NotFound(
        f"no document is called {replace_invalid_characters(target).strip()[:200]!r}, and none mentions it: give a ticket's key, "
        "owner/name#12, a commit, an address, a path, or an id from the results of a search"
    )


def to_subject(row: Row) -> Subject:
    """A row with its names and mentions."""
    told = json.loads(row["metadata"])
    return Subject(row["source"], row["uri"], tuple(told.get("names", ())), tuple(_parse_mentions(told)))


def to_related_document(row: Row) -> RelatedDocument:
    """What a reader wants to know of a related document."""
    return RelatedDocument(**{name: row[name] for name in _DOCUMENT_COLUMNS})


async def describe_relations(open_release: OpenRelease, target: str, access: Access) -> RelationsResponse:
    """How a document is related to others, as `Engine.related` says it."""
    watch, visible = Stopwatch(), compile_filter(access)
    readers = await open_release.open_readers()
    rows = await find_subjects(readers, visible, target)
    asked = [to_subject(row) for row in rows] or [build_absent_subject(target)]
    found, cut = await find_relations(readers, visible, asked)
    relations = tuple(dict.fromkeys(each for one in found for each in one))
    if not rows and not relations:
        raise build_not_found(target)
    known = {each.target for each in relations if each.direction == "to"}
    mentions = dict.fromkeys(each for subject in asked for each in subject.mentions)
    elsewhere = tuple(each for each in mentions if each.target not in known)
    documents = tuple(map(to_related_document, rows))
    release, id_ = open_release.release.release, str(uuid.uuid4())
    return RelationsResponse(id_, watch.took_ms, release, (), documents, relations, elsewhere, cut)


async def find_relations(
    readers: Sequence[IndexReader], visible_rows: Filter, subjects: Sequence[Subject]
) -> tuple[list[list[Relation]], bool]:
    """The relations of each of some documents, and whether more mention them than were read."""
    mentioned = _select_names(each for subject in subjects for each in subject.mentions)
    named = list(dict.fromkeys(name for subject in subjects for name in subject.names))[:_MAX_NAMES]
    told, telling = await asyncio.gather(
        _read_rows(
            readers,
            visible_rows & filters.has_any("names", mentioned),
            _MAX_ROWS,
            (*_DOCUMENT_COLUMNS, "names"),
        ),
        _read_rows(
            readers,
            visible_rows & filters.has_any("mentions", named),
            _MAX_ROWS,
            (*_DOCUMENT_COLUMNS, "metadata"),
        ),
    )
    answering: dict[str, list[Row]] = {}
    for row in told:
        for name in row["names"]:
            answering.setdefault(name, []).append(row)
    saying = [(row, tuple(_parse_mentions(json.loads(row["metadata"])))) for row in telling]
    found = [[*_iter_outgoing(each, answering), *_iter_incoming(each, saying)] for each in subjects]
    return [_order_relations(relations) for relations in found], len(telling) >= _MAX_ROWS


def _iter_outgoing(subject: Subject, rows_by_name: Mapping[str, Sequence[Row]]) -> Iterator[Relation]:
    for mention in subject.mentions:
        for row in rows_by_name.get(mention.name, ()):
            if (row["source"], row["uri"]) != (subject.source, subject.uri):
                yield Relation(mention.kind, "to", mention.target, to_related_document(row))


def _iter_incoming(
    subject: Subject, mentioning_rows: Iterable[tuple[Row, Sequence[Mention]]]
) -> Iterator[Relation]:
    names = frozenset(subject.names)
    for row, mentions in mentioning_rows:
        if (row["source"], row["uri"]) != (subject.source, subject.uri):
            for mention in mentions:
                if mention.name in names:
                    yield Relation(mention.kind, "from", mention.target, to_related_document(row))


def _order_relations(relations: Iterable[Relation]) -> list[Relation]:
    """Each document once for a direction, by its most telling kind; then the newest first."""
    newest = sorted(relations, key=lambda each: str(each.document.last_modified or ""), reverse=True)
    best: dict[tuple[str, str, str], Relation] = {}
    for each in sorted(newest, key=lambda each: KINDS.index(each.kind)):
        best.setdefault((each.direction, each.document.source, each.document.uri), each)
    return list(best.values())


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
    name = resolve_name(replace_invalid_characters(target).strip(), DocumentContext("", "", ""))
    return name if (name and not name.startswith(("called:", "file:"))) or _is_url(target) else None


def _is_url(target: str) -> bool:
    return target.strip().startswith(("http://", "https://"))


def _merge_rows(rows: Sequence[Row]) -> Row:
    """One row for a document, with what all of its chunks mention."""
    told = [json.loads(row["metadata"]) for row in rows]
    mentions = keep_most_specific(each for one in told for each in _parse_mentions(one))
    first = next((row for row, one in zip(rows, told, strict=True) if one.get("leads")), rows[0])
    names = told[0].get("names", [])
    told_at_all = {"names": names, "mentions": [each.as_json() for each in mentions]}
    return {**first, "metadata": json.dumps(told_at_all)}


def _parse_mentions(metadata: Mapping[str, Any]) -> Iterator[Mention]:
    yield from (Mention(**each) for each in metadata.get("mentions", ()))


def _select_names(mentions: Iterable[Mention]) -> list[str]:
    """The names to ask for, those of the most telling mentions first where there are too many."""
    ordered = sorted(mentions, key=lambda each: KINDS.index(each.kind))
    return list(dict.fromkeys(each.name for each in ordered))[:_MAX_NAMES]


async def _read_rows(
    readers: Sequence[IndexReader], condition: Filter, limit: int, columns: Sequence[str]
) -> list[Row]:
    found = await asyncio.gather(
        *(reader.find_rows(condition, limit=limit, columns=columns) for reader in readers)
    )
    return [row for rows in found for row in rows]
