"""Snapshot: the documents of a source, as read. Key: uri; fingerprint: the source's revision.

A document that the source no longer lists is archived, not deleted; one that cannot be read is a row with
the reason. An exception from the listing leaves the table as it was.

A service is re-listed in full periodically, to detect deletions; other refreshes list only updates. The notes
of the table say when the last full listing was and up to when updates are known; only a refresh that
completes writes them. A refresh of named documents reads these, whatever their revision, archives those
that are not there any more, and notes nothing: what else was updated is still to be listed.

A variant, which only further branches of a repository have, is archived from its first row on, as the main
branch has it not, and deleted once no branch has it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.config.connections import CustomConnection, GitConnection, LocalConnection
from knowledge_pipeline.config.sources import FILTER_TYPES, SourceConfig, dump_filters
from knowledge_pipeline.connectors.attachments import (
    AttachmentReader,
    attach,
    build_path,
    find_owner_uri,
    find_parent_uri,
    open_attachment_reader,
)
from knowledge_pipeline.connectors.base import ApiSource, BatchSource, Source
from knowledge_pipeline.connectors.conversations import OTHER_FILES_REASON
from knowledge_pipeline.connectors.registry import list_branches, list_notes
from knowledge_pipeline.errors import DocumentSkipped, ParserEnded, SourceRefused, SourceUnavailable
from knowledge_pipeline.plugins import describe_settings
from knowledge_pipeline.records import Document, Item, hash_strings, is_variant_uri
from knowledge_pipeline.stages.context import (
    RefreshContext,
    Stats,
    item_fingerprint,
    item_fingerprints,
    measure_stage,
    open_listed_source,
)
from knowledge_pipeline.stages.permissions import refresh_permissions
from knowledge_pipeline.stages.store_summary import LEFT_OUT
from knowledge_pipeline.store.access import lock_permissions
from knowledge_pipeline.store.filters import is_null
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import plan_changes, reconcile
from knowledge_pipeline.store.tables import Table

Row = dict[str, Any]
_COLUMNS = [column.name for column in fields(Document) if column.name != "attachments"]


class DocumentRows:
    """Builds the rows of one source in one refresh: documents as they were read, with what hangs on each.

    A document that is read names its attachments. They are compared with those that are stored and read
    before the document's own row, so that an interrupted refresh reads the document again. What hangs on a
    document that is not read stays as it is.

    A document whose parser ended without an answer, or that of a file on it, is read once more when it is
    listed next: until then its row has no revision that a source gives.
    """

    def __init__(
        self, source: Source, table: Table, attached: StoredAttachments, revisions: Mapping[str, str]
    ) -> None:
        """`revisions`: those of the stored rows, by uri."""
        self._source, self._table, self._attached = source, table, attached
        self._revisions = revisions

    def build(self, items: Mapping[str, Item], uris: Iterable[str]) -> Iterator[Row]:
        """The rows of documents, each after those of what hangs on it; those not among `items` are archived.

        Raises `SourceRefused`, `SourceUnavailable`: as `Source.fetch`; or a listed document was not returned.
        """
        uris = [uri for uri in uris if uri not in self._attached]
        vanished = [uri for uri in uris if uri not in items]
        for uri in vanished:
            yield from self._attached.build(uri, None)
        yield from archive_rows(self._table, vanished)
        for item, result in read_items(self._source, [items[uri] for uri in uris if uri in items]):
            is_unfinished = isinstance(result, ParserEnded)
            for row in self._attached.build(item.uri, result):
                is_unfinished |= row["revision"].startswith(_UNFINISHED)
                yield row
            row = build_row(item, result)
            if is_unfinished:
                mark = _UNFINISHED + item_fingerprint(item)
                is_last = self._revisions.get(item.uri) == mark
                row["revision"] = item_fingerprint(item) if is_last else mark
            yield row


def read_items(source: Source, items: Iterable[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
    """Read listed documents. Raises as `Source.fetch`; or a listed document was not returned."""
    readable: list[Item] = []
    for item in items:
        if item.skip:
            yield item, DocumentSkipped(item.skip)
        elif isinstance(source, BatchSource):
            readable.append(item)
        else:
            try:
                yield item, source.fetch(item)
            except DocumentSkipped as reason:
                yield item, reason
    if not isinstance(source, BatchSource):
        return
    missing = {item.uri for item in readable}
    for item, result in source.fetch_many(readable):
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
            parent = find_owner_uri(self._source_type, row["uri"])
            self._uris_by_parent.setdefault(parent, []).append(row["uri"])
        return stored.filter(pc.invert(is_attachment))

    def __contains__(self, uri: str) -> bool:
        return uri in self._rows

    def list_uris(self, parents: Iterable[str]) -> list[str]:
        """Those that hang on some documents."""
        return [uri for parent in parents for uri in self._uris_by_parent.get(parent, ())]

    def build(self, parent_uri: str, parent: Document | DocumentSkipped | None) -> Iterator[Row]:
        """Rows of what changes with a document: as it was read, or None where it is archived.

        Raises `SourceRefused`, `SourceUnavailable`: a file could not be read.
        """
        stored_uris = self._uris_by_parent.get(parent_uri, [])
        if self._reader is None or not isinstance(parent, Document):
            yield from self._archive(stored_uris)
            return
        listed = list(self._reader.list_items(parent))
        wanted = {item.uri for item, _ in listed}
        yield from self._archive([uri for uri in stored_uris if uri not in wanted])
        kept = [item.uri for item, _ in listed if self._is_current(item)]
        yield from self._hang_again(kept, parent)
        assert isinstance(self._source, ApiSource)  # only their types have the setting
        for item, attachment in listed:
            if item.uri not in kept:
                is_stored = item.uri in self._rows
                self._changed, self._added = self._changed + is_stored, self._added + (not is_stored)
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
        if self._reader:
            stats.notes += self._reader.notes

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
    if isinstance(result, ParserEnded):
        row["revision"] = _UNFINISHED + row["revision"]
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


_COMPARED = ["uri", "revision", "archived_at"]
_UNFINISHED = "unfinished:"  # before the revision of what was not read because its parser ended
_ARCHIVED = "\x00archived"  # the fingerprint of a document that its source no longer has
_FULL_LISTING_AT, _KNOWN_UNTIL, _LISTED_WITH = "listed_whole_at", "known_until", "listed_as"  # notes
_BRANCHES = "branches"  # of further branches, by name
_DOCUMENTS_PER_COMMIT = 512
_CHARS_PER_COMMIT = 16_000_000


def refresh(ctx: RefreshContext) -> Stats:
    """Bring the snapshot of one source up to date.

    Raises:
        SourceRefused: the source cannot be listed, lists nothing where it had documents, or none of its
            documents can be read.
        SourceUnavailable: it did not answer; the documents read before are kept.
    """
    table = ctx.lake.snapshot(ctx.source.type, ctx.source.id)
    host = ctx.source.connection.host  # none for local folders
    with (
        measure_stage("snapshot", ctx.source.id) as stats,
        ctx.claim_slot(host) if host else nullcontext(),
        open_listed_source(ctx.lake, ctx.source) as source,
        open_attachment_reader(ctx.source) as reader,
        ExitStack() as locks,
    ):
        listing = _list_items(ctx, source, table, reader.version if reader else "")
        retention = _Retention.load(ctx.source)
        items, stored = listing.items, table.read_rows([*_COMPARED, "skipped", *retention.columns])
        attached = StoredAttachments(ctx.source.type, source, reader, table, full=ctx.options.full)
        documents = attached.take_from(stored)
        actual = _build_fingerprints(documents) | retention.mark_expired(documents, items)
        revisions, kept = actual, _find_kept(table, actual, items)
        actual = {uri: fingerprint for uri, fingerprint in actual.items() if uri not in kept}
        desired = item_fingerprints(items.values())
        if listing.is_full:
            live = sum(1 for fingerprint in actual.values() if fingerprint != _ARCHIVED)
            if live and not items and not ctx.options.allow_empty:
                raise SourceRefused(
                    f"source {ctx.source.id!r} lists no document at all, but {live} are stored: nothing was "
                    "changed; check its connection and patterns, or refresh with --allow-empty if it is "
                    "empty now"
                )
            # others have no content
            readable: list[Any] = documents.filter(documents["skipped"].is_null())["uri"].to_pylist()
            desired |= dict.fromkeys(
                (uri for uri in readable if uri in actual and uri not in items and not is_variant_uri(uri)),
                _ARCHIVED,
            )
        else:
            gone = [uri for uri in listing.wanted if uri in actual and uri not in items]
            desired = actual | desired | dict.fromkeys(gone, _ARCHIVED)
            actual |= dict.fromkeys((uri for uri in listing.wanted if uri in items and uri in actual), "")
        plan = plan_changes(desired, actual, full=ctx.options.full and listing.is_full)
        ctx.require_few(len(plan.keys_to_write))
        # Before the documents: a document that cannot be read does not keep what was revoked.
        live_uris = [uri for uri, mark in {**desired, **kept}.items() if mark != _ARCHIVED]
        only_uris = frozenset(listing.wanted).union(items) if listing.wanted else None
        if ctx.source.access.visibility == "from_source":
            locks.enter_context(lock_permissions(ctx.lake, ctx.source.id))
        audiences, _ = refresh_permissions(ctx, table, live_uris, stats, only=only_uris)
        attached.removed = plan.removed  # which grows while the rows are built
        builder, total = DocumentRows(source, table, attached, revisions), len(plan.keys_to_write)
        written: dict[str, Row] = {}  # by uri, without what is long
        reconcile(
            table,
            replace(plan, changed=[*plan.changed, *attached.list_uris(plan.changed)]),
            lambda uris: _build_batches(
                ctx, table, retention.apply(builder.build(items, uris)), audiences, total, written
            ),
        )
        if plan:
            ctx.upkeep.tend(table)
        stats.seen, stats.revision = len(items), listing.revision
        stats.add_plan(plan)
        archived = sum(1 for uri in plan.changed if desired[uri] == _ARCHIVED or uri in retention.archived)
        stats.removed, stats.changed = stats.removed + archived, stats.changed - archived
        attached.add_to(stats)
        stats.notes += listing.notes + retention.notes
        listing.save_progress(table, ctx.source)
        others = _exclude_rows(stored, [*written, *plan.removed])
        live = [row for row in written.values() if row["archived_at"] is None]
        others = others.filter(others["archived_at"].is_null())
        reasons: list[Any] = others["skipped"].drop_null().to_pylist()
        reasons += [row["skipped"] for row in live if row["skipped"] is not None]
        stats.skipped = Counter[str](reasons)
        stats.rows, stats.version = len(others) + len(live), table.version
    _require_any_readable(ctx, stats)
    return stats


def _find_kept(table: Table, actual: Mapping[str, str], items: Mapping[str, Item]) -> dict[str, str]:
    """Stored documents of which a listing says that it could not list them."""
    prefixes = tuple(prefix for item in items.values() for prefix in item.keeps)
    if not prefixes:
        return {}
    rows = table.read_rows(["uri", "path"]).to_pydict()
    paths: dict[str, str] = dict(zip(rows["uri"], rows["path"], strict=True))
    return {
        uri: mark
        for uri, mark in actual.items()
        if uri not in items and (uri.startswith(prefixes) or paths[uri].startswith(prefixes))
    }


def load_branches(lake: Lake, source: SourceConfig) -> tuple[str, ...]:
    """The further branches that the last listing of a repository covered, as the snapshot notes them."""
    if not source.branches:
        return ()
    noted = lake.snapshot(source.type, source.id).read_notes().get(_BRANCHES, "[]")
    return tuple(json.loads(noted))


def is_up_to_date(lake: Lake, source: SourceConfig, items: Iterable[Item]) -> bool:
    """Whether the snapshot equals a listing: a refresh would add, change and archive nothing."""
    listed = {item.uri: item for item in items}
    return load_live(lake, source, listed) == item_fingerprints(listed.values())


def load_live(lake: Lake, source: SourceConfig, listed: Mapping[str, Item]) -> dict[str, str]:
    """The fingerprints of stored documents that are not archived, attachments aside, beside a listing."""
    retention = _Retention.load(source)
    rows = lake.snapshot(source.type, source.id).read_rows([*_COMPARED, *retention.columns])
    stored = _build_fingerprints(rows) | retention.mark_expired(rows, listed)
    return {
        uri: fingerprint
        for uri, fingerprint in stored.items()
        if fingerprint != _ARCHIVED and find_parent_uri(source.type, uri) is None
    }


def list_whole(source: Source, attachments: AttachmentReader | None) -> dict[str, Item]:
    """All that a source lists, as a refresh compares it."""
    version = attachments.version if attachments and isinstance(source, ApiSource) else ""
    return _mark_items(source.discover(), version)


def _mark_items(items: Iterable[Item], attachments: str) -> dict[str, Item]:
    """Those that may have attachments are read again where these would be read in another way."""
    mark = f"+{attachments}" if attachments else ""
    return {item.uri: replace(item, revision=item.revision + mark) for item in items}


def make_full_listing_due(lake: Lake, source: SourceConfig) -> None:
    """Let the next refresh list all of a service, as it does from time to time."""
    table = lake.snapshot(source.type, source.id)
    if table.exists:
        table.write_notes(**{_FULL_LISTING_AT: datetime.min.replace(tzinfo=UTC).isoformat()})


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a source lists: everything, only updates, or what is left of named documents."""

    items: Mapping[str, Item]
    is_full: bool
    wanted: Collection[str] = ()  # uris that were looked for, and no others
    started_at: datetime | None = None  # of a service, by our clock
    settings_digest: str = ""  # of the settings that decide what a service lists
    notes: Counter[str] = field(default_factory=Counter[str])
    branches: tuple[str, ...] = ()  # further ones of a repository that it covers
    revision: str | None = None  # the commit that it is of
    confirm: Callable[[], None] = lambda: None  # tells the source that its documents are stored

    def save_progress(self, table: Table, source: SourceConfig) -> None:
        """Note up to when the updates of a service are known, and which branches a repository has."""
        self.confirm()
        if source.branches and table.exists:
            table.write_notes(**{_BRANCHES: json.dumps(self.branches)})
        if self.is_full and self.started_at is None and table.exists:
            table.write_notes(**{LEFT_OUT: json.dumps(self.notes) if self.notes else None})
        if self.started_at is None or not table.exists:
            return
        rows = table.read_rows(["uri", "last_modified"], ~is_null("last_modified")).to_pydict()
        dated = zip(rows["uri"], rows["last_modified"], strict=True)
        times = [at for uri, at in dated if find_owner_uri(source.type, uri) == uri]  # of files others tell
        notes = {_KNOWN_UNTIL: max(times).isoformat()} if times else {}
        if self.is_full:
            notes |= {_FULL_LISTING_AT: self.started_at.isoformat(), _LISTED_WITH: self.settings_digest}
        table.write_notes(**notes)


