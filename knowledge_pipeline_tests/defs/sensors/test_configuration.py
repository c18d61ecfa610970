"""Partitions and what is stored follow the configuration; a release follows a run that failed in part."""

import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from math import ceil
from pathlib import Path

import dagster as dg
import pytest

from knowledge_pipeline.defs import sensors
from knowledge_pipeline.defs.alerts import build_failed_runs_sensor
from knowledge_pipeline.defs.assets import build_release_job, stage_asset_keys
from knowledge_pipeline.defs.sensors import (
    ADDITIONS_PER_TICK,
    build_sources_sensor,
    removed_sources,
)
from knowledge_pipeline_tests.counted import steps
from knowledge_pipeline_tests.defs.conftest import Workplace
from knowledge_pipeline_tests.defs.watching import Watch, ids, sources_of_run


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path / "project", build_sources_sensor(["code", "markdown"]), removed_sources())


@pytest.fixture
def on_disk(dagster_home: Path) -> Iterator[dg.DagsterInstance]:
    """The instance of this repository's dagster.yaml."""
    with dg.DagsterInstance.from_config(str(dagster_home)) as instance:
        yield instance


def partitions(instance: dg.DagsterInstance, type_: str = "code") -> list[str]:
    return sorted(instance.get_dynamic_partitions(f"{type_}_sources"))


def store(watch: Watch, *keys: str) -> None:
    """As after a refresh, as far as the sensor looks: there is a snapshot."""
    for key in keys:
        (watch.root / "store" / "snapshot" / f"{key}.lance").mkdir(parents=True)


ADDED, REMOVED = 0, 1  # the two sensors


def requested(watch: Watch, instance: dg.DagsterInstance) -> dict[str | None, list[list[str]]]:
    """The sources of the runs of each job that a tick of each sensor requests."""
    found: dict[str | None, list[list[str]]] = {}
    for at in (ADDED, REMOVED):
        for request in watch.tick(instance, at=at).run_requests or ():
            found.setdefault(request.job_name, []).append(sources_of_run(request))
    return found


def said(watch: Watch, instance: dg.DagsterInstance, *, save: bool = True) -> tuple[str, str]:
    """Why neither sensor requests anything."""
    looks = [watch.tick(instance, at=at, save=save) for at in (ADDED, REMOVED)]
    assert not any(look.run_requests for look in looks)
    return looks[0].skip_message or "", looks[1].skip_message or ""


QUIET = ("partitions equal the configuration", "no source was removed")


@pytest.mark.storage
def test_a_new_source_gets_a_partition_and_one_refresh(watch: Watch, instance: dg.DagsterInstance) -> None:
    for id_, type_ in (("one", "code"), ("two", "code"), ("docs", "markdown")):
        watch.declare(id_, type_)
    (request,) = watch.tick(instance).run_requests or ()
    assert request.job_name == "refresh"
    assert request.tags["knowledge/trigger"] == "added"
    assert sorted(sources_of_run(request)) == ["docs", "one", "two"]
    assert partitions(instance) == ["one", "two"]
    assert partitions(instance, "markdown") == ["docs"]
    assert requested(watch, instance) == {}, "it was requested, though nothing is stored yet"
    store(watch, "code/one", "code/two", "markdown/docs")
    assert said(watch, instance) == QUIET
    watch.declare("three")
    assert requested(watch, instance) == {"refresh": [["three"]]}


