"""Checks as Dagster runs, records and shows them."""

import json
from collections.abc import Iterator

import dagster as dg
import pytest

from knowledge_pipeline.checks.integrity import CheckResult, build_sample
from knowledge_pipeline.checks.registry import (
    CHECKS,
    list_checks,
)
from knowledge_pipeline.defs.checks import (
    build_check_specs,
    build_checks_job,
    build_informational_checks,
    check_releasable,
    list_check_keys,
    run_step,
    to_check_result,
)
from knowledge_pipeline.defs.dagster_internals import log_check_result
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.settings_assets import source_partitions
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages import pipeline as release
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.stages.verify_sources import SOURCE_CHECK
from knowledge_pipeline.store.filters import one_of
from knowledge_pipeline_tests.defs.conftest import Workplace
from knowledge_pipeline_tests.refreshed import refresh_source

INDEX, GRAPH = dg.AssetKey(["code", "index"]), dg.AssetKey(["code", "graph"])
RELEASABLE = dg.AssetCheckKey(INDEX, "releasable")
USEFUL = dg.AssetCheckKey(dg.AssetKey(["code", "chunks"]), "useful_content")


@pytest.fixture
def workplace(workplace: Workplace) -> Workplace:
    """With a source of two files, refreshed and released."""
    workplace.declare("one", a_py="def add():\n    return 1\n", b_py="def sub():\n    return 2\n")
    refresh(workplace)
    return workplace


def refresh(workplace: Workplace) -> None:
    settings = workplace.settings
    assert not pipeline.refresh(workplace.lake, settings, settings.sources).failures


def lose_a_row(workplace: Workplace) -> None:
    (named,) = workplace.lake.list_spaces().items()
    table = workplace.lake.index(*named)
    table.delete_where(one_of("id", table.read_rows(["id"])["id"].to_pylist()[:1]))


@dg.multi_asset(
    name="code", specs=[dg.AssetSpec(INDEX), dg.AssetSpec(GRAPH)], check_specs=build_check_specs("code")
)
def indexing(project: ProjectResource) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
    """The end of a chain: nothing to write, then the checks."""
    yield dg.MaterializeResult(asset_key=INDEX)
    yield dg.MaterializeResult(asset_key=GRAPH)
    yield check_releasable(project.open_lake(), project.load_settings(), "code")


@dg.asset(deps=[INDEX], name="release")
def publish(context: dg.AssetExecutionContext, project: ProjectResource) -> None:
    with run_step(context, project.retry_policy()):
        release.release_newest(project.open_lake(), project.load_settings())


STAGES = [
    *(dg.AssetSpec(["code", stage], partitions_def=source_partitions("code")) for stage in pipeline.STAGES),
    dg.AssetSpec("release"),
]


@dg.op
def log_evaluations(context: dg.OpExecutionContext, project: ProjectResource) -> None:
    log_check_result(context, check_releasable(project.open_lake(), project.load_settings(), "code"))


@dg.job
def logging() -> None:
    log_evaluations()


def execute(
    workplace: Workplace, instance: dg.DagsterInstance, job: str = "indexing", **rest
) -> dg.ExecuteInProcessResult:
    """Run one of: the end of a chain with its release, an op that logs, the informing checks."""
    project = {"project": workplace.resource}
    if job == "checks":
        informs = build_informational_checks(["code"])
        definitions = dg.Definitions(
            assets=STAGES, asset_checks=[informs], jobs=[build_checks_job(informs)], resources=project
        )
    else:
        both = dg.define_asset_job("indexing", selection=dg.AssetSelection.all())
        definitions = dg.Definitions(assets=[indexing, publish], jobs=[both, logging], resources=project)
    return definitions.resolve_job_def(job).execute_in_process(
        instance=instance, raise_on_error=False, **rest
    )


