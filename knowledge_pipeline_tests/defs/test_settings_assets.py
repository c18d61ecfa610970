"""What the hashes of settings take in, and what the sensor reports of their changes."""

from collections.abc import Mapping
from typing import Any

import dagster as dg
import pytest

from knowledge_pipeline.config.settings import Settings, compute_settings_digests
from knowledge_pipeline.defs import settings_assets
from knowledge_pipeline.defs.sensors import build_sources_sensor
from knowledge_pipeline.defs.settings_assets import (
    SOURCES,
    build_sources_asset,
    describe_versions,
    report_settings,
    settings_partitions,
)
from knowledge_pipeline_tests.defs.conftest import Workplace

TOKEN = "not-" + "a-real-token"
LOCAL = {"type": "local", "path": "/folder"}
GIT = {"type": "git", "url": "https://example.com/team/shop.git"}


def hashes(source: Mapping[str, Any] | None = None, **rest: Any) -> dict[str, str]:
    declared = {"id": "one", "type": "code", "connection": GIT, **(source or {})}
    settings = Settings.model_validate({"sources": [declared], **rest})
    return compute_settings_digests(settings, settings.sources[0])


def changed(source: Mapping[str, Any], **rest: Any) -> set[str]:
    before, after = hashes(), hashes(source, **rest)
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"exclude": ["*.txt"]}, {"source"}),
        ({"max_bytes": 10}, {"source"}),
        ({"languages": ["python"]}, {"source"}),
        ({"connection": {**GIT, "branch": "next"}}, {"source", "access"}),
        ({"connection": LOCAL}, {"source", "access"}),
        ({"chunking": {"max_tokens": 64}}, {"chunking"}),
        ({"sanitize": {"personal_data": "drop"}}, {"chunking"}),
        ({"metadata": {"code": False}}, {"chunking"}),
        ({"metadata": {"tags": ["x"]}}, {"chunking", "access"}),
        ({"access": {"visibility": "tenant", "tenant": "acme"}}, {"access"}),
        ({"embedding": {"model": "other"}}, {"model"}),
        ({"refresh": {"trigger": "weekly"}}, set()),
        ({"embedding": {"batch_size": 2, "timeout_s": 5}}, set()),
    ],
)
def test_a_setting_is_part_of_what_it_decides_and_of_nothing_else(source, expected) -> None:
    assert changed(source) == expected


def test_the_model_of_the_project_counts_for_sources_without_their_own() -> None:
    assert changed({}, embedding={"model": "other"}) == {"model"}
    assert changed({"embedding": {}}, embedding={"model": "other"}) == set()


def test_no_secret_is_part_of_a_hash() -> None:
    endpoint = {"provider": "openai", "dimensions": 8, "base_url": "https://example.com/v1"}
    secret = {**endpoint, "api_key": TOKEN, "base_url": f"https://{TOKEN}@example.com/v1"}
    git = {**GIT, "token": TOKEN, "url": f"https://user:{TOKEN}@example.com/team/shop.git?token={TOKEN}"}
    assert hashes({"embedding": endpoint}) == hashes({"embedding": secret, "connection": git})
    assert hashes({"embedding": endpoint}) != hashes(
        {"embedding": {**endpoint, "base_url": "https://b.org/v1"}}
    )


@pytest.fixture
def tick(workplace: Workplace, instance: dg.DagsterInstance):
    """One tick of the sensor, as the daemon carries it out."""
    cursor: list[str | None] = [None]

    def evaluate() -> list[tuple[str | None, str]]:
        with dg.build_sensor_context(
            instance=instance, cursor=cursor[0], resources={"project": workplace.resource}
        ) as context:
            answer = build_sources_sensor(["code"]).evaluate_tick(context)
        cursor[0] = answer.cursor if answer.cursor is not None else cursor[0]
        found = []
        for event in answer.asset_events:
            assert isinstance(event, dg.AssetMaterialization)
            instance.report_runless_asset_event(event)
            found.append((event.partition, str(event.metadata["changed"].value)))
        return found

    return evaluate


