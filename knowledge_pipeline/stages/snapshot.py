"""Snapshot: the documents of a source, as read. Key: uri; fingerprint: the source's revision.

What the source no longer lists is archived, not deleted; what could not be read is kept
as a row with its reason. An exception from the listing leaves the table as it was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from knowledge_pipeline.config import SourceConfig
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.base import Source
from knowledge_pipeline.sources.registry import host_of, open_source
from knowledge_pipeline.stages.base import Pass, Stats, digest, measured
from knowledge_pipeline.store.filters import is_null
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import difference, reconcile
from knowledge_pipeline.store.tables import Table

_ARCHIVED = "\x00archived"  # the fingerprint of a document that its source no longer has
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
        items = {item.uri: item for item in _listed(this, source)}
        actual = _held(table)
        _refuse_sudden_emptiness(this, items, actual)
        archived = [uri for uri in _documents(table) if uri not in items]
        desired = {uri: _mark(item) for uri, item in items.items()} | dict.fromkeys(archived, _ARCHIVED)
        planned = difference(desired, actual, full=this.full)
        reconcile(table, planned, lambda uris: _rows(this, source, table, items, uris))
        stats.seen = len(items)
        stats.count(planned)
        stats.removed += sum(1 for uri in planned.changed if desired[uri] == _ARCHIVED)
        stats.changed -= sum(1 for uri in planned.changed if desired[uri] == _ARCHIVED)
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


def _listed(this: Pass, source: Source) -> Iterator[Item]:
    for count, item in enumerate(source.discover(), start=1):
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
    for uri in uris:
        if uri in items:
            yield _row(source, items[uri])


def _archived_rows(table: Table, uris: Iterable[str]) -> Iterator[dict[str, Any]]:
    now = datetime.now(UTC)
    for found in table.rows_of("uri", uris, table.schema.names):
        for row in found.to_pylist():
            yield {**row, "archived_at": row["archived_at"] or now}


def _row(source: Source, item: Item) -> dict[str, Any]:
    """One snapshot row: the document, or the reason why it could not be taken."""
    row: dict[str, Any] = {"uri": item.uri, "revision": _mark(item), "archived_at": None}
    try:
        if item.skip:
            raise DocumentSkipped(item.skip)
        document = source.fetch(item)
    except DocumentSkipped as reason:
        nothing = Document(uri=item.uri, text="", path=item.uri)
        return row | _columns(nothing) | {"skipped": str(reason)}
    return row | _columns(document) | {"skipped": None}


def _columns(document: Document) -> dict[str, Any]:
    columns = asdict(document)
    columns["metadata"] = json.dumps(columns["metadata"], sort_keys=True, default=str)
    columns["content_hash"] = digest(*(f"{name}={value}" for name, value in sorted(columns.items())))
    return columns
