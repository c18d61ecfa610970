"""The sources in the asset graph: their partitions, their settings, and freshness windows.

One source is one partition. Each type has a set of its own, so that an asset's page shows only the partitions
that it can have. All partitions of an asset share a code version, but settings differ by source: so one root
asset, `sources`, has a partition for each source of any type, whose data version is made of hashes of its
settings. It explains why a partition of a stage is stale. A refresh records the settings that it is about to
use; the sensor records those that changed since. (docs/decisions/dagster.md)
"""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Any

import dagster as dg
from sqlalchemy.exc import IntegrityError

from knowledge_pipeline.config.settings import Settings, compute_settings_digests
from knowledge_pipeline.config.sources import SourceConfig, Trigger, resolve_trigger
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.checks import run_step
from knowledge_pipeline.defs.dagster_internals import (
    DATA_VERSION,
    add_on_launch,
    read_partition_versions,
    report_materializations,
)
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.records import hash_strings


def source_partitions(
    source_type: str, names: Names = PLAIN, configured: Collection[str] = ()
) -> dg.DynamicPartitionsDefinition:
    """The partitions of one type: `code_sources`, with a key for every configured source id.

    A run that names one of `configured` adds it, where no sensor did: `dg launch` on a fresh instance.
    """
    return add_on_launch(dg.DynamicPartitionsDefinition(name=names.partitions(source_type)), configured)


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


SOURCES = "sources"
"""The last part of the root asset's key."""

REPORTS_PER_TICK = 300
_RECHECK_S = 600  # a run may record older settings just after the sensor did


def settings_partitions(names: Names = PLAIN) -> dg.DynamicPartitionsDefinition:
    """The partitions of `sources`: every source of any type that was configured, until it is purged."""
    return dg.DynamicPartitionsDefinition(name=names.partitions("all"))


def build_sources_asset(owners: Sequence[str] = (), names: Names = PLAIN) -> dg.AssetsDefinition:
    """The root of the graph: what `knowledge.yaml` says of each source."""
    spec = dg.AssetSpec(
        names.key(SOURCES),
        description="One row per source of knowledge.yaml: what it reads, how its documents are cut and "
        "redacted, by which model they are embedded, who may find them. Refreshes record it, and a sensor "
        "what an edit changed: until the source is refreshed, its partitions of the stages are stale. "
        "Secrets are not part of it.",
        group_name=names.group(SOURCES),
        kinds={"yaml"},
        owners=list(owners),
        partitions_def=settings_partitions(names),
        code_version="1",
        skippable=True,  # each partition is logged with a version of its own
    )

    @dg.multi_asset(
        name=names.definition("read_settings"), specs=[spec], backfill_policy=dg.BackfillPolicy.single_run()
    )
    @names.bind
    def sources(
        context: dg.AssetExecutionContext, project: ProjectResource
    ) -> Iterator[dg.MaterializeResult[Any]]:
        with run_step(context, project.retry_policy()):
            settings = project.load_settings()
            for source in settings.select_sources(context.partition_keys):
                context.log_event(_describe_settings(settings, source, "", names))
        yield from ()  # what returns nothing is recorded once more, without a version

    return sources


def describe_versions(settings: Settings, source: SourceConfig) -> str:
    """The data version of a source's settings: a hash of each kind, so that a new one shows which changed."""
    digests = compute_settings_digests(settings, source)
    return " ".join(f"{name}:{digest[:8]}" for name, digest in digests.items())


def iter_unreported(
    instance: dg.DagsterInstance,
    settings: Settings,
    sources: Iterable[SourceConfig],
    names: Names = PLAIN,
    *,
    include_unseen: bool,
) -> Iterator[dg.AssetMaterialization]:
    """The settings that the instance does not know yet.

    `include_unseen` adds settings that were never recorded. A refresh records them, so that later changes
    have something to differ from; settings that no refresh used cannot be stale.
    """
    event, wanted = dg.DagsterEventType.ASSET_MATERIALIZATION, {source.id: source for source in sources}
    recorded = read_partition_versions(instance, names.key(SOURCES), event, list(wanted))
    for id_, source in wanted.items():
        before = recorded.get(id_)
        if include_unseen if before is None else before != describe_versions(settings, source):
            yield _describe_settings(settings, source, before or "", names)


def _describe_settings(
    settings: Settings, source: SourceConfig, before: str, names: Names
) -> dg.AssetMaterialization:
    version = describe_versions(settings, source)
    changed = [part.partition(":")[0] for part in version.split() if part not in before.split()]
    metadata = {
        "type": source.type,
        "reads": source.connection.location,
        "model": settings.resolve_embedding(source).model,
        "visibility": source.access.visibility,
        "trigger": resolve_trigger(source),
        **({"changed": ", ".join(changed)} if before else {}),
    }
    return dg.AssetMaterialization(names.key(SOURCES), None, metadata, source.id, {DATA_VERSION: version})


def _add_partitions(instance: dg.DagsterInstance, sources: Sequence[SourceConfig], names: Names) -> None:
    with suppress(IntegrityError):  # somebody else adds some meanwhile; the next tick adds the others
        instance.add_dynamic_partitions(names.partitions("all"), [source.id for source in sources])


def report_settings(
    instance: dg.DagsterInstance, settings: Settings, sources: Sequence[SourceConfig], names: Names = PLAIN
) -> int:
    """Record the settings of a refresh that differ from the last record, and return how many."""
    _add_partitions(instance, sources, names)
    unreported = list(iter_unreported(instance, settings, sources, names, include_unseen=True))
    report_materializations(instance, unreported)
    return len(unreported)


def list_changed_settings(
    instance: dg.DagsterInstance, settings: Settings, seen: str, names: Names = PLAIN
) -> tuple[list[dg.AssetMaterialization], str]:
    """Settings that changed since a source was last refreshed, and what to pass as `seen` the next time."""
    versions = [f"{source.id} {describe_versions(settings, source)}" for source in settings.sources]
    # With the time in it, to look again periodically although nothing changed.
    current = f"{hash_strings(*versions)} {int(time.time() // _RECHECK_S)}"
    if seen == current:
        return [], seen
    _add_partitions(instance, settings.sources, names)
    unreported = iter_unreported(instance, settings, settings.sources, names, include_unseen=False)
    changed = list(islice(unreported, REPORTS_PER_TICK))
    return changed, current if len(changed) < REPORTS_PER_TICK else seen  # perhaps more: the next goes on


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
