"""Snapshot: the documents of a source, as read. Key: uri; fingerprint: the source's revision.

What the source no longer lists is archived, not deleted; what could not be read is kept
as a row with its reason. An exception from the listing leaves the table as it was.

A service is listed whole now and then, and asked for what was updated in between. What that needs
to know (when it was last listed whole, and how far its documents are known) stands on the table,
and only after a pass that came to its end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from knowledge_pipeline.config.connections import PlacedConnection
from knowledge_pipeline.config.settings import SourceConfig
from knowledge_pipeline.config.source_filters import FILTERS
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Document, Item, digest
from knowledge_pipeline.sources.base import Service, Source
from knowledge_pipeline.sources.registry import host_of, open_source
from knowledge_pipeline.stages.context import Pass, Stats, measured
from knowledge_pipeline.store.filters import is_null
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import difference, reconcile
from knowledge_pipeline.store.tables import Table

_ARCHIVED = "\x00archived"  # the fingerprint of a document that its source no longer has
_WHOLE, _UNTIL, _AS = "listed_whole_at", "known_until", "listed_as"  # notes on a service's table
_COMMIT_DOCUMENTS = 512
_COMMIT_CHARS = 16_000_000


def refresh(this: Pass) -> Stats:
    """Bring the snapshot of one source up to date.

    Raises:
        SourceRefused: the source cannot be listed, lists nothing where it had documents,
            or not one of its documents could be read.
        SourceUnavailable: it did not answer; what was read before that is kept.
    """
    table = this.lake.snapshot(this.source.type, this.source.id)
    with (
        measured("snapshot", this.source.id) as stats,
        _turn_at_host(this),
        open_source(this.source, cache=this.lake.cache) as source,
    ):
        listing = _listing(this, source, table)
        items, actual = listing.items, _held(table)
        desired = {uri: _mark(item) for uri, item in items.items()}
        if listing.whole:
            _refuse_sudden_emptiness(this, items, actual)
            archived = [uri for uri in _documents(table) if uri not in items]
            desired |= dict.fromkeys(archived, _ARCHIVED)
        else:
            desired = actual | desired
        planned = difference(desired, actual, full=this.full)
        reconcile(table, planned, lambda uris: _rows(this, source, table, items, uris))
        stats.seen = len(items)
        stats.count(planned)
        stats.removed += sum(1 for uri in planned.changed if desired[uri] == _ARCHIVED)
        stats.changed -= sum(1 for uri in planned.changed if desired[uri] == _ARCHIVED)
        stats.notes += listing.notes
        listing.done(table)
        stats.skipped = _skipped(table)
        stats.rows, stats.version = table.count(is_null("archived_at")), table.version
    _refuse_total_failure(this, stats)
    return stats


def holds(lake: Lake, source: SourceConfig, items: Iterable[Item]) -> bool:
    """Whether the snapshot is what a listing says: a refresh would add, change and archive nothing."""
    held = _held(lake.snapshot(source.type, source.id))
    return {uri: mark for uri, mark in held.items() if mark != _ARCHIVED} == {
        item.uri: _mark(item) for item in items
    }


def _turn_at_host(this: Pass) -> AbstractContextManager[None]:
    """A turn at the host that the source is read from; none is waited for at this machine's own folders."""
    host = host_of(this.source)
    return this.turn(host) if host else nullcontext()


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a source said that there is: everything, or what was updated."""

    items: Mapping[str, Item]
    whole: bool
    began: datetime | None = None  # of a service, by our clock
    listed_as: str = ""  # by which settings
    notes: Counter[str] = field(default_factory=Counter[str])

    def done(self, table: Table) -> None:
        """Note how far the documents of a service are known."""
        if self.began is None or not table.exists:
            return
        known = table.rows(["last_modified"], ~is_null("last_modified"))["last_modified"]
        newest = max(known.to_pylist(), default=None)
        until = {_UNTIL: newest.isoformat()} if newest else {}
        whole = {_WHOLE: self.began.isoformat(), _AS: self.listed_as} if self.whole else {}
        table.note(**until, **whole)


def _listing(this: Pass, source: Source, table: Table) -> _Listing:
    if not isinstance(source, Service):
        return _Listing({item.uri: item for item in _listed(this, source.discover())}, whole=True)
    began, notes, listed_as = datetime.now(UTC), table.notes, _settings(this.source)
    since = notes.get(_UNTIL) if notes.get(_AS) == listed_as else None  # another filter wants older ones too
    due = datetime.fromisoformat(notes[_WHOLE]) + source.whole_listing_every if _WHOLE in notes else began
    whole = this.full or since is None or due <= began
    listed = source.discover() if whole else source.updated(datetime.fromisoformat(since or ""))
    items = {item.uri: item for item in _listed(this, listed)}
    told = Counter[str]() if whole else Counter({f"listed since {since}": 1})
    return _Listing(items, whole, began, listed_as, told)


def _settings(source: SourceConfig) -> str:
    """What decides which documents a service lists."""
    where = source.connection.place if isinstance(source.connection, PlacedConnection) else ""
    return digest(source.type, where, json.dumps(source.model_dump(mode="json", include=set(FILTERS))))


def _listed(this: Pass, listing: Iterable[Item]) -> Iterator[Item]:
    for count, item in enumerate(listing, start=1):
        yield item
        if count % 1000 == 0:
            this.report("listing", count, None)


def _mark(item: Item) -> str:
    return f"{item.revision} skip: {item.skip}" if item.skip else item.revision


def _held(table: Table) -> dict[str, str]:
    rows = table.rows(["uri", "revision", "archived_at"])
    columns = (rows[name].to_pylist() for name in ("uri", "revision", "archived_at"))
    return {uri: _ARCHIVED if gone else mark for uri, mark, gone in zip(*columns, strict=True)}


def _documents(table: Table) -> list[str]:
    """Stored documents that have content; what was skipped leaves nothing to archive."""
    return table.rows(["uri"], is_null("skipped"))["uri"].to_pylist()


def _skipped(table: Table) -> Counter[str]:
    reasons = table.rows(["skipped"], ~is_null("skipped"))["skipped"].to_pylist()
    return Counter(reasons)


def _refuse_sudden_emptiness(this: Pass, items: Mapping[str, Item], actual: Mapping[str, str]) -> None:
    live = sum(1 for mark in actual.values() if mark != _ARCHIVED)
    if live and not items and not this.allow_empty:
        raise SourceRefused(
            f"source {this.source.id!r} lists no document at all, but {live} are stored: nothing was "
            "changed; check its connection and patterns, or refresh with --allow-empty if it is empty now"
        )


def _refuse_total_failure(this: Pass, stats: Stats) -> None:
    failed = Counter({reason: count for reason, count in stats.skipped.items() if reason != "empty"})
    if failed and stats.rows == stats.skipped.total():
        reason, count = failed.most_common(1)[0]
        raise SourceRefused(
            f"not one of the {stats.rows} documents of source {this.source.id!r} could be read; "
            f"{count} of them: {reason}"
        )


def _rows(
    this: Pass, source: Source, table: Table, items: Mapping[str, Item], uris: list[str]
) -> Iterator[pa.RecordBatch]:
    """Read the listed documents and mark the vanished ones, a commit's worth at a time.

    When the source fails midway, what was read so far is committed before the error goes on.
    """
    rows: list[dict[str, Any]] = []
    chars = 0
    try:
        for count, row in enumerate(_made(source, table, items, uris), start=1):
            rows.append(row)
            chars += len(row["text"])
            this.report("snapshot", count, len(uris))
            if len(rows) >= _COMMIT_DOCUMENTS or chars >= _COMMIT_CHARS:
                yield pa.RecordBatch.from_pylist(rows, schema=table.schema)
                rows, chars = [], 0
    except (SourceUnavailable, SourceRefused):
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=table.schema)
        raise
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=table.schema)


def _made(
    source: Source, table: Table, items: Mapping[str, Item], uris: list[str]
) -> Iterator[dict[str, Any]]:
    vanished = [uri for uri in uris if uri not in items]
    yield from _archived_rows(table, vanished)
    wanted = [items[uri] for uri in uris if uri in items]
    if not isinstance(source, Service):
        yield from (_row(item, _fetched(source, item)) for item in wanted)
        return
    for item in wanted:
        if item.skip:
            yield _row(item, DocumentSkipped(item.skip))
    readable = {item.uri for item in wanted if not item.skip}
    for item, found in source.fetch_many([item for item in wanted if not item.skip]):
        readable.discard(item.uri)
        yield _row(item, found)
    if readable:
        raise SourceUnavailable(
            f"{len(readable)} listed documents were not given, {min(readable)} for one: refresh again"
        )


def _fetched(source: Source, item: Item) -> Document | DocumentSkipped:
    try:
        return DocumentSkipped(item.skip) if item.skip else source.fetch(item)
    except DocumentSkipped as reason:
        return reason


def _archived_rows(table: Table, uris: Iterable[str]) -> Iterator[dict[str, Any]]:
    now = datetime.now(UTC)
    for found in table.rows_of("uri", uris, table.schema.names):
        for row in found.to_pylist():
            yield {**row, "archived_at": row["archived_at"] or now}


def _row(item: Item, found: Document | DocumentSkipped) -> dict[str, Any]:
    """One snapshot row: the document, or the reason why it could not be taken."""
    row: dict[str, Any] = {"uri": item.uri, "revision": _mark(item), "archived_at": None}
    if isinstance(found, DocumentSkipped):
        nothing = Document(uri=item.uri, text="", path=item.uri)
        return row | _columns(nothing) | {"skipped": str(found)}
    return row | _columns(found) | {"skipped": None}


def _columns(document: Document) -> dict[str, Any]:
    columns = asdict(document)
    columns["metadata"] = json.dumps(columns["metadata"], sort_keys=True, default=str)
    columns["content_hash"] = digest(*(f"{name}={value}" for name, value in sorted(columns.items())))
    return columns
