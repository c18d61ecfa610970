"""The chain and the release, run by real Dagster on real tables."""

import dagster as dg
import pytest

from knowledge_pipeline.defs.event_log import PIN_CHECK
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages import pipeline as early_release
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.defs.conftest import Workplace, errors
from knowledge_pipeline_tests.fakes.openai_server import Fault, OpenAIServer

ADD = "def add(left, right):\n    return left + right\n"
STORE = "class Store:\n    def get(self, key):\n        return key\n"


def content(lake: Lake) -> dict[str, list[dict]]:
    """Every row of every stage but for times of writing, in a fixed order."""
    held: dict[str, list[dict]] = {}
    for source, type_ in lake.list_stored_sources().items():
        for stage, table in (
            ("snapshot", lake.snapshot(type_, source)),
            ("chunks", lake.chunks(type_, source)),
        ):
            held[f"{stage} {source}"] = table.read_rows(table.schema.names).to_pylist()
    for space, dimensions in lake.list_spaces().items():
        table = lake.index(space, dimensions)
        columns = [name for name in table.schema.names if name not in ("indexed_at", "updated_at")]
        held[f"index {space}"] = table.read_rows(columns).to_pylist()
    return {name: sorted(rows, key=lambda row: row.get("id") or row["uri"]) for name, rows in held.items()}


def versions(lake: Lake) -> dict[str, int]:
    """Newest version of every table, the logs aside."""
    found = (path for path in lake.root.rglob("_versions") if "logs" not in path.parts)
    return {str(path): len(list(path.iterdir())) for path in found}


def test_a_materialized_partition_holds_the_same_rows_as_a_plain_refresh(
    workplace: Workplace, instance: dg.DagsterInstance, tmp_path
) -> None:
    workplace.declare("one", a_py=ADD, b_py=STORE)
    assert workplace.run(instance, "refresh_code", "one").success
    settings = workplace.settings
    plain = Lake(tmp_path / "plain")
    pipeline.refresh(plain, settings, settings.sources)
    recorded = content(workplace.lake)
    assert recorded == content(plain)
    assert len(recorded["chunks one"]) == 2
    release = find_live_release(workplace.lake)
    assert release is not None
    assert release.rows == 2