def rewrite(workplace: Workplace, source: str, addition: str) -> None:
    text = workplace.path.read_text()
    workplace.path.write_text(text.replace(f"{{id: {source},", f"{{id: {source}, {addition},"))


@pytest.mark.storage
def test_the_sensor_reports_a_change_once_and_nothing_at_first_sight(
    workplace: Workplace, instance: dg.DagsterInstance, tick
) -> None:
    workplace.declare("one", a_py="x = 1\n")
    workplace.declare("two", a_py="x = 1\n")
    assert tick() == []
    report_settings(instance, workplace.settings, workplace.settings.sources)
    rewrite(workplace, "two", "chunking: {max_tokens: 64}, exclude: [b.py]")
    assert tick() == [("two", "source, chunking")]
    assert tick() == []
    rewrite(workplace, "one", "access: {visibility: tenant, tenant: acme}")
    assert tick() == [("one", "access")]


@pytest.mark.storage
def test_the_sensor_reports_many_changes_over_several_ticks(
    workplace: Workplace, instance: dg.DagsterInstance, tick, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_assets, "REPORTS_PER_TICK", 2)
    for name in ("a", "b", "c", "d", "e"):
        workplace.declare(name, x_py="x = 1\n")
    report_settings(instance, workplace.settings, workplace.settings.sources)
    for name in ("a", "b", "c", "d", "e"):
        rewrite(workplace, name, "max_bytes: 5")
    assert [len(tick()) for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.storage
def test_the_sensor_looks_again_after_a_while_though_the_file_is_the_same(
    workplace: Workplace, instance: dg.DagsterInstance, tick, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace.declare("one", a_py="x = 1\n")
    older = workplace.settings
    report_settings(instance, older, older.sources)
    rewrite(workplace, "one", "max_bytes: 5")
    assert len(tick()) == 1
    report_settings(instance, older, older.sources)  # a run that had read the file before the edit
    assert tick() == []
    monkeypatch.setattr(settings_assets, "_RECHECK_S", 7)  # another span of time begins
    assert tick() == [("one", "source")]


def test_a_file_that_is_wrong_is_told_and_changes_nothing(workplace: Workplace, instance, tick) -> None:
    workplace.declare("one", a_py="x = 1\n")
    report_settings(instance, workplace.settings, workplace.settings.sources)
    rewrite(workplace, "one", "max_bites: 5")
    assert tick() == []


@pytest.mark.storage
def test_what_is_recorded_names_the_source_and_no_secret(
    workplace: Workplace, instance: dg.DagsterInstance, tick
) -> None:
    workplace.declare("one", a_py="x = 1\n")
    assert report_settings(instance, workplace.settings, workplace.settings.sources) == 1
    assert report_settings(instance, workplace.settings, workplace.settings.sources) == 0
    (record,) = instance.fetch_materializations(dg.AssetKey(SOURCES), limit=5).records
    event = record.asset_materialization
    assert event
    (source,) = workplace.settings.sources
    assert event.partition == "one"
    assert event.tags == {"dagster/data_version": describe_versions(workplace.settings, source)}
    assert {name: value.value for name, value in event.metadata.items()} == {
        "type": "code",
        "reads": str(workplace.root / "folders" / "one"),
        "model": "hashed-words",
        "visibility": "public",
        "trigger": "on_commit",
    }


@pytest.mark.storage
def test_materializing_the_sources_records_those_that_are_chosen(
    workplace: Workplace, instance: dg.DagsterInstance, tick
) -> None:
    workplace.declare("one", a_py="x = 1\n")
    workplace.declare("two", a_py="x = 1\n")
    tick()
    partitions = settings_partitions().get_partition_keys(dynamic_partitions_store=instance)
    assert partitions == ["one", "two"]
    result = dg.materialize(
        [build_sources_asset()],
        instance=instance,
        partition_key="two",
        resources={"project": workplace.resource},
    )
    assert result.success
    (record,) = instance.fetch_materializations(dg.AssetKey(SOURCES), limit=5).records
    assert record.partition_key == "two"
