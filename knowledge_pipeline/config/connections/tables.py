"""Tables whose rows are documents: files, DuckDB and PostgreSQL."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, SecretStr

from knowledge_pipeline.config.connections.base import BaseConnection


class TableFilesConnection(BaseConnection):
    """Files of rows on this machine: Parquet, Arrow, JSON Lines or CSV."""

    type: Literal["table_files"]
    path: Path  # a file, a folder, or a pattern such as exports/*.parquet

    @property
    def location(self) -> str:
        """The path, as written."""
        return str(self.path)


class DuckdbConnection(BaseConnection):
    """A database file of DuckDB, opened read-only, and the query whose rows are documents."""

    type: Literal["duckdb"]
    path: Path
    query: str = Field(min_length=1)

    @property
    def location(self) -> str:
        """The file."""
        return str(self.path)


class PostgresConnection(BaseConnection):
    """A PostgreSQL database, read in a read-only transaction, and the query whose rows are documents."""

    type: Literal["postgres"]
    dsn: SecretStr  # postgresql://USER:PASSWORD@HOST:PORT/NAME
    query: str = Field(min_length=1)

    @property
    def location(self) -> str:
        """Host and name of the database, without user and password."""
        parts = self._address
        return f"postgresql://{parts.hostname or ''}{parts.path}" if parts else "postgresql://"

    @property
    def host(self) -> str | None:
        """Of the address."""
        return self._address.hostname if self._address else None

    @property
    def _address(self) -> SplitResult | None:
        """The address as a URL; None for one that is written in another way."""
        written = self.dsn.get_secret_value()
        with suppress(ValueError):
            return urlsplit(written) if "://" in written else None
        return None