def history(instance: dg.DagsterInstance, key: dg.AssetCheckKey) -> list[dg.AssetCheckEvaluation]:
    """What the page of a check lists, the newest first; planned ones aside."""
    records = instance.event_log_storage.get_asset_check_execution_history(key, limit=10)
    return [record.evaluation for record in records if isinstance(record.evaluation, dg.AssetCheckEvaluation)]


def test_a_sound_index_passes_its_checks_and_is_released(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    result = execute(workplace, instance)
    assert result.success
    evaluations = result.get_asset_check_evaluations()
    assert {(one.check_name, one.passed, one.blocking) for one in evaluations} == {("releasable", True, True)}
    assert all(check.name in (evaluations[0].description or "") for check in list_checks(blocking=True))
    assert instance.get_latest_materialization_event(dg.AssetKey("release")) is not None


def test_a_failing_blocking_check_fails_its_step_after_recording_it_and_nothing_is_released(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    lose_a_row(workplace)
    result = execute(workplace, instance)
    (failure,) = result.get_step_failure_events()
    assert failure.step_key == "code"
    assert "1 blocking asset check failed" in failure.step_failure_data.error.message
    (found,) = history(instance, RELEASABLE)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert "has 2 chunks but 1 rows" in (found.description or "")
    (row,) = found.metadata["index_matches_chunks: rows"].records
    assert (row.data["source"], row.data["wrong"]) == ("one", "missing")
    assert "knowledge sql" in found.metadata["index_matches_chunks: look further"].value
    assert "vectors_are_sound: look further" not in found.metadata
    assert instance.get_latest_materialization_event(INDEX) is not None
    assert instance.get_latest_materialization_event(dg.AssetKey("release")) is None


def test_what_a_refresh_under_way_explains_warns_and_the_release_is_tried_again(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    folder = workplace.declare("one", a_py="def add():\n    return 3\n")
    settings = workplace.settings
    refresh_source(RefreshContext(workplace.lake, settings, settings.sources[0]))
    (folder / "a.py").write_text("def add():\n    return 4\n")
    this = RefreshContext(workplace.lake, settings, settings.sources[0])
    for stage in ("snapshot", "chunks"):
        pipeline.STAGES[stage](this)
    with workplace.lake.lock_source("one"):
        result = execute(workplace, instance)
    (found,) = history(instance, RELEASABLE)
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert {event.step_key for event in result.get_step_success_events()} == {"code"}
    assert result.retry_attempts_for_node("release") == 2


def test_an_op_can_log_what_the_blocking_checks_found(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    assert execute(workplace, instance, "logging").success
    lose_a_row(workplace)
    assert execute(workplace, instance, "logging").success
    after, before = history(instance, RELEASABLE)
    assert (before.passed, after.passed) == (True, False)
    assert (after.severity, after.blocking) == (dg.AssetCheckSeverity.ERROR, True)


def test_the_informing_checks_are_executed_by_themselves(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    (workplace.declare("one", c_py="") / "broken.py").write_bytes(b"\x00\x01" * 50)
    refresh(workplace)
    result = execute(workplace, instance, "checks")
    assert result.success
    evaluations = {one.check_name: one for one in result.get_asset_check_evaluations()}
    assert evaluations.keys() == {
        *("useful_content", "maintained", "fresh", "cost_within_budget", "equals_source")
    }
    compared = evaluations["equals_source"]
    assert compared.passed and "0 documents differ" in (compared.description or "")
    assert evaluations["cost_within_budget"].asset_key == dg.AssetKey("release")
    found = evaluations["useful_content"]
    assert (found.description or "").startswith("skipped_share: ")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.metadata["skipped_share: empty"].value == 1
    assert found.metadata["skipped_share: rows"].records[0].data["uri"] == "broken.py"
    assert not list(result.get_asset_materialization_events())


def test_one_check_can_be_executed_alone(workplace: Workplace, instance: dg.DagsterInstance) -> None:
    informs = build_informational_checks(["code"])
    definitions = dg.Definitions(
        assets=STAGES, asset_checks=[informs], resources={"project": workplace.resource},
        jobs=[dg.define_asset_job("alone", dg.AssetSelection.checks(USEFUL))],
    )  # fmt: skip
    result = definitions.resolve_job_def("alone").execute_in_process(instance=instance)
    assert [one.check_name for one in result.get_asset_check_evaluations()] == ["useful_content"]


@pytest.mark.slow
def test_a_blocking_check_can_be_executed_alone(workplace: Workplace, instance: dg.DagsterInstance) -> None:
    lose_a_row(workplace)
    workplace.add_partitions(instance)
    job = dg.define_asset_job("alone", dg.AssetSelection.checks(RELEASABLE))
    (chain,) = (each for each in workplace.definitions().assets or () if RELEASABLE in _list_checks(each))
    definitions = dg.Definitions([chain], jobs=[job], resources={"project": workplace.resource})
    result = definitions.resolve_job_def("alone").execute_in_process(instance=instance, raise_on_error=False)
    (evaluation,) = result.get_asset_check_evaluations()
    assert (evaluation.asset_check_key, evaluation.passed) == (RELEASABLE, False)
    assert not result.asset_materializations_for_node("code")


def _list_checks(each: object) -> set[dg.AssetCheckKey]:
    return set(each.check_keys) if isinstance(each, dg.AssetsDefinition) else set()


def test_the_runs_of_a_backfill_show_again_what_was_found_last(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    backfill = {"dagster/backfill": "some"}
    execute(workplace, instance, "checks", tags=backfill)
    (workplace.declare("one") / "broken.py").write_bytes(b"\x00\x01" * 50)
    refresh(workplace)
    execute(workplace, instance, "checks", tags=backfill)
    again, first = history(instance, USEFUL)
    assert (first.passed, again.passed) == (True, True)
    assert "looked at" not in first.metadata
    assert "looked at" in again.metadata
    execute(workplace, instance, "checks")
    assert not history(instance, USEFUL)[0].passed


def test_a_configuration_that_cannot_be_read_fails_in_one_sentence(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    (workplace.path).write_text("version: 2\n")
    result = execute(workplace, instance, "checks")
    (failure,) = result.get_step_failure_events()
    assert failure.step_failure_data.user_failure_data is not None
    assert "version" in (failure.step_failure_data.user_failure_data.description or "")


def test_cells_are_one_line_and_fit_for_json() -> None:
    rows = build_sample([{"text": f"first\n\n{'second ' * 40}", "length": float("nan"), "hours": None}])
    result = to_check_result(RELEASABLE, [(CHECKS[0], CheckResult(False, "wrong", rows, {"n": 1}))])
    (record,) = result.metadata["rows"].records
    assert record.data["text"].startswith("first second second")
    assert len(record.data["text"]) == 80
    assert (record.data["length"], record.data["hours"]) == ("nan", None)
    json.dumps(dict(record.data), allow_nan=False)


def test_every_check_is_a_part_of_one_that_says_what_it_is_for() -> None:
    specs = [*build_check_specs("code"), *build_informational_checks(["code", "markdown"]).check_specs]
    assert {spec.asset_key for spec in specs} <= {
        *(spec.key for spec in STAGES),
        *(dg.AssetKey(["markdown", stage]) for stage in pipeline.STAGES),
    }
    assert len(specs) == len({spec.key for spec in specs}) == 10  # the cost is that of all types
    assert [spec.name for spec in specs if spec.blocking] == ["releasable"]
    assert all("docs/checks.md" in (spec.description or "") for spec in specs)
    parts = [
        *list_check_keys("code", blocking=True).values(),
        *list_check_keys("code", blocking=False).values(),
    ]
    assert sorted(check.name for checks in parts for check in checks) == sorted(
        it.name for it in (*CHECKS, SOURCE_CHECK)
    )
