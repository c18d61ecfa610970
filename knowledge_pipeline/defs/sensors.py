"""The sensors that follow the configuration, failed runs and the assets of others.

Dagster applies changes of partitions before it stores the cursor and the runs of a tick, and may die
between the two. So the cursor and the store say whether a new source was requested, not its partition,
and a partition is removed one tick after the purge was requested. A source is purged only when two ticks in a
row did not find it in a file that loads and has sources.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast, get_args

import dagster as dg

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig, resolve_trigger
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.dagster_internals import PARTITION, RANGE_END, RANGE_START, AssetJob
from knowledge_pipeline.defs.define import sensor
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.plots import list_names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs import build_purge_request, build_refresh_requests
from knowledge_pipeline.defs.settings_assets import list_partitions, source_partitions
from knowledge_pipeline.stages.context import sort_by_repository
from knowledge_pipeline.store.lake import Lake

ADDITIONS_PER_TICK = 300
DELETIONS_PER_TICK = 50
"""Dagster looks up partitions one by one during a tick, and removes each in its own transaction; later ticks
do what exceeds these numbers."""

SourceKey = str
"""A source with its type: "code/shop". One whose type changed is a new and a removed one."""


@dataclass(frozen=True, slots=True)
class Additions:
    """What is new."""

    add: list[SourceKey]  # partitions
    refresh: list[SourceKey]
    requested: list[SourceKey]  # for the next tick: requested so far, and nothing stored yet

    def to_cursor(self) -> str:
        """What the next tick has to know, as JSON."""
        return json.dumps({"requested": self.requested}, separators=(",", ":"))


class Cursor:
    """A dataclass that a sensor remembers from tick to tick, stored as JSON."""

    __slots__ = ()

    def to_json(self) -> str:
        """The cursor as Dagster stores it."""
        return json.dumps(asdict(cast(Any, self)), separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class RemovalCursor(Cursor):
    """What the sensor remembers of removed sources until nothing is left of them."""

    missing: list[SourceKey] = field(default_factory=list[SourceKey])
    """With a partition, but not in the file at the last tick."""
    purging: list[SourceKey] = field(default_factory=list[SourceKey])
    """With a requested purge."""


@dataclass(frozen=True, slots=True)
class Removals:
    """What is gone."""

    purge: list[SourceKey]
    delete: list[SourceKey]  # partitions
    pending: list[SourceKey]  # missing for the first time: purged if the next tick does not find them either
    retained: list[SourceKey]  # not purged, because the file has no sources at all
    orphaned: list[SourceKey]  # stored, but neither configured nor a partition: only a person decides
    cursor: RemovalCursor


def plan_additions(
    configured: Iterable[SourceKey],
    existing: Collection[SourceKey],  # partitions
    stored: Collection[SourceKey],  # with a snapshot
    requested: Collection[SourceKey],  # by the last tick
    manual: Collection[SourceKey] = (),  # refreshed by hand alone
) -> Additions:
    """Find the sources without a partition, and those with no snapshot stored and no request yet."""
    configured, existing, stored, requested = list(configured), set(existing), set(stored), set(requested)
    add = [key for key in configured if key not in existing][:ADDITIONS_PER_TICK]
    new = set(add) | {key for key in configured if key in existing and key not in stored}
    refresh = [key for key in configured if key in new and key not in requested and key not in manual]
    awaited = requested | set(refresh)
    return Additions(add, refresh, [key for key in configured if key in awaited and key not in stored])


def plan_removals(
    configured: Iterable[SourceKey],
    existing: Collection[SourceKey],
    stored: Collection[SourceKey],
    cursor: RemovalCursor,
) -> Removals:
    """Find the partitions whose source is no longer configured; without any source, nothing is purged."""
    configured, existing, stored = set(configured), set(existing), set(stored)
    missing, purging = set(cursor.missing), set(cursor.purging)
    removed = sorted(existing - configured)
    new = [key for key in removed if key not in purging]
    purge = [key for key in new if configured and key in missing]
    unfinished = (purging | set(purge)) - configured
    # Where no source is left, only partitions of which nothing is stored are removed.
    delete = [key for key in removed if key in purging or (not configured and key not in stored)]
    ids = {id_of(key) for key in configured}
    return Removals(
        purge=purge,
        delete=delete[:DELETIONS_PER_TICK],
        pending=[key for key in new if configured and key not in missing],
        retained=[key for key in new if not configured and key in stored],
        orphaned=sorted(key for key in stored - existing - unfinished if id_of(key) not in ids),
        cursor=RemovalCursor(removed if configured else [], sorted(unfinished & (existing | stored))),
    )


def id_of(key: SourceKey) -> str:
    """The id without the type."""
    return key.partition("/")[2]


def parse_requested(text: str | None) -> list[SourceKey]:
    """`Additions.requested` from a sensor's cursor; empty where it cannot be read."""
    return _parse_lists(text, ["requested"])[0]