def _list_items(ctx: RefreshContext, source: Source, table: Table, attachments: str) -> _Listing:
    """`attachments`: the version of what reads them; "": they are not read."""
    if ctx.source.type == "push":
        from knowledge_pipeline.connectors.push import PushedDocuments  # whose tables take long to import

        assert isinstance(source, PushedDocuments)
        pushed = {item.uri: item for item in _report_items(ctx, source.discover())}
        return _Listing(pushed, is_full=False, wanted=source.deleted, confirm=source.confirm)
    if not isinstance(source, ApiSource):
        if ctx.listing and ctx.listing.error:
            raise ctx.listing.error
        if ctx.listing and ctx.listing.version_stamps == ctx.lake.version_stamps(ctx.source.id):
            of_now = ctx.listing
            notes, branches = of_now.notes, of_now.branches
            return _Listing(
                of_now.items, is_full=True, notes=notes, branches=branches, revision=of_now.revision
            )
        items = {item.uri: item for item in _report_items(ctx, source.discover())}
        notes, branches = list_notes(source), list_branches(source)
        return _Listing(items, is_full=True, notes=notes, branches=branches, revision=source.revision)
    started_at, notes, connection = datetime.now(UTC), table.read_notes(), ctx.source.connection
    location = "" if isinstance(connection, LocalConnection | GitConnection) else connection.location
    if isinstance(connection, CustomConnection):
        location += json.dumps(describe_settings(connection.use, connection.settings), sort_keys=True)
    # Changes where a service may list other, also older, documents.
    digest = hash_strings(
        ctx.source.type,
        location,
        json.dumps(dump_filters(ctx.source)),
        *([attachments] if attachments else []),
    )

    def list_all(listed: Iterable[Item]) -> Mapping[str, Item]:
        return _mark_items(_report_items(ctx, listed), attachments)

    listed_at, since = notes.get(_FULL_LISTING_AT), notes.get(_KNOWN_UNTIL)
    wanted = ctx.options.select_uris(ctx.source.id)
    if listed_at and wanted and not ctx.options.full:
        wanted = _expand_patterns(wanted, table)
        items = list_all(source.discover_named(wanted))
        return _Listing(items, False, wanted, notes=Counter({"looked for documents by name": len(wanted)}))
    is_due = not listed_at or datetime.fromisoformat(listed_at) + source.full_listing_interval <= started_at
    is_wanted = ctx.options.full or ctx.options.relist
    if is_wanted or is_due or since is None or notes.get(_LISTED_WITH) != digest:
        return _Listing(list_all(source.discover()), True, (), started_at, digest)
    items = list_all(source.discover_updated(datetime.fromisoformat(since)))
    return _Listing(items, False, (), started_at, digest, Counter({f"listed since {since}": 1}))


