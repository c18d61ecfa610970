"""Where Dagster keeps its history in a test: SQLite, or PostgreSQL with KNOWLEDGE_TEST_STORAGE=postgres.

`dagster_yaml` and `dagster_home` are for whatever opens an instance as a user would; each test has
an empty history. Where PostgreSQL was asked for and is not installed, its tests skip; in CI they fail.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_pipeline_tests.fakes.postgres import NotInstalled, PostgresServer

ROOT = Path(__file__).parent.parent.parent
SQLITE_YAML = ROOT / "dagster.yaml"
POSTGRES_YAML = ROOT / "deploy" / "postgres" / "dagster.yaml"
ON_POSTGRES = os.environ.get("KNOWLEDGE_TEST_STORAGE", "sqlite") == "postgres"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL for the session, with Dagster's tables in the database `tables`."""
    try:
        server = PostgresServer()
    except NotInstalled as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))
    with server:
        yield server


@pytest.fixture(scope="session")
def empty_history(postgres: PostgresServer) -> Iterator[str]:
    """A database to copy: making Dagster's tables takes over a second, a copy a tenth."""
    from dagster_postgres import DagsterPostgresStorage
    from dagster_postgres.utils import get_conn_string

    with postgres.database() as variables:
        url = get_conn_string(
            username=variables["DAGSTER_POSTGRES_USER"],
            password=variables["DAGSTER_POSTGRES_PASSWORD"],
            hostname=variables["DAGSTER_POSTGRES_HOST"],
            port=variables["DAGSTER_POSTGRES_PORT"],
            db_name=variables["DAGSTER_POSTGRES_DB"],
        )
        DagsterPostgresStorage(url)  # makes its tables, and keeps no connection
        yield variables["DAGSTER_POSTGRES_DB"]


@pytest.fixture
def dagster_yaml(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The `dagster.yaml` of the storage under test; what it reads from the environment is there."""
    if not ON_POSTGRES:
        yield SQLITE_YAML
        return
    monkeypatch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")
    server: PostgresServer = request.getfixturevalue("postgres")
    with server.database(like=request.getfixturevalue("empty_history")) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield POSTGRES_YAML


@pytest.fixture
def dagster_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dagster_yaml: Path) -> Path:
    """A `DAGSTER_HOME` with the `dagster.yaml` of the storage under test."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(dagster_yaml, home)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    return home
