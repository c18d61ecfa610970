"""The configuration of each source as assets at the root of the graph: why a partition is stale.

A code version is one for all partitions of an asset, but settings differ by source. So each type has
external assets, partitioned as its sources are, whose data version is a hash of what a stage was told.
A pass reports the settings that it is about to use; the sensor reports those that changed since.
(docs/decisions/0010-settings-as-assets.md)
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
from dagster import DagsterEventType

from knowledge_pipeline.config.settings import Settings, SourceConfig, resolve_sanitize
from knowledge_pipeline.config.source_filters import FILTER_TYPES
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.partitions import source_partitions
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.records import hash_strings

DATA_VERSION = "dagster/data_version"
STAGE_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "snapshot": ("source",),
    "chunks": ("chunking", "model"),  # limits and lengths are those of the model's tokenizer
    "embeddings": ("model",),
    "index": ("access",),
    "graph": ("chunking", "access"),  # what is redacted is told with how it is cut
}
"""Which settings decide a stage's rows, beside those of the stages before it."""

REPORTS_PER_TICK = 300
_RECHECK_S = 600  # a run may have reported older settings just after the sensor did

_DESCRIPTIONS = {
    "source": "One row per source: what is read. Connection, patterns, filters and limits, as configured.",
    "chunking": "One row per source: how its documents are cut, described and redacted, as configured.",
    "model": "One row per source: the embedding model of its texts, as configured.",
    "access": "One row per source: who may find its content, its tags, and the repository of its links.",
}
_COMMON_DESCRIPTION = (
    "Lives in knowledge.yaml, not in a table. When it changes for a source, the stages that it decides "
    "become stale in that partition; materializing them clears it. Secrets are no part of it."
)


def settings_key(source_type: str, name: str) -> dg.AssetKey:
    """The asset of one kind of settings of a type: `code/chunking`."""
    return dg.AssetKey([source_type, name])


def build_settings_specs(source_type: SourceType, owners: Sequence[str] = ()) -> list[dg.AssetSpec]:
    """The external assets of a type's settings, for `Definitions(assets=...)`."""
    return [
        dg.AssetSpec(
            settings_key(source_type, name),
            description=f"{meaning} {_COMMON_DESCRIPTION}",
            group_name=source_type,
            kinds={"yaml"},
            owners=list(owners),
            tags={"knowledge/settings": name},
            partitions_def=source_partitions(source_type),
        )
        for name, meaning in _DESCRIPTIONS.items()
    ]


def compute_settings_digests(settings: Settings, source: SourceConfig) -> dict[str, str]:
    """A hash of each kind of settings of a source; secrets have no part in any."""
    return {
        name: hash_strings(json.dumps(told(settings, source), sort_keys=True))[:16]
        for name, told in _SETTINGS_READERS.items()
    }


def iter_unreported(
    instance: dg.DagsterInstance, settings: Settings, sources: Iterable[SourceConfig], *, include_unseen: bool
) -> Iterator[dg.AssetObservation]:
    """Observations of what the instance does not know yet.

    Args:
        instance: whose newest observations are compared.
        settings: as just read.
        sources: of any types.
        unseen: also of what was never reported. A pass does so, and gives the changes after it
            something to differ from; what no pass used cannot be stale.
    """
    by_type: dict[SourceType, list[SourceConfig]] = {}
    for source in sources:
        by_type.setdefault(source.type, []).append(source)
    for source_type, mine in by_type.items():
        wanted = {source.id: compute_settings_digests(settings, source) for source in mine}
        for name in _SETTINGS_READERS:
            key = settings_key(source_type, name)
            known = read_latest_versions(instance, key, DagsterEventType.ASSET_OBSERVATION, list(wanted))
            for id_, digest_of in wanted.items():
                if known.get(id_, "" if include_unseen else digest_of[name]) != digest_of[name]:
                    yield dg.AssetObservation(key, partition=id_, tags={DATA_VERSION: digest_of[name]})


