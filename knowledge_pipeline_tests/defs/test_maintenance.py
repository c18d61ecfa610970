"""The maintenance job: one run that says what it did."""

from pathlib import Path

import dagster as dg
import pytest

from knowledge_pipeline.defs.jobs import build_maintenance_job
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.verify import verify
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline_tests.defs.conftest import Workplace


def run(workplace: Workplace, instance: dg.DagsterInstance, **config: object) -> dg.ExecuteInProcessResult:
    return build_maintenance_job().execute_in_process(
        instance=instance,
        resources={"project": workplace.resource},
        run_config={"ops": {"maintain": {"config": config}}},
        raise_on_error=False,
    )


def churned(workplace: Workplace) -> Path:
    """Two refreshes of one source."""
    folder = workplace.declare("shop", a_py="a = 1\n")
    for text in ("a = 1\n", "a = 2\n"):
        (folder / "a.py").write_text(text)
        settings = workplace.settings
        assert pipeline.refresh(workplace.lake, settings, settings.sources).failures == {}
    return folder


def metadata(result: dg.ExecuteInProcessResult) -> dict[str, object]:
    (event,) = [event for event in result.all_events if event.is_successful_output]
    return {name: value.value for name, value in event.step_output_data.metadata.items()}


@pytest.mark.slow
def test_a_run_shows_what_each_action_did(workplace: Workplace, instance: dg.DagsterInstance) -> None:
    churned(workplace)
    shown = metadata(run(workplace, instance, grace_s=0.0))
    assert (shown["sources"], shown["skipped"], shown["dry_run"]) == (1, 0, False)
    assert isinstance(shown["freed_bytes"], int) and shown["freed_bytes"] > 0
    actions = [record.data["action"] for record in shown["actions"].records]  # type: ignore[attr-defined]
    assert "versions" in actions
    assert "`snapshot/code/shop.lance`" in str(shown["touched"])
    assert metadata(run(workplace, instance, grace_s=0.0))["freed_bytes"] == 0


def test_what_is_switched_off_is_not_done(workplace: Workplace, instance: dg.DagsterInstance) -> None:
    churned(workplace)
    assert "actions" not in metadata(run(workplace, instance, grace_s=0.0, versions=False, compact=False))


def test_what_is_damaged_is_mended_when_it_is_asked_for(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    churned(workplace)
    for path in (workplace.lake.root / "chunks/code/shop.lance/data").iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    assert verify(workplace.lake) != []
    shown = metadata(run(workplace, instance, repair=True))
    assert "repairs: `chunks/code/shop.lance`" in str(shown["touched"])
    settings = workplace.settings
    assert pipeline.refresh(workplace.lake, settings, settings.sources).failures == {}
    assert verify(workplace.lake) == []


def test_a_source_that_is_being_refreshed_is_named(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    churned(workplace)
    with workplace.lake.lock_source("shop"):
        shown = metadata(run(workplace, instance, grace_s=0.0))
    assert shown["skipped_because"] == "- shop: it is being refreshed"


def test_a_second_maintenance_at_the_same_time_asks_for_a_retry(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    churned(workplace)
    with acquire_lock(workplace.lake.root / "locks", "maintenance", timeout_s=0):
        result = run(workplace, instance)
    assert not result.success
    assert [event for event in result.all_events if event.is_step_up_for_retry]
