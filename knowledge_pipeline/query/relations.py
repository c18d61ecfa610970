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
from dataclasses import asdict, dataclass
from typing import Any, Literal

from knowledge_pipeline.errors import NotFound, QuestionRefused
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import clean, where
from knowledge_pipeline.query.open_release import Opened
from knowledge_pipeline.query.search.assemble import Related, Relation, plain
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.relations.mentions import KINDS, Mention, most_telling
from knowledge_pipeline.relations.names import Ground, name_of, spellings
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import IndexReader, Row

Direction = Literal["to", "from", "both"]

_MOST_CHUNKS = 10_000  # of one document
_MOST_DOCUMENTS = 20  # that one target may mean: the same path in several sources
_MOST_NAMES = 500  # asked for at once
_MOST_ROWS = 1_000  # that mention a name
_SHOWN = ("source", "source_type", "uri", "path", "title", "url", "status", "last_modified")


@dataclass(frozen=True, slots=True)
class Subject:
    """A document whose relations are wanted."""

    source: str
    uri: str
    names: tuple[str, ...]
    mentions: tuple[Mention, ...]


@dataclass(frozen=True, slots=True)
class Relations:
    """What a target has to do with other documents."""

    query_id: str
    took_ms: float
    release: int
    degraded: tuple[str, ...]
    documents: tuple[Related, ...]  # that the target means; several where a path is in several sources
    relations: tuple[Relation, ...]  # the most telling kinds first, then the newest
    elsewhere: tuple[Mention, ...]  # of documents that are not here, or not for the caller to see
    cut: bool  # more mention it than were read

    @property
    def found(self) -> tuple[Relation, ...]:
        """What the log counts."""
        return self.relations

    def as_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        return plain(asdict(self))


async def subjects(readers: Sequence[IndexReader], visible: Filter, target: str) -> list[Row]:
    """The first row of each document that a key, number, commit, address, path or id means, if any.

    Raises:
        QuestionRefused: there are more than can be told apart.
    """
    wanted = clean(target).strip()
    found: list[Row] = []
    for condition in _meanings(wanted):
        found = found or await _rows(readers, visible & condition, _MOST_CHUNKS, ("source", "uri"))
    documents = {(row["source"], row["uri"]) for row in found}
    if len(documents) > _MOST_DOCUMENTS:
        raise QuestionRefused(
            f"{len(documents)} documents are called {wanted[:200]!r}: give more of the path"
        )
    of_them = [filters.eq("source", source) & filters.eq("uri", uri) for source, uri in sorted(documents)]
    every = [await _rows(readers, visible & each, _MOST_CHUNKS, (*_SHOWN, "metadata")) for each in of_them]
    return [_whole(rows) for rows in every]


def absent(target: str) -> Subject:
    """A document that is not here, which others may mention all the same.

    Raises:
        NotFound: what it would be called cannot be told.
    """
    name = _id_of(target)
    if name is None:
        raise unknown(target)
    return Subject("", "", tuple(spellings(name)), ())


def unknown(target: str) -> NotFound:
    """Nothing here is called so, and nothing mentions it."""
    return NotFound(
        f"no document is called {clean(target).strip()[:200]!r}, and none mentions it: give a ticket's key, "
        "owner/name#12, a commit, an address, a path, or an id from the results of a search"
    )


def subject_of(row: Row) -> Subject:
    """A row with its names and mentions."""
    told = json.loads(row["metadata"])
    return Subject(row["source"], row["uri"], tuple(told.get("names", ())), tuple(_mentions(told)))


def document_of(row: Row) -> Related:
    """What a reader wants to know of a related document."""
    return Related(**{name: row[name] for name in _SHOWN})


async def related_to(opened: Opened, target: str, access: Access) -> Relations:
    """How a document is related to others, as `Engine.related` says it."""
    watch, visible = Stopwatch(), where(access)
    readers = await opened.readers()
    rows = await subjects(readers, visible, target)
    asked = [subject_of(row) for row in rows] or [absent(target)]
    found, cut = await relations_of(readers, visible, asked)
    relations = tuple(dict.fromkeys(each for one in found for each in one))
    if not rows and not relations:
        raise unknown(target)
    known = {each.target for each in relations if each.direction == "to"}
    mentions = dict.fromkeys(each for subject in asked for each in subject.mentions)
    elsewhere = tuple(each for each in mentions if each.target not in known)
    documents = tuple(map(document_of, rows))
    release, id_ = opened.release.release, str(uuid.uuid4())
    return Relations(id_, watch.took_ms, release, (), documents, relations, elsewhere, cut)


