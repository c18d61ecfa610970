"""Statistics of the query log: right, and read without a Python object for each row."""

from __future__ import annotations

import asyncio
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from knowledge_pipeline import Access, KnowledgeBase
from knowledge_pipeline.contract.operation import QueryStats
from knowledge_pipeline.serve.status import compute_stats
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project

ROWS = 20_000


@pytest.fixture
def logged(project: Project, tmp_path: Path) -> Project:
    """A project with a row a minute in its query log, the newest now."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "a.py").write_text("first = 1\n")
    project.declare("main", "code", folder)
    project.refresh()
    table, now = project.lake.log_table("queries"), datetime.now(UTC)
    same = {"text": "why", "token": None, "principals": [], "release": 1}
    rows = [
        {
            **same,
            "query_id": str(number),
            "at": now - timedelta(minutes=number),
            "type": "code" if number % 4 == 0 else "semantic",
            "interface": "http" if number % 2 else "mcp",
            "tenant": "acme" if number % 5 == 0 else "other",
            "results": 0 if number % 10 == 0 else 5,
            "took_ms": float(number % 1000),
            "cached": number % 8 == 0,
            "degraded": ["vector"] if number % 20 == 0 else [],
        }
        for number in range(ROWS)
    ]
    table.append([pa.RecordBatch.from_pylist(rows, schema=table.schema)])
    return project


def stats(project: Project, access: Access, hours: int) -> QueryStats | None:
    with KnowledgeBase.open(project.settings) as base:
        return asyncio.run(compute_stats(project.settings, base.asynchronous, access, hours=hours)).queries


def test_a_year_of_the_log_is_counted_exactly(logged: Project) -> None:
    found = stats(logged, Access.operator(), 24 * 366)
    assert found == QueryStats(
        count=ROWS,
        zero_result_count=2000,
        degraded=1000,
        cached=2500,
        by_type={"code": 5000, "semantic": 15000},
        by_interface={"http": 10000, "mcp": 10000},
        p50_ms=499.0,
        p95_ms=949.0,
        p99_ms=989.0,
    )


def test_only_the_hours_and_the_tenant_that_are_asked_for_count(logged: Project) -> None:
    found = stats(logged, Access("acme", frozenset()), 1)
    assert found and (found.count, found.zero_result_count, found.p50_ms) == (12, 6, 25.0)
    nobody = stats(logged, Access("nobody", frozenset()), 1)
    assert nobody and (nobody.count, nobody.by_type, nobody.p99_ms) == (0, {}, None)


def test_a_log_is_read_again_once_it_has_another_version(
    logged: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stats(logged, Access.operator(), 1)
    with monkeypatch.context() as patch:
        patch.setattr(Table, "iter_batches", None)
        if datetime.now(UTC).second < 55:  # else the minute may end
            assert stats(logged, Access.operator(), 1) == before
    table = logged.lake.log_table("queries")
    table.append(table.iter_batches(table.schema.names, eq("query_id", "0")))
    after = stats(logged, Access.operator(), 1)
    assert before and after and after.count == before.count + 1


def test_the_rows_of_a_year_are_no_objects_in_memory(logged: Project) -> None:
    with KnowledgeBase.open(logged.settings) as base:
        asked = (logged.settings, base.asynchronous, Access.operator())
        asyncio.run(compute_stats(*asked, hours=1))  # what is imported and opened once
        tracemalloc.start()
        asyncio.run(compute_stats(*asked, hours=24 * 366))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak / ROWS < 100  # bytes
