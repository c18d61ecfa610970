"""A query log that an earlier version wrote, when the column `interface` was called `door`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.logs import QueryLog
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.duckdb_session import open_duckdb
from knowledge_pipeline.store.lake import Lake

COUNT = 20


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A store with `COUNT` rows in the former schema, in as many files."""
    lake = Lake(tmp_path / "store")
    fields = [
        field.with_name("door" if field.name == "interface" else field.name) for field in schemas.QUERIES
    ]
    former = pa.schema(fields, metadata=schemas.QUERIES.metadata)
    (lake.root / "logs").mkdir(parents=True)
    for number in range(COUNT):
        rows = pa.Table.from_pylist([row(f"old-{number}", "door")], schema=former)
        lance.write_dataset(rows, str(lake.root / "logs" / "queries.lance"), mode="append")
    return lake


def row(query_id: str, column: str) -> dict[str, object]:
    return {
        "query_id": query_id,
        "at": datetime.now(UTC),
        "type": "code",
        "text": "some text",
        column: "cli",
        "token": None,
        "tenant": None,
        "principals": [],
        "release": 1,
        "results": 3,
        "took_ms": 1.5,
        "cached": False,
        "degraded": [],
    }


def files(lake: Lake) -> dict[str, int]:
    """Data files, with when each was written."""
    folder = lake.root / "logs" / "queries.lance" / "data"
    return {each.name: each.stat().st_mtime_ns for each in folder.iterdir()}


def test_it_is_renamed_when_it_is_read_and_no_row_is_rewritten(lake: Lake):
    before = files(lake)
    table = lake.log_table("queries")
    assert (
        table.read_rows(["interface", "took_ms"]).to_pylist()
        == [{"interface": "cli", "took_ms": 1.5}] * COUNT
    )
    assert files(lake) == before
    version = table.version
    assert lake.log_table("queries").count_rows() == COUNT and table.version == version


def test_it_is_renamed_when_it_is_written(lake: Lake):
    log = QueryLog(lake)
    log.start()
    log.record("code", "new", Access.public(), SearchResponse("new", 1.0, 1, (), (), {}))
    log.close()
    found = lake.log_table("queries").read_rows(["query_id", "interface"]).to_pylist()
    assert {each["query_id"]: each["interface"] for each in found} == {
        **{f"old-{number}": "cli" for number in range(COUNT)},
        "new": "python",
    }


def test_rows_that_an_earlier_version_left_in_its_journal_are_taken(lake: Lake):
    journal = lake.folder / "logs" / "journal"
    journal.mkdir(parents=True)
    left = row("left", "door")
    (journal / "aaaa.0.jsonl").write_text(json.dumps({**left, "at": datetime.now(UTC).isoformat()}) + "\n")
    log = QueryLog(lake, durable=True)
    log.start()
    log.close()
    found = lake.log_table("queries").read_rows(["query_id", "interface"]).to_pylist()
    assert {"query_id": "left", "interface": "cli"} in found


PROCESS = """
import sys
from pathlib import Path
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.logs import QueryLog
from knowledge_pipeline.store.lake import Lake
import lance
lake = Lake(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
if sys.argv[2] == "reads":
    found = lake.log_table("queries").read_rows(["interface"])["interface"].to_pylist()
    assert set(found) <= {"cli", "python"}
else:
    log = QueryLog(lake, flush_interval_s=0.0)
    log.start()
    log.record("code", "new", Access.public(), SearchResponse(sys.argv[2], 1.0, 1, (), (), {}))
    log.close()
"""


@pytest.mark.slow
def test_processes_that_open_it_at_once_agree(lake: Lake):
    works = ["reads", "one", "reads", "two", "reads", "three"]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(lake.root), work],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        for work in works
    ]
    for process in running:
        assert process.stdout and process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        _, problems = process.communicate(timeout=240)
        assert (process.returncode, problems) == (0, "")
    found = lake.log_table("queries").read_rows(["query_id"])["query_id"].to_pylist()
    assert sorted(found) == sorted([*(f"old-{number}" for number in range(COUNT)), "one", "two", "three"])


def test_the_sql_models_read_it(lake: Lake):
    with open_duckdb(lake) as duck:
        duck.load_raw_table("raw_queries", ["interface"])
        found = duck.fetch_rows("select distinct interface from raw_queries", limit=None)
        assert found.to_pylist() == [{"interface": "cli"}]
