"""The migration job: one run that says what it did, on a store that an earlier program wrote."""

from __future__ import annotations

import dagster as dg

from knowledge_pipeline.defs.jobs import build_migration_job
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline_tests.store.migration.conftest import OpenStore
from knowledge_pipeline_tests.store.migration.conftest import open_store as open_store  # a fixture


def run(instance: dg.DagsterInstance, action: str) -> dict[str, object]:
    result = build_migration_job().execute_in_process(
        instance=instance,
        resources={"project": ProjectResource(config_path="knowledge.yaml")},
        run_config={"ops": {"migrate_tables": {"config": {"action": action}}}},
        raise_on_error=False,
    )
    assert result.success
    (event,) = [event for event in result.all_events if event.is_successful_output]
    return {name: value.value for name, value in event.step_output_data.metadata.items()}


def test_a_run_migrates_and_another_one_takes_it_back(
    open_store: OpenStore, instance: dg.DagsterInstance
) -> None:
    open_store("1")
    states = {action: run(instance, action) for action in ("DRY_RUN", "MIGRATE", "UNDO")}
    assert [shown["state"] for shown in states.values()] == ["older", "migrated", "older"]
    assert {shown["tables"] for shown in states.values()} == {17}
    assert {shown["from_version"] for shown in states.values()} == {"1", "5"}
    assert "`releases.lance`" in str(states["MIGRATE"]["touched"])
    run(instance, "MIGRATE")
    assert run(instance, "COMMIT")["state"] == "current"
