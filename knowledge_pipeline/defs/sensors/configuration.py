"""Sensors: partitions follow the configuration, and nothing that was indexed waits for its release."""

from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

import dagster as dg

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.asset_jobs import RELEASE_JOB
from knowledge_pipeline.defs.partitions import source_partitions
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.requests import build_purge_request, build_refresh_requests
from knowledge_pipeline.defs.sensors.source_changes import (
    Removals,
    SourceKey,
    id_of,
    parse_removal_cursor,
    parse_requested,
    plan_additions,
    plan_removals,
)
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.stages.schedules import sort_by_repository
from knowledge_pipeline.store.lake import Lake

_NOTHING_TO_DO = "partitions equal the configuration"
_MAX_IDS_SHOWN = 10  # ids named in a sentence


def build_sources_sensor(types: Sequence[SourceType]) -> dg.SensorDefinition:
    """The sensor that gives every configured source a partition, and new ones a refresh.

    Args:
        types: those that have assets, as the code location was loaded.
    """

    @dg.sensor(
        name="sources_in_config",
        job_name="refresh",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Adds a partition for every new source of knowledge.yaml, and refreshes it.",
    )
    def sources_in_config(
        context: dg.SensorEvaluationContext, project: ProjectResource
    ) -> dg.SensorResult | dg.SkipReason:
        try:
            settings = project.load_settings()
        except ConfigError as error:
            return dg.SkipReason(f"partitions are left as they are: {error}")
        found = plan_additions(
            _list_configured(settings),
            list(_iter_partitions(context.instance)),
            list(_iter_stored(settings)),
            parse_requested(context.cursor),
        )
        new = set(found.refresh)
        sources = sort_by_repository(
            source for source in settings.sources if _source_key(source.type, source.id) in new
        )
        requests = list(build_refresh_requests(sources, trigger="added"))
        quiet = f"{len(found.add)} partitions added" if found.add else _NOTHING_TO_DO
        return dg.SensorResult(
            run_requests=requests,
            dynamic_partitions_requests=[
                source_partitions(t).build_add_request(i) for t, i in _group_by_type(found.add)
            ],
            cursor=found.to_cursor(),
            skip_reason=None
            if requests
            else dg.SkipReason(_explain_unloaded_types(settings, types) or quiet),
        )

    return sources_in_config


@dg.sensor(
    job_name="purge",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Purges the sources that two looks in a row did not find in knowledge.yaml any more, and "
    "removes their partitions. Nothing, where the file does not load or has no sources at all.",
)
def removed_sources(
    context: dg.SensorEvaluationContext, project: ProjectResource
) -> dg.SensorResult | dg.SkipReason:
    """Request one purge of all that are gone."""
    try:
        settings = project.load_settings()
    except ConfigError as error:
        return dg.SkipReason(f"everything is left as it is: {error}")
    found = plan_removals(
        _list_configured(settings),
        list(_iter_partitions(context.instance)),
        list(_iter_stored(settings)),
        parse_removal_cursor(context.cursor),
    )
    requests = [build_purge_request([id_of(key) for key in found.purge])] if found.purge else []
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[
            source_partitions(type_).build_delete_request(ids) for type_, ids in _group_by_type(found.delete)
        ],
        cursor=found.cursor.to_json(),
        skip_reason=None if requests else dg.SkipReason(_explain_skip(found)),
    )


def _explain_skip(changes: Removals) -> str:
    """Why nothing is purged, and what a person may want to do."""
    said: list[str] = []
    if changes.retained:
        said.append(
            f"knowledge.yaml has no sources any more, so nothing is purged ({_format_ids(changes.retained)}): "
            "put them back, or run `knowledge purge --source ID` for each"
        )
    if changes.orphaned:
        said.append(
            f"stored, but not configured ({_format_ids(changes.orphaned)}): "
            "run `knowledge purge --source ID`, or configure it again"
        )
    if changes.pending:
        said.append(f"not configured any more, purged at the next look: {_format_ids(changes.pending)}")
    if changes.delete:
        said.append(f"{len(changes.delete)} partitions removed")
    return "; ".join(said) or "no source was removed"


def _explain_unloaded_types(settings: Settings, types: Sequence[SourceType]) -> str | None:
    unloaded = sorted({source.type for source in settings.sources} - set(types))
    if not unloaded:
        return None
    return f"knowledge.yaml has sources of a new type ({', '.join(unloaded)}): reload the code location"


def _list_configured(settings: Settings) -> list[SourceKey]:
    return [_source_key(source.type, source.id) for source in settings.sources]


def _iter_partitions(instance: dg.DagsterInstance) -> Iterator[SourceKey]:
    """The partitions of all types, also of those that have no assets any more."""
    for type_ in get_args(SourceType):
        for id_ in instance.get_dynamic_partitions(str(source_partitions(type_).name)):
            yield _source_key(type_, id_)


def _iter_stored(settings: Settings) -> Iterator[SourceKey]:
    for id_, type_ in Lake(settings.store).list_stored_sources().items():
        yield _source_key(type_, id_)


def _source_key(type_: str, id_: str) -> SourceKey:
    return f"{type_}/{id_}"


def _group_by_type(keys: Iterable[SourceKey]) -> Iterable[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(key.partition("/")[0], []).append(id_of(key))
    return found.items()


def _format_ids(keys: Sequence[SourceKey]) -> str:
    more = f" and {len(keys) - _MAX_IDS_SHOWN} more" if len(keys) > _MAX_IDS_SHOWN else ""
    return ", ".join(id_of(key) for key in keys[:_MAX_IDS_SHOWN]) + more


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
