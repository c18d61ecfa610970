"""Sensors: partitions follow the configuration, and nothing that is indexed waits for its release."""

from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

import dagster as dg

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.dagster_internals import RANGE_START, AssetJob
from knowledge_pipeline.defs.failures import skip_on_config_error
from knowledge_pipeline.defs.metadata.tables import list_names
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.partitions import list_partitions, source_partitions
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
from knowledge_pipeline.stages.schedules import sort_by_repository
from knowledge_pipeline.store.lake import Lake


def build_sources_sensor(types: Sequence[SourceType], names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor that gives every source a partition, and new ones a refresh; `types` have assets."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("sources_in_config"),
        job_name=names.definition("refresh"),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Adds a partition for every new source of knowledge.yaml, and refreshes it.",
    )
    @names.bind
    @skip_on_config_error("partitions are left as they are")
    def sources_in_config(context: dg.SensorEvaluationContext, project: ProjectResource) -> dg.SensorResult:
        settings = project.load_settings()
        additions = plan_additions(
            _list_configured(settings),
            list(_iter_partitions(context.instance, names)),
            _list_stored(settings),
            parse_requested(context.cursor),
        )
        new = set(additions.refresh)
        sources = sort_by_repository(
            source for source in settings.sources if _source_key(source.type, source.id) in new
        )
        requests = list(build_refresh_requests(sources, names, trigger="added"))
        unloaded = sorted({source.type for source in settings.sources} - set(types))
        if unloaded:
            listed = ", ".join(unloaded)
            reason = f"knowledge.yaml has sources of a new type ({listed}): reload the code location"
        elif additions.add:
            reason = f"{len(additions.add)} partitions added"
        else:
            reason = "partitions equal the configuration"
        return dg.SensorResult(
            run_requests=requests,
            dynamic_partitions_requests=[
                source_partitions(type_, names).build_add_request(ids)
                for type_, ids in _group_by_type(additions.add)
            ],
            cursor=additions.to_cursor(),
            skip_reason=None if requests else dg.SkipReason(reason),
        )

    return sources_in_config


def build_removals_sensor(names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor that purges what is configured no more."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("removed_sources"),
        job_name=names.definition("purge"),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Purges the sources that two ticks in a row did not find in knowledge.yaml any more, and "
        "removes their partitions. Does nothing where the file does not load or has no sources at all, or an "
        "organisation is not listed.",
    )
    @names.bind
    @skip_on_config_error("everything is left as it is")
    def removed_sources(context: dg.SensorEvaluationContext, project: ProjectResource) -> dg.SensorResult:
        """Request one purge of all sources that are gone."""
        settings = project.load_settings()
        if settings.unlisted_organisations:
            listed = ", ".join(settings.unlisted_organisations)
            return dg.SensorResult(
                skip_reason=f"nothing is purged until the members of all organisations are known ({listed}): "
                "launch the job organisations",
                cursor=context.cursor,
            )
        removals = plan_removals(
            _list_configured(settings),
            list(_iter_partitions(context.instance, names)),
            _list_stored(settings),
            parse_removal_cursor(context.cursor),
        )
        ids = [id_of(key) for key in removals.purge]
        requests = [build_purge_request(ids, names)] if ids else []
        return dg.SensorResult(
            run_requests=requests,
            dynamic_partitions_requests=[
                source_partitions(type_, names).build_delete_request(ids)
                for type_, ids in _group_by_type(removals.delete)
            ],
            cursor=removals.cursor.to_json(),
            skip_reason=None if requests else dg.SkipReason(_explain_skip(removals)),
        )

    return removed_sources


def _explain_skip(removals: Removals) -> str:
    """Why nothing is purged, and what a person may want to do."""
    reasons: list[str] = []
    if removals.retained:
        ids = _format_ids(removals.retained)
        reasons.append(
            f"knowledge.yaml has no sources any more, so nothing is purged ({ids}): "
            "put them back, or run `knowledge purge --source ID` for each"
        )
    if removals.orphaned:
        reasons.append(
            f"stored, but not configured ({_format_ids(removals.orphaned)}): "
            "run `knowledge purge --source ID`, or configure it again"
        )
    if removals.pending:
        reasons.append(f"not configured any more, purged at the next tick: {_format_ids(removals.pending)}")
    if removals.delete:
        reasons.append(f"{len(removals.delete)} partitions removed")
    return "; ".join(reasons) or "no source was removed"


def _list_configured(settings: Settings) -> list[SourceKey]:
    return [_source_key(source.type, source.id) for source in settings.sources]


def _iter_partitions(instance: dg.DagsterInstance, names: Names) -> Iterator[SourceKey]:
    """The partitions of all types, including those that have no assets any more."""
    for type_ in get_args(SourceType):
        yield from (_source_key(type_, id_) for id_ in list_partitions(instance, type_, names))


def _list_stored(settings: Settings) -> list[SourceKey]:
    return [_source_key(type_, id_) for id_, type_ in Lake(settings.store).list_stored_sources().items()]


def _source_key(type_: str, id_: str) -> SourceKey:
    return f"{type_}/{id_}"


def _group_by_type(keys: Iterable[SourceKey]) -> Iterable[tuple[str, list[str]]]:
    by_type: dict[str, list[str]] = {}
    for key in keys:
        by_type.setdefault(key.partition("/")[0], []).append(id_of(key))
    return by_type.items()


def _format_ids(keys: Sequence[SourceKey]) -> str:
    return list_names(map(id_of, keys))


def build_release_sensor(release_job: AssetJob, names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor that releases where a run of several sources failed."""

    @dg.run_status_sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        run_status=dg.DagsterRunStatus.FAILURE,
        name=names.definition("release_after_failures"),
        request_job=release_job,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Releases what the other sources of a run gave where some failed, since such a run does "
        "not.",
    )
    def release_after_failures(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
        """Request one release for each failed run that had several sources."""
        run = context.dagster_run
        if not names.has_run(run):
            return dg.SkipReason("the run is of something else")
        if RANGE_START not in run.tags:
            return dg.SkipReason("the run had one source, or none")
        return dg.RunRequest(run_key=run.run_id)

    return release_after_failures
