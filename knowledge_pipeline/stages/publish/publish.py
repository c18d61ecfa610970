"""Publish: makes what a target holds equal to the live release, by the difference alone.

It follows the live release, whichever that is: after a rollback it publishes the difference back. Rows are
compared by marks, which come from the fingerprints of the index, so that nothing is read but what changed.
"""

# pyarrow-stubs leaves type arguments out of most functions of pyarrow.compute.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.stages.publish.target import (
    COLUMNS,
    MARK,
    Publication,
    PublishedSpace,
    PublishedState,
    PublishTarget,
    build_row_schema,
)
from knowledge_pipeline.store.audiences import AUDIENCE_PREFIX, Requirements, read_audiences
from knowledge_pipeline.store.filters import one_of
from knowledge_pipeline.store.index.locations import read_locations
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import ReconcilePlan, plan_changes
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline.store.tables import Table, split_batches

VERSION = "1"  # of how an index row becomes a published one
_BATCH_ROWS = 1000
_STREAMED_SHARE = 4  # where more than such a share of all rows is written, all are read in one scan


@dataclass(slots=True)
class PublishResult:
    """What a publication changed."""

    target: str
    release: int
    rows: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    audiences: int = 0  # that differed
    spaces: list[str] = field(default_factory=list[str])
    seconds: float = 0.0

    @property
    def has_changes(self) -> bool:
        """Whether a reader could notice."""
        return bool(self.added or self.changed or self.removed or self.audiences)

    def as_metadata(self) -> dict[str, Any]:
        """For Dagster and `--json`; nothing of the address."""
        return asdict(self)


def refresh(lake: Lake, settings: Settings, target: PublishTarget) -> PublishResult:
    """Make a target hold the live release.

    Raises:
        NotFound: nothing is released yet.
        StoreError: the target refuses us; it holds what it held.
        StoreUnavailable: it did not answer.
    """
    started = time.perf_counter()
    if (release := find_live_release(lake)) is None:
        raise NotFound("nothing is released yet: run `knowledge index`")
    result = PublishResult(target.description, release.release, release.rows, spaces=sorted(release.tables))
    guarded = {each.id for each in settings.sources if each.access.visibility == "from_source"}
    state = PublishedState(release.release, release.tables, hash_strings(VERSION, *sorted(guarded)))
    sizes = lake.list_spaces()
    with target.open_publication() as publication:
        spaces = [PublishedSpace(name, sizes[name]) for name in sorted(release.tables)]
        held = publication.read_state()
        if held is None or (held.tables, held.settings) != (state.tables, state.settings):
            for space in spaces:
                version = release.tables[space.name]
                _publish_space(publication, _Rows(lake, space, version, guarded), result)
        result.audiences = publication.write_audiences(_load_audiences(lake))
        if held != state:
            publication.finish(state, spaces)
    result.seconds = round(time.perf_counter() - started, 3)
    return result


def _publish_space(publication: Publication, rows: _Rows, result: PublishResult) -> None:
    plan = plan_changes(rows.load_marks(), held := publication.read_marks(rows.space))
    if plan.keys_to_write:
        publication.write_rows(rows.space, rows.iter_batches(plan), is_new=not held)
    publication.delete_rows(rows.space, plan.removed)
    result.added += len(plan.added)
    result.changed += len(plan.changed)
    result.removed += len(plan.removed)


def _load_audiences(lake: Lake) -> dict[str, Requirements]:
    found: dict[str, Requirements] = {}
    for source_type, source in lake.list_audience_stamps():
        found |= read_audiences(lake, source_type, source)
    return found


class _Rows:
    """The rows of one space at the version that a release names."""

    def __init__(self, lake: Lake, space: PublishedSpace, version: int, guarded: Collection[str]) -> None:
        self.space = space
        self._table: Table = lake.index(space.name, space.dimensions)
        self._version = version
        self._guarded = guarded  # sources whose own permissions decide
        self._locations = read_locations(self._table, version=version)

    def load_marks(self) -> dict[str, str]:
        """By id: what the row is made of, its vector, who decides who reads it, and where its file is."""
        columns = ["id", "fingerprint", "unembedded", "source"]
        rows = self._table.read_rows(columns, version=self._version)
        columns: Any = {"id": rows["id"], MARK: self._mark(rows)}
        written: list[dict[str, Any]] = pa.Table.from_pydict(columns).to_pylist()
        return {row["id"]: row[MARK] for row in written}

    def iter_batches(self, plan: ReconcilePlan) -> Iterator[pa.RecordBatch]:
        """The rows that a plan writes."""
        wanted = pa.array(plan.keys_to_write, pa.string())
        if len(wanted) * _STREAMED_SHARE > plan.unchanged:
            for batch in self._table.iter_batches(
                [*COLUMNS, "fingerprint", "unembedded"], version=self._version, batch_rows=_BATCH_ROWS
            ):
                rows = pa.Table.from_batches([batch])
                yield from self._build_rows(rows.filter(pc.is_in(rows["id"], value_set=wanted)))
            return
        for ids in split_batches(plan.keys_to_write, _BATCH_ROWS):
            columns = [*COLUMNS, "fingerprint", "unembedded"]
            yield from self._build_rows(
                self._table.read_rows(columns, one_of("id", ids), version=self._version)
            )

    def _build_rows(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        rows = self._locations.fill_columns(rows)
        columns: dict[str, Any] = {name: rows[name] for name in COLUMNS}
        written: list[dict[str, Any]] = rows.select(["source", "principals", "metadata"]).to_pylist()
        columns["principals"] = [
            _select_principals(row["principals"], guarded=row["source"] in self._guarded) for row in written
        ]
        columns["metadata"] = [_clean_json(row["metadata"]) for row in written]
        columns[MARK] = self._mark(rows)
        built = pa.Table.from_pydict(columns, schema=build_row_schema(self.space))
        yield from built.combine_chunks().to_batches()

    def _mark(self, rows: pa.Table) -> pa.ChunkedArray[Any]:
        unembedded: Any = pc.is_valid(rows["unembedded"])
        guarded: Any = pc.is_in(rows["source"], value_set=pa.array(sorted(self._guarded), pa.string()))
        sources: Any = pc.dictionary_encode(rows["source"].combine_chunks())
        digests = [self._locations.compute_digest(each) for each in sources.dictionary.to_pylist()]
        located: Any = pa.array(digests, pa.string()).take(sources.indices)
        marks = pc.if_else(unembedded, "-", ""), pc.if_else(guarded, "!", ""), located
        return pc.binary_join_element_wise(rows["fingerprint"], *marks, "")


def _select_principals(principals: list[str], *, guarded: bool) -> list[str]:
    """Who reads a private row; where the source's own permissions decide, its audience alone."""
    return [each for each in principals if each.startswith(AUDIENCE_PREFIX)] if guarded else principals


def _clean_json(text: str) -> str:
    """A JSON object without NUL and without halves of surrogate pairs, which databases refuse."""
    return json.dumps(_clean(json.loads(text)), ensure_ascii=False) if "\\u" in text else text


def _clean(value: Any) -> Any:
    """A value of `json.loads`, its texts so that every database takes them."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").encode(errors="replace").decode()
    if isinstance(value, list):
        return list(map(_clean, cast("list[Any]", value)))
    if isinstance(value, dict):
        return {_clean(key): _clean(each) for key, each in cast("dict[str, Any]", value).items()}
    return value