@pytest.mark.storage
def test_materializing_twice_writes_nothing_and_keeps_the_data_versions(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("one", a_py=ADD)
    first = workplace.run(instance, "refresh_code", "one")
    before = versions(workplace.lake)
    second = workplace.run(instance, "refresh_code", "one")
    assert versions(workplace.lake) == before != {}
    assert data_versions(first) == {**data_versions(second), "release": "1"}, "a release of nothing is none"
    assert set(data_versions(second)) == {
        "code/snapshot",
        "code/chunks",
        "code/embeddings",
        "code/index",
        "code/graph",
    }


def test_a_backfill_records_the_release_that_each_of_its_runs_was_asked_for(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("one", a_py=ADD)
    workplace.run(instance, "refresh_code", "one")
    again = workplace.run(instance, "refresh_code", "one", tags={"dagster/backfill": "some"})
    assert data_versions(again)["release"] == "1", "Dagster takes what it skips for failed"


def data_versions(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    return {
        event.asset_key.to_user_string(): event.materialization.tags["dagster/data_version"]
        for event in result.get_asset_materialization_events()
    }


def test_a_materialization_says_what_was_done(workplace: Workplace, instance: dg.DagsterInstance) -> None:
    folder = workplace.declare("one", a_py=ADD, b_py=STORE)
    (folder / "broken.py").write_bytes(b"\x00\x01\x02" * 50)
    result = workplace.run(instance, "refresh_code", "one")
    told = {
        event.asset_key.path[-1]: event.materialization.metadata
        for event in result.get_asset_materialization_events()
    }
    assert told["snapshot"]["seen"].value == 3
    assert told["snapshot"]["skipped"].value == 1
    assert "| what | count |" in told["snapshot"]["skipped_reasons"].value
    assert told["chunks"]["dagster/row_count"].value == 2
    assert {record.data["uri"] for record in told["chunks"]["preview"].records} == {"a.py", "b.py"}
    assert told["embeddings"]["tokens"].value > 0
    assert told["index"]["table_version"].value >= 1


def test_words_are_materialized_and_released_before_vectors(
    workplace: Workplace, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early_release, "MIN_REMOTE_TEXTS", 0)
    monkeypatch.setattr(early_release, "MAX_TIME_SHARE", 1e9)
    workplace.declare("one", a_py=ADD, b_py=STORE)
    workplace.declare("two", a_py=ADD)
    run_all = {"ops": {"refresh_sources": {"config": {"sources": ["one", "two"]}}}}
    result = workplace.run(instance, "refresh", run_config=run_all)
    assert result.success
    told = [
        (made.asset_key.path[-1], made.partition, made.metadata)
        for record in instance.get_records_for_run(result.run_id).records
        if (made := record.event_log_entry.asset_materialization)
        and made.asset_key.path[-1] in ("index", "release")
    ]
    waiting = [(name, source, metadata["rows_without_vector"].value) for name, source, metadata in told]
    assert waiting == [
        *[("index", "one", 2), ("release", None, 2), ("index", "two", 1), ("release", None, 3)],
        *[("release", None, 3), ("index", "one", 0)],  # with the code graph of the first, then its vectors
        *[("release", None, 1), ("index", "two", 0), ("release", None, 0)],
    ]
    shares = [metadata["embedded_share"].value for name, _, metadata in told if name == "release"]
    assert shares == [0.0, 0.0, 0.0, 0.6667, 1.0]


def test_a_run_says_that_a_pinned_release_stays_live(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("one", a_py=ADD)
    run_all = {"ops": {"refresh_sources": {"config": {"sources": ["one"]}}}}
    assert workplace.run(instance, "refresh", run_config=run_all).success
    roll_back_release(workplace.lake, workplace.settings, 1)
    workplace.declare("one", a_py=STORE)
    result = workplace.run(instance, "refresh", run_config=run_all)
    assert result.success
    (released,) = [
        event.materialization.metadata
        for event in result.get_asset_materialization_events()
        if event.asset_key == dg.AssetKey("release")
    ]
    assert released["release"].value == 2
    (pin,) = [
        event.event_specific_data
        for event in result.filter_events(lambda event: event.event_type_value == "ASSET_CHECK_EVALUATION")
        if event.event_specific_data.check_name == PIN_CHECK
    ]
    assert not pin.passed
    assert pin.description.startswith("release 2 is pinned (content of release 1")


@pytest.mark.storage
def test_a_partition_alone_releases_words_where_its_run_has_the_release(
    workplace: Workplace, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(early_release, "MIN_REMOTE_TEXTS", 0)
    workplace.declare("one", a_py=ADD, b_py=STORE)
    result = workplace.run(instance, "refresh_code", "one")
    assert result.success
    waiting = [
        event.materialization.metadata["rows_without_vector"].value
        for event in result.get_asset_materialization_events()
        if event.asset_key == dg.AssetKey(["code", "index"])
    ]
    selection = instance.get_runs()[0].asset_selection
    has_release = selection is None or dg.AssetKey("release") in selection
    assert waiting == ([2, 0] if has_release else [0])


def test_one_stage_can_be_run_alone(workplace: Workplace, instance: dg.DagsterInstance) -> None:
    workplace.declare("one", a_py=ADD)
    result = workplace.run(
        instance, "refresh_code", "one", asset_selection=[dg.AssetKey(["code", "snapshot"])]
    )
    assert result.success
    assert workplace.lake.snapshot("code", "one").count_rows() == 1
    assert not workplace.lake.chunks("code", "one").exists


@pytest.mark.slow
def test_a_full_run_makes_every_row_anew(workplace: Workplace, instance: dg.DagsterInstance) -> None:
    workplace.declare("one", a_py=ADD, b_py=STORE)
    workplace.run(instance, "refresh_code", "one")
    result = workplace.run(
        instance, "refresh_code", "one", run_config={"ops": {"code": {"config": {"full": True}}}}
    )
    changed = {
        event.asset_key.path[-1]: event.materialization.metadata["changed"].value
        for event in result.get_asset_materialization_events()
        if event.asset_key.path[0] == "code"
    }
    assert changed == {"snapshot": 2, "chunks": 2, "embeddings": 0, "index": 2, "graph": 2}


def test_a_source_that_does_not_exist_fails_at_once_in_one_sentence(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("gone")
    result = workplace.run(instance, "refresh_code", "gone")
    assert not result.success
    assert result.retry_attempts_for_node("code") == 0
    (sentence,) = errors(result)
    assert "gone" in sentence
    assert "\n" not in sentence


def test_a_source_that_is_no_longer_configured_fails_by_name(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("one", a_py=ADD)
    workplace.declare("two", a_py=ADD)
    workplace.add_partitions(instance)
    workplace.forget("two")
    result = workplace.run(instance, "refresh_code", "two")
    (sentence,) = errors(result)
    assert "there is no source 'two'" in sentence


@pytest.fixture
def failing_endpoint(workplace: Workplace, monkeypatch: pytest.MonkeyPatch):
    """An endpoint of its own, that a test makes fail."""
    with OpenAIServer() as server:
        text = workplace.embedding
        old = next(line for line in text.splitlines() if "base_url" in line)
        workplace.embedding = text.replace(old, f"  base_url: {server.url}")
        workplace.declare("one", a_py=ADD)
        yield server


@pytest.mark.slow
def test_an_endpoint_that_comes_back_is_waited_for(
    workplace: Workplace, instance: dg.DagsterInstance, failing_endpoint: OpenAIServer
) -> None:
    failing_endpoint.fail_next(Fault(503))
    result = workplace.run(instance, "refresh_code", "one")
    assert result.success
    assert result.retry_attempts_for_node("code") == 1


@pytest.mark.slow
def test_an_endpoint_that_stays_away_fails_after_the_retries_and_keeps_what_was_done(
    workplace: Workplace, instance: dg.DagsterInstance, failing_endpoint: OpenAIServer
) -> None:
    failing_endpoint.fail_next(*[Fault(503)] * 50)
    result = workplace.run(instance, "refresh_code", "one")
    assert not result.success
    assert result.retry_attempts_for_node("code") == 2
    (sentence,) = errors(result)
    assert "503" in sentence
    assert workplace.lake.chunks("code", "one").count_rows() == 1
    materialized = {event.asset_key.path[-1] for event in result.get_asset_materialization_events()}
    assert materialized == {"snapshot", "chunks", "graph"}


@pytest.mark.storage
def test_in_a_run_of_many_sources_a_failing_one_stops_itself_alone(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    for name in ("a", "b", "c"):
        workplace.declare(name, **({} if name == "b" else {"x_py": f"def f_{name}():\n    return 1\n"}))
    result = workplace.run_range(instance, "refresh_code", "a", "c")
    (sentence,) = errors(result)
    assert sentence.startswith("1 of 3 sources failed, the others are done: b: ")
    keys = [dg.AssetKey(["code", stage]) for stage in ("snapshot", "index")]
    assert [instance.get_materialized_partitions(key) for key in keys] == [{"a", "c"}] * 2
    assert workplace.lake.chunks("code", "c").count_rows() == 1
    workplace.run(instance, "release")
    release = find_live_release(workplace.lake)
    assert release is not None
    assert release.rows == 2


@pytest.mark.slow
def test_a_run_of_many_sources_records_each_with_its_own_numbers(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("a", x_py=ADD)
    workplace.declare("b", x_py=ADD, y_py=STORE)
    result = workplace.run_range(instance, "refresh_code", "a", "b")
    assert result.success
    recorded = instance.fetch_materializations(dg.AssetKey(["code", "chunks"]), limit=10).records
    rows = {
        each.partition_key: each.asset_materialization.metadata["dagster/row_count"].value
        for each in recorded
        if each.asset_materialization
    }
    assert rows == {"a": 1, "b": 2}


def test_a_full_reindex_of_named_sources_is_full(workplace: Workplace, instance: dg.DagsterInstance) -> None:
    workplace.declare("one", a_py="def add():\n    return 1\n")
    workplace.declare("two", b_py="def sub():\n    return 2\n")
    assert workplace.run(instance, "refresh").success
    config = {"ops": {"refresh_sources": {"config": {"sources": ["one"], "full": True}}}}
    result = workplace.run(instance, "refresh", run_config=config)
    assert result.success
    (chunks,) = instance.fetch_materializations(dg.AssetKey(["code", "chunks"]), limit=1).records
    assert (chunks.partition_key, chunks.run_id) == ("one", result.run_id)
    assert chunks.asset_materialization.metadata["changed"].value == 1
