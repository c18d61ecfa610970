"""The sensors that follow the configuration, failed runs and the assets of others.

Dagster applies changes of partitions before it stores the cursor and the runs of a tick, and may die
between the two. So the cursor and the store say whether a new source was requested, not its partition,
and a partition is removed one tick after the purge was requested. A source is purged only when no tick of
`releases.keep_removed_days` found it in a file that loads and has sources; until then readers do without it.

All code locations of an instance share the sets of partitions. So each has one set more, of the sources that
its own file has had, and nothing else is ever missing from that file.
"""

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast, get_args

import dagster as dg

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig, resolve_trigger
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.dagster_internals import (
    PARTITION,
    RANGE_END,
    RANGE_START,
    list_siblings,
)
from knowledge_pipeline.defs.define import sensor
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.plots import list_names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs import build_purge_request, build_refresh_requests
from knowledge_pipeline.defs.settings_assets import (
    list_changed_settings,
    list_partitions,
    list_source_types,
    source_partitions,
)
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

    def to_cursor(self, settings: str = "") -> str:
        """What the next tick has to know, as JSON; `settings` are those whose changes are recorded."""
        return json.dumps({"requested": self.requested, "settings": settings}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class RemovalCursor:
    """What the sensor remembers of removed sources until nothing is left of them."""

    missing: dict[SourceKey, float] = field(default_factory=dict[SourceKey, float])
    """With a partition, but not in the file: since which time, in seconds since 1970."""
    purging: list[SourceKey] = field(default_factory=list[SourceKey])
    """With a requested purge."""

    def to_json(self) -> str:
        """The cursor as Dagster stores it."""
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Removals:
    """What is gone."""

    purge: list[SourceKey]
    delete: list[SourceKey]  # partitions
    pending: list[SourceKey]  # missing: purged if no tick finds them before their time
    retained: list[SourceKey]  # not purged, because the file has no sources at all
    orphaned: list[SourceKey]  # stored, but neither configured nor a partition: only a person decides
    cursor: RemovalCursor


def plan_additions(
    configured: Iterable[SourceKey],
    existing: Collection[SourceKey],  # partitions
    own: Collection[SourceKey],  # that this code location has had
    stored: Collection[SourceKey],  # with a snapshot
    requested: Collection[SourceKey],  # by the last tick
    manual: Collection[SourceKey] = (),  # refreshed by hand alone
) -> Additions:
    """Find the sources without a partition, and those with no snapshot stored and no request yet."""
    configured, existing, stored, requested = list(configured), set(existing), set(stored), set(requested)
    complete = existing & set(own)
    add = [key for key in configured if key not in complete][:ADDITIONS_PER_TICK]
    new = set(add) - existing | {key for key in configured if key in existing and key not in stored}
    refresh = [key for key in configured if key in new and key not in requested and key not in manual]
    awaited = requested | set(refresh)
    return Additions(add, refresh, [key for key in configured if key in awaited and key not in stored])


def plan_removals(
    configured: Iterable[SourceKey],
    existing: Collection[SourceKey],  # partitions of this code location
    stored: Collection[SourceKey],
    cursor: RemovalCursor,
    *,
    now_s: float,
    grace_s: float,
) -> Removals:
    """Find the partitions whose source is no longer configured; without any source, nothing is purged.

    What has the id of a source of another type, which takes its place, goes at the second tick.
    """
    configured, existing, stored = set(configured), set(existing), set(stored)
    ids, purging = {id_of(key) for key in configured}, set(cursor.purging)
    removed = sorted(existing - configured)
    missing = {key: cursor.missing.get(key, now_s) for key in removed} if configured else {}
    new = [key for key in removed if key not in purging]
    due = {key for key, since_s in cursor.missing.items() if id_of(key) in ids or now_s - since_s >= grace_s}
    purge = [key for key in new if configured and key in due]
    unfinished = (purging | set(purge)) - configured
    # Where no source is left, only partitions of which nothing is stored are removed.
    delete = [key for key in removed if key in purging or (not configured and key not in stored)]
    return Removals(
        purge=purge,
        delete=delete[:DELETIONS_PER_TICK],
        pending=[key for key in new if configured and key not in due],
        retained=[key for key in new if not configured and key in stored],
        orphaned=sorted(key for key in stored - existing - unfinished if id_of(key) not in ids),
        cursor=RemovalCursor(missing, sorted(unfinished & (existing | stored))),
    )


def id_of(key: SourceKey) -> str:
    """The id without the type."""
    return key.partition("/")[2]


def parse_additions_cursor(text: str | None) -> tuple[list[SourceKey], str]:
    """`Additions.requested` and the settings of the last tick; empty where they cannot be read."""
    with suppress(ValueError, TypeError, AttributeError):
        stored = json.loads(text or "{}")
        return [str(key) for key in stored.get("requested", [])], str(stored.get("settings", ""))
    return [], ""


def parse_removal_cursor(text: str | None) -> RemovalCursor:
    """The cursor of the last tick; an empty one where it cannot be read."""
    with suppress(ValueError, TypeError, AttributeError):
        stored = json.loads(text or "{}")
        missing = {str(key): float(since_s) for key, since_s in stored.get("missing", {}).items()}
        return RemovalCursor(missing, [str(key) for key in stored.get("purging", [])])
    return RemovalCursor()


def build_sources_sensor(types: Sequence[SourceType], names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor that gives every source a partition, and new ones a refresh; `types` have assets."""

    @sensor(job="refresh", consequence="partitions are left as they are")
    def sources_in_config(context: dg.SensorEvaluationContext, project: ProjectResource) -> dg.SensorResult:
        """Adds a partition for every new source of knowledge.yaml, and refreshes it; records settings that
        changed since a source was last refreshed, so that the UI shows its partitions as stale.
        """
        settings, instance = project.load_settings(), context.instance
        own, (configured, stored) = _own_sources(context, names), _read_keys(settings)
        of_types = {type_: list_partitions(instance, type_, names) for type_ in list_source_types(settings)}
        existing = [f"{type_}/{id_}" for type_, ids in of_types.items() for id_ in ids]
        mine = instance.get_dynamic_partitions(str(own.name))
        requested, seen = parse_additions_cursor(context.cursor)
        manual = {f"{it.type}/{it.id}" for it in settings.sources if resolve_trigger(it) == "manual"}
        additions = plan_additions(configured, existing, mine, stored, requested, manual)
        new = set(additions.refresh)
        added = [source for source in settings.sources if f"{source.type}/{source.id}" in new]
        requests = list(build_refresh_requests(sort_by_repository(added), names, trigger="added"))
        if unloaded := sorted({source.type for source in settings.sources} - set(types)):
            listed = ", ".join(unloaded)
            reason = f"knowledge.yaml has sources of a new type ({listed}): reload the code location"
        elif others := list_siblings(context, names.definition("sources_in_config")):
            reason = (
                f"the code location {list_names(others)} has the same asset keys: give each knowledge base "
                "a `key_prefix` and a `store` of its own, or load one of them alone"
            )
        elif additions.add:
            reason = f"{len(additions.add)} partitions added"
        else:
            reason = "partitions equal the configuration"
        changed, seen = list_changed_settings(instance, settings, seen, names)
        if changed:
            reason += f"; settings of {len(changed)} sources changed"
        return dg.SensorResult(
            run_requests=requests,
            asset_events=changed,
            dynamic_partitions_requests=[
                partitions.build_add_request(ids)
                for partitions, ids in _group_by_set(additions.add, own, names)
            ],
            cursor=additions.to_cursor(seen),
            skip_reason=None if requests else dg.SkipReason(reason),
        )

    return sources_in_config(names)


@sensor(job="purge", interval_s=120, consequence="everything is left as it is")
def removed_sources(context: dg.SensorEvaluationContext, project: ProjectResource) -> dg.SensorResult:
    """Purges the sources that knowledge.yaml has not had for `releases.keep_removed_days`, and removes their
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
    own, (configured, stored) = _own_sources(context, names), _read_keys(settings)
    existing = context.instance.get_dynamic_partitions(str(own.name))
    days = settings.releases.keep_removed_days
    cursor = parse_removal_cursor(context.cursor)
    removals = plan_removals(configured, existing, stored, cursor, now_s=time.time(), grace_s=86_400 * days)
    ids = [id_of(key) for key in removals.purge]
    requests = [build_purge_request(ids, names)] if ids else []
    return dg.SensorResult(
        run_requests=requests,
        dynamic_partitions_requests=[
            partitions.build_delete_request(ids)
            for partitions, ids in _group_by_set(removals.delete, own, names)
        ],
        cursor=removals.cursor.to_json(),
        skip_reason=None if requests else dg.SkipReason(_explain_skip(removals, days)),
    )


def _explain_skip(removals: Removals, days: float) -> str:
    retained, orphaned, pending = (
        list_names(map(id_of, keys)) for keys in (removals.retained, removals.orphaned, removals.pending)
    )
    reasons = {
        f"knowledge.yaml has no sources any more, so nothing is purged ({retained}): "
        "put them back, or run `knowledge purge --source ID` for each": removals.retained,
        f"stored, but not configured ({orphaned}): "
        "run `knowledge purge --source ID`, or configure it again": removals.orphaned,
        "not configured any more, hidden, and purged "
        f"{'at the next tick' if not days else 'after a day' if days == 1 else f'after {days:g} days'}: "
        f"{pending}": removals.pending,
        f"{len(removals.delete)} partitions removed": removals.delete,
    }
    return "; ".join(reason for reason, keys in reasons.items() if keys) or "no source was removed"


def _own_sources(context: dg.SensorEvaluationContext, names: Names) -> dg.DynamicPartitionsDefinition:
    """The set of the sources that this code location has given a partition; no asset has it."""
    location = getattr(context.code_location_origin, "location_name", "")
    return dg.DynamicPartitionsDefinition(name=f"{names.definition('sources')}@{location}")


def _read_keys(settings: Settings) -> tuple[list[SourceKey], list[SourceKey]]:
    """The sources that are configured, and those that are stored."""
    configured = [f"{source.type}/{source.id}" for source in settings.sources]
    stored = [f"{type_}/{id_}" for id_, type_ in Lake(settings.store).list_stored_sources().items()]
    return configured, stored


def _group_by_set(
    keys: Sequence[SourceKey], own: dg.DynamicPartitionsDefinition, names: Names
) -> Iterator[tuple[dg.DynamicPartitionsDefinition, Sequence[str]]]:
    """The sets of partitions that have some sources, with their keys; `own` comes last."""
    by_type: dict[str, list[str]] = {}
    for key in keys:
        by_type.setdefault(key.partition("/")[0], []).append(id_of(key))
    yield from ((source_partitions(type_, names), ids) for type_, ids in by_type.items())
    if keys:
        yield own, keys


WAITING_STATUSES = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED)  # read nothing yet
READING_STATUSES = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)


def list_unfinished_sources(
    instance: dg.DagsterInstance,
    statuses: Sequence[dg.DagsterRunStatus] = (*WAITING_STATUSES, *READING_STATUSES),
    names: Names = PLAIN,
) -> set[str]:
    """The sources of unfinished runs, by the partitions of a run or the ids in its configuration.

    A sensor need not, or must not yet, look at them. A run that is still not queued after ten minutes
    never will be: whoever created it died.
    """
    latest = datetime.now(UTC) - timedelta(minutes=10)
    records = instance.get_run_records(filters=dg.RunsFilter(statuses=list(statuses)))
    runs = [
        record.dagster_run
        for record in records
        if record.dagster_run.status != dg.DagsterRunStatus.NOT_STARTED or record.create_timestamp > latest
    ]
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
