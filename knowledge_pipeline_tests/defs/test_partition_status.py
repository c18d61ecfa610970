"""What Dagster shows of partitions whatever job made them: planned, made, failed, and made again."""

import shutil

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from dagster._core.storage.partition_status_cache import AssetPartitionStatus

from knowledge_pipeline.defs.names import PLAIN
from knowledge_pipeline.defs.runs import _MAX_PLANNED
from knowledge_pipeline.defs.settings_assets import source_partitions
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.pipeline import select_stages
from knowledge_pipeline_tests.defs.conftest import Workplace

pytestmark = pytest.mark.storage
STAGES = ("snapshot", "chunks", "embeddings", "index")


def show(instance: dg.DagsterInstance, *ids: str) -> dict[str, set[str]]:
    """Of each source the statuses of its partitions, in all its assets."""
    shown: dict[str, set[str]] = {id_: set() for id_ in ids}
    for stage in select_stages("markdown"):
        key = PLAIN.key("markdown", stage)
        statuses = instance.get_status_by_partition(key, ids, source_partitions("markdown")) or {}
        for id_ in ids:
            status = statuses.get(id_)
            shown[id_].add(status.value if status else "")
    return shown


MADE, FAILED = {AssetPartitionStatus.MATERIALIZED.value}, {AssetPartitionStatus.FAILED.value}


def test_a_source_that_fails_is_failed_and_made_again_whatever_refreshes_it(
    workplace: Workplace, instance: dg.DagsterInstance
):
    for id_ in ("notes", "guide"):
        workplace.declare(id_, "markdown", a_md=f"# {id_}\n\nSomething.\n")
    assert workplace.run(instance, "refresh").success
    assert show(instance, "notes", "guide") == {"notes": MADE, "guide": MADE}

    folder = workplace.root / "folders" / "notes"
    folder.rename(folder.with_name("away"))
    assert not workplace.run(instance, "refresh").success
    assert show(instance, "notes", "guide") == {"notes": FAILED, "guide": MADE}
    assert not workplace.run(instance, "refresh_markdown", "notes").success
    assert show(instance, "notes") == {"notes": FAILED}

    folder.with_name("away").rename(folder)
    assert workplace.run(instance, "refresh").success
    assert show(instance, "notes", "guide") == {"notes": MADE, "guide": MADE}


def test_among_many_sources_the_failed_one_alone_is_failed(
    workplace: Workplace, instance: dg.DagsterInstance
):
    ids = [f"notes{number}" for number in range(_MAX_PLANNED + 1)]
    for id_ in ids:
        workplace.declare(id_, "markdown", a_md=f"# {id_}\n")
    assert workplace.run(instance, "refresh").success
    shutil.rmtree(workplace.root / "folders" / ids[3])
    assert not workplace.run(instance, "refresh").success
    shown = show(instance, *ids)
    assert {id_ for id_ in ids if shown[id_] == FAILED} == {ids[3]}
    assert all(shown[id_] == MADE for id_ in ids if id_ != ids[3])


def test_a_release_is_stale_only_after_rows_that_it_lacks(
    workplace: Workplace, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pipeline, "MIN_REMOTE_TEXTS", 0)  # words are released before vectors
    monkeypatch.setattr(pipeline, "MAX_TIME_SHARE", 1e9)
    key = dg.AssetKey("release")

    def causes() -> list[str]:
        graph = workplace.definitions().resolve_asset_graph()
        resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
        return [
            f"{cause.asset_key.to_user_string()} {cause.reason}" for cause in resolver.get_stale_causes(key)
        ]

    folder = workplace.declare("notes", a_py="def add():\n    return 1\n")
    workplace.declare("guide", a_py="def sub():\n    return 2\n")
    assert workplace.run(instance, "refresh").success
    assert causes() == []
    (folder / "a.py").write_text("def add():\n    return 3\n")
    index = dg.AssetKey(["code", "index"])
    chain = [dg.AssetKey(["code", stage]) for stage in select_stages("code")]
    assert workplace.run(instance, "refresh_code", "notes", asset_selection=chain).success
    assert {cause.partition(" ")[0] for cause in causes()} == {"release"}
    assert workplace.run(instance, "release").success
    assert causes() == []
    # An unchanged source, after another one wrote to the table that they share.
    assert workplace.run(instance, "refresh_code", "guide").success
    assert causes() == []
    count = len(instance.fetch_materializations(key, limit=99).records)
    for tags in ({}, {"dagster/backfill": "some"}):  # which waits for a record
        assert workplace.run(instance, "release", tags=tags).success
    events = instance.fetch_materializations(key, limit=99).records
    assert len(events) == count + 1
    for record in events:  # the early ones too say what they were made of
        tags = record.asset_materialization.tags if record.asset_materialization else {}
        assert f"dagster/input_data_version/{index.to_user_string()}" in (tags or {})
