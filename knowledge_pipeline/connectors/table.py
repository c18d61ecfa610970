"""Rows of a table as documents: of files, of a query to PostgreSQL, or to a file of DuckDB.

Where the table says when a row was updated, a listing reads ids and that column alone; else it reads every
column and compares whole rows.
"""

# psycopg2 has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from knowledge_pipeline.config.connections import DuckdbConnection, PostgresConnection, TableFilesConnection
from knowledge_pipeline.config.sources import SourceConfig, TableColumns
from knowledge_pipeline.connectors.base import DELETED_REASON, BatchSource, format_too_large
from knowledge_pipeline.connectors.records import parse_time
from knowledge_pipeline.connectors.table_files import FileRows, Row
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.extras import describe_missing
from knowledge_pipeline.file_languages import LANGUAGES
from knowledge_pipeline.records import Document, Item, hash_strings
from knowledge_pipeline.store.duckdb_session import open_duckdb_file
from knowledge_pipeline.text import is_list


def open_table(source: SourceConfig) -> TableRows:
    """The rows that a configuration names; nothing is opened before `discover`."""
    connection = source.connection
    if isinstance(connection, TableFilesConnection):
        reader = FileRows(connection)
    elif isinstance(connection, DuckdbConnection):
        reader = DuckdbQuery(connection)
    else:
        assert isinstance(connection, PostgresConnection)  # `SourceConfig` allows no other
        reader = PostgresQuery(connection)
    return TableRows(reader, source.columns, source.max_bytes)


_FORMAT_VERSION = "1"  # of the documents that `build_row_document` makes
_MAX_ID_CHARS = 1000
_NO_ID_URI = "rows-without-id"
_DEFAULT_MAX_BYTES = 1_000_000


