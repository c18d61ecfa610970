"""Going back to a release and pinning one in Dagster, and what the page of `release` says of each."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from knowledge_pipeline.defs.event_log import PIN_CHECK
from knowledge_pipeline.defs.jobs import build_new_release_sensor, build_source_jobs
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.pipeline import refresh_release, roll_back_release
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.defs.conftest import Workplace, errors

RELEASE = dg.AssetKey("release")
FIRST, SECOND = "# One\n\nfirst text\n", "# One\n\nsecond text\n"
(ROLLBACK,) = (job for job in build_source_jobs() if job.name == "rollback")
KINDS = ("added", "changed", "removed")


def roll_back(workplace: Workplace, instance: dg.DagsterInstance, **config: object):
    """Launch the job with a configuration."""
    return ROLLBACK.execute_in_process(
        instance=instance,
        resources={"project": workplace.resource},
        run_config={"ops": {"roll_back_release": {"config": config}}},
        raise_on_error=False,
    )


def tick(workplace: Workplace, instance: dg.DagsterInstance, cursor: str | None = None):
    """One tick of the sensor, with its events stored as the daemon stores them."""
    resources = {"project": workplace.resource}
    with dg.build_sensor_context(instance, cursor=cursor, resources=resources) as context:
        result = build_new_release_sensor(publishes=False)(context)
    for event in result.asset_events if isinstance(result, dg.SensorResult) else ():
        instance.report_runless_asset_event(event)
    return result


def shown(instance: dg.DagsterInstance) -> dict[str, object]:
    """The metadata of the newest materialization of `release`."""
    event = instance.get_latest_materialization_event(RELEASE)
    assert event and event.asset_materialization
    return {name: value.value for name, value in event.asset_materialization.metadata.items()}


def changes(instance: dg.DagsterInstance) -> tuple[list[int], list[int]]:
    """Documents, then chunks, that the newest release added, changed and removed."""
    metadata = shown(instance)
    documents, chunks = (
        [metadata.get(f"{what}_{kind}", 0) for kind in KINDS] for what in ("documents", "chunks")
    )
    return documents, chunks


def pin_check(instance: dg.DagsterInstance) -> tuple[bool, str, str]:
    """Whether the check passed when it ran last, how serious it is, and what it says."""
    key = dg.AssetCheckKey(RELEASE, PIN_CHECK)
    (record,) = instance.event_log_storage.get_asset_check_execution_history(key, 1)
    assert record.evaluation
    return record.evaluation.passed, record.evaluation.severity.value, record.evaluation.description or ""


def stale_causes(workplace: Workplace, instance: dg.DagsterInstance) -> list[str]:
    """Why the page of `release` calls it out of date."""
    graph = workplace.definitions().resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    return [cause.reason for cause in resolver.get_stale_causes(RELEASE)]


@pytest.fixture
def folder(workplace: Workplace, instance: dg.DagsterInstance) -> Path:
    """The folder of a source with two releases."""
    folder = workplace.declare("notes", "markdown", a_md=FIRST, b_md="# Two\n")
    assert workplace.run(instance, "refresh").success
    (folder / "a.md").write_text(SECOND)
    assert workplace.run(instance, "refresh").success
    return folder


@pytest.mark.storage
def test_a_rollback_is_live_pinned_and_shown_at_once(
    workplace: Workplace, instance: dg.DagsterInstance, folder: Path
) -> None:
    assert pin_check(instance)[0]
    assert roll_back(workplace, instance, release=1).success
    live = find_live_release(workplace.lake)
    assert live and (live.release, live.restores) == (3, 1) and live.pin
    assert (shown(instance)["release"], shown(instance)["compared_with"]) == (3, "release 2")
    passed, severity, text = pin_check(instance)
    assert (passed, severity) == (False, "WARN")
    assert text.startswith("release 3 is pinned (content of release 1, since 20")
    assert "`pin: false`" in text and "`knowledge releases --unpin`" in text
    (folder / "a.md").write_text("# One\n\nthird text\n")
    assert workplace.run(instance, "refresh").success
    assert shown(instance)["release"] == 3
    assert roll_back(workplace, instance, pin=False).success
    live = find_live_release(workplace.lake)
    assert live and live.release == 4 and not live.pin
    assert pin_check(instance) == (True, "WARN", "refreshes publish what they change")
    assert changes(instance) == ([0, 1, 0], [1, 0, 1])


def test_a_rollback_until_the_next_refresh_pins_nothing_and_the_live_one_can_be_pinned(
    workplace: Workplace, instance: dg.DagsterInstance, folder: Path
) -> None:
    assert roll_back(workplace, instance, release=1, pin=False).success
    assert pin_check(instance)[0]
    assert workplace.run(instance, "refresh").success
    assert shown(instance)["release"] == 4
    assert roll_back(workplace, instance, pin=True).success
    live = find_live_release(workplace.lake)
    assert live and live.restores == 4 and live.pin
    assert not pin_check(instance)[0]
    assert changes(instance) == ([0, 0, 0], [0, 0, 0])


def test_what_cannot_be_done_is_one_sentence_and_not_retried(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("notes", "markdown", a_md=FIRST)
    pipeline.refresh(workplace.lake, workplace.settings, workplace.settings.sources)
    for config, problem in (
        ({"release": 9}, "there is no release 9; kept releases: 1"),
        ({"release": 0}, "there is no release 0; kept releases: 1"),
        ({"pin": False}, "no release is pinned: refreshes publish what they change"),
        ({}, "give the `release` to return to, `pin: true` to keep the live one, or `pin: false`"),
    ):
        result = roll_back(workplace, instance, **config)
        assert errors(result) == [problem]
        assert not any(event.is_step_up_for_retry for event in result.all_events)
        live = find_live_release(workplace.lake)
        assert live and live.release == 1


def test_nothing_is_pinned_before_the_first_release(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    result = roll_back(workplace, instance, pin=True)
    assert errors(result) == ["there is no release 0; kept releases: none"]


@pytest.mark.storage
def test_what_was_done_outside_of_dagster_is_shown_by_the_sensor(
    workplace: Workplace, instance: dg.DagsterInstance, folder: Path
) -> None:
    cursor = tick(workplace, instance).cursor
    assert shown(instance)["release"] == 2
    roll_back_release(workplace.lake, workplace.settings, 1)  # `knowledge rollback 1`
    cursor = tick(workplace, instance, cursor).cursor
    assert (shown(instance)["release"], shown(instance)["compared_with"]) == (3, "release 2")
    assert not pin_check(instance)[0]
    assert stale_causes(workplace, instance) == []
    assert isinstance(tick(workplace, instance, cursor), dg.SkipReason)
    refresh_release(workplace.lake, workplace.settings, unpin=True)  # `knowledge releases --unpin`
    tick(workplace, instance, cursor)
    assert shown(instance)["release"] == 4
    assert pin_check(instance)[0]


def test_the_sensor_leaves_a_release_to_the_run_that_makes_it(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("notes", "markdown", a_md=FIRST)
    pipeline.refresh(workplace.lake, workplace.settings, workplace.settings.sources)
    run = instance.create_run_for_job(ROLLBACK, status=dg.DagsterRunStatus.STARTED)
    assert isinstance(tick(workplace, instance), dg.SkipReason)
    instance.report_run_failed(run)
    assert isinstance(tick(workplace, instance), dg.SensorResult)
    assert shown(instance)["release"] == 1


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")  # of Dagster's own tester
def test_what_hangs_on_the_release_runs_after_a_new_one_and_not_after_a_refresh_of_nothing(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    @dg.asset(deps=[RELEASE], automation_condition=dg.AutomationCondition.eager())
    def report() -> None: ...

    folder = workplace.declare("notes", "markdown", a_md=FIRST)
    workplace.add_partitions(instance)
    definitions = dg.Definitions.merge(workplace.definitions(), dg.Definitions(assets=[report]))
    cursor = None

    def is_requested() -> bool:
        nonlocal cursor
        result = dg.evaluate_automation_conditions(definitions, instance, cursor=cursor)
        cursor = result.cursor
        if result.get_num_requested(report.key):
            assert dg.materialize([report], instance=instance).success
        return bool(result.get_num_requested(report.key))

    assert not is_requested(), "nothing is released"
    assert workplace.run(instance, "refresh").success
    assert is_requested() and not is_requested()
    for job, partition in (("refresh", None), ("refresh_markdown", "notes"), ("release", None)):
        assert workplace.run(instance, job, partition).success
        assert not is_requested(), job
    (folder / "a.md").write_text(SECOND)
    assert workplace.run(instance, "refresh").success
    assert is_requested() and not is_requested()
    assert roll_back(workplace, instance, release=1).success
    assert is_requested()
