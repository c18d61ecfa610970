"""PostgreSQL with pgvector as a target; the only module that talks to it.

In a schema of its own: a table for each space, the view `chunks` over the largest of them, `audiences` with
the function `audiences_of`, and `publication`, which names the release. The address comes from the
environment alone, and is in no message: what a driver says of a wrong one quotes it.
"""

# psycopg2 has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from knowledge_pipeline.errors import ConfigError, StoreError, StoreUnavailable
from knowledge_pipeline.extras import describe_missing
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.stages.publish.copy_rows import TextStream, format_rows
from knowledge_pipeline.stages.publish.target import COLUMNS, MARK, PublishedSpace, PublishedState
from knowledge_pipeline.store.audiences import Requirements

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

    Raises:
        ConfigError: `KNOWLEDGE_PUBLISH_DSN` is not set, or the schema's name is not plain.
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
    """One schema of one database."""

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn = dsn
        self._schema = schema

    @property
    def description(self) -> str:
        """The schema; the address may hold a password."""
        return f"schema {self._schema} of PostgreSQL"

    @contextmanager
    def open_publication(self) -> Generator[PostgresPublication]:
        """A transaction; two publications to one schema wait for each other."""
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
        self._cursor = cursor
        self._schema = schema

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

    def read_marks(self, space: PublishedSpace) -> dict[str, str]:
        """The mark of every published row, by its id."""
        types = {**_TYPES, "vector": f"vector({space.dimensions})"}
        columns = ", ".join(f'"{name}" {types.get(name, "text")}' for name in (*COLUMNS, MARK))
        self._execute(f"create table if not exists {{table}} ({columns}, primary key (id))", space)
        self._execute("select id, mark from {table}", space)
        return dict(self._cursor.fetchall())

    def write_rows(self, space: PublishedSpace, rows: Iterable[pa.RecordBatch], *, is_new: bool) -> None:
        """Copy rows in; those that are there are replaced."""
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
        held = dict(self._cursor.fetchall())
        if removed := [name for name in held if name not in wanted]:
            self._execute("delete from {schema}.audiences where audience = any(%s)", values=[removed])
        changed = [name for name, requires in wanted.items() if held.get(name) != requires]
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
        indexes = {
            "source": "(source)",
            "tenant": "(tenant, visibility)",
            "principals": "using gin (principals)",
        }
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
        """A statement with the names of this schema, quoted."""
        from psycopg2 import sql

        table = sql.Identifier(self._schema, table_name(space.name)) if space else None
        names = {"schema": sql.Identifier(self._schema), "table": table, "name": sql.Identifier(name or "_")}
        return sql.SQL(statement).format(**names)  # pyright: ignore[reportArgumentType]


def _connect(psycopg2: Any, dsn: str) -> Any:
    try:
        return psycopg2.connect(
            dsn, connect_timeout=_CONNECT_TIMEOUT_S, application_name="knowledge_pipeline publish"
        )
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
