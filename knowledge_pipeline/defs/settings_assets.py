"""The sources in the asset graph: their partitions, their settings as root assets, and freshness windows.

One source is one partition. Each type has a set of its own, so that an asset's page shows only the partitions
that it can have. All partitions of an asset share a code version, but settings differ by source: so each type
has external assets, partitioned by source, whose data version is a hash of the settings. They explain why a
partition is stale. A refresh reports the settings that it is about to use; the sensor reports those that
changed since. (docs/decisions/dagster.md)
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice

import dagster as dg

from knowledge_pipeline.config.settings import Settings, compute_settings_digests
from knowledge_pipeline.config.sources import SourceConfig, Trigger, resolve_trigger
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.dagster_internals import (
    DATA_VERSION,
    read_partition_versions,
    report_observations,
)
from knowledge_pipeline.defs.define import sensor
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.records import hash_strings


def source_partitions(source_type: str, names: Names = PLAIN) -> dg.DynamicPartitionsDefinition:
    """The partitions of one type: `code_sources`, with a key for every configured source id."""
    return dg.DynamicPartitionsDefinition(name=names.partitions(source_type))


def list_partitions(instance: dg.DagsterInstance, source_type: str, names: Names = PLAIN) -> list[str]:
    """The ids of one type that have a partition."""
    return list(instance.get_dynamic_partitions(names.partitions(source_type)))


def list_source_types(settings: Settings) -> list[SourceType]:
    """The configured types, in the order of their first source; then those that members may have."""
    types: dict[SourceType, None] = dict.fromkeys(source.type for source in settings.sources)
    for organisation in settings.organisations:
        types |= dict.fromkeys(source.type for source in organisation.sources)
    return list(types)


def group_ids_by_type(settings: Settings) -> dict[SourceType, list[str]]:
    """The ids of the configured sources of every type, in the order of the file."""
    by_type: dict[SourceType, list[str]] = {type_: [] for type_ in list_source_types(settings)}
    for source in settings.sources:
        by_type[source.type].append(source.id)
    return by_type


STAGE_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "snapshot": ("source",),
    "chunks": ("chunking", "model"),  # limits and lengths are those of the model's tokenizer
    "embeddings": ("model",),
    "index": ("access",),
    "graph": ("chunking", "access"),  # `chunking` includes what is redacted
}
"""The settings that decide a stage's rows, besides those of the stages before it."""

REPORTS_PER_TICK = 300
_RECHECK_S = 600  # a run may report older settings just after the sensor did

_DESCRIPTIONS = {
    "source": "One row per source: what it reads, by connection, patterns, filters and limits.",
    "chunking": "One row per source: how its documents are cut, described and redacted.",
    "model": "One row per source: the embedding model of its texts.",
    "access": "One row per source: who may find its content, its tags, and the repository of its links.",
}
_COMMON_DESCRIPTION = (
    "It is part of knowledge.yaml, not a table. When it changes for a source, the stages that depend on it "
    "become stale in that partition; materializing them clears that. Secrets are not part of it."
)


def build_settings_specs(
    source_type: SourceType, owners: Sequence[str] = (), names: Names = PLAIN
) -> list[dg.AssetSpec]:
    """The external assets of a type's settings, for `Definitions(assets=...)`."""
    return [
        dg.AssetSpec(
            names.key(source_type, name),
            description=f"{meaning} {_COMMON_DESCRIPTION}",
            group_name=names.group(source_type),
            kinds={"yaml"},
            owners=list(owners),
            tags={"knowledge/settings": name},
            partitions_def=source_partitions(source_type, names),
        )
        for name, meaning in _DESCRIPTIONS.items()
    ]


def iter_unreported(
    instance: dg.DagsterInstance,
    settings: Settings,
    sources: Iterable[SourceConfig],
    names: Names = PLAIN,
    *,
    include_unseen: bool,
) -> Iterator[dg.AssetObservation]:
    """Observations of settings that the instance does not know yet.

    `include_unseen` adds settings that were never reported. A refresh reports them, so that later changes
    have something to differ from; settings that no refresh used cannot be stale.
    """
    by_type: dict[SourceType, list[SourceConfig]] = {}
    for source in sources:
        by_type.setdefault(source.type, []).append(source)
    for source_type, mine in by_type.items():
        wanted = {source.id: compute_settings_digests(settings, source) for source in mine}
        for name in _DESCRIPTIONS:
            key = names.key(source_type, name)
            event = dg.DagsterEventType.ASSET_OBSERVATION
            reported = read_partition_versions(instance, key, event, list(wanted))
            for id_, digests in wanted.items():
                if reported.get(id_, "" if include_unseen else digests[name]) != digests[name]:
                    yield dg.AssetObservation(key, partition=id_, tags={DATA_VERSION: digests[name]})


def report_settings(
    instance: dg.DagsterInstance, settings: Settings, sources: Iterable[SourceConfig], names: Names = PLAIN
) -> int:
    """Report the settings of a refresh that differ from the last report, and return how many."""
    reported = list(iter_unreported(instance, settings, sources, names, include_unseen=True))
    report_observations(instance, reported)
    return len(reported)


@sensor(consequence="the settings cannot be read")
def changed_settings(
    context: dg.SensorEvaluationContext, project: ProjectResource
) -> dg.SensorResult | dg.SkipReason:
    """Reports settings of knowledge.yaml that changed since a source was last refreshed, so that the UI shows
    as stale what depends on them.
    """
    settings, names = project.load_settings(), project.names
    digests = [
        f"{source.id} {sorted(compute_settings_digests(settings, source).items())}"
        for source in settings.sources
    ]
    # With the time in it, to look again periodically although nothing changed.
    cursor = f"{hash_strings(*digests)} {int(time.time() // _RECHECK_S)}"
    if context.cursor == cursor:
        return dg.SkipReason("no settings changed")
    changed = iter_unreported(context.instance, settings, settings.sources, names, include_unseen=False)
    observations = list(islice(changed, REPORTS_PER_TICK))
    if len(observations) == REPORTS_PER_TICK:  # perhaps more: the next tick goes on
        return dg.SensorResult(asset_events=observations)
    reason = f"{len(observations)} settings of sources changed"
    return dg.SensorResult(asset_events=observations, cursor=cursor, skip_reason=reason)


_DAILY = (timedelta(hours=26), timedelta(hours=50))
_WINDOWS: dict[Trigger, tuple[timedelta, timedelta]] = {
    "hourly": (timedelta(minutes=75), timedelta(hours=3)),
    "realtime": _DAILY,  # even without a change, the daily refresh is recorded
    "on_commit": _DAILY,
    "daily": _DAILY,
    "weekly": (timedelta(days=8), timedelta(days=15)),
}
"""Warn and fail windows, the tightest first: one missed tick warns, two fail."""


def build_freshness_policy(
    settings: Settings, source_type: SourceType | None = None
) -> dg.FreshnessPolicy | None:
    """The window for a type's `index`, or for the release: by the tightest trigger among the sources.

    None where all of them are refreshed by hand.

    Dagster judges an asset by its newest partition; the check `fresh` finds a single source that is late.
    """
    triggers = {resolve_trigger(source) for source in settings.sources if source_type in (source.type, None)}
    if triggers == {"manual"}:
        return None
    warn, fail = next((window for trigger, window in _WINDOWS.items() if trigger in triggers), _DAILY)
    return dg.FreshnessPolicy.time_window(fail_window=fail, warn_window=warn)
