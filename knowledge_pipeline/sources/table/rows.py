"""Rows of a table as documents: one document a row.

Where the table says when a row was updated, a listing reads ids and that column alone; else it reads
every column and compares whole rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from knowledge_pipeline.config.sources.filters import TableColumns
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document, Item, hash_strings
from knowledge_pipeline.sources.base import DELETED_REASON, BatchSource
from knowledge_pipeline.sources.table.base import Row, TableReader
from knowledge_pipeline.sources.table.row_documents import (
    ColumnPlan,
    build_row_document,
    format_value,
    plan_columns,
)

_FORMAT_VERSION = "1"  # of the documents that `row_documents` makes
_MAX_ID_CHARS = 1000
_NO_ID_URI = "rows-without-id"
_DEFAULT_MAX_BYTES = 1_000_000


class TableRows(BatchSource):
    """The rows of one table that have an id of their own."""

    def __init__(self, reader: TableReader, columns: TableColumns, max_bytes: int | None = None) -> None:
        self._reader = reader
        self._columns = columns
        self._max_bytes = max_bytes or _DEFAULT_MAX_BYTES
        self._plan: ColumnPlan | None = None

    def close(self) -> None:
        """Free what was opened."""
        self._reader.close()
        self._plan = None

    def discover(self) -> Iterator[Item]:
        """Every row by its id; rows without an id, or that share one, as skipped.

        Raises:
            SourceRefused: the table cannot be read, or lacks a column.
            SourceUnavailable: it did not answer.
        """
        plan, counts = self._require_plan(), dict[str, int]()
        revisions: dict[str, str | None] = {}
        for id_, revision in self._iter_revisions(plan):
            counts[id_] = counts.get(id_, 0) + 1
            revisions[id_] = revision
        without_id = counts.pop("", 0)
        undated = [id_ for id_, revision in revisions.items() if id_ and revision is None]
        if undated:  # what says when they were updated is null: their columns are compared
            revisions |= {str(row[0]): _hash_row(row) for row in self._reader.iter_rows(plan.names, undated)}
        digest = self._digest(plan)
        for id_, count in counts.items():
            reason = f"{count} rows have this id" if count > 1 else _find_id_problem(id_)
            revision = reason or f"{revisions[id_]}:{digest}"
            yield Item(f"row/{_shorten_id(id_)}", revision, id_, reason)
        if without_id:
            reason = f"{without_id} rows have no id" if without_id > 1 else "a row has no id"
            yield Item(_NO_ID_URI, reason, skip=reason)

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read rows in one pass over the table, or by one query."""
        plan = self._require_plan()
        missing = {item.locator: item for item in items}
        for row in self._reader.iter_rows(plan.names, list(missing)) if missing else ():
            if (item := missing.pop(str(row[0]), None)) is not None:
                yield item, self._build_document(item, row, plan)
        for item in missing.values():
            yield item, DocumentSkipped(DELETED_REASON)

    def _require_plan(self) -> ColumnPlan:
        if self._plan is None:
            present = self._reader.list_columns()
            self._plan = plan_columns(self._columns, present, table=self._reader.description)
        return self._plan

    def _iter_revisions(self, plan: ColumnPlan) -> Iterable[tuple[str, str | None]]:
        """The id of each row ("" for none), and what changes with the row; None where that is null."""
        if updated := plan.singles.get("updated"):
            for id_, moment in self._reader.iter_rows([plan.id, updated]):
                yield id_ or "", None if moment is None else format_value(moment, updated)
        else:
            for row in self._reader.iter_rows(plan.names):
                yield row[0] or "", _hash_row(row)

    def _digest(self, plan: ColumnPlan) -> str:
        """Changes where the same row may give another document."""
        wanted = self._columns.model_dump_json()
        return hash_strings(
            _FORMAT_VERSION, wanted, *plan.names, self._reader.definition, str(self._max_bytes)
        )[:8]

    def _build_document(self, item: Item, row: Row, plan: ColumnPlan) -> Document | DocumentSkipped:
        try:
            return build_row_document(item.uri, row, plan, self._max_bytes)
        except DocumentSkipped as reason:
            return reason


def _hash_row(row: Row) -> str:
    return hash_strings(json.dumps(row, default=str, sort_keys=True))[:16]


def _shorten_id(id_: str) -> str:
    """The id; of one that is too long to be read, its beginning and a hash."""
    return id_ if len(id_) <= _MAX_ID_CHARS else f"{id_[:100]}…{hash_strings(id_)}"


def _find_id_problem(id_: str) -> str | None:
    if len(id_) > _MAX_ID_CHARS:
        return f"its id has more than {_MAX_ID_CHARS} characters"
    return "its id has a NUL character" if "\0" in id_ else None
