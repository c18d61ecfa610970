"""The checks that a release must pass: the index holds exactly the chunks, each once, with a valid vector.

They look at the sources whose index rows differ from the live release, so that their cost follows the
change: 30 ms for one changed source among 2,000. A source whose refresh has not reached the index stage, or
failed before it, still is as released, and does not block the release of the others.

The caller holds the index lock: between the two commits of a refresh every index is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.embedding.base import find_invalid_vectors
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.errors import Busy
from knowledge_pipeline.store.filters import Filter, at_least, eq, is_null, one_of
from knowledge_pipeline.store.fragments import MAX_TAKEN_ROWS
from knowledge_pipeline.store.held_terms import ChangeTracker
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_internals import ADDRESS
from knowledge_pipeline.store.reconcile import (
    TypedSource,
    exclude_keys,
    find_changed_sources,
    find_new_ids,
    find_new_rows,
)
from knowledge_pipeline.store.release import find_live_release, first_released_at
from knowledge_pipeline.store.tables import KEYS_PER_FILTER, Table

SAMPLE_ROWS = 20

MetricValue = float | int | str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found for one source type."""

    passed: bool
    message: str  # what was found, and for a failure where
    # At most `SAMPLE_ROWS`, all wrong.
    sample_rows: pa.Table = field(default_factory=lambda: pa.Table.from_pydict({}))
    figures: Mapping[str, MetricValue] = field(default_factory=dict[str, MetricValue])
    may_recover: bool = False  # failed only because a refresh is running: check again when it is done
    sources: tuple[
        str, ...
    ] = ()  # that a failure's message is about, and nothing else; none: the whole store


@dataclass(frozen=True, slots=True)
class Check:
    """A rule about what the stages made of one source type."""

    name: str
    topic: str  # the check of Dagster that it is a part of
    description: str  # what holds where it passes
    run: Callable[[Lake, Settings, SourceType], CheckResult]
    blocking: bool = False  # whether its failure forbids a release
    threshold: str | None = None  # its key in `checks` of the settings
    inspect_query: str | None = None  # shows all the rows: a model of dbt_like_sql, or a query
    source_types: tuple[SourceType, ...] = ()  # that have such a stage; none: all

    @property
    def inspect_command(self) -> str | None:
        """The command that shows the rows."""
        if self.inspect_query is None:
            return None
        query = f'--query "{self.inspect_query}"' if " " in self.inspect_query else self.inspect_query
        return f"knowledge sql {query}"


