"""Publish: makes what PostgreSQL with pgvector holds equal to the live release, by the difference alone.

It follows the live release, whichever that is: after a rollback it publishes the difference back. Rows are
compared by marks, which come from the fingerprints of the index, so that nothing is read but what changed.
All that a publication changes is one transaction: readers see the release from before until it is done.
Another database is a class with the methods of `PostgresTarget`. The address comes from the environment
alone, and is in no message: what a driver says of a wrong one quotes it.
"""

# psycopg2 has no types, and pyarrow-stubs leaves type arguments out of most functions of pyarrow.compute.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import io
import json
import os
import re
import time
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import ConfigError, NotFound, StoreError, StoreUnavailable
from knowledge_pipeline.extras import describe_missing
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.access import AUDIENCE_PREFIX, Requirements, read_audiences
from knowledge_pipeline.store.filters import MATCH_ALL, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.reconcile import ReconcilePlan, plan_changes
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline.store.schemas import build_index_schema
from knowledge_pipeline.store.search import read_locations
from knowledge_pipeline.store.tables import Table, split_batches

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
    tables: Mapping[str, str]  # space -> identity of the version of its index table
    settings: str  # digest of the settings that decide what is published


@dataclass(frozen=True, slots=True)
class PublishedSpace:
    """One embedding space: its rows have vectors of one length, and are a table of their own."""

    name: str
    dimensions: int


def build_row_schema(space: PublishedSpace) -> pa.Schema:
    """The Arrow schema of published rows."""
    fields: list[pa.Field[pa.DataType]] = list(build_index_schema(space.dimensions))
    fields_by_name = {field.name: field for field in fields}
    mark = pa.field(MARK, pa.string(), nullable=False)
    return pa.schema([*(fields_by_name[name] for name in COLUMNS), mark])


_NULL = r"\N"
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r", "\x00": "\ufffd"})
_ARRAY_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\""})


def format_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """The lines of all rows as PostgreSQL's COPY reads them, a text for each batch.

    Source: https://www.postgresql.org/docs/current/sql-copy.html, "Text Format"
    """
    for batch in batches:
        at: Any = batch.column  # its type leaves out that of the values
        columns = [_format_column(at(number), name) for number, name in enumerate(batch.schema.names)]
        yield "".join("\t".join(values) + "\n" for values in zip(*columns, strict=True))


class TextStream(io.TextIOBase):
    """Texts as a file that is read once: what `COPY ... FROM STDIN` takes."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = iter(texts)
        self._text = io.StringIO()

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int | None = -1, /) -> str:
        """At most `size` characters of one text; none at the end of all."""
        while not (chars := self._text.read(size)):
            if (text := next(self._texts, None)) is None:
                return ""
            self._text = io.StringIO(text)
        return chars


def _format_column(column: pa.Array[Any], name: str) -> Iterator[str]:
    if name == "vector":
        return (
            format_vector(np.asarray(vector.values, np.float32)) if vector.is_valid else _NULL
            for vector in cast("Any", column)
        )
    if pa.types.is_list(column.type):
        return (_NULL if value is None else format_array(value) for value in column.to_pylist())
    if pa.types.is_timestamp(column.type):
        return (_NULL if value is None else value.isoformat() for value in column.to_pylist())
    return (_NULL if value is None else str(value).translate(_ESCAPES) for value in column.to_pylist())


def format_array(values: Iterable[str]) -> str:
    """An array of texts: `{"a","b"}`, escaped once for arrays and once for COPY."""
    quoted = ",".join(f'"{value.translate(_ARRAY_ESCAPES)}"' for value in values)
    return f"{{{quoted}}}".translate(_ESCAPES)


def format_vector(vector: np.ndarray) -> str:
    """One vector, float32, as pgvector writes it: `[1,2]`; each number reads back as the same float32."""
    return "[" + ",".join(map(str, vector.tolist())) + "]"


DSN_VARIABLE, SCHEMA_VARIABLE = "KNOWLEDGE_PUBLISH_DSN", "KNOWLEDGE_PUBLISH_SCHEMA"
HNSW_MAX_DIMENSIONS = 2000  # of `vector`; longer ones are indexed by halves, up to
HALF_MAX_DIMENSIONS = 4000
_HNSW_OPTIONS = "m = 16, ef_construction = 128"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_UNSAFE = re.compile(r"[^a-z0-9_]")
_CONNECT_TIMEOUT_S = 10
_ADDRESS = "postgresql://USER:PASSWORD@HOST/NAME"

_TYPES = {
    **dict.fromkeys(("tags", "principals", "labels"), "text[] not null"),
    **dict.fromkeys(("id", "source", "source_type", "visibility", "uri", "path", "text"), "text not null"),
    **dict.fromkeys(("start_char", "end_char"), "bigint not null"),
    **dict.fromkeys(("start_line", "end_line"), "integer not null"),
    **{"page": "integer", "archived": "boolean not null", "metadata": "jsonb not null"},
    **{"last_modified": "timestamptz", "updated_at": "timestamptz not null", MARK: "text not null"},
}
"""Column -> its type; all others are `text`."""

_SET_UP = """
create schema if not exists {schema};
create table if not exists {schema}.publication (
    only_one boolean primary key default true check (only_one),
    release bigint not null, tables jsonb not null, settings text not null,
    published_at timestamptz not null default now());
