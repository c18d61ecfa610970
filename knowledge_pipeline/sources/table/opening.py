"""From the settings of a table source to the source."""

from __future__ import annotations

from knowledge_pipeline.config.connections.tables import (
    DuckdbConnection,
    PostgresConnection,
    TableFilesConnection,
)
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.sources.table.base import TableReader
from knowledge_pipeline.sources.table.rows import TableRows


def open_table(source: SourceConfig) -> TableRows:
    """The rows that a configuration names; nothing is opened before `discover`."""
    return TableRows(_build_reader(source), source.columns, source.max_bytes)


def _build_reader(source: SourceConfig) -> TableReader:
    connection = source.connection
    if isinstance(connection, TableFilesConnection):
        from knowledge_pipeline.sources.table.files import FileRows

        return FileRows(connection.path)
    if isinstance(connection, DuckdbConnection):
        from knowledge_pipeline.sources.table.duckdb_query import DuckdbQuery

        return DuckdbQuery(connection)
    assert isinstance(connection, PostgresConnection)  # `SourceConfig` allows no other
    from knowledge_pipeline.sources.table.postgres_query import PostgresQuery

    return PostgresQuery(connection)
