"""The tuning as an asset: what its page shows, and that it releases as the command does."""

import dagster as dg

from knowledge_pipeline.defs.tuning import build_tuning_asset
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.release import find_live_release, publish_ranker
from knowledge_pipeline_tests.defs.conftest import Workplace
from knowledge_pipeline_tests.stages.tuning.test_tune import (
    FILES,
    MISLED,
    MISLED_WEIGHTS,
    write_misleading_names,
)


def run(workplace: Workplace, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [build_tuning_asset()],
        instance=instance,
        resources={"project": workplace.resource},
        raise_on_error=False,
    )


def test_its_page_shows_pairs_gains_weights_and_training(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    write_misleading_names(workplace.declare("app", a_py="x = 1\n"))
    text = workplace.path.read_text()
    folder = workplace.root / "folders" / "app"
    past = f"  - {{id: past, type: git_history, connection: {{type: local, path: '{folder}'}}}}\n"
    workplace.path.write_text(text + past)
    settings = workplace.settings
    assert pipeline.refresh(workplace.lake, settings, settings.sources).failures == {}
    publish_ranker(workplace.lake, MISLED.to_json(), keep=10)
    result = run(workplace, instance)
    (event,) = [each for each in result.asset_materializations_for_node("tune") if each.label == "tuning"]
    shown = event.metadata
    assert (shown["pairs"].value, shown["release"].value) == (FILES, 3)
    assert shown["outcome"].value == "the learned weights are released"
    tables = {
        name: [record.data for record in value.records]
        for name, value in shown.items()
        if isinstance(value, dg.TableMetadataValue)
    }
    assert tables["pairs_by_kind"] == [{"kind": "commit", "pairs": FILES}]
    assert [row["ndcg_10_of"] for row in tables["gains"]] == ["all held out", "commit"]
    (named,) = [row for row in tables["weights"] if row["weight"] == "file_name"]
    assert named["learned"] < named["live"] == MISLED_WEIGHTS["file_name"]
    assert "data:image/png;base64," in str(shown["training"].value)
    live = find_live_release(workplace.lake)
    assert live is not None and live.ranker is not None


def test_a_store_without_pairs_fails_in_a_sentence(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    result = run(workplace, instance)
    assert not result.success
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert "nothing is released yet" in str(failure.step_failure_data.user_failure_data)
