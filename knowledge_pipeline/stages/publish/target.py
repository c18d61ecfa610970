"""What a place must offer so that releases can be published there: another database is one module.

All that a publication changes is one transaction. Readers see the release from before until it is done, then
the new one; a publication that fails or is killed changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from knowledge_pipeline.store.audiences import Requirements
from knowledge_pipeline.store.schemas import build_index_schema

COLUMNS = (
    *("id", "source", "source_type", "repo", "branch", "tags", "visibility", "tenant", "principals"),
    *("uri", "path", "title", "language", "url", "author", "last_modified", "anchor"),
    *("start_char", "end_char", "start_line", "end_line", "header", "text", "symbol", "symbol_kind"),
    *("section", "page", "archived", "extension", "labels", "project", "status", "wiki_space"),
    *("metadata", "vector", "updated_at"),
)
"""Columns of the index that are published, in their order."""

MARK = "mark"
"""The column, after those, that says what a row was made of: equal marks, equal rows."""


@dataclass(frozen=True, slots=True)
class PublishedState:
    """What a target holds."""

    release: int
    tables: Mapping[str, int]  # space -> version of its index table
    settings: str  # digest of the settings that decide what is published


@dataclass(frozen=True, slots=True)
class PublishedSpace:
    """One embedding space: its rows have vectors of one length, and are a table of their own."""

    name: str
    dimensions: int


def build_row_schema(space: PublishedSpace) -> pa.Schema:
    """The Arrow schema of published rows."""
    fields: list[pa.Field[pa.DataType]] = list(build_index_schema(space.dimensions))
    known = {field.name: field for field in fields}
    mark = pa.field(MARK, pa.string(), nullable=False)
    return pa.schema([*(known[name] for name in COLUMNS), mark])


class Publication(Protocol):
    """One open transaction."""

    def read_state(self) -> PublishedState | None:
        """What is published; None before the first time."""
        ...

    def read_marks(self, space: PublishedSpace) -> dict[str, str]:
        """The mark of every published row, by its id; creates the space's table if there is none."""
        ...

    def write_rows(self, space: PublishedSpace, rows: Iterable[pa.RecordBatch], *, is_new: bool) -> None:
        """Insert rows of `build_row_schema`, or replace those with the same id; `is_new`: there are none."""
        ...

    def delete_rows(self, space: PublishedSpace, ids: Sequence[str]) -> None:
        """Remove rows."""
        ...

    def write_audiences(self, audiences: Mapping[str, Requirements]) -> int:
        """Make the target hold exactly these audiences; how many differed."""
        ...

    def finish(self, state: PublishedState, spaces: Collection[PublishedSpace]) -> None:
        """Drop the tables of other spaces, build missing indexes, and name the release."""
        ...


class PublishTarget(Protocol):
    """A place to publish to."""

    @property
    def description(self) -> str:
        """The place in words, without secrets: "schema knowledge of PostgreSQL"."""
        ...

    def open_publication(self) -> AbstractContextManager[Publication]:
        """A transaction that is committed at the end, and undone by an exception.

        Raises:
            StoreError: the target refuses us.
            StoreUnavailable: it did not answer.
        """
        ...
