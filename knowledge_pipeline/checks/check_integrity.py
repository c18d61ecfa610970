"""The checks that a release must pass: the index holds exactly the chunks, each once, with a sound vector.

They look at the sources whose index rows differ from those of the live release, so that
their cost follows the change: 30 ms for one changed source among 2,000. A source whose
refresh is under way, or failed, before its index stage is as it was released, and does
not keep the others from being released.

The caller holds the index lock: between the two commits of a refresh every index is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.checks.check_types import CheckResult, build_sample
from knowledge_pipeline.config.settings import Settings, SourceConfig
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.embedding.base import find_invalid_vectors
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.errors import Busy
from knowledge_pipeline.store.changed_sources import find_changed_sources
from knowledge_pipeline.store.filters import Filter, at_least, eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import exclude_keys
from knowledge_pipeline.store.release import find_live_release, first_released_at
from knowledge_pipeline.store.tables import KEYS_PER_FILTER, Table

_Row = dict[str, Any]

_BATCH_ROWS = 8192
_NO_CHANGES = "nothing was written since the live release"


@dataclass(frozen=True, slots=True)
class _UnreleasedTable:
    """An index table whose newest version is not the live one."""

    table: Table
    live_version: int | None  # version that is live
    since: datetime | None  # rows that the live version does not have are newer; None: all are new


def list_unreleased_types(lake: Lake) -> list[SourceType]:
    """Source types that have rows in a table of which the newest version is not live."""
    found: set[str] = set()
    for it in _list_unreleased_tables(lake):
        found.update(it.table.read_rows(["source_type"])["source_type"].unique().to_pylist())
    return cast("list[SourceType]", sorted(found))


def check_duplicate_ids(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Whether every chunk id of the changed sources is in its index table once."""
    del settings
    written = _changed_sources(lake, source_type)
    double: list[_Row] = []
    for it in _list_unreleased_tables(lake) if written else ():
        double += _find_repeated_ids(it.table, _filter_sources(source_type, written))
    figures = {"changed_sources": len(written), "ids_twice": len(double)}
    if not double:
        return CheckResult(
            True, _format_passed(written, "every chunk id is in the index once"), figures=figures
        )
    space = double[0]["space"]
    here = sum(1 for row in double if row["space"] == space)
    return CheckResult(False, f"{here} chunk ids are in space {space!r} twice", build_sample(double), figures)


