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

from knowledge_pipeline.config.connections import GitConnection, LocalConnection
from knowledge_pipeline.config.settings import SourceConfig
from knowledge_pipeline.config.source_filters import FILTER_TYPES
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Document, Item, hash_strings
from knowledge_pipeline.sources.base import ApiSource, Source
from knowledge_pipeline.sources.registry import open_source
from knowledge_pipeline.stages.context import RefreshContext, Stats, measure_stage
from knowledge_pipeline.store.filters import is_null
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import plan_changes, reconcile
from knowledge_pipeline.store.tables import Table

_ARCHIVED = "\x00archived"  # the fingerprint of a document that its source no longer has
_FULL_LISTING_AT, _KNOWN_UNTIL, _LISTED_WITH = (
    "listed_whole_at",
    "known_until",
    "listed_as",
)  # notes on a service's table
_DOCUMENTS_PER_COMMIT = 512
_CHARS_PER_COMMIT = 16_000_000


def refresh(ctx: RefreshContext) -> Stats:
    """Bring the snapshot of one source up to date.

    Raises:
        SourceRefused: the source cannot be listed, lists nothing where it had documents,
            or not one of its documents could be read.
        SourceUnavailable: it did not answer; what was read before that is kept.
    """
    table = ctx.lake.snapshot(ctx.source.type, ctx.source.id)
    with (
        measure_stage("snapshot", ctx.source.id) as stats,
        _claim_host_slot(ctx),
        open_source(ctx.source, cache=ctx.lake.cache) as source,
    ):
        listing = _list_items(ctx, source, table)
        items, actual = listing.items, _load_fingerprints(table)
        desired = {uri: _item_fingerprint(item) for uri, item in items.items()}
        if listing.is_full:
            _require_not_suddenly_empty(ctx, items, actual)
            archived = [uri for uri in _list_stored_uris(table) if uri not in items]
            desired |= dict.fromkeys(archived, _ARCHIVED)
        else:
            desired = actual | desired
        planned = plan_changes(desired, actual, full=ctx.full)
        reconcile(table, planned, lambda uris: _build_batches(ctx, source, table, items, uris))
        stats.seen = len(items)
        stats.add_plan(planned)
        stats.removed += sum(1 for uri in planned.changed if desired[uri] == _ARCHIVED)
        stats.changed -= sum(1 for uri in planned.changed if desired[uri] == _ARCHIVED)
        stats.notes += listing.notes
        listing.save_progress(table)
        stats.skipped = _count_skipped(table)
        stats.rows, stats.version = table.count_rows(is_null("archived_at")), table.version
    _require_any_readable(ctx, stats)
    return stats


def is_up_to_date(lake: Lake, source: SourceConfig, items: Iterable[Item]) -> bool:
    """Whether the snapshot is what a listing says: a refresh would add, change and archive nothing."""
    held = _load_fingerprints(lake.snapshot(source.type, source.id))
    return {uri: mark for uri, mark in held.items() if mark != _ARCHIVED} == {
        item.uri: _item_fingerprint(item) for item in items
    }


