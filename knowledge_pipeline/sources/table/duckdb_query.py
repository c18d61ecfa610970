"""Rows of a query to a database file of DuckDB, through the store's own interface to DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowledge_pipeline.config.connections.tables import DuckdbConnection
from knowledge_pipeline.sources.table.base import Row
from knowledge_pipeline.store.duckdb_files import open_duckdb_file


class DuckdbQuery:
    """The rows of `connection.query`; the file is open only while it is read, so that others may write."""

    description = "the query of connection.query"

    def __init__(self, connection: DuckdbConnection) -> None:
        self._path = connection.path.expanduser()
        self.definition = connection.query

    def list_columns(self) -> list[str]:
        """The columns that the query selects."""
        with open_duckdb_file(self._path) as database:
            return database.list_columns(self.definition)

    def iter_rows(self, columns: Sequence[str], ids: Sequence[str] | None = None) -> Iterator[Row]:
        """The rows of the query, or those with some ids."""
        with open_duckdb_file(self._path) as database:
            yield from database.iter_rows(self.definition, columns, ids)

    def close(self) -> None:
        """Nothing is kept open."""
