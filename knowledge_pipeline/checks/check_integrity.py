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

from knowledge_pipeline.checks.check_types import Finding, sample
from knowledge_pipeline.config.settings import Settings, SourceConfig, SourceType
from knowledge_pipeline.embedding.base import unsound
from knowledge_pipeline.embedding.registry import space_of
from knowledge_pipeline.errors import Busy
from knowledge_pipeline.store.changed_sources import written_sources
from knowledge_pipeline.store.filters import Filter, at_least, eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import without
from knowledge_pipeline.store.release import live, written_until
from knowledge_pipeline.store.tables import KEYS_PER_FILTER, Table

_Row = dict[str, Any]

_BATCH_ROWS = 8192
_NOTHING_NEW = "nothing was written since the live release"


@dataclass(frozen=True, slots=True)
class _Unreleased:
    """An index table whose newest version is not the live one."""

    table: Table
    live: int | None  # version that is live
    since: datetime | None  # rows that the live version does not have are newer; None: all are new


def unreleased_types(lake: Lake) -> list[SourceType]:
    """Source types that have rows in a table of which the newest version is not live."""
    found: set[str] = set()
    for it in _unreleased(lake):
        found.update(it.table.rows(["source_type"])["source_type"].unique().to_pylist())
    return cast("list[SourceType]", sorted(found))


def find_double_ids(lake: Lake, settings: Settings, source_type: SourceType) -> Finding:
    """Whether every chunk id of the changed sources is in its index table once."""
    del settings
    written = _written_sources(lake, source_type)
    double: list[_Row] = []
    for it in _unreleased(lake) if written else ():
        double += _repeated(it.table, _of(source_type, written))
    figures = {"changed_sources": len(written), "ids_twice": len(double)}
    if not double:
        return Finding(True, _passed(written, "every chunk id is in the index once"), figures=figures)
    space = double[0]["space"]
    here = sum(1 for row in double if row["space"] == space)
    return Finding(False, f"{here} chunk ids are in space {space!r} twice", sample(double), figures)


def find_differences(lake: Lake, settings: Settings, source_type: SourceType) -> Finding:
    """Whether the index holds exactly the chunks of the changed sources.

    Of a source that is no longer configured it may hold what is stored of it, until it is purged.
    """
    written = _written_sources(lake, source_type)
    differing = list(_differences(lake, settings, source_type, written))
    settled = [it for it in differing if not under_way(lake, it.source)]
    figures = {
        "changed_sources": len(written),
        "differing_sources": len(differing),
        "missing": sum(len(it.missing) for it in differing),
        "left_over": sum(len(it.left_over) for it in differing),
    }
    if not differing:
        return Finding(True, _passed(written, "the index holds exactly their chunks"), figures=figures)
    worst = settled or differing
    sentence = worst[0].sentence + (f", and {len(worst) - 1} more sources differ" if worst[1:] else "")
    if not settled:
        sentence += "; a refresh of it is under way"
    rows = (row for it in worst for row in it.rows(lake, source_type))
    return Finding(False, sentence, sample(rows), figures, unsettled=not settled)


def find_unsound_vectors(lake: Lake, settings: Settings, source_type: SourceType) -> Finding:
    """Whether the vectors of the rows that the live release lacks are finite, of length 1, and fit."""
    wrong = list(_wrong_dimensions(lake, settings, source_type))
    if wrong:
        sentence = (
            f"space {wrong[0]['space']!r} holds vectors of {wrong[0]['dimensions']} dimensions "
            f"and its model makes {wrong[0]['expected']}"
        )
        return Finding(False, sentence, sample(wrong))
    seen, bad, where = 0, list[_Row](), ""
    for it in _unreleased(lake):
        new = eq("source_type", source_type)
        new = new & at_least("updated_at", it.since) if it.since else new
        for batch in it.table.batches(["source", "uri", "id", "vector"], new, batch_rows=_BATCH_ROWS):
            found = _unsound_rows(batch)
            seen, bad = seen + batch.num_rows, bad + found
            where = where or (it.table.name if found else "")
    figures = {"new_rows": seen, "unsound": len(bad)}
    if not bad:
        return Finding(True, f"{seen} new vectors are finite and of length 1", figures=figures)
    sentence = f"{len(bad)} of {seen} new vectors in space {where!r} are not finite or not of length 1"
    return Finding(False, sentence, sample(bad), figures)


def _passed(written: list[str], found: str) -> str:
    return f"{len(written)} sources changed since the live release: {found}" if written else _NOTHING_NEW


def _unreleased(lake: Lake) -> list[_Unreleased]:
    last = live(lake)
    versions = last.tables if last else {}
    until = written_until(lake, last)
    found: list[_Unreleased] = []
    for space, dimensions in lake.spaces().items():
        table = lake.index(space, dimensions)
        if versions.get(space) != table.version:
            found.append(_Unreleased(table, versions.get(space), until if space in versions else None))
    return found


def _written_sources(lake: Lake, source_type: str) -> list[str]:
    """Sources whose rows are not those of the live release: other numbers, or rows written since."""
    found: set[str] = set()
    for it in _unreleased(lake):
        written = written_sources(it.table, it.live, it.since, told_by="updated_at")
        found.update(source for type_, source in written if type_ == source_type)
    return sorted(found)