def report_settings(instance: dg.DagsterInstance, settings: Settings, sources: Iterable[SourceConfig]) -> int:
    """Say which settings a pass is about to use, where they are not those last reported; return how many."""
    reported = list(iter_unreported(instance, settings, sources, include_unseen=True))
    for observation in reported:
        instance.report_runless_asset_event(observation)
    return len(reported)


def read_latest_versions(
    instance: dg.DagsterInstance, key: dg.AssetKey, event: DagsterEventType, partitions: Sequence[str] | None
) -> dict[str, str]:
    """The newest data version of every partition that has one; one query."""
    chosen = partitions if partitions is not None and len(partitions) <= 500 else None
    found = instance.event_log_storage.get_latest_tags_by_partition(key, event, [DATA_VERSION], chosen)
    return {partition: tags[DATA_VERSION] for partition, tags in found.items()}


@dg.sensor(
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Reports settings of knowledge.yaml that changed since a source was last refreshed, "
    "so that what they decide is shown as stale.",
)
def changed_settings(
    context: dg.SensorEvaluationContext, project: ProjectResource
) -> dg.SensorResult | dg.SkipReason:
    """Compare the file with what was reported, unless it is the file of the last tick."""
    try:
        settings = project.load_settings()
    except ConfigError as error:
        return dg.SkipReason(f"the settings cannot be read: {error}")
    cursor = _compute_cursor(settings)
    if context.cursor == cursor:
        return dg.SkipReason("no settings changed")
    changed = iter_unreported(context.instance, settings, settings.sources, include_unseen=False)
    observations = list(islice(changed, REPORTS_PER_TICK))
    if len(observations) == REPORTS_PER_TICK:  # perhaps more: the next tick goes on
        return dg.SensorResult(asset_events=observations)
    return dg.SensorResult(
        asset_events=observations,
        cursor=cursor,
        skip_reason=f"{len(observations)} settings of sources changed",
    )


def _compute_cursor(settings: Settings) -> str:
    """Of all settings, and of the time: now and then the instance is looked at though nothing changed."""
    of_all = [
        f"{source.id} {sorted(compute_settings_digests(settings, source).items())}"
        for source in settings.sources
    ]
    return f"{hash_strings(*of_all)} {int(time.time() // _RECHECK_S)}"


def _source_settings(settings: Settings, source: SourceConfig) -> dict[str, Any]:
    del settings
    names = {"type", "include", "exclude", "max_bytes", *FILTER_TYPES}
    return {**source.model_dump(mode="json", include=names), "connection": _connection_settings(source)}


def _chunking_settings(settings: Settings, source: SourceConfig) -> dict[str, Any]:
    del settings
    told = source.model_dump(mode="json", include={"chunking", "metadata"})
    return {**told, "sanitize": resolve_sanitize(source).model_dump(mode="json")}


def _model_settings(settings: Settings, source: SourceConfig) -> dict[str, Any]:
    model = settings.resolve_embedding(source)
    told = model.model_dump(mode="json", include={"provider", "model", "dimensions"})
    if model.provider == "local":
        return told
    return {**told, "place": _strip_secrets(model.base_url), "max_input_tokens": model.max_input_tokens}


def _access_settings(settings: Settings, source: SourceConfig) -> dict[str, Any]:
    del settings
    access = source.access.model_dump(mode="json")
    return {
        "access": access,
        "tags": sorted(source.metadata.tags),
        "connection": _connection_settings(source),
    }


def _connection_settings(source: SourceConfig) -> dict[str, Any]:
    """Where the source is read, without as whom."""
    plain = source.connection.model_dump(mode="json", exclude=_IDENTITY_FIELDS)
    return plain | ({"url": _strip_secrets(plain["url"])} if "url" in plain else {})


def _strip_secrets(url: str) -> str:
    """Host, port and path of an address: what it asks, and as whom, may hold a token."""
    parts = urlsplit(url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


_IDENTITY_FIELDS = {"token", "app", "email"}

_SETTINGS_READERS: Mapping[str, Callable[[Settings, SourceConfig], dict[str, Any]]] = {
    "source": _source_settings,
    "chunking": _chunking_settings,
    "model": _model_settings,
    "access": _access_settings,
}
