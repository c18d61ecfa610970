"""Rows of the snapshot: documents as they were read, and with each what hangs on it.

A document that is read names its attachments. They are compared with those that are stored and read before
the document's own row, so that after a crash between the two the document is read again. What hangs on a
document that is not read stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.config.sources.filters import FILTER_TYPES
from knowledge_pipeline.errors import DocumentSkipped, SourceUnavailable
from knowledge_pipeline.records import Document, Item, hash_strings, is_variant_uri
from knowledge_pipeline.sources.attachments.reading import (
    AttachmentReader,
    attach,
    build_path,
    find_owner_uri,
    find_parent_uri,
)
from knowledge_pipeline.sources.base import ApiSource, BatchSource, Source
from knowledge_pipeline.stages.context import Stats, item_fingerprint
from knowledge_pipeline.store.tables import Table

Row = dict[str, Any]
_COLUMNS = [each.name for each in fields(Document) if each.name != "attachments"]


class DocumentRows:
    """Builds the rows of one source in one refresh."""

    def __init__(self, source: Source, table: Table, attached: StoredAttachments) -> None:
        self._source, self._table, self._attached = source, table, attached

    def build(self, items: Mapping[str, Item], uris: Iterable[str]) -> Iterator[Row]:
        """The rows of documents, each after those of what hangs on it; those not among `items` are archived.

        Raises:
            SourceRefused, SourceUnavailable: as `Source.fetch`; or a listed document was not returned.
        """
        uris = [uri for uri in uris if uri not in self._attached]
        vanished = [uri for uri in uris if uri not in items]
        for uri in vanished:
            yield from self._attached.build(uri, None)
        yield from archive_rows(self._table, vanished)
        for item, result in self._read_items([items[uri] for uri in uris if uri in items]):
            yield from self._attached.build(item.uri, result)
            yield build_row(item, result)

    def _read_items(self, items: list[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        readable: list[Item] = []
        for item in items:
            if item.skip:
                yield item, DocumentSkipped(item.skip)
            elif isinstance(self._source, BatchSource):
                readable.append(item)
            else:
                try:
                    yield item, self._source.fetch(item)
                except DocumentSkipped as reason:
                    yield item, reason
        if not isinstance(self._source, BatchSource):
            return
        missing = {item.uri for item in readable}
        for item, result in self._source.fetch_many(readable):
            missing.discard(item.uri)
            yield item, result
        if missing:
            raise SourceUnavailable(
                f"the source did not return {len(missing)} listed documents, such as {min(missing)}: "
                "refresh again"
            )


class StoredAttachments:
    """What hangs on the documents of one source, as it is stored, and how it becomes what it should be."""

    def __init__(
        self,
        source_type: str,
        source: Source,
        reader: AttachmentReader | None,
        table: Table,
        *,
        full: bool = False,
    ) -> None:
        """`reader`: None archives what is stored. `full`: all are read again."""
        self._source, self._reader, self._table, self._is_full = source, reader, table, full
        self._source_type = source_type
        self._rows: dict[str, Row] = {}  # by uri
        self._uris_by_parent: dict[str, list[str]] = {}
        self._added = self._changed = self._archived = 0
        self.removed: list[str] = []
        """Skipped ones that are gone, which have no content to archive: found while rows are built."""

    def take_from(self, stored: pa.Table) -> pa.Table:
        """Keep those among stored rows (uri, revision, archived_at, skipped); the rest is returned."""
        if self._source_type not in FILTER_TYPES["attachments"]:
            return stored
        uris: list[Any] = stored["uri"].to_pylist()
        parents = [find_parent_uri(self._source_type, uri) for uri in uris]
        is_attachment = pa.array([parent is not None for parent in parents], pa.bool_())
        for row in stored.filter(is_attachment).to_pylist():
            self._rows[row["uri"]] = row
            self._uris_by_parent.setdefault(find_owner_uri(self._source_type, row["uri"]), []).append(
                row["uri"]
            )
        return stored.filter(pc.invert(is_attachment))

    def __contains__(self, uri: str) -> bool:
        return uri in self._rows

    def list_uris(self, parents: Iterable[str]) -> list[str]:
        """Those that hang on some documents."""
        return [uri for parent in parents for uri in self._uris_by_parent.get(parent, ())]

    def build(self, parent_uri: str, parent: Document | DocumentSkipped | None) -> Iterator[Row]:
        """Rows of what changes with a document: as it was read, or None where it is archived.

        Raises:
            SourceRefused, SourceUnavailable: a file could not be read.
        """
        held = self._uris_by_parent.get(parent_uri, [])
        if self._reader is None or not isinstance(parent, Document):
            yield from self._archive(held)
            return
        listed = list(self._reader.list_items(parent))
        wanted = {item.uri for item, _ in listed}
        yield from self._archive([uri for uri in held if uri not in wanted])
        kept = [item.uri for item, _ in listed if self._is_current(item)]
        yield from self._hang_again(kept, parent)
        assert isinstance(self._source, ApiSource)  # only their types have the setting
        for item, attachment in listed:
            if item.uri not in kept:
                known = item.uri in self._rows
                self._changed, self._added = self._changed + known, self._added + (not known)
                try:
                    result = attach(self._reader.read(self._source, item, attachment), parent)
                except DocumentSkipped as reason:
                    result = reason
                yield build_row(item, result, path=build_path(parent, attachment.name))

    def add_to(self, stats: Stats) -> None:
        """Count what was done."""
        stats.added += self._added
        stats.changed += self._changed
        stats.removed += self._archived

    def _is_current(self, item: Item) -> bool:
        """Whether what is stored is what would be read: a file that could not be read is tried again."""
        row = self._rows.get(item.uri)
        if row is None or self._is_full or row["archived_at"] is not None:
            return False
        return row["revision"] == item_fingerprint(item) and (row["skipped"] is None or bool(item.skip))

    def _hang_again(self, uris: list[str], parent: Document) -> Iterator[Row]:
        """Rows of what stays and now hangs on a document with another title, place or metadata."""
        for rows in self._table.iter_rows_by_values("uri", uris, self._table.schema.names):
            for row in rows.to_pylist():
                values = {name: row[name] for name in _COLUMNS} | {"metadata": json.loads(row["metadata"])}
                again = _to_columns(attach(Document(**values), parent))
                if row["skipped"] is None and again["content_hash"] != row["content_hash"]:
                    self._changed += 1
                    yield row | again

    def _archive(self, uris: list[str]) -> Iterator[Row]:
        live = [uri for uri in uris if self._rows[uri]["archived_at"] is None]
        skipped = [uri for uri in live if self._rows[uri]["skipped"] is not None]
        self._archived += len(live) - len(skipped)
        self.removed += skipped
        yield from archive_rows(self._table, [uri for uri in live if uri not in skipped])


def archive_rows(table: Table, uris: list[str]) -> Iterator[Row]:
    """The stored rows of documents that are gone."""
    now = datetime.now(UTC)
    for rows in table.iter_rows_by_values("uri", uris, table.schema.names):
        for row in rows.to_pylist():
            yield {**row, "archived_at": row["archived_at"] or now}


def build_row(item: Item, result: Document | DocumentSkipped, *, path: str = "") -> Row:
    """One row: the document, or the reason for skipping it; `path` is where a skipped one is."""
    archived_at = datetime.now(UTC) if is_variant_uri(item.uri) else None  # the main branch has it not
    row: Row = {"uri": item.uri, "revision": item_fingerprint(item), "archived_at": archived_at}
    if isinstance(result, DocumentSkipped):
        skipped = Document(uri=item.uri, text="", path=path or item.uri)
        return row | _to_columns(skipped) | {"skipped": str(result)}
    return row | _to_columns(result) | {"skipped": None}


def _to_columns(document: Document) -> Row:
    columns = asdict(document)
    del columns["attachments"]  # documents of their own
    columns["metadata"] = json.dumps(columns["metadata"], sort_keys=True, default=str)
    columns["content_hash"] = hash_strings(*(f"{name}={value}" for name, value in sorted(columns.items())))
    return columns