def _repeated(table: Table, where: Filter) -> list[_Row]:
    """Ids that a table holds more than once, with the document they are of."""
    ids = table.rows(["id"], where)["id"]
    if len(ids.unique()) == len(ids):
        return []
    rows = table.rows(["id", "source", "uri"], where)
    counted = rows.group_by(["source", "uri", "id"]).aggregate([([], "count_all")])
    repeated = counted.filter(pc.field("count_all") > 1)
    return [
        {"space": table.name} | row
        for row in repeated.rename_columns({"id": "chunk_id", "count_all": "rows"}).to_pylist()
    ]


def _of(source_type: str, sources: list[str]) -> Filter:
    """Rows of some sources of a type; of all where they are too many to name."""
    mine = eq("source_type", source_type)
    return mine & one_of("source", sources) if len(sources) <= KEYS_PER_FILTER else mine


@dataclass(frozen=True, slots=True)
class _Difference:
    """A source whose index rows are not its chunks."""

    source: str
    chunks: int
    rows_held: int
    missing: list[str]
    left_over: list[tuple[str, str]]  # space, chunk id

    @property
    def sentence(self) -> str:
        counts = f"source {self.source!r} has {self.chunks} chunks but {self.rows_held} rows in the index"
        return f"{counts} ({len(self.missing)} missing, {len(self.left_over)} left over)"

    def rows(self, lake: Lake, source_type: str) -> Iterator[_Row]:
        """One row per chunk id, with the document it is of."""
        counts = {"source": self.source, "chunks": self.chunks, "rows": self.rows_held}
        chunks = lake.chunks(source_type, self.source)
        uris = _uris(chunks, self.missing)
        for id_ in self.missing:
            yield counts | {"wrong": "missing", "space": "", "uri": uris.get(id_, ""), "chunk_id": id_}
        for space, dimensions in lake.spaces().items():
            ids = [id_ for name, id_ in self.left_over if name == space]
            uris = _uris(lake.index(space, dimensions), ids)
            for id_ in ids:
                yield counts | {"wrong": "left over", "space": space, "uri": uris[id_], "chunk_id": id_}


def _uris(table: Table, ids: list[str]) -> dict[str, str]:
    rows = table.rows(["id", "uri"], one_of("id", ids[:KEYS_PER_FILTER])) if ids else None
    return dict(zip(rows["id"].to_pylist(), rows["uri"].to_pylist(), strict=True)) if rows else {}


def _differences(
    lake: Lake, settings: Settings, source_type: SourceType, sources: list[str]
) -> Iterator[_Difference]:
    configured = {source.id: source for source in settings.sources if source.type == source_type}
    spaces = _spaces(settings, (configured[id_] for id_ in sources if id_ in configured))
    held = _held(lake, source_type, sources)
    for source in sources:
        found = held.get(source, {})
        wanted = lake.chunks(source_type, source).rows(["id"], is_null("skipped"))["id"]
        space = spaces[configured[source].embedding] if source in configured else None
        left_over: list[tuple[str, str]] = []
        for name, ids in found.items():
            wrong = without(ids, wanted) if space in (None, name) else ids
            left_over += ((name, id_) for id_ in wrong.to_pylist())
        missing: list[str] = []
        if space is not None:
            missing = (without(wanted, found[space]) if space in found else wanted).to_pylist()
        if missing or left_over:
            rows = sum(map(len, found.values()))
            yield _Difference(source, len(wanted), rows, sorted(missing), left_over)


def _spaces(settings: Settings, sources: Iterable[SourceConfig]) -> dict[object, str]:
    """The space of every model that some sources name, told once each: it reads files."""
    models = {source.embedding: settings.embedding_of(source) for source in sources}
    return {named: space_of(model).name for named, model in models.items()}


def _held(lake: Lake, source_type: str, sources: list[str]) -> dict[str, dict[str, pa.Array]]:
    """Chunk ids in the index: by source, then by space."""
    held: dict[str, dict[str, pa.Array]] = {source: {} for source in sources}
    for space, dimensions in lake.spaces().items() if sources else ():
        rows = lake.index(space, dimensions).rows(["source", "id"], _of(source_type, sources))
        grouped = rows.group_by("source").aggregate([("id", "list")])
        for source, ids in zip(grouped["source"], grouped["id_list"], strict=True):
            if source.as_py() in held:
                held[source.as_py()][space] = ids.values
    return held


def under_way(lake: Lake, source: str) -> bool:
    """Whether somebody refreshes a source now."""
    try:
        with lake.source_lock(source, timeout_s=0):
            return False
    except Busy:
        return True


def _wrong_dimensions(lake: Lake, settings: Settings, source_type: SourceType) -> Iterator[_Row]:
    held = lake.spaces()
    models = dict.fromkeys(
        settings.embedding_of(source) for source in settings.sources if source.type == source_type
    )
    for space in map(space_of, models):
        if held.get(space.name, space.dimensions) != space.dimensions:
            yield {"space": space.name, "dimensions": held[space.name], "expected": space.dimensions}


def _unsound_rows(batch: pa.RecordBatch) -> list[_Row]:
    flat = batch["vector"].flatten().to_numpy(zero_copy_only=False)
    vectors = np.asarray(flat).reshape(batch.num_rows, -1)
    wrong = unsound(vectors)
    lengths = np.linalg.norm(vectors[wrong], axis=1)
    rows = batch.select(["source", "uri", "id"]).filter(pa.array(wrong)).to_pylist()
    return [
        {"source": row["source"], "uri": row["uri"], "chunk_id": row["id"], "length": float(length)}
        for row, length in zip(rows, lengths, strict=True)
    ]