create table if not exists {schema}.audiences (audience text primary key, requires jsonb not null);
create or replace function {schema}.audiences_of(principals text[]) returns text[] stable language sql as $$
    select coalesce(array_agg(audience), '{{}}') from {schema}.audiences
    where jsonb_array_length(requires) > 0 and not exists (
        select from jsonb_array_elements(requires) as one
        where not (one ? '*' or one ?| array(
            select case when each like '%@%' then lower(each) else each end from unnest(principals) as each)))
$$;
"""


def open_target(schema: str | None = None) -> PostgresTarget:
    """The target that the environment names.

    Raises `ConfigError`: `KNOWLEDGE_PUBLISH_DSN` is not set, or the schema's name is not plain.
    """
    if not (dsn := os.environ.get(DSN_VARIABLE)):
        raise ConfigError(f"set {DSN_VARIABLE} to the address of the database: {_ADDRESS}")
    schema = schema or os.environ.get(SCHEMA_VARIABLE) or "knowledge"
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise ConfigError(f"found the schema {schema!r}; allowed: small letters, digits and _, at most 40")
    return PostgresTarget(dsn, schema)


def table_name(space: str) -> str:
    """The table of a space: plain characters, and a digest, so that no two spaces share one."""
    return f"chunks_{_UNSAFE.sub('_', space.lower())[:30]}_{hash_strings(space)[:8]}"


class PostgresTarget:
    """One schema of one database.

    It has a table for each space, the view `chunks` over the largest of them, `audiences` with the function
    `audiences_of`, and `publication`, which names the release.
    """

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn, self._schema = dsn, schema

    @property
    def description(self) -> str:
        """The schema; the address may hold a password."""
        return f"schema {self._schema} of PostgreSQL"

    def list_documents(self, source: str) -> list[str]:
        """The uri of each published row of a source; raises as `open_publication` does."""
        with self.open_publication() as publication:
            return publication.list_documents(source)

    @contextmanager
    def open_publication(self) -> Generator[PostgresPublication]:
        """A transaction, committed at the end; two publications to one schema wait for each other.

        Raises `StoreError`: the target refuses us; `StoreUnavailable`: it did not answer.
        """
        try:
            import psycopg2
        except ImportError:
            raise ConfigError(describe_missing("publishing to PostgreSQL", "publish")) from None
        connection = _connect(psycopg2, self._dsn)
        try:
            with connection, connection.cursor() as cursor:
                publication = PostgresPublication(cursor, self._schema)
                publication.set_up()
                yield publication
        except psycopg2.Error as error:
            raise _to_store_error(error) from None
        finally:
            connection.close()


class PostgresPublication:
    """What a publication does, in one transaction."""

    def __init__(self, cursor: Any, schema: str) -> None:
        self._cursor, self._schema = cursor, schema

    def set_up(self) -> None:
        """Create what does not exist yet, and keep other publications out until the end."""
        self._cursor.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", [self._schema])
        self._cursor.execute("select 1 from pg_extension where extname = 'vector'")
        if not self._cursor.fetchone():
            self._cursor.execute("create extension vector")
        self._execute(_SET_UP)

    def read_state(self) -> PublishedState | None:
        """What is published; None before the first time."""
        self._execute("select release, tables, settings from {schema}.publication")
        row = self._cursor.fetchone()
        return PublishedState(row[0], row[1], row[2]) if row else None

    def list_documents(self, source: str) -> list[str]:
        """The uri of each row of a source, in the tables of all spaces."""
        query = "select table_name from information_schema.tables where table_schema = %s and table_name ~ %s"
        self._cursor.execute(query, [self._schema, "^chunks_"])
        uris = list[str]()
        for (table,) in self._cursor.fetchall():
            select = self._compose("select uri from {schema}.{name} where source = %s", name=table)
            self._cursor.execute(select, [source])
            uris += [uri for (uri,) in self._cursor.fetchall()]
        return uris

    def read_marks(self, space: PublishedSpace) -> dict[str, str]:
        """The mark of every published row, by its id; creates the space's table if there is none."""
        types = {**_TYPES, "vector": f"vector({space.dimensions})"}
        columns = ", ".join(f'"{name}" {types.get(name, "text")}' for name in (*COLUMNS, MARK))
        self._execute(f"create table if not exists {{table}} ({columns}, primary key (id))", space)
        self._execute("select id, mark from {table}", space)
        return dict(self._cursor.fetchall())

    def write_rows(self, space: PublishedSpace, rows: Iterable[pa.RecordBatch], *, is_new: bool) -> None:
        """Insert rows of `build_row_schema`, or replace those with the same id; `is_new`: there are none."""
        if is_new:
            self._copy("{table}", space, rows)
            self._execute("analyze {table}", space)
            return
        self._execute("create temp table incoming (like {table}) on commit drop", space)
        self._copy("incoming", space, rows)
        updates = ", ".join(f'"{name}" = excluded."{name}"' for name in (*COLUMNS, MARK) if name != "id")
        insert = "insert into {table} select * from incoming on conflict (id) do update set "
        self._execute(insert + updates, space)
        self._execute("drop table incoming")

    def delete_rows(self, space: PublishedSpace, ids: Sequence[str]) -> None:
        """Remove rows."""
        if ids:
            self._execute("delete from {table} where id = any(%s)", space, [list(ids)])

    def write_audiences(self, audiences: Mapping[str, Requirements]) -> int:
        """Make the table of audiences hold exactly these; how many differed."""
        wanted = {name: [sorted(one) for one in requires] for name, requires in audiences.items()}
        self._execute("select audience, requires from {schema}.audiences")
        stored = dict(self._cursor.fetchall())
        if removed := [name for name in stored if name not in wanted]:
            self._execute("delete from {schema}.audiences where audience = any(%s)", values=[removed])
        changed = [name for name, requires in wanted.items() if stored.get(name) != requires]
        for name in changed:
            self._execute(
                "insert into {schema}.audiences values (%s, %s) "
                "on conflict (audience) do update set requires = excluded.requires",
                values=[name, json.dumps(wanted[name])],
            )
        return len(changed) + len(removed)

    def finish(self, state: PublishedState, spaces: Collection[PublishedSpace]) -> None:
        """Drop the tables of other spaces, build missing indexes, and name the release."""
        for space in spaces:
            self._build_indexes(space)
        self._show_largest(spaces)
        names = [table_name(space.name) for space in spaces]
        self._execute(
            "select tablename from pg_tables where schemaname = %s and tablename like 'chunks\\_%%' "
            "and tablename <> all(%s)",
            values=[self._schema, names],
        )
        for (name,) in self._cursor.fetchall():
            self._cursor.execute(self._compose("drop table {schema}.{name}", name=name))
        self._execute(
            "insert into {schema}.publication (release, tables, settings) values (%s, %s, %s) "
            "on conflict (only_one) do update set release = excluded.release, tables = excluded.tables, "
            "settings = excluded.settings, published_at = now()",
            values=[state.release, json.dumps(dict(state.tables)), state.settings],
        )

    def _show_largest(self, spaces: Collection[PublishedSpace]) -> None:
        """Let the view `chunks` show the space with the most rows."""
        counts: dict[str, int] = {}
        for space in spaces:
            self._execute("select count(*) from {table}", space)
            counts[space.name] = self._cursor.fetchone()[0]
        if not counts:
            return
        largest = table_name(max(counts, key=lambda name: counts[name]))
        self._execute(
            "select 1 from information_schema.view_table_usage "
            "where view_schema = %s and view_name = 'chunks' and table_name = %s",
            values=[self._schema, largest],
        )
        if not self._cursor.fetchone():
            self._execute("drop view if exists {schema}.chunks")
            view = "create view {schema}.chunks as select * from {schema}.{name}"
            self._cursor.execute(self._compose(view, name=largest))

    def _build_indexes(self, space: PublishedSpace) -> None:
        """After the first rows, because that is faster than row by row."""
        self._cursor.execute("set local maintenance_work_mem = '256MB'")
        name, dimensions = table_name(space.name), space.dimensions
        indexes = {"source": "(source)", "tenant": "(tenant, visibility)"}
        indexes["principals"] = "using gin (principals)"
        if dimensions <= HNSW_MAX_DIMENSIONS:
            indexes["vector"] = f"using hnsw (vector vector_cosine_ops) with ({_HNSW_OPTIONS})"
        elif dimensions <= HALF_MAX_DIMENSIONS:
            half = f"((vector::halfvec({dimensions})) halfvec_cosine_ops)"
            indexes["vector"] = f"using hnsw {half} with ({_HNSW_OPTIONS})"
        for column, how in indexes.items():
            statement = f"create index if not exists {{name}} on {{table}} {how}"
            self._cursor.execute(self._compose(statement, space, name=f"{name}_{column}"))

    def _copy(self, into: str, space: PublishedSpace, rows: Iterable[pa.RecordBatch]) -> None:
        columns = ", ".join(f'"{name}"' for name in (*COLUMNS, MARK))
        statement = self._compose(f"copy {into} ({columns}) from stdin", space)
        self._cursor.copy_expert(statement, TextStream(format_rows(rows)))

    def _execute(
        self, statement: str, space: PublishedSpace | None = None, values: Sequence[Any] = ()
    ) -> None:
        self._cursor.execute(self._compose(statement, space), values or None)

    def _compose(self, statement: str, space: PublishedSpace | None = None, name: str = "") -> Any:
        from psycopg2 import sql

        table = sql.Identifier(self._schema, table_name(space.name)) if space else None
        names = {"schema": sql.Identifier(self._schema), "table": table, "name": sql.Identifier(name or "_")}
        return sql.SQL(statement).format(**names)  # pyright: ignore[reportArgumentType]


