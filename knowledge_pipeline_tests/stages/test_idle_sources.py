"""A process that found nothing to do reads no tables until something is written, or listed differently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshContext, RefreshOptions, Stats
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project, tables

STAGES = ["chunks", "graph", "embeddings", "index"]


class Running:
    """A project whose settings stay as they are, as in a process that goes on, and the stages that ran."""

    def __init__(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project, self.settings, self.ran = project, project.settings, list[str]()
        self.idle = pipeline.IdleSources()
        for name in STAGES:
            monkeypatch.setitem(pipeline.STAGES, name, self._noting(name))

    def _noting(self, name: str):
        stage = pipeline.STAGES[name]

        def run(ctx: RefreshContext) -> Stats:
            self.ran.append(name)
            return stage(ctx)

        return run

    def refresh(self, **options: bool) -> pipeline.RefreshOutcome:
        self.ran.clear()
        outcome = pipeline.refresh(
            self.project.lake,
            self.settings,
            self.settings.sources,
            RefreshOptions(**options),
            idle=self.idle,
        )
        assert not outcome.failures
        return outcome


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "app"
    made.mkdir()
    (made / "store.py").write_text("def opened():\n    return 1\n")
    (made / "use.py").write_text("from store import opened\n\n\ndef main():\n    opened()\n")
    return made


@pytest.fixture
def running(project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    project.declare("app", "code", folder)
    running = Running(project, monkeypatch)
    running.refresh()
    assert running.ran == STAGES
    running.refresh()
    assert running.ran == STAGES
    return running


def test_an_idle_source_is_only_listed_and_reports_the_same_numbers(running: Running):
    told = [(each.stage, each.seen, each.unchanged, each.rows) for each in running.refresh().stats]
    assert running.ran == []
    running.refresh(full=True)
    assert running.ran == STAGES
    assert [stage for stage, *_ in told] == ["snapshot", *STAGES]
    running.settings = running.project.settings
    assert told == [(each.stage, each.seen, each.unchanged, each.rows) for each in running.refresh().stats], (
        "as the stages tell it themselves"
    )
    assert running.ran == STAGES


def test_an_edit_goes_through_all_stages(running: Running, folder: Path):
    running.refresh()
    (folder / "store.py").write_text("def opened():\n    return 2\n")
    assert [each.stage for each in running.refresh().stats if each.has_changes] == ["snapshot", *STAGES]
    held = tables(running.project)
    running.refresh(full=True)
    assert tables(running.project) == held


@pytest.mark.sampled
@pytest.mark.parametrize("gone", ["chunks", "index", "symbols"])
def test_what_another_process_took_away_comes_back(running: Running, gone: str):
    lake, held = running.project.lake, tables(running.project)
    running.refresh()
    ((space, dimensions),) = lake.list_spaces().items()
    of = {
        "chunks": lake.chunks("code", "app"),
        "index": lake.index(space, dimensions),
        "symbols": lake.graph_table("symbols"),
    }
    of[gone].delete_where(eq("path", "use.py"))
    running.refresh()
    assert running.ran == STAGES
    assert tables(running.project) == held


@pytest.mark.slow
def test_another_source_in_the_same_index_is_looked_at_once_more(running: Running, tmp_path: Path):
    running.refresh()
    other = tmp_path / "other"
    other.mkdir()
    (other / "more.py").write_text("def more():\n    return 3\n")
    running.project.declare("other", "code", other)
    running.settings = running.project.settings
    running.refresh()
    running.refresh()
    running.refresh()
    assert running.ran == []
    (other / "more.py").write_text("def more():\n    return 4\n")
    running.refresh()
    assert running.ran == STAGES, "of the edited source: what it wrote is seen after it"
    running.refresh()
    assert sorted(running.ran) == sorted([*STAGES, *STAGES])
    running.refresh()
    assert running.ran == []


def test_it_saves_most_reads_of_tables(running: Running, monkeypatch: pytest.MonkeyPatch):
    reads: list[str] = []
    for name in ("read_rows", "count_rows", "iter_batches", "iter_rows_by_values"):
        monkeypatch.setattr(Table, name, _counting(getattr(Table, name), reads))
    running.idle = pipeline.IdleSources()
    running.refresh()
    without = len(reads)
    reads.clear()
    running.refresh()
    assert running.ran == []
    assert len(reads) * 3 <= without, f"{len(reads)} reads instead of {without}"


def _counting(read: Callable[..., Any], reads: list[str]) -> Callable[..., Any]:
    def count(self: Table, *args: Any, **options: Any) -> Any:
        reads.append(str(self.path))
        return read(self, *args, **options)

    return count


def test_other_settings_empty_it(running: Running):
    ctx = RefreshContext(running.project.lake, running.settings, running.settings.sources[0])
    idle, stamps = pipeline.IdleSources(), {"chunks": (1,)}
    idle.add(ctx, stamps, [Stats("chunks", "app")])
    assert [each.stage for each in idle.find(ctx, stamps)] == ["chunks"]
    other = replace(ctx, settings=running.project.settings)
    idle.add(replace(other, source=ctx.source.model_copy(update={"id": "other"})), stamps, [])
    assert idle.find(ctx, stamps) == idle.find(other, stamps) == []