def _claim_host_slot(ctx: RefreshContext) -> AbstractContextManager[None]:
    """A turn at the host that the source is read from; none is waited for at this machine's own folders."""
    host = ctx.source.connection.host
    return ctx.claim_slot(host) if host else nullcontext()


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a source said that there is: everything, or what was updated."""

    items: Mapping[str, Item]
    is_full: bool
    started_at: datetime | None = None  # of a service, by our clock
    settings_digest: str = ""  # by which settings
    notes: Counter[str] = field(default_factory=Counter[str])

    def save_progress(self, table: Table) -> None:
        """Note how far the documents of a service are known."""
        if self.started_at is None or not table.exists:
            return
        known = table.read_rows(["last_modified"], ~is_null("last_modified"))["last_modified"]
        newest = max(known.to_pylist(), default=None)
        until = {_KNOWN_UNTIL: newest.isoformat()} if newest else {}
        whole = (
            {_FULL_LISTING_AT: self.started_at.isoformat(), _LISTED_WITH: self.settings_digest}
            if self.is_full
            else {}
        )
        table.write_notes(**until, **whole)


def _list_items(ctx: RefreshContext, source: Source, table: Table) -> _Listing:
    if not isinstance(source, ApiSource):
        return _Listing({item.uri: item for item in _report_items(ctx, source.discover())}, is_full=True)
    began, notes, listed_as = datetime.now(UTC), table.metadata_notes, _listing_settings_digest(ctx.source)
    since = (
        notes.get(_KNOWN_UNTIL) if notes.get(_LISTED_WITH) == listed_as else None
    )  # another filter wants older ones too
    due = (
        datetime.fromisoformat(notes[_FULL_LISTING_AT]) + source.full_listing_interval
        if _FULL_LISTING_AT in notes
        else began
    )
    whole = ctx.full or since is None or due <= began
    listed = source.discover() if whole else source.discover_updated(datetime.fromisoformat(since or ""))
    items = {item.uri: item for item in _report_items(ctx, listed)}
    told = Counter[str]() if whole else Counter({f"listed since {since}": 1})
    return _Listing(items, whole, began, listed_as, told)


def _listing_settings_digest(source: SourceConfig) -> str:
    """What decides which documents a service lists."""
    connection = source.connection
    where = "" if isinstance(connection, LocalConnection | GitConnection) else connection.location
    return hash_strings(
        source.type, where, json.dumps(source.model_dump(mode="json", include=set(FILTER_TYPES)))
    )


def _report_items(ctx: RefreshContext, listing: Iterable[Item]) -> Iterator[Item]:
    for count, item in enumerate(listing, start=1):
        yield item
        if count % 1000 == 0:
            ctx.report("listing", count, None)


def _item_fingerprint(item: Item) -> str:
    return f"{item.revision} skip: {item.skip}" if item.skip else item.revision


def _load_fingerprints(table: Table) -> dict[str, str]:
    rows = table.read_rows(["uri", "revision", "archived_at"])
    columns = (rows[name].to_pylist() for name in ("uri", "revision", "archived_at"))
    return {uri: _ARCHIVED if gone else mark for uri, mark, gone in zip(*columns, strict=True)}


def _list_stored_uris(table: Table) -> list[str]:
    """Stored documents that have content; what was skipped leaves nothing to archive."""
    return table.read_rows(["uri"], is_null("skipped"))["uri"].to_pylist()


def _count_skipped(table: Table) -> Counter[str]:
    reasons = table.read_rows(["skipped"], ~is_null("skipped"))["skipped"].to_pylist()
    return Counter(reasons)


def _require_not_suddenly_empty(
    ctx: RefreshContext, items: Mapping[str, Item], actual: Mapping[str, str]
) -> None:
    live = sum(1 for mark in actual.values() if mark != _ARCHIVED)
    if live and not items and not ctx.allow_empty:
        raise SourceRefused(
            f"source {ctx.source.id!r} lists no document at all, but {live} are stored: nothing was "
            "changed; check its connection and patterns, or refresh with --allow-empty if it is empty now"
        )


def _require_any_readable(ctx: RefreshContext, stats: Stats) -> None:
    failed = Counter({reason: count for reason, count in stats.skipped.items() if reason != "empty"})
    if failed and stats.rows == stats.skipped.total():
        reason, count = failed.most_common(1)[0]
        raise SourceRefused(
            f"not one of the {stats.rows} documents of source {ctx.source.id!r} could be read; "
            f"{count} of them: {reason}"
        )


def _build_batches(
    ctx: RefreshContext, source: Source, table: Table, items: Mapping[str, Item], uris: list[str]
) -> Iterator[pa.RecordBatch]:
    """Read the listed documents and mark the vanished ones, a commit's worth at a time.

    When the source fails midway, what was read so far is committed before the error goes on.
    """
    rows: list[dict[str, Any]] = []
    chars = 0
    try:
        for count, row in enumerate(_iter_rows(source, table, items, uris), start=1):
            rows.append(row)
            chars += len(row["text"])
            ctx.report("snapshot", count, len(uris))
            if len(rows) >= _DOCUMENTS_PER_COMMIT or chars >= _CHARS_PER_COMMIT:
                yield pa.RecordBatch.from_pylist(rows, schema=table.schema)
                rows, chars = [], 0
    except (SourceUnavailable, SourceRefused):
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=table.schema)
        raise
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=table.schema)


def _iter_rows(
    source: Source, table: Table, items: Mapping[str, Item], uris: list[str]
) -> Iterator[dict[str, Any]]:
    vanished = [uri for uri in uris if uri not in items]
    yield from _iter_archived_rows(table, vanished)
    wanted = [items[uri] for uri in uris if uri in items]
    if not isinstance(source, ApiSource):
        yield from (_build_row(item, _fetch_or_skip(source, item)) for item in wanted)
        return
    for item in wanted:
        if item.skip:
            yield _build_row(item, DocumentSkipped(item.skip))
    readable = {item.uri for item in wanted if not item.skip}
    for item, found in source.fetch_many([item for item in wanted if not item.skip]):
        readable.discard(item.uri)
        yield _build_row(item, found)
    if readable:
        raise SourceUnavailable(
            f"{len(readable)} listed documents were not given, {min(readable)} for one: refresh again"
        )


def _fetch_or_skip(source: Source, item: Item) -> Document | DocumentSkipped:
    try:
        return DocumentSkipped(item.skip) if item.skip else source.fetch(item)
    except DocumentSkipped as reason:
        return reason


def _iter_archived_rows(table: Table, uris: Iterable[str]) -> Iterator[dict[str, Any]]:
    now = datetime.now(UTC)
    for found in table.iter_rows_by_values("uri", uris, table.schema.names):
        for row in found.to_pylist():
            yield {**row, "archived_at": row["archived_at"] or now}


def _build_row(item: Item, result: Document | DocumentSkipped) -> dict[str, Any]:
    """One snapshot row: the document, or the reason why it could not be taken."""
    row: dict[str, Any] = {"uri": item.uri, "revision": _item_fingerprint(item), "archived_at": None}
    if isinstance(result, DocumentSkipped):
        nothing = Document(uri=item.uri, text="", path=item.uri)
        return row | _document_columns(nothing) | {"skipped": str(result)}
    return row | _document_columns(result) | {"skipped": None}


def _document_columns(document: Document) -> dict[str, Any]:
    columns = asdict(document)
    columns["metadata"] = json.dumps(columns["metadata"], sort_keys=True, default=str)
    columns["content_hash"] = hash_strings(*(f"{name}={value}" for name, value in sorted(columns.items())))
    return columns
