"""What a run of many sources records: all that changed, and of the rest no more than the UI needs."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from knowledge_pipeline.defs import provenance
from knowledge_pipeline.defs.runs import choose_interval_s
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.code_versions import compute_code_versions
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline_tests.defs.conftest import Workplace
from knowledge_pipeline_tests.defs.staleness import Shown

pytestmark = pytest.mark.storage

STAGES = ("snapshot", "chunks", "graph", "embeddings", "index")
SOURCES = ("one", "two", "three")
EVERYTHING = {stage: len(SOURCES) for stage in STAGES}
UNCHANGED = {"snapshot": 3, "chunks": 1, "graph": 1, "embeddings": 1, "index": 1}


@pytest.fixture
def shown(workplace: Workplace, dagster_home: Path) -> Iterator[Shown]:
    """Three sources on an instance on disk."""
    for id_ in SOURCES:
        workplace.declare(id_, a_py=f"def {id_}():\n    return 1\n", b_py=f"def {id_}_b():\n    return 2\n")
    with dg.DagsterInstance.from_config(str(dagster_home)) as instance:
        yield Shown(workplace, instance)  # pyright: ignore[reportArgumentType]  # it has the settings


def recorded(shown: Shown, job: str = "refresh", **how: Any) -> dict[str, int]:
    """Run a job, and count the materializations of each stage."""
    result = shown.project.run(shown.instance, job, **how)
    events = [record.event_log_entry for record in shown.instance.get_records_for_run(result.run_id).records]
    made = (event.asset_materialization for event in events)
    return dict(Counter(each.asset_key.path[-1] for each in made if each and each.partition))


def test_a_run_records_all_that_changed_and_of_the_rest_no_more_than_the_ui_needs(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One history: a run takes a second, and each part leaves behind what a refresh leaves."""
    assert recorded(shown) == EVERYTHING
    each_stage_of_each_source_has_its_row_in_the_log_of_refreshes(shown, runs=1)
    assert recorded(shown) == UNCHANGED
    each_stage_of_each_source_has_its_row_in_the_log_of_refreshes(shown, runs=2)
    assert shown.stale(shown.project.definitions()) == {}
    only_the_source_that_changed_is_recorded_in_full(shown)
    a_changed_setting_is_recorded_where_it_changed_nothing(shown)
    new_code_is_recorded_where_it_changed_nothing(shown, monkeypatch)
    what_a_person_wiped_is_recorded_again(shown)


def each_stage_of_each_source_has_its_row_in_the_log_of_refreshes(shown: Shown, *, runs: int) -> None:
    rows = open_log(shown.project.lake, "refreshes").read_rows(["source", "stage"]).to_pylist()
    assert Counter((row["source"], row["stage"]) for row in rows) == {
        (source, stage): runs for source in SOURCES for stage in STAGES
    }


def only_the_source_that_changed_is_recorded_in_full(shown: Shown) -> None:
    (shown.project.root / "folders" / "two" / "a.py").write_text("def two():\n    return 22\n")
    assert recorded(shown) == {**dict.fromkeys(STAGES, 1), "snapshot": 3}
    the_log_of_a_run_names_what_changed_and_lists_the_rest_in_one_line(shown)
    index = dg.AssetKey(["code", "index"])
    newest = shown.instance.get_latest_materialization_event(index)
    assert newest is not None and newest.asset_materialization is not None
    assert newest.asset_materialization.partition == "two"
    assert shown.stale(shown.project.definitions()) == {}
    assert recorded(shown) == UNCHANGED


def the_log_of_a_run_names_what_changed_and_lists_the_rest_in_one_line(shown: Shown) -> None:
    events = shown.instance.get_records_for_run(shown.instance.get_runs()[0].run_id).records
    lines = "\n".join(record.event_log_entry.user_message for record in events).splitlines()
    assert [line for line in lines if line.startswith("two: snapshot 1 changed, chunks 1 changed")]
    assert sorted(", ".join(line[11:] for line in lines if line.startswith("unchanged: ")).split(", ")) == [
        "one",
        "three",
    ]


def a_changed_setting_is_recorded_where_it_changed_nothing(shown: Shown) -> None:
    declared = shown.project.path.read_text()
    shown.project.path.write_text(declared.replace("id: two, ", "id: two, chunking: {max_tokens: 300}, "))
    assert recorded(shown)["chunks"] == 1
    assert shown.stale(shown.project.definitions()) == {}


def new_code_is_recorded_where_it_changed_nothing(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        provenance, "compute_code_versions", lambda type_: {**compute_code_versions(type_), "chunks": "new"}
    )
    assert recorded(shown) == UNCHANGED | {"chunks": 3}
    assert recorded(shown) == UNCHANGED


def what_a_person_wiped_is_recorded_again(shown: Shown) -> None:
    shown.instance.wipe_assets([dg.AssetKey(["code", "embeddings"])])
    assert recorded(shown) == UNCHANGED | {"embeddings": 3}


def test_a_backfill_records_every_partition_that_dagster_waits_for(shown: Shown) -> None:
    partitions = {
        "dagster/asset_partition_range_start": "one",
        "dagster/asset_partition_range_end": "three",
    }
    for _ in range(2):
        assert recorded(shown, "refresh_code", tags=partitions) == EVERYTHING


def test_what_a_stopped_run_has_done_is_recorded(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    embed = pipeline.STAGES["embeddings"]

    def interrupt(ctx):
        if ctx.source.id == "two":
            raise KeyboardInterrupt
        return embed(ctx)

    monkeypatch.setitem(pipeline.STAGES, "embeddings", interrupt)
    recorded(shown)
    (run,) = shown.instance.get_runs()
    assert run.status == dg.DagsterRunStatus.FAILURE
    events = shown.instance.get_records_for_run(run.run_id).records
    made = [record.event_log_entry.asset_materialization for record in events]
    found = [(each.partition, each.asset_key.path[-1]) for each in made if each and each.partition]
    assert Counter(source for source, _ in found) == {"one": 5, "two": 3, "three": 2}
    monkeypatch.setitem(pipeline.STAGES, "embeddings", embed)
    recorded(shown)
    assert shown.stale(shown.project.definitions()) == {}


def test_a_slow_event_log_is_written_to_less_often_but_every_ten_seconds_at_least() -> None:
    assert [choose_interval_s(flush_s) for flush_s in (0.0, 0.02, 0.2, 3.0)] == [1.0, 1.0, 4.0, 10.0]
