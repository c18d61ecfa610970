"""The only interface to DuckDB: SQL over the Lance tables, and over database files of others.

DuckDB holds no state. Only the columns that a query needs are streamed in, never texts or vectors.
They spill to a temporary folder where memory runs short, and are dropped at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from knowledge_pipeline.errors import ConfigError, InvalidQuery, SourceRefused, SourceUnavailable
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.search import read_locations
from knowledge_pipeline.store.tables import Table

if TYPE_CHECKING:
    import duckdb


MEMORY_LIMIT = "512MB"

_BATCH_ROWS = 8192
_EXCLUDED_COLUMNS = frozenset({"text", "header", "vector", "words", "trace"})
_SOURCE_FIELDS = (pa.field("source", pa.string()), pa.field("source_type", pa.string()))


def _build_raw_schema(schema: Iterable[pa.Field[Any]], *constants: pa.Field[Any]) -> pa.Schema:
    own = [field for field in schema if field.name not in _EXCLUDED_COLUMNS]
    return pa.schema([*constants, *own])


CONFIGURED_SOURCES = pa.schema(
    [
        *_SOURCE_FIELDS,
        pa.field("trigger", pa.string()),
        pa.field("max_age_hours", pa.float64()),  # of the last refresh, by the trigger; null: any
        pa.field("configured_at", pa.timestamp("us", "UTC")),  # when the configuration was last written
        # Versions of the code of stages, and digests of settings, as `raw_refreshes` has them.
        *(pa.field(f"{stage}_code", pa.string()) for stage in ("chunks", "graph", "index")),
        *(pa.field(f"{kind}_settings", pa.string()) for kind in ("source", "chunking", "model", "access")),
    ]
)
"""One row per source that is configured now; whoever knows the configuration gives them."""

RAW_TABLES: Mapping[str, pa.Schema] = {
    "raw_documents": _build_raw_schema(schemas.SNAPSHOT, *_SOURCE_FIELDS),
    "raw_chunks": _build_raw_schema(schemas.CHUNKS, *_SOURCE_FIELDS),
    "raw_index": _build_raw_schema(schemas.build_index_schema(1), pa.field("space", pa.string())),
    **{f"raw_{name}": _build_raw_schema(schema) for name, schema in schemas.GRAPH.items()},
    "raw_releases": _build_raw_schema(schemas.RELEASES),
    **{f"raw_{name}": pa.schema(list(schema)) for name, schema in schemas.LOGS.items()},
    "raw_sources": CONFIGURED_SOURCES,
}
"""The tables that models select from. Rows of documents and chunks have their `source` and `source_type`,
index rows their `space`."""


@dataclass(frozen=True, slots=True)
class DuckSession:
    """One connection; `open_duckdb` closes it."""

    connection: duckdb.DuckDBPyConnection
    lake: Lake
    sources: pa.Table | None = None  # rows of `CONFIGURED_SOURCES`

    def load_raw_table(self, name: str, columns: Sequence[str]) -> None:
        """Stream columns of one of `RAW_TABLES` in, for as long as the connection is open."""
        chosen = list(columns) or RAW_TABLES[name].names[:1]
        schema = RAW_TABLES[name].empty_table().select(chosen).schema
        if name == "raw_sources":
            sources = CONFIGURED_SOURCES.empty_table() if self.sources is None else self.sources
            self._create_raw_table(name, sources.select(chosen))
            return
        rows = (
            _add_constants(batch, constants, schema)
            for constants, table in _iter_lance_tables(self.lake, name)
            for batch in _iter_batches(table, [column for column in chosen if column not in constants])
        )
        self._create_raw_table(name, pa.RecordBatchReader.from_batches(schema, rows))

    def create_view(self, name: str, select: str) -> None:
        """Name a select."""
        self._create("view", name, select)

    def create_table(self, name: str, select: str) -> None:
        """Keep a select's rows under a name until the connection is closed."""
        self._create("table", name, select)

    def fetch_rows(self, select: str, *, limit: int | None) -> pa.Table:
        """The first rows of a select, in its order; all of them where `limit` is None."""
        relation = self.connection.sql(select)
        return (relation if limit is None else relation.limit(limit)).to_arrow_table()

    def count_rows(self, select: str) -> int:
        """How many rows a select gives."""
        ((count,),) = self.connection.execute(f"select count(*) from ({select})").fetchall()  # noqa: S608
        return count

    def write_parquet(self, name: str, folder: Path) -> Path:
        """Write a table as a Parquet file, which replaces an older one atomically."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.parquet"
        unfinished = path.with_suffix(".unfinished")
        self.connection.table(name).write_parquet(str(unfinished))
        return unfinished.replace(path)

    def column_types(self, name: str) -> dict[str, str]:
        """The columns of a table or view with their types, as DuckDB calls them."""
        relation = self.connection.table(name)
        return {name: str(type_) for name, type_ in zip(relation.columns, relation.types, strict=True)}

    def disable_external_access(self) -> None:
        """Forbid the connection for good to read files or the network, or to load extensions."""
        _disable_external_access(self.connection)

    def run_user_query(self, select: str, *, limit: int | None) -> pa.Table:
        """The first rows of a user's select; call `disable_external_access` before.

        Raises `InvalidQuery`: DuckDB cannot run it, or it needs external access.
        """
        import duckdb

        try:
            return self.fetch_rows(select, limit=limit)
        except duckdb.Error as error:
            raise InvalidQuery(f"the query cannot be run: {_first_line(error)}") from None

    def _create_raw_table(self, name: str, rows: pa.RecordBatchReader | pa.Table) -> None:
        self.connection.register("incoming", rows)
        self.connection.execute(f"create temp table {name} as select * from incoming")  # noqa: S608
        self.connection.unregister("incoming")

    def _create(self, kind: str, name: str, select: str) -> None:
        with self.naming_errors(name):
            self.connection.execute(f'create temp {kind} "{name}" as {select}')

    @contextmanager
    def naming_errors(self, name: str) -> Generator[None]:
        """Raise as ConfigError, with the name of a model, what DuckDB says while it runs."""
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            raise ConfigError(f"{name}.sql cannot be run: {_first_line(error)}") from None


@contextmanager
def open_duckdb(
    lake: Lake, *, sources: pa.Table | None = None, memory_limit: str = MEMORY_LIMIT
) -> Generator[DuckSession]:
    """A connection in memory over the tables of one store; its days are those of UTC."""
    with (
        tempfile.TemporaryDirectory(prefix="knowledge-sql-") as spill,
        _connect(":memory:", memory_limit=memory_limit, preserve_insertion_order="false") as connection,
    ):
        connection.execute("set temp_directory = ?", [spill])
        yield DuckSession(connection, lake, sources)


def _connect(database: str, *, read_only: bool = False, **config: Any) -> duckdb.DuckDBPyConnection:
    import duckdb

    closed = ("autoinstall_known_extensions", "autoload_known_extensions", "python_enable_replacements")
    config |= dict.fromkeys(closed, "false")
    connection = duckdb.connect(database, read_only=read_only, config=config)
    connection.execute("set enable_progress_bar = false")
    connection.execute("set timezone = 'UTC'")
    return connection


def _first_line(error: Exception) -> str:
    """DuckDB's message, without the excerpt of the query."""
    return str(error).strip().splitlines()[0].rstrip(".")


