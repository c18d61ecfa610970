"""Many files are read and resolved by several processes, to the rows of one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from knowledge_pipeline.errors import NotFound, StoreError
from knowledge_pipeline.stages import code_graph as refresh
from knowledge_pipeline.stages import code_graph_rows as facts
from knowledge_pipeline.stages import code_graph_rows as portions
from knowledge_pipeline.stages import worker_pool
from knowledge_pipeline.stages.code_graph_rows import BatchBuilder
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.stages.snapshot import refresh as refresh_snapshot
from knowledge_pipeline.stages.worker_pool import WorkerPool
from knowledge_pipeline.store import schemas
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.stages.refuse_three import refuse_three

HERE = Path(__file__).parent


@pytest.fixture
def folder(project: Project, tmp_path: Path) -> Path:
    """A source of real files in several languages, a broken one, an empty one and one with a secret."""
    made = tmp_path / "repo"
    ignored = shutil.ignore_patterns("__pycache__", "*.txt")
    shutil.copytree(HERE.parent / "chunking", made, ignore=ignored)
    (made / "broken.py").write_text("def (:\n")
    (made / "empty.py").write_text("")
    (made / "go.mod").write_text("module example.org/app\n")
    (made / "secret.py").write_text('token = "ghp_' + "a1B2" * 9 + '"\n')
    project.declare("main", "code", made)
    return made


def context_of(project: Project, **options: Any) -> RefreshContext:
    settings = project.settings
    return RefreshContext(project.lake, settings, settings.sources[0], **options)


def rows_of(project: Project) -> list[list[dict[str, Any]]]:
    """All rows of facts, symbols and edges, but for the time of writing."""
    tables = [project.lake.facts("code", "main"), *map(project.lake.graph_table, ("symbols", "edges"))]
    return [
        table.read_rows([name for name in table.schema.names if name != "indexed_at"])
        .sort_by(table.key)
        .to_pylist()
        for table in tables
    ]


def use_processes(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let so many processes read even a few files."""
    monkeypatch.setattr(portions, "MIN_FILES", 1)
    monkeypatch.setattr(worker_pool, "count_usable_cores", lambda: count)
    for module in (facts, refresh):
        monkeypatch.setattr(module, "FILES_PER_PORTION", 3)


def test_the_rows_and_the_counts_are_those_of_one_process(
    project: Project, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = Project(tmp_path / "several", project.embedding)
    several.sources = project.sources
    for each in (project, several):
        refresh_snapshot(context_of(each))
    alone = refresh.refresh(context_of(project))
    use_processes(monkeypatch, 2)
    together = refresh.refresh(context_of(several))
    assert rows_of(several) == rows_of(project)
    assert len(rows_of(several)[0]) == together.seen > 9
    assert (together.added, together.rows, together.notes) == (alone.added, alone.rows, alone.notes)
    assert list_children() == []


def test_a_process_that_dies_is_named_and_what_is_left_is_finished_by_the_next_refresh(
    project: Project, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refresh_snapshot(context_of(project))
    use_processes(monkeypatch, 1)

    def kill(stage: str, done: int, total: int | None, *_: object) -> None:
        if stage == "graph":
            for pid in list_children():
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(StoreError, match=r"a process that reads code ended unexpectedly, at '.*' or a file"):
        refresh.refresh(context_of(project, report=kill))
    assert list_children() == []
    assert project.lake.graph_table("symbols").count_rows() == 0
    refresh.refresh(context_of(project))
    other = Project(tmp_path / "other", project.embedding)
    other.sources = project.sources
    refresh_snapshot(context_of(other))
    monkeypatch.setattr(portions, "MIN_FILES", 1_000)
    refresh.refresh(context_of(other))
    assert rows_of(project) == rows_of(other)


def test_an_error_of_the_work_is_raised_and_the_processes_go_on() -> None:
    with WorkerPool("tests", max_processes=2) as pool:
        with pytest.raises(NotFound, match="3"):
            list(pool.map(refuse_three, range(9), str))
        assert list(pool.map(refuse_three, [1, 2, 5], str)) == [10, 20, 50]


def test_columns_that_are_the_same_in_many_rows_give_the_batch_of_whole_rows() -> None:
    same = {"source": "a", "source_type": "code", "repo": None, "branch": "main", "tags": ["x", "y"]} | {
        "visibility": "public",
        "tenant": None,
        "principals": [],
        "indexed_at": datetime.now(UTC),
    }
    one = {"id": "1", "kind": "calls", "source_id": "s", "source_name": "f", "target_id": None} | {
        "target_name": "g",
        "line": 3,
        "confidence": 0.5,
    }
    of_files = [
        ({"uri": f"u{path}", "path": path, "language": "go"}, [one] * count) for path, count in _COUNTS
    ]
    builder = BatchBuilder(schemas.EDGES, same)
    for columns, rows in of_files:
        builder.add_rows(columns, rows)
    whole = [{**same, **columns, **row} for columns, rows in of_files for row in rows]
    assert builder.build() == pa.RecordBatch.from_pylist(whole, schema=schemas.EDGES)
    assert BatchBuilder(schemas.EDGES, same).build().num_rows == 0


_COUNTS = [("a.go", 2), ("b.go", 0), ("c.go", 1)]


def list_children() -> list[int]:
    """Processes of this one that work."""
    command = ["pgrep", "-P", str(os.getpid()), "-f", "worker_pool"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]
