"""The sensor `changed_sources`, tick by tick, over real folders and a real instance."""

import json
import os
import shutil
import subprocess
from math import inf
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from knowledge_pipeline import freshness
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.defs import commit_sensors as files_changed
from knowledge_pipeline.defs.commit_sensors import (
    ExcludedSources,
    FilesCursor,
    changed_sources,
    scan_folders,
    select_file_sources,
)
from knowledge_pipeline.defs.jobs import build_source_jobs
from knowledge_pipeline.freshness import FreshnessReader, LiveState
from knowledge_pipeline_tests.counted import audited, calls, steps
from knowledge_pipeline_tests.defs.conftest import Workplace


class Ticks:
    """Evaluates the sensor as the daemon does, and keeps its cursor."""

    def __init__(self, workplace: Workplace, instance: dg.DagsterInstance) -> None:
        self.workplace, self.instance = workplace, instance
        self.cursor: str | None = None
        self.keys: list[str | None] = []

    def tick(self) -> dg.SensorResult | Any:
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"project": self.workplace.resource}
        ) as context:
            result = changed_sources().evaluate_tick(context)
        self.cursor = result.cursor or self.cursor
        self.keys += [request.run_key for request in result.run_requests or ()]
        return result

    def sources(self) -> list[str]:
        """Ids that the tick requested, of all its runs."""
        return [
            id_
            for request in self.tick().run_requests or ()
            for id_ in request.run_config["ops"]["refresh_sources"]["config"]["sources"]
        ]


@pytest.fixture
def ticks(workplace: Workplace, instance: dg.DagsterInstance) -> Ticks:
    return Ticks(workplace, instance)


def declared(ticks: Ticks, *ids: str, known: bool = True) -> list[Path]:
    """Sources; `sources_in_config` has seen those that are known, and asked for their first refresh."""
    if known:
        ticks.instance.add_dynamic_partitions("code_sources", ids)
    return [ticks.workplace.declare(id_, a_py="x = 1\n", b_py="y = 2\n") for id_ in ids]


def test_all_that_changed_is_one_run_and_what_came_back_is_another(ticks: Ticks) -> None:
    one, two = declared(ticks, "one", "two")
    assert ticks.sources() == ["one", "two"]
    assert ticks.sources() == []
    kept = one.parent / "kept"
    shutil.copytree(one, kept, copy_function=shutil.copy2)
    (two / "a.py").write_text("x = 3\n")
    (one / "a.py").rename(one / "c.py")
    assert ticks.sources() == ["one", "two"]
    (one / "c.py").rename(one / "a.py")
    assert ticks.sources() == ["one"]
    (one / "notes.txt").write_text("not code\n")
    (one / ".git").mkdir()
    assert ticks.sources() == []
    assert len(set(ticks.keys)) == len(ticks.keys) == 3


def test_the_request_says_why(ticks: Ticks) -> None:
    declared(ticks, "one")
    (request,) = ticks.tick().run_requests
    assert request.job_name == "refresh"
    assert request.tags["knowledge/trigger"] == "files"
    assert request.tags["source/one"] == "yes"


def test_a_repository_is_left_to_the_commits_unless_it_is_realtime(tmp_path: Path) -> None:
    def source(id_: str, folder: Path, **rest: Any) -> SourceConfig:
        return SourceConfig.model_validate(
            {"id": id_, "type": "code", "connection": {"type": "local", "path": folder}, **rest}
        )

    repository, plain = tmp_path / "repository", tmp_path / "plain"
    (repository / "inner").mkdir(parents=True)
    plain.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=repository, check=True)
    remote = {"type": "git", "url": str(repository)}
    sources = [
        source("a", repository / "inner"),
        source("b", repository, refresh={"trigger": "realtime"}),
        source("c", plain),
        source("d", plain, refresh={"trigger": "daily"}),
        SourceConfig.model_validate({"id": "e", "type": "code", "connection": remote}),
    ]
    assert [each.id for each in select_file_sources(sources)] == ["b", "c"]


def test_a_source_that_cannot_be_listed_is_told_once_and_hides_no_other(ticks: Ticks) -> None:
    one, two = declared(ticks, "one", "two")
    ticks.sources()
    one.rename(one.parent / "away")
    (two / "a.py").write_text("x = 3\n")
    assert ticks.sources() == ["two"]
    assert ticks.tick().skip_message == "no new commit in 0 repositories; no file changed in 2 sources"
    (one.parent / "away").rename(one)
    assert ticks.sources() == ["one"]


@pytest.mark.storage
def test_a_source_under_way_is_looked_at_when_its_run_is_over(ticks: Ticks) -> None:
    one, _ = declared(ticks, "one", "two")
    (request,) = ticks.tick().run_requests
    definitions = dg.Definitions(jobs=build_source_jobs(), resources={"project": ticks.workplace.resource})
    job = definitions.resolve_job_def("refresh")
    run = ticks.instance.create_run_for_job(
        job, run_config=request.run_config, tags=request.tags, status=dg.DagsterRunStatus.STARTED
    )
    (one / "a.py").write_text("x = 3\n")
    declared(ticks, "three")
    assert ticks.sources() == ["three"]
    ticks.instance.report_run_canceled(run)
    assert ticks.sources() == ["one"]


def test_a_new_source_is_left_to_its_first_refresh_and_what_changes_after_the_look_is_not(
    ticks: Ticks,
) -> None:
    (one,) = declared(ticks, "one", known=False)
    assert ticks.sources() == []
    (one / "a.py").write_text("x = 3\n")
    assert ticks.sources() == ["one"]