def build_sample(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The first rows as a table; all have the same keys."""
    first = [dict(row) for row in islice(rows, SAMPLE_ROWS)]
    return pa.Table.from_pylist(first) if first else pa.Table.from_pydict({})


def compute_share(part: float, whole: float) -> float:
    """A share, rounded to four digits; 0 of nothing."""
    return round(part / whole, 4) if whole else 0.0


_Row = dict[str, Any]

_BATCH_ROWS = 8192


@dataclass(frozen=True, slots=True)
class UnreleasedTable:
    """An index table whose newest version is not the live one."""

    table: Table
    live_version: int | None
    since: datetime | None  # rows that the live version lacks are newer; None: all rows are


def list_unreleased_types(lake: Lake) -> list[SourceType]:
    """Source types whose rows differ from those of the live release."""
    types: set[Any] = set()
    for it in list_unreleased_tables(lake):
        types.update(type_ for type_, _ in _find_changed_sources(it))
    return sorted(types)


def check_duplicate_ids(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check that every chunk id of the changed sources is in its index table once."""
    del settings
    changed, repeated = list_changed_sources(lake, source_type), list[_Row]()
    for it in list_unreleased_tables(lake) if changed else ():
        where, new_ids = _filter_sources(source_type, changed), find_new_ids(it.table, it.live_version)
        if len(new_ids) <= KEYS_PER_FILTER:  # only rows that may share their id with a new one
            where &= one_of("id", sorted(new_ids))
        ids = it.table.read_rows(["id"], where)["id"]
        if len(ids.unique()) < len(ids):
            rows = it.table.read_rows(["id", "source", "uri"], where)
            counted = rows.group_by(["source", "uri", "id"]).aggregate([([], "count_all")])
            duplicates = counted.filter(pc.field("count_all") > 1)
            renamed = duplicates.rename_columns({"id": "chunk_id", "count_all": "rows"})
            repeated += ({"space": it.table.name} | row for row in renamed.to_pylist())
    figures = {"changed_sources": len(changed), "ids_twice": len(repeated)}
    if not repeated:
        message = _format_passed(changed, "every chunk id is in the index once")
        return CheckResult(True, message, figures=figures)
    space = repeated[0]["space"]
    count = sum(1 for row in repeated if row["space"] == space)
    message = f"{count} chunk ids are in space {space!r} twice"
    sources = tuple(dict.fromkeys(row["source"] for row in repeated))
    return CheckResult(False, message, build_sample(repeated), figures, sources=sources)


def check_index_matches_chunks(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check that the index holds exactly the chunks of the changed sources.

    It may hold what is stored of a source that is no longer configured, until that is purged.
    """
    changed = list_changed_sources(lake, source_type)
    differing = list(_iter_mismatches(lake, settings, source_type, changed))
    settled = [it for it in differing if not is_refreshing(lake, it.source)]
    figures = {
        "changed_sources": len(changed),
        "differing_sources": len(differing),
        "missing": sum(len(it.missing) for it in differing),
        "left_over": sum(len(it.extra) for it in differing),
    }
    if not differing:
        message = _format_passed(changed, "the index holds exactly their chunks")
        return CheckResult(True, message, figures=figures)
    worst = settled or differing
    message = worst[0].message + (f", and {len(worst) - 1} more sources differ" if worst[1:] else "")
    if not settled:
        message += "; a refresh of it is running"
    rows = (row for it in worst for row in it.iter_rows(lake, source_type))
    sources = tuple(it.source for it in worst)
    return CheckResult(False, message, build_sample(rows), figures, not settled, sources)


def check_vectors(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check that the vectors that are new since the live release are finite, of length 1, and fit.

    A row whose text is not embedded yet is not wrong; `check_unembedded` counts those.
    """
    stored = lake.list_spaces()
    models = {
        settings.resolve_embedding(source): None for source in settings.sources if source.type == source_type
    }
    wrong = [
        {"space": space.name, "dimensions": stored[space.name], "expected": space.dimensions}
        for space in map(resolve_space, models)
        if stored.get(space.name, space.dimensions) != space.dimensions
    ]
    if wrong:
        space, size, expected = wrong[0].values()
        message = f"space {space!r} holds vectors of {size} dimensions and its model makes {expected}"
        return CheckResult(False, message, build_sample(wrong))
    count, unembedded, invalid, space = 0, 0, list[_Row](), ""
    for it in list_unreleased_tables(lake):
        for rows in _iter_new_rows(it, source_type, ["source", "uri", "id", "vector", "unembedded"]):
            batch = rows.filter(rows["unembedded"].is_null())
            unembedded += rows.num_rows - batch.num_rows
            wrong_rows = _find_invalid_vectors(batch) if batch.num_rows else []
            count, invalid = count + batch.num_rows, invalid + wrong_rows
            space = space or (it.table.name if wrong_rows else "")
    figures = {"new_rows": count, "unsound": len(invalid), "unembedded": unembedded}
    if not invalid:
        waiting = f"; {unembedded} new rows wait for theirs" if unembedded else ""
        return CheckResult(True, f"{count} new vectors are finite and of length 1{waiting}", figures=figures)
    message = f"{len(invalid)} of {count} new vectors in space {space!r} are not finite or not of length 1"
    return CheckResult(False, message, build_sample(invalid), figures)


def _format_passed(changed: list[str], message: str) -> str:
    if not changed:
        return "nothing was written since the live release"
    return f"{len(changed)} sources changed since the live release: {message}"


def list_unreleased_tables(lake: Lake) -> list[UnreleasedTable]:
    """The index tables that the next release changes."""
    live = find_live_release(lake)
    versions, since = live.tables if live else dict[str, int](), first_released_at(lake, live)
    tables = {space: lake.index(space, dimensions) for space, dimensions in lake.list_spaces().items()}
    return [
        UnreleasedTable(table, versions.get(space), since if space in versions else None)
        for space, table in tables.items()
        if versions.get(space) != table.version
    ]


def list_changed_sources(lake: Lake, source_type: str) -> list[str]:
    """Sources whose rows differ from the live release: in number, or written since."""
    changed: set[str] = set()
    for it in list_unreleased_tables(lake):
        changed.update(source for type_, source in _find_changed_sources(it) if type_ == source_type)
    return sorted(changed)


def _iter_new_rows(it: UnreleasedTable, source_type: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Rows of a type that the live version lacks: few by where they are, so that no other is looked at."""
    new = eq("source_type", source_type)
    if it.live_version is not None and it.since:
        new_rows = find_new_rows(it.table, it.live_version, it.since, source_type=source_type)
        if len(new_rows) <= MAX_TAKEN_ROWS:
            addresses: list[Any] = new_rows[ADDRESS].to_pylist()
            yield from it.table.take_rows(addresses, columns).to_batches()
            return
        new = new & at_least("updated_at", it.since)
    yield from it.table.iter_batches(columns, new, batch_rows=_BATCH_ROWS)


def _find_changed_sources(unreleased: UnreleasedTable) -> frozenset[TypedSource]:
    it = unreleased
    return find_changed_sources(it.table, it.live_version, it.since, time_column="updated_at")


def _filter_sources(source_type: str, sources: list[str]) -> Filter:
    """Rows of some sources of a type, or of all where they are too many for a filter."""
    mine = eq("source_type", source_type)
    return mine & one_of("source", sources) if len(sources) <= KEYS_PER_FILTER else mine


@dataclass(frozen=True, slots=True)
class _IndexMismatch:
    """A source whose index rows differ from its chunks."""

    source: str
    chunk_count: int
    index_row_count: int
    missing: list[str]
    extra: list[tuple[str, str]]  # space, chunk id

    @property
    def message(self) -> str:
        return (
            f"source {self.source!r} has {self.chunk_count} chunks but {self.index_row_count} rows in the "
            f"index ({len(self.missing)} missing, {len(self.extra)} left over)"
        )

    def iter_rows(self, lake: Lake, source_type: str) -> Iterator[_Row]:
        """One row per chunk id, with its document."""
        counts = {"source": self.source, "chunks": self.chunk_count, "rows": self.index_row_count}
        chunks = lake.chunks(source_type, self.source)
        uris = _load_uris(chunks, self.missing)
        for id_ in self.missing:
            yield counts | {"wrong": "missing", "space": "", "uri": uris.get(id_, ""), "chunk_id": id_}
        for space, dimensions in lake.list_spaces().items():
            ids = [id_ for name, id_ in self.extra if name == space]
            uris = _load_uris(lake.index(space, dimensions), ids)
            for id_ in ids:
                yield counts | {"wrong": "left over", "space": space, "uri": uris[id_], "chunk_id": id_}


def _load_uris(table: Table, ids: list[str]) -> dict[str, str]:
    rows = table.read_rows(["id", "uri"], one_of("id", ids[:KEYS_PER_FILTER])) if ids else None
    return {row["id"]: row["uri"] for row in rows.to_pylist()} if rows else {}


def _iter_mismatches(
    lake: Lake, settings: Settings, source_type: SourceType, sources: list[str]
) -> Iterator[_IndexMismatch]:
    models = {
        source.id: settings.resolve_embedding(source)
        for source in settings.sources
        if source.type == source_type and source.id in set(sources)
    }
    spaces = {model: resolve_space(model).name for model in set(models.values())}  # once each: reads files
    space_by_source = {source: spaces[model] for source, model in models.items()}
    trackers: dict[str, ChangeTracker] = {}  # of those that may not match
    for source in sources:
        matches, tracker = _match_changed_ids(lake, source_type, source, space_by_source.get(source))
        if not matches:
            trackers[source] = tracker
    sources = list(trackers)
    ids_by_source: dict[str, dict[str, Any]] = {source: {} for source in sources}  # then by space: an array
    where = _filter_sources(source_type, sources)
    for name, dimensions in lake.list_spaces().items() if sources else ():
        rows = lake.index(name, dimensions).read_rows(["source", "id"], where)
        grouped = rows.group_by("source").aggregate([("id", "list")])
        for source, ids in zip(grouped["source"].to_pylist(), grouped["id_list"], strict=True):
            if source in ids_by_source:
                ids_by_source[source][name] = ids.values
    for source, indexed in ids_by_source.items():
        wanted = lake.chunks(source_type, source).read_rows(["id"], is_null("skipped"))["id"]
        space = spaces[models[source]] if source in models else None
        extra: list[tuple[str, str]] = []
        for name, ids in indexed.items():
            wrong = exclude_keys(ids, wanted) if space in (None, name) else ids
            extra += ((name, id_) for id_ in wrong.to_pylist())
        missing: list[Any] = []
        if space is not None:
            missing = (exclude_keys(wanted, indexed[space]) if space in indexed else wanted).to_pylist()
        if missing or extra:
            rows = sum(map(len, indexed.values()))
            yield _IndexMismatch(source, len(wanted), rows, sorted(missing), extra)
        else:
            trackers[source].remember()


def _match_changed_ids(
    lake: Lake, source_type: str, source: str, space: str | None
) -> tuple[bool, ChangeTracker]:
    """Whether the ids that changed since all matched do so still; false where that is not known.

    `space` is where the chunks belong; None: wherever they are.
    """
    chunks = lake.chunks(source_type, source)
    tables = {name: lake.index(name, size) for name, size in lake.list_spaces().items()}
    digest, names = f"{space} {sorted(tables)}", f"index_matches_chunks/{source_type}"
    tracker = ChangeTracker(lake, source, names, digest, [chunks, *tables.values()])
    ids = tracker.find_changed_values(*("id" for _ in (chunks, *tables)))
    if ids is None:
        return False, tracker
    changed = one_of("id", sorted(ids))
    wanted = set(chunks.read_rows(["id"], changed & is_null("skipped"))["id"].to_pylist())
    indexed = list[Any]()
    for name, table in tables.items():
        present = table.read_rows(["id"], eq("source", source) & changed)["id"].to_pylist()
        if present and space not in (None, name):
            return False, tracker
        indexed += present
    matches = set(indexed) == wanted if space is not None else set(indexed) <= wanted
    if matches:
        tracker.remember()
    return matches, tracker


def is_refreshing(lake: Lake, source: str) -> bool:
    """Whether a process refreshes a source now."""
    try:
        with lake.lock_source(source, timeout_s=0):
            return False
    except Busy:
        return True


def _find_invalid_vectors(batch: pa.RecordBatch) -> list[_Row]:
    column: Any = batch["vector"]  # pyright: ignore[reportUnknownVariableType]  # no column has a type in the stubs
    vectors = np.asarray(column.flatten().to_numpy(zero_copy_only=False)).reshape(batch.num_rows, -1)
    invalid = find_invalid_vectors(vectors)
    lengths = np.linalg.norm(vectors[invalid], axis=1)
    rows = batch.select(["source", "uri", "id"]).filter(pa.array(invalid)).to_pylist()
    return [
        {"source": row["source"], "uri": row["uri"], "chunk_id": row["id"], "length": float(length)}
        for row, length in zip(rows, lengths, strict=True)
    ]