def _connect(psycopg2: Any, dsn: str) -> Any:
    try:
        name = "knowledge_pipeline publish"
        return psycopg2.connect(dsn, connect_timeout=_CONNECT_TIMEOUT_S, application_name=name)
    except psycopg2.OperationalError as error:
        reason = "refuses the login" if "authentication failed" in str(error) else "cannot be reached"
        kind = StoreError if reason == "refuses the login" else StoreUnavailable
        raise kind(
            f"the database that {DSN_VARIABLE} names {reason}: check its host, port, user, password and name"
        ) from None
    except psycopg2.Error:
        raise ConfigError(f"{DSN_VARIABLE} is no address of a database: {_ADDRESS}") from None


def _to_store_error(error: Any) -> StoreError | StoreUnavailable:
    """What PostgreSQL says of a statement, which quotes neither the address nor a row."""
    code, said = error.pgcode, error.diag.message_primary
    if code is None or code.startswith(("08", "57P", "53")):
        return StoreUnavailable("the database ended the publication, which changed nothing: try again later")
    if code in ("0A000", "58P01") or (said and "vector" in said and code in ("42501", "42704")):
        return StoreError(
            f"the database has no pgvector ({said}): install it, and let an administrator run "
            "`create extension vector`"
        )
    return StoreError(f"the database refuses to publish, and holds what it held ({code}: {said})")


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


