"""Database files of DuckDB that belong to others: read-only, for the rows of one query.

A query reads the file alone: no other file, no network, no extension.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.store.duckdb_session import MEMORY_LIMIT

if TYPE_CHECKING:
    import duckdb

_BATCH_ROWS = 4096


@dataclass(frozen=True, slots=True)
class DuckdbFile:
    """An open database file; `open_duckdb_file` closes it."""

    connection: duckdb.DuckDBPyConnection

    def list_columns(self, query: str) -> list[str]:
        """The columns of a query's rows; raises SourceRefused for one that cannot be run."""
        with _translate_errors():
            return list(self.connection.sql(_wrap(query, "*", "limit 0")).columns)

    def iter_rows(
        self, query: str, columns: Sequence[str], ids: Sequence[str] | None
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of a query; the first column as text, and only rows where it is one of `ids`."""
        first, *others = [_quote(name) for name in columns]
        id_text = f"cast({first} as varchar)"
        selected = ", ".join([f"{id_text} as c0", *(f"{name} as c{at}" for at, name in enumerate(others, 1))])
        where = "" if ids is None else f"where {id_text} in (select unnest(?::varchar[]))"
        with _translate_errors():
            parameters = [] if ids is None else [list(ids)]
            rows = self.connection.execute(_wrap(query, selected, where), parameters)
            while found := rows.fetchmany(_BATCH_ROWS):
                yield from found


@contextmanager
def open_duckdb_file(path: Path) -> Generator[DuckdbFile]:
    """Open a database file for reading.

    Raises:
        SourceRefused: it does not exist, or is no database of DuckDB.
        SourceUnavailable: another process writes to it.
    """
    import duckdb

    if not path.is_file():
        raise SourceRefused(f"there is no database file {path}: correct connection.path")
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY_LIMIT,
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
    }
    with _translate_errors():
        connection = duckdb.connect(str(path), read_only=True, config=config)
    with connection:
        connection.execute("set enable_progress_bar = false")
        connection.execute("set timezone = 'UTC'")
        connection.execute("set enable_external_access = false")
        connection.execute("set lock_configuration = true")
        yield DuckdbFile(connection)


def _wrap(query: str, selected: str, rest: str) -> str:
    """A select over the rows of a query; an own line ends a comment of the query."""
    return f"select {selected} from (\n{query.strip().rstrip(';')}\n) {rest}"  # noqa: S608


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _translate_errors() -> Generator[None]:
    import duckdb

    try:
        yield
    except duckdb.IOException as error:
        said = str(error).strip().splitlines()[0].rstrip(".")
        if "lock" in said:
            raise SourceUnavailable(
                f"another process writes to the database ({said}): try again later"
            ) from None
        raise SourceRefused(f"the database cannot be read: {said}") from None
    except duckdb.Error as error:
        said = str(error).strip().splitlines()[0].rstrip(".")
        raise SourceRefused(f"connection.query cannot be run: {said}") from None