async def relations_of(
    readers: Sequence[IndexReader], visible: Filter, asked: Sequence[Subject]
) -> tuple[list[list[Relation]], bool]:
    """The relations of each of some documents, and whether more mention them than were read."""
    mentioned = _wanted(each for subject in asked for each in subject.mentions)
    named = list(dict.fromkeys(name for subject in asked for name in subject.names))[:_MOST_NAMES]
    told, telling = await asyncio.gather(
        _rows(readers, visible & filters.has_any("names", mentioned), _MOST_ROWS, (*_SHOWN, "names")),
        _rows(readers, visible & filters.has_any("mentions", named), _MOST_ROWS, (*_SHOWN, "metadata")),
    )
    answering: dict[str, list[Row]] = {}
    for row in told:
        for name in row["names"]:
            answering.setdefault(name, []).append(row)
    saying = [(row, tuple(_mentions(json.loads(row["metadata"])))) for row in telling]
    found = [[*_outgoing(each, answering), *_incoming(each, saying)] for each in asked]
    return [_ordered(relations) for relations in found], len(telling) >= _MOST_ROWS


def _outgoing(subject: Subject, answering: Mapping[str, Sequence[Row]]) -> Iterator[Relation]:
    for mention in subject.mentions:
        for row in answering.get(mention.name, ()):
            if (row["source"], row["uri"]) != (subject.source, subject.uri):
                yield Relation(mention.kind, "to", mention.target, document_of(row))


def _incoming(subject: Subject, saying: Iterable[tuple[Row, Sequence[Mention]]]) -> Iterator[Relation]:
    names = frozenset(subject.names)
    for row, mentions in saying:
        if (row["source"], row["uri"]) != (subject.source, subject.uri):
            for mention in mentions:
                if mention.name in names:
                    yield Relation(mention.kind, "from", mention.target, document_of(row))


def _ordered(found: Iterable[Relation]) -> list[Relation]:
    """Each document once for a direction, by its most telling kind; then the newest first."""
    newest = sorted(found, key=lambda each: str(each.document.last_modified or ""), reverse=True)
    best: dict[tuple[str, str, str], Relation] = {}
    for each in sorted(newest, key=lambda each: KINDS.index(each.kind)):
        best.setdefault((each.direction, each.document.source, each.document.uri), each)
    return list(best.values())


def _meanings(target: str) -> Iterator[Filter]:
    """What a target may mean, the most exact first."""
    source, _, uri = target.partition(":")
    exact = filters.eq("id", target)
    yield exact | (filters.eq("source", source) & filters.eq("uri", uri)) if uri else exact
    if name := _id_of(target):
        yield filters.has_any("names", [name])
    path = target.removeprefix("./").lstrip("/")
    if path:
        yield filters.eq("path", path)
        yield filters.glob("path", f"**/{path}")


def _id_of(target: str) -> str | None:
    """The name that is meant wherever it is written: a key, an issue, a commit, an address."""
    name = name_of(clean(target).strip(), Ground("", "", ""))
    return name if (name and not name.startswith(("called:", "file:"))) or _is_address(target) else None


def _is_address(target: str) -> bool:
    return target.strip().startswith(("http://", "https://"))


def _whole(rows: Sequence[Row]) -> Row:
    """One row for a document, with what all of its chunks mention."""
    told = [json.loads(row["metadata"]) for row in rows]
    mentions = most_telling(each for one in told for each in _mentions(one))
    first = next((row for row, one in zip(rows, told, strict=True) if one.get("leads")), rows[0])
    names = told[0].get("names", [])
    told_at_all = {"names": names, "mentions": [each.as_json() for each in mentions]}
    return {**first, "metadata": json.dumps(told_at_all)}


def _mentions(told: Mapping[str, Any]) -> Iterator[Mention]:
    yield from (Mention(**each) for each in told.get("mentions", ()))


def _wanted(mentions: Iterable[Mention]) -> list[str]:
    """The names to ask for, those of the most telling mentions first where there are too many."""
    ordered = sorted(mentions, key=lambda each: KINDS.index(each.kind))
    return list(dict.fromkeys(each.name for each in ordered))[:_MOST_NAMES]


async def _rows(
    readers: Sequence[IndexReader], condition: Filter, limit: int, columns: Sequence[str]
) -> list[Row]:
    found = await asyncio.gather(
        *(reader.rows(condition, limit=limit, columns=columns) for reader in readers)
    )
    return [row for rows in found for row in rows]
