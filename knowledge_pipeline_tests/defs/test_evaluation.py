"""The evaluation as an asset: what it shows, and how it keeps the release back."""

from pathlib import Path

import dagster as dg
import pytest

from knowledge_pipeline.defs.evaluation import EVALUATION, build_evaluation_asset, log_evaluation
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline_tests.defs.conftest import Workplace
from knowledge_pipeline_tests.refreshed import refresh_source

SIGNED = 'def sign_session(key):\n    """How a session is signed."""\n    return key\n'
QUESTIONS = """
- {question: how is a session signed, type: code, answers: [{path: a.py, symbol: sign_session}]}
- {question: where is the moon, type: code, answers: [{path: moon.py}]}
"""


def index(workplace: Workplace) -> None:
    """Up to the index, releasing nothing."""
    settings = workplace.settings
    refresh_source(RefreshContext(workplace.lake, settings, settings.sources[0]))


def configure(workplace: Workplace, evaluation: str) -> None:
    (workplace.root / "golden.yaml").write_text(QUESTIONS)
    text = workplace.path.read_text()
    workplace.path.write_text(f"{text}\nevaluation: {evaluation}\n")


def run(workplace: Workplace, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [build_evaluation_asset(["code"])],
        instance=instance,
        resources={"project": workplace.resource},
        raise_on_error=False,
    )


def metadata(result: dg.ExecuteInProcessResult) -> dict:
    (event,) = result.asset_materializations_for_node("evaluate")
    return {name: _plain(value) for name, value in event.metadata.items()}


def _plain(value: dg.MetadataValue) -> object:
    if isinstance(value, dg.TableMetadataValue):
        return [record.data for record in value.records]
    return value.value


def check(result: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    (evaluation,) = result.get_asset_check_evaluations()
    return evaluation


@pytest.fixture
def folder(workplace: Workplace) -> Path:
    return workplace.declare("app", a_py=SIGNED)


@pytest.mark.usefixtures("folder")
def test_it_shows_scores_worst_questions_and_history(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    index(workplace)
    configure(workplace, "{questions: [golden.yaml]}")
    shown = metadata(run(workplace, instance))
    assert (shown["nDCG@10"], shown["questions"], shown["files"]) == (0.5, 2, "golden.yaml")
    worst = shown["worst_questions"]
    assert [row["question"] for row in worst] == ["where is the moon", "how is a session signed"]
    assert worst[0]["wanted"].startswith("moon.py") and worst[0]["first"] == "a.py"
    assert {row["type"] for row in shown["by_search_type"]} == {"all", "code"}
    assert len(shown["history"]) == 1


@pytest.mark.usefixtures("folder")
def test_materialized_again_it_asks_nothing_and_shows_the_same(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    index(workplace)
    configure(workplace, "{questions: [golden.yaml]}")
    first, second = metadata(run(workplace, instance)), metadata(run(workplace, instance))
    assert "worst_questions" not in second
    assert {**first, "worst_questions": None} == {**second, "worst_questions": None}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("floor", "passed"), [("0.5", True), ("0.6", False)])
def test_the_check_fails_below_the_floor(
    workplace: Workplace, instance: dg.DagsterInstance, floor: str, passed: bool
) -> None:
    index(workplace)
    configure(workplace, f"{{questions: [golden.yaml], floor: {floor}}}")
    found = check(run(workplace, instance))
    assert (found.passed, found.blocking, found.severity) == (passed, True, dg.AssetCheckSeverity.ERROR)
    assert "nDCG@10 0.500" in (found.description or "")


@pytest.mark.usefixtures("folder")
def test_what_is_live_already_is_only_warned_of(workplace: Workplace, instance: dg.DagsterInstance) -> None:
    pipeline.refresh(workplace.lake, workplace.settings, workplace.settings.sources)
    configure(workplace, "{questions: [golden.yaml], floor: 0.6}")
    found = check(run(workplace, instance))
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "the live release" in (found.description or "")


@pytest.mark.usefixtures("folder")
def test_without_questions_the_check_passes_and_says_so(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    result = run(workplace, instance)
    assert check(result).passed and "no golden questions" in (check(result).description or "")
    assert metadata(result)["questions"] == 0


@pytest.mark.usefixtures("folder")
def test_a_wrong_file_of_questions_fails_the_step_in_one_sentence(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    index(workplace)
    configure(workplace, "{questions: [gone.yaml]}")
    result = run(workplace, instance)
    (failed,) = result.get_step_failure_events()
    told = failed.step_failure_data.user_failure_data
    assert told is not None and "no golden questions at" in (told.description or "")


def test_it_lies_between_the_index_and_the_release(workplace: Workplace) -> None:
    asset = build_evaluation_asset(["code", "markdown"], owners=["team:search"])
    assert asset.asset_deps[dg.AssetKey(EVALUATION)] == {
        dg.AssetKey(["code", "index"]),
        dg.AssetKey(["markdown", "index"]),
    }
    assert asset.group_names_by_key[dg.AssetKey(EVALUATION)] == "release"
    assert asset.owners_by_key[dg.AssetKey(EVALUATION)] == ["team:search"]


@pytest.mark.usefixtures("folder")
def test_a_plain_op_logs_the_same(workplace: Workplace, instance: dg.DagsterInstance) -> None:
    index(workplace)
    configure(workplace, "{questions: [golden.yaml], floor: 0.6}")

    @dg.op
    def evaluate_it(context: dg.OpExecutionContext, project: ProjectResource) -> None:
        log_evaluation(context, project, lambda version: {"dagster/data_version": version})

    @dg.job(resource_defs={"project": workplace.resource})
    def plain() -> None:
        evaluate_it()

    assert plain.execute_in_process(instance=instance).success
    event = instance.get_latest_materialization_event(dg.AssetKey(EVALUATION))
    assert event is not None and event.asset_materialization is not None
    assert event.asset_materialization.metadata["nDCG@10"].value == 0.5
    key = dg.AssetCheckKey(dg.AssetKey(EVALUATION), "quality_holds")
    (record,) = instance.event_log_storage.get_asset_check_execution_history(key, limit=5)
    assert record.status.value == "FAILED"