def check_index_matches_chunks(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Whether the index holds exactly the chunks of the changed sources.

    Of a source that is no longer configured it may hold what is stored of it, until it is purged.
    """
    written = _changed_sources(lake, source_type)
    differing = list(_iter_mismatches(lake, settings, source_type, written))
    settled = [it for it in differing if not is_refreshing(lake, it.source)]
    figures = {
        "changed_sources": len(written),
        "differing_sources": len(differing),
        "missing": sum(len(it.missing) for it in differing),
        "left_over": sum(len(it.extra) for it in differing),
    }
    if not differing:
        return CheckResult(
            True, _format_passed(written, "the index holds exactly their chunks"), figures=figures
        )
    worst = settled or differing
    sentence = worst[0].message + (f", and {len(worst) - 1} more sources differ" if worst[1:] else "")
    if not settled:
        sentence += "; a refresh of it is under way"
    rows = (row for it in worst for row in it.iter_rows(lake, source_type))
    return CheckResult(False, sentence, build_sample(rows), figures, may_recover=not settled)


def check_vectors(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Whether the vectors of the rows that the live release lacks are finite, of length 1, and fit."""
    wrong = list(_iter_wrong_dimensions(lake, settings, source_type))
    if wrong:
        sentence = (
            f"space {wrong[0]['space']!r} holds vectors of {wrong[0]['dimensions']} dimensions "
            f"and its model makes {wrong[0]['expected']}"
        )
        return CheckResult(False, sentence, build_sample(wrong))
    seen, bad, where = 0, list[_Row](), ""
    for it in _list_unreleased_tables(lake):
        new = eq("source_type", source_type)
        new = new & at_least("updated_at", it.since) if it.since else new
        for batch in it.table.iter_batches(["source", "uri", "id", "vector"], new, batch_rows=_BATCH_ROWS):
            found = _find_invalid_vectors(batch)
            seen, bad = seen + batch.num_rows, bad + found
            where = where or (it.table.name if found else "")
    figures = {"new_rows": seen, "unsound": len(bad)}
    if not bad:
        return CheckResult(True, f"{seen} new vectors are finite and of length 1", figures=figures)
    sentence = f"{len(bad)} of {seen} new vectors in space {where!r} are not finite or not of length 1"
    return CheckResult(False, sentence, build_sample(bad), figures)


def _format_passed(changed: list[str], message: str) -> str:
    return f"{len(changed)} sources changed since the live release: {message}" if changed else _NO_CHANGES


def _list_unreleased_tables(lake: Lake) -> list[_UnreleasedTable]:
    last = find_live_release(lake)
    versions = last.tables if last else {}
    until = first_released_at(lake, last)
    found: list[_UnreleasedTable] = []
    for space, dimensions in lake.list_spaces().items():
        table = lake.index(space, dimensions)
        if versions.get(space) != table.version:
            found.append(_UnreleasedTable(table, versions.get(space), until if space in versions else None))
    return found


def _changed_sources(lake: Lake, source_type: str) -> list[str]:
    """Sources whose rows are not those of the live release: other numbers, or rows written since."""
    found: set[str] = set()
    for it in _list_unreleased_tables(lake):
        written = find_changed_sources(it.table, it.live_version, it.since, time_column="updated_at")
        found.update(source for type_, source in written if type_ == source_type)
    return sorted(found)


def _find_repeated_ids(table: Table, where: Filter) -> list[_Row]:
    """Ids that a table holds more than once, with the document they are of."""
    ids = table.read_rows(["id"], where)["id"]
    if len(ids.unique()) == len(ids):
        return []
    rows = table.read_rows(["id", "source", "uri"], where)
    counted = rows.group_by(["source", "uri", "id"]).aggregate([([], "count_all")])
    repeated = counted.filter(pc.field("count_all") > 1)
    return [
        {"space": table.name} | row
        for row in repeated.rename_columns({"id": "chunk_id", "count_all": "rows"}).to_pylist()
    ]


def _filter_sources(source_type: str, sources: list[str]) -> Filter:
    """Rows of some sources of a type; of all where they are too many to name."""
    mine = eq("source_type", source_type)
    return mine & one_of("source", sources) if len(sources) <= KEYS_PER_FILTER else mine


@dataclass(frozen=True, slots=True)
class _IndexMismatch:
    """A source whose index rows are not its chunks."""

    source: str
    chunk_count: int
    index_row_count: int
    missing: list[str]
    extra: list[tuple[str, str]]  # space, chunk id

    @property
    def message(self) -> str:
        counts = f"source {self.source!r} has {self.chunk_count} chunks but {self.index_row_count} rows in the index"
        return f"{counts} ({len(self.missing)} missing, {len(self.extra)} left over)"

    def iter_rows(self, lake: Lake, source_type: str) -> Iterator[_Row]:
        """One row per chunk id, with the document it is of."""
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
    return dict(zip(rows["id"].to_pylist(), rows["uri"].to_pylist(), strict=True)) if rows else {}


def _iter_mismatches(
    lake: Lake, settings: Settings, source_type: SourceType, sources: list[str]
) -> Iterator[_IndexMismatch]:
    configured = {source.id: source for source in settings.sources if source.type == source_type}
    spaces = _space_names(settings, (configured[id_] for id_ in sources if id_ in configured))
    held = _load_index_ids(lake, source_type, sources)
    for source in sources:
        found = held.get(source, {})
        wanted = lake.chunks(source_type, source).read_rows(["id"], is_null("skipped"))["id"]
        space = spaces[configured[source].embedding] if source in configured else None
        left_over: list[tuple[str, str]] = []
        for name, ids in found.items():
            wrong = exclude_keys(ids, wanted) if space in (None, name) else ids
            left_over += ((name, id_) for id_ in wrong.to_pylist())
        missing: list[str] = []
        if space is not None:
            missing = (exclude_keys(wanted, found[space]) if space in found else wanted).to_pylist()
        if missing or left_over:
            rows = sum(map(len, found.values()))
            yield _IndexMismatch(source, len(wanted), rows, sorted(missing), left_over)


def _space_names(settings: Settings, sources: Iterable[SourceConfig]) -> dict[object, str]:
    """The space of every model that some sources name, told once each: it reads files."""
    models = {source.embedding: settings.resolve_embedding(source) for source in sources}
    return {named: resolve_space(model).name for named, model in models.items()}


def _load_index_ids(lake: Lake, source_type: str, sources: list[str]) -> dict[str, dict[str, pa.Array]]:
    """Chunk ids in the index: by source, then by space."""
    held: dict[str, dict[str, pa.Array]] = {source: {} for source in sources}
    for space, dimensions in lake.list_spaces().items() if sources else ():
        rows = lake.index(space, dimensions).read_rows(
            ["source", "id"], _filter_sources(source_type, sources)
        )
        grouped = rows.group_by("source").aggregate([("id", "list")])
        for source, ids in zip(grouped["source"], grouped["id_list"], strict=True):
            if source.as_py() in held:
                held[source.as_py()][space] = ids.values
    return held


def is_refreshing(lake: Lake, source: str) -> bool:
    """Whether somebody refreshes a source now."""
    try:
        with lake.lock_source(source, timeout_s=0):
            return False
    except Busy:
        return True


def _iter_wrong_dimensions(lake: Lake, settings: Settings, source_type: SourceType) -> Iterator[_Row]:
    held = lake.list_spaces()
    models = dict.fromkeys(
        settings.resolve_embedding(source) for source in settings.sources if source.type == source_type
    )
    for space in map(resolve_space, models):
        if held.get(space.name, space.dimensions) != space.dimensions:
            yield {"space": space.name, "dimensions": held[space.name], "expected": space.dimensions}


def _find_invalid_vectors(batch: pa.RecordBatch) -> list[_Row]:
    flat = batch["vector"].flatten().to_numpy(zero_copy_only=False)
    vectors = np.asarray(flat).reshape(batch.num_rows, -1)
    wrong = find_invalid_vectors(vectors)
    lengths = np.linalg.norm(vectors[wrong], axis=1)
    rows = batch.select(["source", "uri", "id"]).filter(pa.array(wrong)).to_pylist()
    return [
        {"source": row["source"], "uri": row["uri"], "chunk_id": row["id"], "length": float(length)}
        for row, length in zip(rows, lengths, strict=True)
    ]
