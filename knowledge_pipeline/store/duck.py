"""The only door to DuckDB: SQL over the Lance tables of all sources, in bounded memory.

DuckDB holds no state. The raw tables are streamed in without texts and vectors, spill to
a temporary folder where memory runs short, and are gone at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.tables import Table

if TYPE_CHECKING:
    import duckdb

MEMORY_LIMIT = "512MB"

_DOCUMENTS = ("uri", "path", "title", "language", "author", "last_modified", "skipped", "archived_at")
_CHUNKS = ("id", "uri", "anchor", "tokens", "content_hash", "text_key", "symbol_kind", "archived", "skipped")
_INDEX = ("id", "source", "source_type", "uri", "tokens", "archived", "indexed_at", "updated_at")

RAW = ("raw_documents", "raw_chunks", "raw_index", "raw_releases")
"""What models select from: the tables of all sources, each row with its `source` and `source_type`;
index rows with their `space`."""


@dataclass(frozen=True, slots=True)
class Duck:
    """One connection; closed by `opened`."""

    connection: duckdb.DuckDBPyConnection
    lake: Lake

    def load(self, name: str) -> None:
        """Stream one of the `RAW` tables in, for as long as the connection is open."""
        empty, *parts = _parts(self.lake, name)
        for number, (constants, table, columns) in enumerate([empty, *parts]):
            schema = pa.schema([table.schema.field(column) for column in columns])
            rows = table.batches(columns) if number else iter(())
            self.connection.register("incoming", pa.RecordBatchReader.from_batches(schema, rows))
            constant = "".join(f"? as {column}, " for column in constants)
            select = f"select {constant}* from incoming"  # noqa: S608 - names of our own columns
            into = f"insert into {name}" if number else f"create temp table {name} as"
            self.connection.execute(f"{into} {select}", list(constants.values()))
            self.connection.unregister("incoming")

    def create_view(self, name: str, select: str) -> None:
        """Give a select a name."""
        self.connection.execute(f'create temp view "{name}" as {select}')

    def create_table(self, name: str, select: str) -> None:
        """Keep a select's rows under a name until the connection is closed."""
        self.connection.execute(f'create temp table "{name}" as {select}')

    def rows(self, select: str, *, limit: int) -> pa.Table:
        """The first rows of a select, in its order."""
        return self.connection.sql(select).limit(limit).to_arrow_table()

    def count(self, select: str) -> int:
        """How many rows a select gives."""
        ((found,),) = self.connection.execute(f"select count(*) from ({select})").fetchall()  # noqa: S608
        return found

    def write(self, name: str, folder: Path) -> Path:
        """Write a table as a Parquet file, replacing the last one whole."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.parquet"
        unfinished = path.with_suffix(".unfinished")
        self.connection.table(name).write_parquet(str(unfinished))
        return unfinished.replace(path)


@contextmanager
def opened(lake: Lake, *, memory_limit: str = MEMORY_LIMIT) -> Iterator[Duck]:
    """A connection in memory, over the tables of one store."""
    import duckdb

    with (
        tempfile.TemporaryDirectory(prefix="knowledge-sql-") as spill,
        duckdb.connect(":memory:", config={"memory_limit": memory_limit}) as connection,
    ):
        connection.execute("set temp_directory = ?", [spill])
        connection.execute("set enable_progress_bar = false")
        yield Duck(connection, lake)


def _parts(lake: Lake, name: str) -> Iterator[tuple[dict[str, str], Table, tuple[str, ...]]]:
    """The Lance tables that a raw table is made of; the first one only gives the columns."""
    stored = lake.stored_sources().items()
    nothing = {"source": "", "source_type": ""}
    if name == "raw_documents":
        yield nothing, lake.snapshot("", ""), _DOCUMENTS
        for id_, type_ in stored:
            yield {"source": id_, "source_type": type_}, lake.snapshot(type_, id_), _DOCUMENTS
    elif name == "raw_chunks":
        yield nothing, lake.chunks("", ""), _CHUNKS
        for id_, type_ in stored:
            yield {"source": id_, "source_type": type_}, lake.chunks(type_, id_), _CHUNKS
    elif name == "raw_index":
        yield {"space": ""}, lake.index("", 1), _INDEX
        for space, dimensions in lake.spaces().items():
            yield {"space": space}, lake.index(space, dimensions), _INDEX
    else:
        yield {}, lake.releases(), ("release", "created_at", "rows", "restores")
        yield {}, lake.releases(), ("release", "created_at", "rows", "restores")
