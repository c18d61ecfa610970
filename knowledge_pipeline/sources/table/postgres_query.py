"""Rows of a query to PostgreSQL: read-only transactions, and cursors that the server holds.

The address is in no message: what a driver says of a wrong one quotes it.
"""

# psycopg2 has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from knowledge_pipeline.config.connections.tables import PostgresConnection
from knowledge_pipeline.errors import ConfigError, SourceRefused, SourceUnavailable
from knowledge_pipeline.extras import describe_missing
from knowledge_pipeline.sources.table.base import Row

_CONNECT_TIMEOUT_S = 10
_BATCH_ROWS = 2000


class PostgresQuery:
    """The rows of `connection.query`; each listing and each read is a transaction of its own."""

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
        first, *others = [_quote(name) for name in columns]
        selected = ", ".join([f"{first}::text", *others])
        statement = f"select {selected} from (\n{self._query}\n) as rows"  # noqa: S608
        with self._open_cursor("documents") as cursor:
            cursor.itersize = _BATCH_ROWS
            if ids is None:
                cursor.execute(statement)
            else:  # with a parameter, a percent sign of the query is written twice
                where = f" where {first}::text = any(%s)".replace(first, first.replace("%", "%%"))
                cursor.execute(statement.replace("%", "%%") + where, (list(ids),))
            yield from cursor

    def close(self) -> None:
        """Nothing is kept open."""

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
            raise _to_source_error(error) from None
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


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _to_source_error(error: Any) -> SourceRefused | SourceUnavailable:
    """What PostgreSQL says of the query; its message quotes no address."""
    code, said = error.pgcode, error.diag.message_primary
    if code is None or code.startswith(("08", "57P", "53", "40")):
        return SourceUnavailable("the database ended the query before its last row: try again later")
    return SourceRefused(f"connection.query cannot be run: {said} ({code})")
