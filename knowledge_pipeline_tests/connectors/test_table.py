"""Rows as documents: the same rows from files of every format, from DuckDB and from PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import psycopg2
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.base import DELETED_REASON
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.connectors.table import TableRows
from knowledge_pipeline.errors import DocumentSkipped, KnowledgeError, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.fakes.postgres import PostgresServer

Rows = list[dict[str, Any]]

REFUNDS, SHIPS = "# Refunds\n\nPaid within 5 days.", "Ships, in a week\nor 100% later"

ROWS: Rows = [
    {"id": "a", "text": REFUNDS, "title": "Refunds", "updated": "2026-01-01", "region": "emea"},
    {"id": "b", "text": SHIPS, "title": "", "updated": "2026-01-02", "region": None},
    {"id": "c", "text": " ", "title": "Blank", "updated": "2026-01-03", "region": "us"},
    {"id": "d", "text": "first", "title": "One", "updated": "2026-01-04", "region": "us"},
    {"id": "d", "text": "second", "title": "Two", "updated": "2026-01-05", "region": "us"},
    {"id": None, "text": "nobody", "title": "N", "updated": "2026-01-06", "region": "us"},
]  # fmt: skip


def arrow(rows: Rows) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in rows[0]})


def write_lines(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "rows.parquet": lambda table, path: pyarrow.parquet.write_table(table, path, row_group_size=2),
    "rows.arrow": lambda table, path: pyarrow.feather.write_feather(table, path, compression="uncompressed"),
    "rows.jsonl": write_lines,
    "rows.csv": pyarrow.csv.write_csv,
    "rows.tsv": lambda table, path: pyarrow.csv.write_csv(
        table, path, pyarrow.csv.WriteOptions(delimiter="\t")
    ),
}


def write_duckdb(rows: Rows, path: Path) -> dict[str, str]:
    with duckdb.connect(str(path)) as connection:
        connection.register("given", arrow(rows))
        connection.execute("create or replace table articles as select * from given")
    return {"type": "duckdb", "path": str(path), "query": "select * from articles -- all of them;"}


def table_source(connection: dict[str, str], **keys: Any) -> TableRows:
    config = {"id": "t", "type": "table", "connection": connection, **keys}
    opened = open_source(SourceConfig.model_validate(config), cache=Path())
    assert isinstance(opened, TableRows)
    return opened


def write_files(rows: Rows, path: Path) -> dict[str, str]:
    WRITERS[path.name](arrow(rows), path)
    return {"type": "table_files", "path": str(path)}


def read(opened: TableRows) -> dict[str, str | Document]:
    """What each uri holds: a document, or why it is skipped."""
    with opened:
        items = list(opened.discover())
        found: dict[str, str | Document] = {item.uri: item.skip for item in items if item.skip}
        for item, document in opened.fetch_many([item for item in items if not item.skip]):
            found[item.uri] = str(document) if isinstance(document, DocumentSkipped) else document
    return found


def revisions(opened: TableRows) -> dict[str, str]:
    with opened:
        return {item.uri: item.revision for item in opened.discover()}


def require_all_of_it(connection: dict[str, str]) -> None:
    """What `ROWS` are as documents, wherever they are read from."""
    found = read(table_source(connection, columns={"filters": "region"}))
    assert found["row/a"] == Document(
        uri="row/a",
        text="# Refunds\n\nPaid within 5 days.",
        path="a",
        title="Refunds",
        language="markdown",
        last_modified=datetime(2026, 1, 1, tzinfo=UTC),
        metadata={"columns": {"region": "emea"}, "tags": ["region:emea"]},
    )
    other = found["row/b"]
    assert isinstance(other, Document)
    assert (other.text, other.title, dict(other.metadata)) == ("Ships, in a week\nor 100% later", "b", {})
    assert {uri: why for uri, why in found.items() if isinstance(why, str)} == {
        "row/c": "empty",
        "row/d": "2 rows have this id",
        "rows-without-id": "a row has no id",
    }
    opened = table_source(connection)
    with opened:
        [(_, gone)] = opened.fetch_many([Item("row/x", "1", 'x" or 1=1 --')])
        assert str(gone) == DELETED_REASON
        assert opened.fetch(Item("row/a", "1", "a")).title == "Refunds"


@pytest.mark.parametrize("name", WRITERS)
def test_rows_of_files_are_documents(name, tmp_path):
    require_all_of_it(write_files(ROWS, tmp_path / name))


def test_rows_of_a_query_to_duckdb_are_documents(tmp_path):
    require_all_of_it(write_duckdb(ROWS, tmp_path / "w.duckdb"))


def test_a_revision_follows_the_updated_column_or_else_the_whole_row(tmp_path):
    def listed(rows: Rows, **columns: Any) -> dict[str, str]:
        return revisions(table_source(write_files(rows, path), columns=columns))

    path, rows = tmp_path / "rows.parquet", [dict(row) for row in ROWS[:2]]
    first, others = listed(rows), {"updated": "region"}
    edited = [rows[0] | {"text": "Paid at once."}, rows[1]]
    assert listed(edited) == first, "`updated` says that nothing changed"
    later = [edited[0] | {"updated": "2026-02-01"}, rows[1]]
    assert {uri for uri, revision in listed(later).items() if revision != first[uri]} == {"row/a"}
    hashed = listed(rows, **others)
    null_changed = listed([rows[0], rows[1] | {"text": "Ships today"}], **others)
    assert hashed["row/a"] == null_changed["row/a"]
    assert hashed["row/b"] != null_changed["row/b"], "without a moment, the columns are compared"
    without = [{name: value for name, value in row.items() if name != "updated"} for row in rows]
    edits = [without[0] | {"text": "Paid at once."}, without[1]]
    before, after = listed(without), listed(edits)
    assert {uri for uri in before if before[uri] != after[uri]} == {"row/a"}
    assert listed(rows, title="region") != first, "other columns make other documents"


REFUSED: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "no file": (
        lambda folder: {"connection": {"type": "table_files", "path": str(folder / "*.parquet")}},
        r"no file of rows is at .*: correct connection\.path",
    ),
    "no column": (
        lambda folder: {"connection": write_files(ROWS, folder / "rows.csv"), "columns": {"text": "body"}},
        r"no column 'body': name another one in columns; it has 'id', 'text', 'title'",
    ),
    "no parquet": (
        lambda folder: {"connection": broken(folder / "rows.parquet")},
        r"rows\.parquet cannot be read: .*[Pp]arquet",
    ),
    "unknown format": (
        lambda folder: {"connection": broken(folder / "rows.xlsx")},
        r"rows\.xlsx is no file of rows: its name must end with \.parquet, ",
    ),
    "wrong type": (lambda folder: {"connection": lists_as_ids(folder)}, r"the id 'id' of .* is of type list"),
    "no database": (
        lambda folder: {"connection": {"type": "duckdb", "path": str(folder / "x"), "query": "select 1"}},
        r"there is no database file",
    ),
    "another file as a database": (
        lambda folder: {"connection": {**broken(folder / "x"), "type": "duckdb", "query": "select 1"}},
        r"the database cannot be read",
    ),
    "a failed query": (
        lambda folder: {"connection": query(folder, "select * from article")},
        r"connection\.query cannot be run: Catalog Error",
    ),
    "no query": (lambda folder: {"connection": query(folder, "drop table articles")}, r"Parser Error"),
    "a file beside the database": (
        lambda folder: {"connection": query(folder, "select * from read_csv('/etc/passwd')")},
        r"Permission Error",
    ),
}  # fmt: skip


def broken(path: Path) -> dict[str, str]:
    path.write_text("no rows at all")
    return {"type": "table_files", "path": str(path)}


def lists_as_ids(folder: Path) -> dict[str, str]:
    table = pa.table({"id": [["a"]], "text": ["b"]})
    pyarrow.parquet.write_table(table, folder / "rows.parquet")
    return {"type": "table_files", "path": str(folder)}


def query(folder: Path, statement: str) -> dict[str, str]:
    return {**write_duckdb(ROWS, folder / "w.duckdb"), "query": statement}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_sentence(name, tmp_path):
    build, message = REFUSED[name]
    with pytest.raises(SourceRefused, match=message) as refused, table_source(**build(tmp_path)) as opened:
        list(opened.discover())
    assert "\n" not in str(refused.value)


def test_values_of_any_type_become_text_links_times_and_labels(tmp_path):
    table = pa.table(
        {
            "sku": [7, 8],
            "name": ["Lamp", "Chair"],
            "price": [9.5, None],
            "url": ["javascript:alert(1)", "https://example.org/8"],
            "made": [datetime(2026, 1, 1, 12), None],
            "labels": ["new, sale", None],
            "sizes": [["s", "m"], []],
            "photo": [b"\xff", None],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    columns = {"id": "sku", "text": ["name", "price"], "updated": "made", "filters": ["sizes", "price"]}
    found = read(table_source({"type": "table_files", "path": str(tmp_path)}, columns=columns))
    lamp, chair = found["row/7"], found["row/8"]
    assert isinstance(lamp, Document)
    assert isinstance(chair, Document)
    assert (lamp.text, lamp.url, lamp.last_modified) == (
        "Lamp\n\n9.5",
        None,
        datetime(2026, 1, 1, 12, tzinfo=UTC),
    )
    assert lamp.metadata["tags"] == ["sizes:s", "sizes:m", "price:9.5"]
    assert lamp.metadata["labels"] == ["new", "sale"]
    assert (chair.text, chair.url, chair.last_modified) == ("Chair", "https://example.org/8", None)
    bytes_as_text = read(
        table_source({"type": "table_files", "path": str(tmp_path)}, columns={"id": "sku", "text": "photo"})
    )
    assert bytes_as_text["row/7"] == "the column 'photo' holds bytes, not text"
    small = read(
        table_source(
            {"type": "table_files", "path": str(tmp_path)}, columns={"id": "sku", "text": "name"}, max_bytes=4
        )
    )
    assert small["row/8"] == "larger than 4 bytes (5)"  # fmt: skip


@pytest.mark.slow
def test_rows_live_and_vanish_in_the_index_as_the_table_says(project: Project, tmp_path, tmp_path_factory):
    def refresh(rows: Rows, statement: str = "select * from articles") -> Sequence[KnowledgeError]:
        connection = {**write_duckdb(rows, tmp_path / "w.duckdb"), "query": statement}
        project.sources["t"] = {
            **{"id": "t", "type": "table", "connection": connection, "metadata": {"tags": ["ours"]}},
            "columns": {"filters": ["region"]},
        }
        return list(project.refresh().failures.values())

    def shown() -> dict[str, Any]:
        [index] = [rows for name, rows in tables(project).items() if name.startswith("index")]
        return {row["uri"]: (row["text"], row["archived"], row["tags"]) for row in index}

    assert refresh(ROWS) == []
    first = shown()
    assert first["row/a"] == ("# Refunds\n\nPaid within 5 days.", False, ["ours", "region:emea"])
    [failure] = refresh(ROWS, "select * from nothing")
    assert isinstance(failure, SourceRefused)
    [empty] = refresh(ROWS, "select * from articles where false")
    assert "lists no document at all, but 5 are stored: nothing was changed" in str(empty)
    assert shown() == first
    changed = [ROWS[1] | {"text": "Ships at once", "updated": "2026-03-01", "region": "apac"}]
    assert refresh(changed) == []
    assert shown() == {
        "row/a": (*first["row/a"][:1], True, first["row/a"][2]),
        "row/b": ("Ships at once", False, ["ours", "region:apac"]),
    }
    held = tables(project)
    project.refresh(full=True)
    assert tables(project) == held, "incremental is full"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.mark.slow
def test_rows_of_a_query_to_postgresql_are_documents_and_nothing_is_written(postgres: PostgresServer):
    with postgres.database() as names:
        host, port, user, password, name = names.values()
        dsn = f"postgresql://{user}:{password}@{host}:{port}/{name}"
        connection = psycopg2.connect(dsn)
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "create table articles (id text, text text, title text, updated text, region text)"
            )
            wipe = "create function wipe() returns text language sql as 'delete from articles returning id'"
            cursor.execute(wipe)
            for row in ROWS:
                cursor.execute("insert into articles values (%s, %s, %s, %s, %s)", tuple(row.values()))
        connection.close()
        place = {
            "type": "postgres",
            "dsn": dsn,
            "query": "select * from articles where text not like '%zz%';",
        }
        require_all_of_it(place)
        assert SourceConfig.model_validate(
            {"id": "t", "type": "table", "connection": place}
        ).connection.location == (f"postgresql://127.0.0.1/{name}")
        refused = {
            "select * from nothing": r"connection\.query cannot be run: relation \"nothing\" does not exist",
            "with x as (delete from articles returning *) select * from x": "cannot be run: WITH clause",
            "select id, wipe() as text from articles": "cannot execute DELETE in a read-only transaction",
        }
        for statement, message in refused.items():
            with pytest.raises(SourceRefused, match=message):
                read(table_source({**place, "query": statement}))
        for wrong, error in (
            (dsn.replace(password, "wr0ng"), SourceRefused),
            (dsn.replace(str(port), "1"), SourceUnavailable),
        ):
            with pytest.raises(error, match=r"the database of connection\.dsn (refuses|cannot)") as failed:
                read(table_source({**place, "dsn": wrong}))
            assert "wr0ng" not in str(failed.value)


@pytest.mark.parametrize("path", ["exports", "exports/*.csv", "expor[t]s/*.csv"])
def test_links_that_lead_out_of_the_folder_are_not_followed(tmp_path, path):
    folder = tmp_path / "exports"
    folder.mkdir()
    (folder / "own.csv").write_text("id,text\na,ours\n")
    (folder / "again.csv").symlink_to("own.csv")
    outside = tmp_path.parent / f"{tmp_path.name}.csv"
    outside.write_text("id,text\nz,theirs\n")
    (folder / "link.csv").symlink_to(outside)
    opened = table_source({"type": "table_files", "path": str(tmp_path / path)})
    assert {item.uri for item in opened.discover()} == {"row/a"}