def test_a_source_that_is_refreshed_by_hand_gets_a_partition_alone(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    watch.declare("one", refresh="manual")
    assert requested(watch, instance) == {} and partitions(instance) == ["one"]
    watch.declare("one")
    assert requested(watch, instance) == {"refresh": [["one"]]}


@pytest.mark.storage
def test_a_removed_source_is_purged_and_its_partition_goes(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    watch.declare("one")
    watch.declare("two")
    watch.tick(instance)
    store(watch, "code/one", "code/two")
    del watch.sources["one"]
    assert "purged at the next tick: one" in said(watch, instance)[1]
    assert requested(watch, instance) == {"purge": [["one"]]}
    assert partitions(instance) == ["one", "two"], "the partition stays until the purge is sure to run"
    assert requested(watch, instance) == {}
    assert partitions(instance) == ["two"]
    shutil.rmtree(watch.root / "store" / "snapshot" / "code" / "one.lance")
    assert said(watch, instance) == QUIET


def test_a_removed_source_stays_for_a_day(watch: Watch, instance: dg.DagsterInstance) -> None:
    watch.keep_removed_days = 1
    watch.declare("one")
    watch.declare("two")
    watch.tick(instance)
    store(watch, "code/one", "code/two")
    gone = watch.sources.pop("one")
    for _ in range(3):
        assert "hidden, and purged after a day: one" in said(watch, instance)[1]
    assert partitions(instance) == ["one", "two"]
    watch.sources["one"] = gone
    assert said(watch, instance) == QUIET


@pytest.mark.storage
def test_a_source_that_is_back_at_the_next_look_is_not_purged(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    watch.declare("one")
    watch.declare("two")
    watch.tick(instance)
    store(watch, "code/one", "code/two")
    gone = watch.sources.pop("one")
    assert requested(watch, instance) == {}
    watch.sources["one"] = gone
    assert said(watch, instance) == QUIET


@pytest.mark.storage
def test_a_source_that_is_back_when_it_was_purged_is_refreshed(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    watch.declare("one")
    watch.declare("two")
    watch.tick(instance)
    store(watch, "code/one", "code/two")
    requested(watch, instance)
    gone = watch.sources.pop("one")
    requested(watch, instance)
    assert requested(watch, instance) == {"purge": [["one"]]}
    shutil.rmtree(watch.root / "store" / "snapshot" / "code" / "one.lance")
    watch.sources["one"] = gone
    assert requested(watch, instance) == {"refresh": [["one"]]}
    assert partitions(instance) == ["one", "two"]


def test_a_source_of_another_type_is_a_new_one_and_a_removed_one(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    watch.declare("one")
    watch.tick(instance)
    store(watch, "code/one")
    watch.declare("one", "markdown")
    assert requested(watch, instance) == {"refresh": [["one"]]}
    assert requested(watch, instance) == {"purge": [["one"]]}
    assert requested(watch, instance) == {}
    assert (partitions(instance), partitions(instance, "markdown")) == ([], ["one"])


def test_a_file_without_any_source_purges_nothing(watch: Watch, instance: dg.DagsterInstance) -> None:
    watch.declare("one")
    watch.tick(instance)
    store(watch, "code/one")
    kept = dict(watch.sources)
    watch.sources.clear()
    for _ in range(3):
        assert "no sources any more, so nothing is purged (one)" in said(watch, instance)[1]
    assert partitions(instance) == ["one"]
    watch.sources.update(kept)
    assert said(watch, instance) == QUIET


def test_a_wrong_file_leaves_everything_as_it_is(watch: Watch, instance: dg.DagsterInstance) -> None:
    watch.declare("one")
    watch.declare("two")
    watch.tick(instance)
    watch.path.write_text("sources: nonsense\n")
    for _ in range(3):
        added, removed = said(watch, instance, save=False)
        assert added.startswith("partitions are left as they are: knowledge.yaml:1:")
        assert removed.startswith("everything is left as it is: knowledge.yaml:1:")
    assert partitions(instance) == ["one", "two"]


@pytest.mark.storage
def test_a_partition_of_a_type_without_assets_goes_too(watch: Watch, instance: dg.DagsterInstance) -> None:
    watch.declare("one")
    watch.declare("papers", "files", over=watch.root)
    requested(watch, instance)
    del watch.sources["papers"]
    requested(watch, instance)
    assert requested(watch, instance) == {"purge": [["papers"]]}
    requested(watch, instance)
    assert partitions(instance, "files") == []


@pytest.mark.storage
def test_code_locations_leave_each_others_partitions_alone(
    tmp_path: Path, watch: Watch, instance: dg.DagsterInstance
) -> None:
    other = Watch(tmp_path / "other", *watch.sensors)
    other.location = "two"
    watch.declare("one")
    watch.declare("both")
    other.declare("two")
    other.declare("both")
    other.declare("one", "markdown")
    for _ in range(2):
        for place in (watch, other):
            requested(place, instance)
    store(watch, "code/one", "code/both")
    store(other, "code/two", "code/both", "markdown/one")
    for _ in range(4):
        for place in (watch, other):
            assert said(place, instance)[1] == QUIET[1]
    del watch.sources["one"]
    assert requested(watch, instance) == {}
    assert requested(watch, instance) == {"purge": [["one"]]}
    assert requested(watch, instance) == {}
    assert partitions(instance) == ["both", "two"] and partitions(instance, "markdown") == ["one"]
    assert said(other, instance) == QUIET


@pytest.mark.storage
def test_a_store_that_two_files_share_loses_nothing(
    tmp_path: Path, watch: Watch, instance: dg.DagsterInstance
) -> None:
    other = Watch(watch.root, *watch.sensors)
    other.location, other.path = "two", watch.root / "other.yaml"
    watch.declare("one")
    other.declare("two")
    requested(watch, instance)
    requested(other, instance)
    store(watch, "code/one", "code/two")
    for _ in range(4):
        assert said(other, instance)[0] == said(watch, instance)[0] == QUIET[0]
    assert "stored, but not configured (two)" in said(watch, instance)[1]
    assert partitions(instance) == ["one", "two"]


@pytest.mark.storage
def test_an_instance_of_an_earlier_version_keeps_its_partitions(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    watch.declare("one")
    watch.known(instance)
    store(watch, "code/one")
    watch.cursors["removed_sources"] = '{"missing": {"code/of-another": 1.0}, "purging": []}'
    instance.add_dynamic_partitions("code_sources", ["of-another"])
    assert requested(watch, instance) == {}
    for _ in range(3):
        assert said(watch, instance) == QUIET
    assert partitions(instance) == ["of-another", "one"]
    del watch.sources["one"]
    watch.declare("two")
    assert requested(watch, instance) == {"refresh": [["two"]]}
    assert requested(watch, instance) == {"purge": [["one"]]}


@pytest.mark.storage
def test_what_is_stored_without_a_partition_is_left_and_named(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    watch.declare("one")
    store(watch, "code/one", "code/by-hand")
    assert requested(watch, instance) == {"refresh": [["one"]]}
    for _ in range(3):
        assert "stored, but not configured (by-hand)" in said(watch, instance)[1]


def test_a_type_that_is_not_loaded_asks_for_a_reload_and_is_refreshed(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    watch.declare("papers", "openapi")
    assert requested(watch, instance) == {"refresh": [["papers"]]}
    assert partitions(instance, "openapi") == ["papers"]
    assert "(openapi): reload the code location" in said(watch, instance)[0]


@pytest.mark.storage
def test_a_daemon_that_dies_between_partitions_and_runs_loses_neither(
    watch: Watch, instance: dg.DagsterInstance
) -> None:
    watch.declare("one")
    watch.declare("two")
    watch.tick(instance, die=True)
    assert partitions(instance) == ["one", "two"]
    assert ids(watch.runs(instance)) == ["one", "two"]
    store(watch, "code/one", "code/two")
    del watch.sources["one"]
    requested(watch, instance)
    assert ids(watch.runs(instance, die=True, at=REMOVED)) == ["one"]
    assert requested(watch, instance) == {"purge": [["one"]]}


@pytest.mark.slow
def test_a_look_at_two_hundred_sources_does_four_times_the_work_of_fifty(
    watch: Watch, on_disk: dg.DagsterInstance
) -> None:
    few, many = _looks(watch, on_disk, 50), _looks(watch, on_disk, 200)
    assert len(partitions(on_disk)) == 190
    assert max(many) <= 5 * max(few)


def _looks(watch: Watch, instance: dg.DagsterInstance, count: int) -> list[int]:
    """Steps of looks that find nothing to do and sources that are gone, once so many are stored."""
    for number in range(count):
        watch.declare(
            f"team-{number // 10:03}-source-{number:04}", over=f"https://example.com/{number // 10}"
        )
    for _ in range(ceil(count / ADDITIONS_PER_TICK)):
        _look(watch, instance)
    assert len(partitions(instance)) == count
    for id_ in watch.sources:
        (watch.root / "store" / "snapshot" / "code" / f"{id_}.lance").mkdir(parents=True, exist_ok=True)
    looks = [steps(lambda: _look(watch, instance))]
    for id_ in list(watch.sources)[: count // 20]:
        del watch.sources[id_]
    return [*looks, *(steps(lambda: _look(watch, instance)) for _ in range(4))]


def _look(watch: Watch, instance: dg.DagsterInstance) -> None:
    """Of both sensors, at a file that is read anew, which is most of the work."""
    watch.write()
    watch.tick(instance, save=False, at=ADDED)
    watch.tick(instance, save=False, at=REMOVED)


@pytest.mark.slow
def test_a_run_of_many_sources_that_failed_is_followed_by_a_release(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("a", x_py="x = 1\n")
    workplace.declare("b")
    chain = list(stage_asset_keys("code").values())  # as in a run that *Materialize* launches
    both = {"dagster/asset_partition_range_start": "a", "dagster/asset_partition_range_end": "b"}
    many = workplace.run(instance, "refresh_code", tags=both, asset_selection=chain)
    one = workplace.run(instance, "refresh_code", "b", asset_selection=chain)
    requested, sensor = [], build_failed_runs_sensor(build_release_job(workplace.settings))
    for result in (many, one):
        with dg.build_run_status_sensor_context(
            sensor_name="failed_runs",
            dagster_instance=instance,
            dagster_run=result.dagster_run,
            dagster_event=result.get_run_failure_event(),
            resources={"project": workplace.resource},
        ).for_run_failure() as context:
            requested.append(sensor(context))
    assert isinstance(requested[0], dg.RunRequest)
    assert requested[0].run_key == many.run_id
    assert requested[1] is None


def test_a_run_that_was_never_queued_holds_nothing_up(instance: dg.DagsterInstance, monkeypatch) -> None:
    @dg.op(config_schema={"sources": [str]})
    def refresh_sources() -> None:
        pass

    @dg.job(config={"ops": {"refresh_sources": {"config": {"sources": ["one"]}}}})
    def refresh() -> None:
        refresh_sources()

    instance.create_run_for_job(
        refresh,
        status=dg.DagsterRunStatus.NOT_STARTED,
        run_config={"ops": {"refresh_sources": {"config": {"sources": ["one"]}}}},
    )
    assert sensors.list_unfinished_sources(instance) == {"one"}

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(minutes=11)

    monkeypatch.setattr(sensors, "datetime", Later)
    assert sensors.list_unfinished_sources(instance) == set()