def _iter_lance_tables(lake: Lake, name: str) -> Iterator[tuple[Mapping[str, str], Table]]:
    """The Lance tables of a raw table, with the columns that are constant in each."""
    if name in ("raw_documents", "raw_chunks"):
        table_of = lake.snapshot if name == "raw_documents" else lake.chunks
        for source, source_type in lake.list_stored_sources().items():
            yield {"source": source, "source_type": source_type}, table_of(source_type, source)
    elif name == "raw_index":
        for space, dimensions in lake.list_spaces().items():
            yield {"space": space}, lake.index(space, dimensions)
    elif name == "raw_releases":
        yield {}, lake.releases()
    else:
        table_name = name.removeprefix("raw_")
        yield {}, lake.graph_table(table_name) if table_name in schemas.GRAPH else open_log(lake, table_name)


def _iter_batches(table: Table, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The columns, and others where they take those: what a row leaves to the location of its source."""
    locations = read_locations(table)
    if locations and not {"branch", "url"}.isdisjoint(columns):
        needed = [name for name in ("source", "path", "tags") if name in table.schema.names]
        columns = list(dict.fromkeys([*columns, *needed]))
    for batch in table.iter_batches(columns or [table.key], batch_rows=_BATCH_ROWS):  # the key, to count rows
        yield locations.fill_columns(batch)


def _add_constants(batch: pa.RecordBatch, constants: Mapping[str, str], schema: pa.Schema) -> pa.RecordBatch:
    arrays: dict[str, pa.Array[Any]] = {
        name: pa.repeat(pa.scalar(constants[name], pa.string()), batch.num_rows)
        if name in constants
        else batch.column(name)
        for name in schema.names
    }
    return pa.RecordBatch.from_pydict(arrays, schema=schema)


_FILE_BATCH_ROWS = 4096


@dataclass(frozen=True, slots=True)
class DuckdbFile:
    """An open database file; `open_duckdb_file` closes it.

    A query reads the file alone: no other file, no network, no extension.
    """

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
            while batch := rows.fetchmany(_FILE_BATCH_ROWS):
                yield from batch


@contextmanager
def open_duckdb_file(path: Path) -> Generator[DuckdbFile]:
    """Open a database file for reading.

    Raises:
        SourceRefused: it does not exist, or is no database of DuckDB.
        SourceUnavailable: another process writes to it.
    """
    if not path.is_file():
        raise SourceRefused(f"there is no database file {path}: correct connection.path")
    with _translate_errors():
        connection = _connect(str(path), read_only=True, memory_limit=MEMORY_LIMIT)
    with connection:
        _disable_external_access(connection)
        yield DuckdbFile(connection)


def _disable_external_access(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


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
        reason = _first_line(error)
        if "lock" in reason:
            problem = f"another process writes to the database ({reason}): try again later"
            raise SourceUnavailable(problem) from None
        raise SourceRefused(f"the database cannot be read: {reason}") from None
    except duckdb.Error as error:
        raise SourceRefused(f"connection.query cannot be run: {_first_line(error)}") from None
