"""A PostgreSQL with pgvector for the session, and a database for each test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from knowledge_pipeline.extensions.publish import DSN_VARIABLE
from knowledge_pipeline_tests.fakes.pgvector import NoPgvector, run_pgvector
from knowledge_pipeline_tests.fakes.postgres import USER, PostgresServer

Query = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="session")
def pgvector_server() -> Iterator[PostgresServer]:
    """A real server; where the package that carries it is missing, tests skip, and fail in CI."""
    try:
        with run_pgvector() as server:
            yield server
    except NoPgvector as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture
def dsn(pgvector_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an empty database, which the environment names."""
    with pgvector_server.database() as variables:
        password, name = variables["DAGSTER_POSTGRES_PASSWORD"], variables["DAGSTER_POSTGRES_DB"]
        address = f"postgresql://{USER}:{password}@127.0.0.1:{pgvector_server.port}/{name}"
        monkeypatch.setenv(DSN_VARIABLE, address)
        yield address


@pytest.fixture
def query(dsn: str) -> Query:
    """Run statements in one transaction as a reader would, and give the rows of the last."""
    import psycopg2

    def runs(*statements: str, values: Any = None) -> list[tuple[Any, ...]]:
        connection = psycopg2.connect(dsn)
        try:
            with connection, connection.cursor() as cursor:
                for statement in statements[:-1]:
                    cursor.execute(statement)
                cursor.execute(statements[-1], values)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    return runs