def _expand_patterns(patterns: Iterable[str], table: Table) -> list[str]:
    """The uris; in place of one that ends in `/*`, those stored below it."""
    uris, folders = list[str](), list[str]()
    for uri in patterns:
        (folders if uri.endswith("/*") else uris).append(uri.removesuffix("*"))
    if folders:
        stored = table.read_rows(["uri"], is_null("archived_at")).to_pydict()["uri"]
        uris += [uri for uri in stored if uri.startswith(tuple(folders))]
    return list(dict.fromkeys(uris))


def _report_items(ctx: RefreshContext, listing: Iterable[Item]) -> Iterator[Item]:
    for count, item in enumerate(listing, start=1):
        yield item
        if count % 1000 == 0:
            ctx.report("listing", count, None)


def _build_fingerprints(rows: pa.Table) -> dict[str, str]:
    columns = zip(*rows.select(_COMPARED).to_pydict().values(), strict=True)
    return {
        uri: _ARCHIVED if archived_at and not is_variant_uri(uri) else revision
        for uri, revision, archived_at in columns
    }


@dataclass(frozen=True, slots=True)
class _Retention:
    """Archives records by their age: by their own date, or where they have none by that of their file."""

    ages: Mapping[str, timedelta] = field(default_factory=dict[str, timedelta])  # by kind
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    archived: set[str] = field(default_factory=set[str])  # uris, in this refresh
    notes: Counter[str] = field(default_factory=Counter[str])

    @classmethod
    def load(cls, source: SourceConfig) -> _Retention:
        """That of a source; of most, nothing."""
        if not source.retention:
            return cls()
        from knowledge_pipeline.connectors.records import build_retention

        return cls(build_retention(source.retention))

    @property
    def columns(self) -> list[str]:
        """What it reads of stored rows."""
        return ["metadata", "last_modified"] if self.ages else []

    def mark_expired(self, stored: pa.Table, items: Mapping[str, Item]) -> dict[str, str]:
        """Fingerprints of listed records that are too old: their revision once they are archived."""
        listed = [row for row in stored.to_pylist() if row["uri"] in items] if self.ages else []
        expired = filter(self._find_expired_kind, listed)
        return {row["uri"]: row["revision"] if row["archived_at"] else "" for row in expired}

    def apply(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows as they are written: too old ones archived, which notes tell by kind."""
        for row in rows:
            if row["archived_at"] is None and (kind := self._find_expired_kind(row)):
                row["archived_at"] = self.now
                self.archived.add(row["uri"])
                self.notes[f"archived {kind} older than {self.ages[kind].days} days"] += 1
            yield row

    def _find_expired_kind(self, row: Row) -> str | None:
        kind = str(json.loads(row["metadata"]).get("kind")) if self.ages else ""
        age, dated = self.ages.get(kind), row["last_modified"] if kind else None
        return kind if age is not None and dated and self.now - dated > age else None


def _exclude_rows(rows: pa.Table, uris: list[str]) -> pa.Table:
    arrow: Any = pc  # whose stubs leave types out
    return rows.filter(arrow.invert(arrow.is_in(rows["uri"], value_set=pa.array(uris, pa.string()))))


def _require_any_readable(ctx: RefreshContext, stats: Stats) -> None:
    harmless = ("empty", OTHER_FILES_REASON)
    failed = Counter({reason: count for reason, count in stats.skipped.items() if reason not in harmless})
    if failed and stats.rows == stats.skipped.total():
        reason, count = failed.most_common(1)[0]
        raise SourceRefused(
            f"none of the {stats.rows} documents of source {ctx.source.id!r} can be read; "
            f"{count} of them: {reason}"
        )


def _build_batches(
    ctx: RefreshContext,
    table: Table,
    documents: Iterable[Row],
    audiences: Mapping[str, str],
    total: int,
    written: dict[str, Row],
) -> Iterator[pa.RecordBatch]:
    """Read the listed documents and archive the vanished ones; each batch is one commit.

    `written` takes of each whether it is skipped, or archived. When the source fails midway, the documents
    read so far are committed before the error is raised.
    """
    rows, chars, error = list[dict[str, Any]](), 0, None
    try:
        for count, row in enumerate(documents, start=1):
            rows.append(row | {"audience": audiences.get(find_owner_uri(ctx.source.type, row["uri"]))})
            written[row["uri"]] = {name: row[name] for name in ("skipped", "archived_at")}
            chars += len(row["text"])
            ctx.report("snapshot", count, max(count, total))
            if len(rows) >= _DOCUMENTS_PER_COMMIT or chars >= _CHARS_PER_COMMIT:
                yield pa.RecordBatch.from_pylist(rows, schema=table.schema)
                rows, chars = [], 0
    except (SourceUnavailable, SourceRefused) as failure:
        error = failure
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=table.schema)
    if error:
        raise error
