"""Sensors: partitions follow the configuration, and nothing that was indexed waits for its release."""

from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

import dagster as dg

from knowledge_pipeline.config.settings import Settings, SourceType
from knowledge_pipeline.defs.asset_jobs import RELEASE_JOB
from knowledge_pipeline.defs.partitions import sources_of
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.requests import purge_request, refresh_requests
from knowledge_pipeline.defs.sensors.source_changes import (
    Key,
    Removals,
    additions,
    id_of,
    read_removals,
    read_requested,
    removals,
)
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.stages.schedules import by_repository
from knowledge_pipeline.store.lake import Lake

_EQUAL = "partitions equal the configuration"
_SHOWN = 10  # ids named in a sentence


def sources_in_config(types: Sequence[SourceType]) -> dg.SensorDefinition:
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
            settings = project.settings()
        except ConfigError as error:
            return dg.SkipReason(f"partitions are left as they are: {error}")
        found = additions(
            _configured(settings),
            list(_partitions(context.instance)),
            list(_stored(settings)),
            read_requested(context.cursor),
        )
        new = set(found.refresh)
        sources = by_repository(source for source in settings.sources if _key(source.type, source.id) in new)
        requests = list(refresh_requests(sources, trigger="added"))
        quiet = f"{len(found.add)} partitions added" if found.add else _EQUAL
        return dg.SensorResult(
            run_requests=requests,
            dynamic_partitions_requests=[sources_of(t).build_add_request(i) for t, i in _by_type(found.add)],
            cursor=found.cursor(),
            skip_reason=None if requests else dg.SkipReason(_unloaded(settings, types) or quiet),
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
        settings = project.settings()
    except ConfigError as error:
        return dg.SkipReason(f"everything is left as it is: {error}")
    found = removals(
        _configured(settings),
        list(_partitions(context.instance)),
        list(_stored(settings)),
        read_removals(context.cursor),
    )
    requests = [purge_request([id_of(key) for key in found.purge])] if found.purge else []
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[
            sources_of(type_).build_delete_request(ids) for type_, ids in _by_type(found.delete)
        ],
        cursor=found.cursor.written(),
        skip_reason=None if requests else dg.SkipReason(_left(found)),
    )


def _left(found: Removals) -> str:
    """Why nothing is purged, and what a person may want to do."""
    said: list[str] = []
    if found.kept:
        said.append(
            f"knowledge.yaml has no sources any more, so nothing is purged ({_listed(found.kept)}): "
            "put them back, or run `knowledge purge --source ID` for each"
        )
    if found.left:
        said.append(
            f"stored, but not configured ({_listed(found.left)}): "
            "run `knowledge purge --source ID`, or configure it again"
        )
    if found.awaited:
        said.append(f"not configured any more, purged at the next look: {_listed(found.awaited)}")
    if found.delete:
        said.append(f"{len(found.delete)} partitions removed")
    return "; ".join(said) or "no source was removed"


def _unloaded(settings: Settings, types: Sequence[SourceType]) -> str | None:
    unloaded = sorted({source.type for source in settings.sources} - set(types))
    if not unloaded:
        return None
    return f"knowledge.yaml has sources of a new type ({', '.join(unloaded)}): reload the code location"


def _configured(settings: Settings) -> list[Key]:
    return [_key(source.type, source.id) for source in settings.sources]


def _partitions(instance: dg.DagsterInstance) -> Iterator[Key]:
    """The partitions of all types, also of those that have no assets any more."""
    for type_ in get_args(SourceType):
        for id_ in instance.get_dynamic_partitions(str(sources_of(type_).name)):
            yield _key(type_, id_)


def _stored(settings: Settings) -> Iterator[Key]:
    for id_, type_ in Lake(settings.store).stored_sources().items():
        yield _key(type_, id_)


def _key(type_: str, id_: str) -> Key:
    return f"{type_}/{id_}"


def _by_type(keys: Iterable[Key]) -> Iterable[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(key.partition("/")[0], []).append(id_of(key))
    return found.items()


def _listed(keys: Sequence[Key]) -> str:
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return ", ".join(id_of(key) for key in keys[:_SHOWN]) + more


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