def refresh(lake: Lake, settings: Settings, target: PostgresTarget) -> PublishResult:
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
    guarded = {source.id for source in settings.sources if source.access.visibility == "from_source"}
    sizes = lake.list_spaces()
    versions = release.tables.items()
    tables = {space: lake.index(space, sizes[space]).identify_version(version) for space, version in versions}
    withheld = settings.find_undeclared(lake.list_stored_sources())
    decided = *sorted(guarded), *(f"-{source}" for source in sorted(withheld))
    state = PublishedState(release.release, tables, hash_strings(VERSION, *decided))
    with target.open_publication() as publication:
        spaces = [PublishedSpace(name, sizes[name]) for name in sorted(release.tables)]
        published = publication.read_state()
        if published is None or (published.tables, published.settings) != (state.tables, state.settings):
            for space in spaces:
                version = release.tables[space.name]
                _publish_space(publication, _Rows(lake, space, version, guarded, withheld), result)
        audiences: dict[str, Requirements] = {}
        for source_type, source in lake.list_audience_stamps():
            audiences |= read_audiences(lake, source_type, source)
        result.audiences = publication.write_audiences(audiences)
        if published != state:
            publication.finish(state, spaces)
    result.seconds = round(time.perf_counter() - started, 3)
    return result


def _publish_space(publication: PostgresPublication, rows: _Rows, result: PublishResult) -> None:
    plan = plan_changes(rows.load_marks(), marks := publication.read_marks(rows.space))
    if plan.keys_to_write:
        publication.write_rows(rows.space, rows.iter_batches(plan), is_new=not marks)
    publication.delete_rows(rows.space, plan.removed)
    result.added += len(plan.added)
    result.changed += len(plan.changed)
    result.removed += len(plan.removed)


