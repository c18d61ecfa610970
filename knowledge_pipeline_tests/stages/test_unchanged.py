"""A refresh without a change is recalled by the next process, until anything that it depends on differs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.stages import pipeline, unchanged
from knowledge_pipeline.stages.context import ORDINARY_REFRESH, RefreshOptions, RefreshOutcome
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.local_state import SharedState, has_waiting_rows
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.release import restore_release
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.connectors.repositories import Repository

Comparable = list[tuple[Any, ...]]


class Processes:
    """Each refresh is one of a new process: nothing is remembered but what lies in the store."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.recalled = False

    def refresh(self, options: RefreshOptions = ORDINARY_REFRESH) -> RefreshOutcome:
        lake, settings = self.project.lake, self.project.settings
        known = unchanged.UnchangedRefresh(lake, settings, settings.sources, options)
        outcome = known.recall()
        self.recalled = outcome is not None
        if outcome is None:
            outcome = pipeline.refresh(lake, settings, settings.sources, options, listings=known.listings)
            known.keep(outcome)
        assert not outcome.failures
        return outcome


def comparable(outcome: RefreshOutcome) -> Comparable:
    return [
        (each.stage, each.source, each.seen, each.unchanged, each.rows, each.version, each.skipped)
        for each in (*outcome.stats, outcome.release)
        if each
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "app"
    made.mkdir()
    (made / "store.py").write_text("def opened():\n    return 1\n")
    (made / "empty.py").write_text("")
    return made


@pytest.fixture
def processes(project: Project, folder: Path) -> Processes:
    project.declare("app", "code", folder)
    made = Processes(project)
    made.refresh()
    assert not made.recalled
    made.refresh()
    assert not made.recalled, "the first that changed nothing is kept"
    return made


def test_a_refresh_without_a_change_is_recalled_with_the_numbers_of_the_stages(processes: Processes):
    told = processes.refresh()
    assert processes.recalled
    settings = processes.project.settings
    by_stages = pipeline.refresh(processes.project.lake, settings, settings.sources)
    assert comparable(told) == comparable(by_stages) != []
    assert told.release and told.release.version and not told.release.has_changes


def test_it_imports_neither_arrow_nor_what_other_types_of_sources_need(processes: Processes, tmp_path: Path):
    config = tmp_path / "knowledge.yaml"
    source = {"id": "app", "type": "code", "connection": {"type": "local", "path": "app"}}
    embedding = json.loads(processes.project.embedding.model_dump_json(exclude_defaults=True))
    embedding["api_key"] = "${KEY}"
    config.write_text(json.dumps({"store": "store", "embedding": embedding, "sources": [source]}))
    environment = {**os.environ, "KEY": processes.project.embedding.api_key.get_secret_value()}  # pyright: ignore[reportOptionalMemberAccess]
    program = (
        "import atexit, sys\n"
        "heavy = ('numpy', 'pyarrow', 'lance', 'lancedb', 'torch', 'onnxruntime', 'tree_sitter')\n"
        "heavy += ('requests', 'urllib3', 'httpx2', 'yaml', 'lxml')\n"
        "heavy += ('knowledge_pipeline.connectors.archive_file',)\n"
        "heavy += ('knowledge_pipeline.connectors.slack.threads',)\n"
        "atexit.register(lambda: print([name for name in heavy if name in sys.modules], file=sys.stderr))\n"
        f"sys.argv = ['knowledge', '--config', {str(config)!r}, 'refresh', '--json']\n"
        "from knowledge_pipeline.cli import main\n"
        "main()\n"
    )

    def run() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    run()  # compares, because these settings are others
    ran = run()
    assert ran.stderr.splitlines()[-1] == "[]"
    assert json.loads(ran.stdout)["release"]["new"] is False


def edit_a_file(processes: Processes) -> None:
    (processes.project.root / "app" / "store.py").write_text("def opened():\n    return 22\n")


def add_a_file(processes: Processes) -> None:
    (processes.project.root / "app" / "more.py").write_text("def more():\n    return 1\n")


def remove_a_file(processes: Processes) -> None:
    (processes.project.root / "app" / "empty.py").unlink()


def change_the_settings(processes: Processes) -> None:
    processes.project.sources["app"]["metadata"] = {"tags": ["new"]}


def write_a_table(processes: Processes) -> None:
    lake = processes.project.lake
    lake.chunks("code", "app").delete_where(eq("path", "store.py"))


def roll_back(processes: Processes) -> None:
    edit_a_file(processes)
    processes.project.refresh()
    with processes.project.lake.lock_index():
        restore_release(processes.project.lake, 1, keep=5)


def remove_a_table(processes: Processes) -> None:
    table = processes.project.lake.facts("code", "app").path
    assert isinstance(table, Path)
    table.rename(processes.project.root / "elsewhere")


@pytest.mark.parametrize(
    "change",
    [
        edit_a_file,
        add_a_file,
        remove_a_file,
        change_the_settings,
        write_a_table,
        roll_back,
        remove_a_table,
    ],
)
def test_whatever_it_depends_on_makes_the_stages_run(
    processes: Processes, change: Callable[[Processes], None]
):
    processes.refresh()
    assert processes.recalled
    change(processes)
    processes.refresh()
    assert not processes.recalled
    processes.refresh()
    told = processes.refresh()
    assert processes.recalled, "nothing changes any more"
    settings = processes.project.settings
    by_stages = pipeline.refresh(processes.project.lake, settings, settings.sources)
    assert comparable(told) == comparable(by_stages)


def test_another_program_makes_the_stages_run(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    package = tmp_path / "copy" / "knowledge_pipeline"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("version = 1")
    monkeypatch.setattr(unchanged, "__file__", str(package / "stages" / "unchanged.py"))
    processes.refresh()
    assert not processes.recalled
    processes.refresh()
    assert processes.recalled
    (package / "chunk.py").write_text("version = 2")
    processes.refresh()
    assert not processes.recalled
    processes.refresh()
    (tmp_path / "installed" / "tree_sitter-9.9.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "installed"), *sys.path])
    processes.refresh()
    assert not processes.recalled


@pytest.mark.parametrize("options", [RefreshOptions(full=True), RefreshOptions(reembed=True)])
def test_who_asks_for_the_work_gets_it(processes: Processes, options: RefreshOptions):
    processes.refresh(options)
    assert not processes.recalled


def test_a_damaged_file_is_no_memory(processes: Processes):
    for content in (b"", b"[]", b'{"mark": 1}'):
        with SharedState(processes.project.lake.folder) as state:
            assert not state.put("result", "unchanged refresh", content)
        processes.refresh()
        assert not processes.recalled


def test_a_source_that_cannot_be_listed_fails_as_ever(processes: Processes, folder: Path):
    folder.rename(folder.with_name("moved"))
    lake, settings = processes.project.lake, processes.project.settings
    known = unchanged.UnchangedRefresh(lake, settings, settings.sources, ORDINARY_REFRESH)
    assert known.recall() is None
    outcome = pipeline.refresh(lake, settings, settings.sources, listings=known.listings)
    assert "does not exist" in str(outcome.failures["app"])


def test_a_git_repository_is_recalled_until_a_commit(project: Project, tmp_path: Path):
    repository = Repository(tmp_path / "repository")
    repository.write({"store.py": "def opened():\n    return 1\n"}).commit("first")
    connection = {"type": "git", "url": str(repository.root), "branch": "main"}
    declared = {"id": "app", "type": "code", "connection": connection}
    project.sources["app"] = declared
    processes = Processes(project)
    recalled = list[bool]()
    for _ in range(3):
        processes.refresh()
        recalled.append(processes.recalled)
    repository.write({"store.py": "def opened():\n    return 2\n"}).commit("second")
    changed = processes.refresh()
    assert [*recalled, processes.recalled] == [False, False, True, False]
    assert changed.stats[0].changed == 1


def test_a_listing_holds_only_while_no_other_process_writes(processes: Processes):
    lake, settings = processes.project.lake, processes.project.settings
    known = unchanged.UnchangedRefresh(lake, settings, settings.sources, ORDINARY_REFRESH)
    add_a_file(processes)
    processes.project.refresh()  # another process
    outcome = pipeline.refresh(lake, settings, settings.sources, listings=known.listings)
    assert not outcome.failures
    assert not any(each.has_changes for each in outcome.stats), "the newer listing stays"


def test_who_reads_the_log_finds_the_refreshes_that_were_recalled(processes: Processes):
    lake = processes.project.lake
    before = open_log(lake, "refreshes").count_rows(eq("stage", "index"))
    for _ in range(2):
        processes.refresh()
        assert processes.recalled
    assert has_waiting_rows(lake.folder, "refreshes")
    assert open_log(lake, "refreshes").count_rows(eq("stage", "index")) == before + 2
    assert not has_waiting_rows(lake.folder, "refreshes")
    processes.refresh()
    edit_a_file(processes)
    processes.refresh()
    assert has_waiting_rows(lake.folder, "refreshes"), "those of a refresh with changes wait, too"
    assert open_log(lake, "refreshes").count_rows(eq("stage", "index")) == before + 4


def test_many_rows_that_wait_are_written(processes: Processes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("knowledge_pipeline.store.local_state.MAX_WAITING_BYTES", 10)
    open_log(processes.project.lake, "refreshes")
    processes.refresh()
    assert has_waiting_rows(processes.project.lake.folder, "refreshes")
    processes.refresh()
    assert not has_waiting_rows(processes.project.lake.folder, "refreshes")
