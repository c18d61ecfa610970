"""Sensors: partitions follow the configuration, and nothing that was indexed waits for its release."""

from collections.abc import Sequence

import dagster as dg

from knowledge_pipeline.config import SourceType
from knowledge_pipeline.defs.asset_jobs import RELEASE_JOB
from knowledge_pipeline.defs.partitions import ids_by_type, sources_of
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.errors import ConfigError


def sources_in_config(types: Sequence[SourceType]) -> dg.SensorDefinition:
    """The sensor that makes every type's partitions equal to the configured sources.

    Args:
        types: those that have assets, as the code location was loaded.
    """

    @dg.sensor(
        name="sources_in_config",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Adds a partition for every new source of knowledge.yaml and removes those of gone ones.",
    )
    def sources_in_config(
        context: dg.SensorEvaluationContext, project: ProjectResource
    ) -> dg.SensorResult | dg.SkipReason:
        try:
            configured = ids_by_type(project.settings())
        except ConfigError as error:
            return dg.SkipReason(f"partitions are left as they are: {error}")
        changes = [
            change
            for source_type in types
            for change in _changes(context.instance, source_type, configured.get(source_type, []))
        ]
        if changes:
            return dg.SensorResult(dynamic_partitions_requests=changes)
        return dg.SkipReason(
            _unloaded(configured.keys() - set(types)) or "partitions equal the configuration"
        )

    return sources_in_config


def _changes(
    instance: dg.DagsterInstance, source_type: SourceType, configured: Sequence[str]
) -> list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest]:
    partitions = sources_of(source_type)
    held = instance.get_dynamic_partitions(str(partitions.name))
    added = [id_ for id_ in configured if id_ not in set(held)]
    removed = [id_ for id_ in held if id_ not in set(configured)]
    changes: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    if added:
        changes.append(partitions.build_add_request(added))
    if removed:
        changes.append(partitions.build_delete_request(removed))
    return changes


def _unloaded(types: set[SourceType]) -> str:
    if not types:
        return "partitions equal the configuration"
    listed = ", ".join(sorted(types))
    return f"knowledge.yaml has sources of a new type ({listed}): reload the code location"


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.FAILURE,
    request_job=RELEASE_JOB,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Where some sources of a run failed, the release was left out: release what the others gave.",
)
def release_after_failures(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
    """Request one release for each failed run that had several sources."""
    run = context.dagster_run
    if "dagster/asset_partition_range_start" not in run.tags:
        return dg.SkipReason("the run had one source, or none")
    return dg.RunRequest(run_key=run.run_id)
