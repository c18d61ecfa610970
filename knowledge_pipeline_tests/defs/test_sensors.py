"""Partitions follow the configuration; a release follows a run that failed in part."""

import dagster as dg

from knowledge_pipeline.defs.sensors import release_after_failures, sources_in_config
from knowledge_pipeline_tests.defs.conftest import Workplace


def tick(workplace: Workplace, instance: dg.DagsterInstance) -> str:
    """Evaluate the sensor, apply what it asks for as the daemon does, return why it did nothing."""
    context = dg.build_sensor_context(instance=instance, resources={"project": workplace.resource})
    result = sources_in_config(["code", "markdown"]).evaluate_tick(context)
    for change in result.dynamic_partitions_requests or ():
        if isinstance(change, dg.AddDynamicPartitionsRequest):
            instance.add_dynamic_partitions(change.partitions_def_name, change.partition_keys)
        else:
            for key in change.partition_keys:
                instance.delete_dynamic_partition(change.partitions_def_name, key)
    return result.skip_message or ""


def test_partitions_become_equal_to_the_configuration(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("one")
    workplace.declare("two")
    workplace.declare("docs", "markdown")
    tick(workplace, instance)
    assert instance.get_dynamic_partitions("code_sources") == ["one", "two"]
    assert instance.get_dynamic_partitions("markdown_sources") == ["docs"]
    workplace.forget("one")
    workplace.forget("docs")
    workplace.declare("three")
    tick(workplace, instance)
    assert instance.get_dynamic_partitions("code_sources") == ["two", "three"]
    assert instance.get_dynamic_partitions("markdown_sources") == []
    assert tick(workplace, instance) == "partitions equal the configuration"


def test_a_wrong_file_leaves_the_partitions_as_they_are(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("one")
    tick(workplace, instance)
    workplace.path.write_text("sources: nonsense\n")
    assert tick(workplace, instance).startswith("partitions are left as they are: knowledge.yaml:1:")
    assert instance.get_dynamic_partitions("code_sources") == ["one"]


def test_a_type_that_is_not_loaded_asks_for_a_reload(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("papers", "files")
    assert "reload the code location" in tick(workplace, instance)


def test_a_run_of_many_sources_that_failed_is_followed_by_a_release(
    workplace: Workplace, instance: dg.DagsterInstance
) -> None:
    workplace.declare("a", x_py="x = 1\n")
    workplace.declare("b")
    many = workplace.run_range(instance, "refresh_code", "a", "b")
    one = workplace.run(instance, "refresh_code", "b")
    requested = []
    for result in (many, one):
        context = dg.build_run_status_sensor_context(
            sensor_name="release_after_failures",
            dagster_instance=instance,
            dagster_run=result.dagster_run,
            dagster_event=result.get_run_failure_event(),
        )
        requested.append(release_after_failures(context))
    assert isinstance(requested[0], dg.RunRequest)
    assert requested[0].run_key == many.run_id
    assert isinstance(requested[1], dg.SkipReason)