def parse_removal_cursor(text: str | None) -> RemovalCursor:
    """The cursor of the last tick; an empty one where it cannot be read."""
    return RemovalCursor(*_parse_lists(text, ["missing", "purging"]))


def _parse_lists(text: str | None, names: list[str]) -> list[list[SourceKey]]:
    try:
        stored = json.loads(text or "{}")
        return [[str(key) for key in stored.get(name, [])] for name in names]
    except (ValueError, TypeError, AttributeError):
        return [[] for _ in names]


def build_sources_sensor(types: Sequence[SourceType], names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor that gives every source a partition, and new ones a refresh; `types` have assets."""

    @sensor(job="refresh", consequence="partitions are left as they are")
    def sources_in_config(context: dg.SensorEvaluationContext, project: ProjectResource) -> dg.SensorResult:
        """Adds a partition for every new source of knowledge.yaml, and refreshes it."""
        settings = project.load_settings()
        keys = _read_keys(context.instance, settings, names)
        manual = {f"{it.type}/{it.id}" for it in settings.sources if resolve_trigger(it) == "manual"}
        additions = plan_additions(*keys, parse_requested(context.cursor), manual)
        new = set(additions.refresh)
        added = [source for source in settings.sources if f"{source.type}/{source.id}" in new]
        requests = list(build_refresh_requests(sort_by_repository(added), names, trigger="added"))
        if unloaded := sorted({source.type for source in settings.sources} - set(types)):
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

    return sources_in_config(names)


@sensor(job="purge", consequence="everything is left as it is")
def removed_sources(context: dg.SensorEvaluationContext, project: ProjectResource) -> dg.SensorResult:
    """Purges the sources that two ticks in a row did not find in knowledge.yaml any more, and removes their
    partitions. Does nothing where the file does not load or has no sources at all, or an organisation is not
    listed.
    """
    settings, names = project.load_settings(), project.names
    if settings.unlisted_organisations:
        listed = ", ".join(settings.unlisted_organisations)
        return dg.SensorResult(
            skip_reason=f"nothing is purged until the members of all organisations are known ({listed}): "
            "launch the job organisations",
            cursor=context.cursor,
        )
    keys = _read_keys(context.instance, settings, names)
    removals = plan_removals(*keys, parse_removal_cursor(context.cursor))
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


def _explain_skip(removals: Removals) -> str:
    retained, orphaned, pending = (
        list_names(map(id_of, keys)) for keys in (removals.retained, removals.orphaned, removals.pending)
    )
    reasons = {
        f"knowledge.yaml has no sources any more, so nothing is purged ({retained}): "
        "put them back, or run `knowledge purge --source ID` for each": removals.retained,
        f"stored, but not configured ({orphaned}): "
        "run `knowledge purge --source ID`, or configure it again": removals.orphaned,
        f"not configured any more, purged at the next tick: {pending}": removals.pending,
        f"{len(removals.delete)} partitions removed": removals.delete,
    }
    return "; ".join(reason for reason, keys in reasons.items() if keys) or "no source was removed"


def _read_keys(
    instance: dg.DagsterInstance, settings: Settings, names: Names
) -> tuple[list[SourceKey], list[SourceKey], list[SourceKey]]:
    """The sources that are configured, have a partition (of types without assets, too), and are stored."""
    configured = [f"{source.type}/{source.id}" for source in settings.sources]
    types = get_args(SourceType)
    existing = [f"{type_}/{id_}" for type_ in types for id_ in list_partitions(instance, type_, names)]
    stored = [f"{type_}/{id_}" for id_, type_ in Lake(settings.store).list_stored_sources().items()]
    return configured, existing, stored


def _group_by_type(keys: Iterable[SourceKey]) -> Iterable[tuple[str, list[str]]]:
    by_type: dict[str, list[str]] = {}
    for key in keys:
        by_type.setdefault(key.partition("/")[0], []).append(id_of(key))
    return by_type.items()


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


WAITING_STATUSES = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED)  # read nothing yet
READING_STATUSES = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)


def list_unfinished_sources(
    instance: dg.DagsterInstance,
    statuses: Sequence[dg.DagsterRunStatus] = (*WAITING_STATUSES, *READING_STATUSES),
    names: Names = PLAIN,
) -> set[str]:
    """The sources of unfinished runs, by the partitions of a run or the ids in its configuration.

    A sensor need not, or must not yet, look at them.
    """
    runs = instance.get_runs(filters=dg.RunsFilter(statuses=list(statuses)))
    own = [run for run in runs if names.has_run(run)]
    return {source for run in own for source in _iter_run_sources(instance, run, names)}


def list_unpartitioned_sources(
    instance: dg.DagsterInstance, sources: Collection[SourceConfig], names: Names = PLAIN
) -> set[str]:
    """The sources that `sources_in_config` has not seen; it requests their first refresh."""
    types = {source.type for source in sources}
    partitions = {type_: set(list_partitions(instance, type_, names)) for type_ in types}
    return {source.id for source in sources if source.id not in partitions[source.type]}


def _iter_run_sources(instance: dg.DagsterInstance, run: dg.DagsterRun, names: Names) -> Iterator[str]:
    if PARTITION in run.tags:
        yield run.tags[PARTITION]
    elif RANGE_START in run.tags:  # a range is of any type that has both ends
        first, last = run.tags[RANGE_START], run.tags[RANGE_END]
        for type_ in get_args(SourceType):
            ids = list_partitions(instance, type_, names)
            if first in ids and last in ids:
                yield from ids[ids.index(first) : ids.index(last) + 1]
    else:
        config = cast(Mapping[str, Any], run.run_config)  # its shape is that of `refresh_sources`
        op = config.get("ops", {}).get("refresh_sources", {})
        yield from op.get("config", {}).get("sources", [])


@sensor(job="refresh", consequence="no asset is looked up")
def upstream_assets(context: dg.SensorEvaluationContext, project: ProjectResource) -> dg.SensorResult:
    """Refreshes the sources whose `upstream` names an asset that was materialized.

    It looks up the newest materialization of each asset, whichever code location made it.
    """
    settings = project.load_settings()
    sources = [it for it in settings.sources if it.upstream and resolve_trigger(it) != "manual"]
    instance, names = context.instance, project.names
    seen: dict[str, int] = json.loads(context.cursor or "{}")
    newest: dict[str, int] = {}
    for key in dict.fromkeys(key for source in sources for key in source.upstream):
        records = instance.fetch_materializations(dg.AssetKey.from_user_string(key), limit=1).records
        if records:
            newest[key] = records[0].storage_id
    moved = {key: event for key, event in newest.items() if seen.get(key) != event}
    # A run that waits reads what is there by then, as does the first refresh of a new source.
    excluded = list_unfinished_sources(instance, WAITING_STATUSES, names)
    excluded |= list_unpartitioned_sources(instance, sources, names)
    changed = [
        source for source in sources if moved.keys() & set(source.upstream) and source.id not in excluded
    ]
    key = "upstream " + " ".join(f"{asset}@{event}" for asset, event in sorted(moved.items()))
    requests = list(build_refresh_requests(changed, names, trigger="upstream", run_key=key))
    skip = None if requests else dg.SkipReason(f"none of {len(newest)} assets was materialized since")
    cursor = json.dumps(newest, separators=(",", ":"))
    return dg.SensorResult(run_requests=requests, cursor=cursor, skip_reason=skip)