class _Rows:
    """The rows of one space at the version that a release names."""

    def __init__(
        self,
        lake: Lake,
        space: PublishedSpace,
        version: int,
        guarded: Collection[str],
        withheld: Collection[str] = (),
    ) -> None:
        self.space = space
        self._table: Table = lake.index(space.name, space.dimensions)
        self._version = version
        self._guarded = guarded  # sources whose own permissions decide
        self._declared = ~one_of("source", sorted(withheld)) if withheld else MATCH_ALL
        self._locations = read_locations(self._table, version=version)

    def load_marks(self) -> dict[str, str]:
        """By id: what the row is made of, its vector, who decides who reads it, and where its file is."""
        columns = ["id", "fingerprint", "unembedded", "source"]
        rows = self._table.read_rows(columns, self._declared, version=self._version)
        columns: Any = {"id": rows["id"], MARK: self._mark(rows)}
        written: list[dict[str, Any]] = pa.Table.from_pydict(columns).to_pylist()
        return {row["id"]: row[MARK] for row in written}

    def iter_batches(self, plan: ReconcilePlan) -> Iterator[pa.RecordBatch]:
        """The rows that a plan writes."""
        wanted = pa.array(plan.keys_to_write, pa.string())
        columns, version = [*COLUMNS, "fingerprint", "unembedded"], self._version
        if len(wanted) * _STREAMED_SHARE > plan.unchanged:
            for batch in self._table.iter_batches(columns, version=version, batch_rows=_BATCH_ROWS):
                rows = pa.Table.from_batches([batch])
                yield from self._build_rows(rows.filter(pc.is_in(rows["id"], value_set=wanted)))
            return
        for ids in split_batches(plan.keys_to_write, _BATCH_ROWS):
            yield from self._build_rows(self._table.read_rows(columns, one_of("id", ids), version=version))

    def _build_rows(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        rows = self._locations.fill_columns(rows)
        columns: dict[str, Any] = {name: rows[name] for name in COLUMNS}
        written: list[dict[str, Any]] = rows.select(["source", "principals", "metadata"]).to_pylist()
        columns["principals"] = [
            select_principals(row["principals"], guarded=row["source"] in self._guarded) for row in written
        ]
        columns["metadata"] = [_clean_json(row["metadata"]) for row in written]
        columns[MARK] = self._mark(rows)
        built = pa.Table.from_pydict(columns, schema=build_row_schema(self.space))
        yield from built.combine_chunks().to_batches()

    def _mark(self, rows: pa.Table) -> pa.ChunkedArray[Any]:
        unembedded: Any = pc.is_valid(rows["unembedded"])
        guarded: Any = pc.is_in(rows["source"], value_set=pa.array(sorted(self._guarded), pa.string()))
        sources: Any = pc.dictionary_encode(rows["source"].combine_chunks())
        digests = [self._locations.compute_digest(source) for source in sources.dictionary.to_pylist()]
        located: Any = pa.array(digests, pa.string()).take(sources.indices)
        marks = pc.if_else(unembedded, "-", ""), pc.if_else(guarded, "!", ""), located
        return pc.binary_join_element_wise(rows["fingerprint"], *marks, "")


def select_principals(principals: list[str], *, guarded: bool) -> list[str]:
    """Who reads a private row; where the source's own permissions decide, its audience alone."""
    return [name for name in principals if name.startswith(AUDIENCE_PREFIX)] if guarded else principals


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
        return {_clean(key): _clean(item) for key, item in cast("dict[str, Any]", value).items()}
    return value