@pytest.mark.storage
def test_a_new_source_that_is_being_read_is_looked_at_again(ticks: Ticks) -> None:
    declared(ticks, "one")
    job = dg.Definitions(
        jobs=build_source_jobs(), resources={"project": ticks.workplace.resource}
    ).resolve_job_def("refresh")
    tags = {"dagster/asset_partition_range_start": "one", "dagster/asset_partition_range_end": "one"}
    run = ticks.instance.create_run_for_job(job, tags=tags, status=dg.DagsterRunStatus.STARTED)
    assert ticks.sources() == [], "as a backfill reads it"
    ticks.instance.report_run_canceled(run)
    assert ticks.sources() == ["one"]


def test_what_was_refreshed_before_it_is_first_seen_is_not_refreshed_again(ticks: Ticks) -> None:
    declared(ticks, "one", "two")
    assert ticks.workplace.run(ticks.instance, "refresh").success
    (ticks.workplace.root / "folders" / "two" / "a.py").write_text("x = 3\n")
    assert ticks.sources() == ["two"]


def test_a_look_says_whether_a_folder_is_as_it_was_indexed(
    ticks: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freshness, "WRITTEN_S", 0.0)

    def look() -> LiveState:
        ticks.sources()
        reader = FreshnessReader(ticks.workplace.lake)
        reader.read()
        record = reader.records["one"]
        state = record.find_live({record.indexed[-1].space: record.indexed[-1].version})
        assert state and state.newest and state.newest.commit is None
        return state

    (one,) = declared(ticks, "one")
    assert ticks.workplace.run(ticks.instance, "refresh").success
    unchanged = look()
    assert (unchanged.as_of, unchanged.behind_since) == (unchanged.newest.last_at, None)
    (one / "a.py").write_text("x = 3\n")
    changed, unread = look(), look()
    assert changed.behind_since == unread.behind_since == changed.newest.first_at, "no run has read it"
    assert changed.as_of == unread.as_of == unchanged.as_of
    assert (unread.commits_behind, unread.newest.last_at > changed.newest.last_at) == (None, True)
    assert ticks.workplace.run(ticks.instance, "refresh").success
    refreshed = look()
    assert (refreshed.as_of, refreshed.behind_since) == (refreshed.newest.last_at, None)


def test_without_time_the_rest_has_its_turn_at_the_next_tick(ticks: Ticks) -> None:
    declared(ticks, "a", "b", "c")
    sources, lake = list(ticks.workplace.settings.sources), ticks.workplace.lake
    cursor = FilesCursor()
    seen = []
    for _ in range(4):
        found = scan_folders(sources, cursor, lake, until_s=0.0, excluded=ExcludedSources())
        assert found.waiting == 2
        seen += [source.id for source in found.changed]
    assert seen == ["a", "b", "c"]
    assert cursor.next == "b"


def test_what_is_no_longer_declared_is_forgotten_and_a_strange_cursor_begins_anew(ticks: Ticks) -> None:
    declared(ticks, "one", "two")
    ticks.sources()
    ticks.workplace.forget("one")
    ticks.sources()
    assert list(json.loads(ticks.cursor or "")["files"]["digests"]) == ["two"]
    ticks.cursor = "[1, 2]"
    assert ticks.sources() == ["two"]


def test_a_wrong_file_is_why_nothing_is_listed(ticks: Ticks) -> None:
    ticks.workplace.path.write_text("sources: nonsense\n")
    assert ticks.tick().skip_message.startswith(
        "no repository is polled, and no folder is listed: knowledge.yaml:1:"
    )


@pytest.mark.slow
def test_a_tick_reads_each_folder_once_and_no_file_however_many_there_are(
    ticks: Ticks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_changed, "BUDGET_S", 600.0)  # one tick is for all of them, on any machine
    lines = []
    for number in range(400):
        folder = tmp_path / "many" / f"s{number}"
        folder.mkdir(parents=True)
        for file in range(20):
            (folder / f"m{file}.py").write_text(f"x = {file}\n")
        lines.append(f"  - {{id: s{number}, type: code, connection: {{type: local, path: '{folder}'}}}}")
    path = ticks.workplace.path
    path.write_text(path.read_text() + "\n".join(["sources:", *lines]) + "\n")
    ticks.instance.add_dynamic_partitions("code_sources", [f"s{number}" for number in range(400)])
    ticks.workplace.resource.load_settings()  # read once
    assert sorted(ticks.sources()) == sorted(f"s{number}" for number in range(400))
    (tmp_path / "many" / "s399" / "m0.py").write_text("x = 'changed'\n")
    requested: list[str] = []
    with audited("os.scandir", "open") as asked:
        called = calls(lambda: requested.extend(ticks.sources()))
    assert requested == ["s399"]
    below = [(event, path) for event, (path, *_) in asked if _lies_in(tmp_path / "many", path)]
    assert [event for event, _ in below] == ["os.scandir"] * 400
    assert called["DirEntry.stat"] == 400 * 20


def _lies_in(folder: Path, path: object) -> bool:
    return isinstance(path, str | bytes) and Path(os.fsdecode(path)).is_relative_to(folder)


@pytest.mark.slow
def test_the_work_of_a_tick_grows_with_its_sources(ticks: Ticks, tmp_path: Path) -> None:
    for number in range(200):
        ticks.workplace.declare(f"s{number}", a_py="x = 1\n")
    sources, lake = list(ticks.workplace.settings.sources), ticks.workplace.lake

    def taken(count: int) -> int:
        cursor = FilesCursor()
        scan_folders(sources[:count], cursor, lake, until_s=inf, excluded=ExcludedSources())
        return steps(
            lambda: scan_folders(sources[:count], cursor, lake, until_s=inf, excluded=ExcludedSources())
        )

    assert taken(200) <= 5 * taken(50)