class TableRows(BatchSource):
    """The rows of one table that have an id of their own, one document each."""

    def __init__(
        self,
        reader: FileRows | DuckdbQuery | PostgresQuery,
        columns: TableColumns,
        max_bytes: int | None = None,
    ) -> None:
        self._reader = reader  # opens nothing before its first call, and nothing stays open
        self._columns = columns
        self._max_bytes = max_bytes or _DEFAULT_MAX_BYTES
        self._plan: ColumnPlan | None = None

    def close(self) -> None:
        """Read the names of the columns again, the next time."""
        self._plan = None

    def discover(self) -> Iterator[Item]:
        """Every row by its id; rows without an id, or that share one, as skipped."""
        plan, counts = self._require_plan(), dict[str, int]()
        revisions: dict[str, str | None] = {}
        for id_, revision in self._iter_revisions(plan):
            counts[id_] = counts.get(id_, 0) + 1
            revisions[id_] = revision
        without_id = counts.pop("", 0)
        undated = [id_ for id_, revision in revisions.items() if id_ and revision is None]
        if undated:  # what says when they were updated is null: their columns are compared
            revisions |= {str(row[0]): _hash_row(row) for row in self._reader.iter_rows(plan.names, undated)}
        wanted, definition = self._columns.model_dump_json(), self._reader.definition
        digest = hash_strings(_FORMAT_VERSION, wanted, *plan.names, definition, str(self._max_bytes))[:8]
        for id_, count in counts.items():
            reason, uri = None, f"row/{id_}"
            if len(id_) > _MAX_ID_CHARS:
                reason = f"its id has more than {_MAX_ID_CHARS} characters"
                uri = f"row/{id_[:100]}…{hash_strings(id_)}"  # too long to be read
            elif "\0" in id_:
                reason = "its id has a NUL character"
            if count > 1:
                reason = f"{count} rows have this id"
            yield Item(uri, reason or f"{revisions[id_]}:{digest}", id_, reason)
        if without_id:
            reason = f"{without_id} rows have no id" if without_id > 1 else "a row has no id"
            yield Item(_NO_ID_URI, reason, skip=reason)
        if isinstance(self._reader, FileRows):
            yield from (Item(uri, reason, skip=reason) for uri, reason in self._reader.unread.items())

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read rows in one pass over the table, or by one query."""
        plan = self._require_plan()
        missing = {item.locator: item for item in items}
        for row in self._reader.iter_rows(plan.names, list(missing)) if missing else ():
            if item := missing.pop(str(row[0]), None):
                try:
                    yield item, build_row_document(item.uri, row, plan, self._max_bytes)
                except DocumentSkipped as reason:
                    yield item, reason
        for item in missing.values():
            yield item, DocumentSkipped(DELETED_REASON)

    def _require_plan(self) -> ColumnPlan:
        if self._plan is None:
            present = self._reader.list_columns()
            self._plan = plan_columns(self._columns, present, table=self._reader.description)
        return self._plan

    def _iter_revisions(self, plan: ColumnPlan) -> Iterable[tuple[str, str | None]]:
        """The id of each row ("" for none), and what changes with the row; None where that is null."""
        if updated := plan.singles.get("updated"):
            for id_, moment in self._reader.iter_rows([plan.id, updated]):
                yield id_ or "", None if moment is None else format_value(moment, updated) or None
        else:
            for row in self._reader.iter_rows(plan.names):
                yield row[0] or "", _hash_row(row)


def _hash_row(row: Row) -> str:
    return hash_strings(json.dumps(row, default=str, sort_keys=True))[:16]


_SINGLE_KEYS = ("title", "url", "author", "updated", "created", "language", "labels", "project", "status")
_MAX_TAGS = 50  # of one column
_MAX_TAG_CHARS = 200


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The columns to read, the id first, and what each is read for."""

    id: str
    texts: tuple[str, ...]
    singles: Mapping[str, str]  # key of `TableColumns` -> column
    filters: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Every column that is read, the id first, each once."""
        return list(dict.fromkeys((self.id, *self.texts, *self.singles.values(), *self.filters)))


def plan_columns(wanted: TableColumns, present: Sequence[str], *, table: str) -> ColumnPlan:
    """Which columns of a table to read; a key without a column of its own name is not read."""
    columns = {key: getattr(wanted, key) or key for key in _SINGLE_KEYS}
    singles = {
        key: name for key, name in columns.items() if getattr(wanted, key) is not None or name in present
    }
    required = (wanted.id, *wanted.text, *singles.values(), *wanted.filters)
    missing = [name for name in dict.fromkeys(required) if name not in present]
    if missing:
        raise SourceRefused(
            f"{table} has no column {', '.join(map(repr, missing))}: name another one in columns; "
            f"it has {', '.join(map(repr, present)) or 'none'}"
        )
    return ColumnPlan(wanted.id, wanted.text, singles, wanted.filters)


def build_row_document(uri: str, row: Row, plan: ColumnPlan, max_bytes: int) -> Document:
    """The document of a row. Raises DocumentSkipped: it has no text, too much, or a value that is none."""
    values = dict(zip(plan.names, row, strict=True))
    texts = {key: format_value(values[name], name) for key, name in plan.singles.items()}
    text = "\n\n".join(part for name in plan.texts if (part := format_value(values[name], name).strip()))
    if not text:
        raise DocumentSkipped("empty")
    if (size := len(text.encode())) > max_bytes:
        raise DocumentSkipped(format_too_large(size, max_bytes))
    url, language = texts.get("url", ""), texts.get("language", "").lower() or "markdown"
    if language not in LANGUAGES:
        raise DocumentSkipped(f"the language {language[:40]!r} is not known")
    return Document(
        uri=uri,
        text=text,
        path=str(row[0]),
        title=" ".join(texts.get("title", "").split()) or str(row[0]),
        language=language,
        url=url if url.startswith(("https://", "http://")) else None,  # it is shown as a link
        author=texts.get("author") or None,
        last_modified=parse_moment(values.get(plan.singles.get("updated", ""))),
        metadata=_build_metadata(values, texts, plan),
    )


def format_value(value: Any, column: str) -> str:
    """A value as text; lists and objects as JSON. Raises DocumentSkipped: it is bytes."""
    match value:
        case None:
            return ""
        case str():
            return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
        case bool():
            return "true" if value else "false"
        case datetime():
            return _in_utc(value).isoformat()
        case date() | time():
            return value.isoformat()
        case int() | float() | Decimal() | UUID():
            return str(value)
        case bytes() | bytearray() | memoryview():
            raise DocumentSkipped(f"the column {column!r} holds bytes, not text")
        case _:
            return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str).replace("\0", "\ufffd")


def parse_moment(value: Any) -> datetime | None:
    """A time in UTC; None for what is none, such as a number of a version."""
    return _in_utc(value) if isinstance(value, datetime) else parse_time(value)


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _build_metadata(values: Mapping[str, Any], texts: Mapping[str, str], plan: ColumnPlan) -> dict[str, Any]:
    created = parse_moment(values.get(plan.singles.get("created", "")))
    labels = plan.singles.get("labels")
    metadata: dict[str, Any] = {
        "project": texts.get("project"),
        "status": texts.get("status"),
        "labels": _split_values(values[labels], labels, ",") if labels else [],
        "created_at": created.isoformat() if created else None,
        "columns": {name: text for name in plan.filters if (text := format_value(values[name], name))},
        "tags": [f"{name}:{tag}" for name in plan.filters for tag in _split_values(values[name], name)],
    }
    return {key: value for key, value in metadata.items() if value}


def _split_values(value: Any, column: str, separator: str | None = None) -> list[str]:
    """The values of a list, of a text that is cut at a separator, or the one value."""
    if separator and isinstance(value, str):
        value = value.split(separator)
    texts = (format_value(part, column).strip() for part in (value if is_list(value) else [value]))
    return list(dict.fromkeys(text[:_MAX_TAG_CHARS] for text in texts if text))[:_MAX_TAGS]


_CONNECT_TIMEOUT_S = 10
_CURSOR_BATCH_ROWS = 2000


class PostgresQuery:
    """The rows of `connection.query`; each listing and each read is a transaction of its own.

    The server holds the cursors. The address is in no message: what a driver says of a wrong one quotes it.
    """

    description = "the query of connection.query"

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self.definition = connection.query

    def list_columns(self) -> list[str]:
        """The columns that the query selects."""
        with self._open_cursor(None) as cursor:
            cursor.execute(f"select * from (\n{self._query}\n) as rows limit 0")  # noqa: S608
            return [column.name for column in cursor.description]

    def iter_rows(self, columns: Sequence[str], ids: Sequence[str] | None = None) -> Iterator[Row]:
        """The rows of the query, or those with some ids."""
        first, *others = ['"' + name.replace('"', '""') + '"' for name in columns]
        selected = ", ".join([f"{first}::text", *others])
        statement = f"select {selected} from (\n{self._query}\n) as rows"  # noqa: S608
        with self._open_cursor("documents") as cursor:
            cursor.itersize = _CURSOR_BATCH_ROWS
            if ids is None:
                cursor.execute(statement)
            else:  # with a parameter, a percent sign of the query is written twice
                where = f" where {first}::text = any(%s)".replace(first, first.replace("%", "%%"))
                cursor.execute(statement.replace("%", "%%") + where, (list(ids),))
            yield from cursor

    @property
    def _query(self) -> str:
        return self.definition.strip().rstrip(";")

    @contextmanager
    def _open_cursor(self, name: str | None) -> Generator[Any]:
        """A cursor of a read-only transaction, in which nothing that others write is seen."""
        try:
            import psycopg2
        except ImportError:
            raise ConfigError(describe_missing("a source in PostgreSQL", "publish")) from None
        connection = self._connect(psycopg2)
        try:
            connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
            with connection, connection.cursor(name) as cursor:
                yield cursor
        except psycopg2.Error as error:
            code = error.pgcode
            if code is None or code.startswith(("08", "57P", "53", "40")):
                raise SourceUnavailable(
                    "the database ended the query before its last row: try again later"
                ) from None
            message = error.diag.message_primary  # which quotes no address
            raise SourceRefused(f"connection.query cannot be run: {message} ({code})") from None
        finally:
            connection.close()

    def _connect(self, psycopg2: Any) -> Any:
        dsn = self._connection.dsn.get_secret_value()
        try:
            return psycopg2.connect(
                dsn,
                connect_timeout=_CONNECT_TIMEOUT_S,
                application_name="knowledge_pipeline",
                options="-c timezone=UTC",
            )
        except psycopg2.OperationalError as error:
            refused = "authentication failed" in str(error) or "does not exist" in str(error)
            reason = "refuses the login" if refused else "cannot be reached"
            kind = SourceRefused if refused else SourceUnavailable
            raise kind(
                f"the database of connection.dsn {reason}: check its host, port, user, password and name"
            ) from None
        except psycopg2.Error:
            raise ConfigError(
                "connection.dsn is no address of a database: postgresql://USER:PASSWORD@HOST/NAME"
            ) from None


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
