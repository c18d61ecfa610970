"""What the UI tells staleness from: the tags of a materialization that say what it was made of.

Dagster writes them for what an asset's step yields, from what the event log held when the step began.
Steps that log their materializations themselves, and passes that report their settings, take them
from here: the same tags, for each partition its own.

The pointer to an input is where the event log ended when the input was read: events after it are
changes. Dagster takes the input's newest event instead, which is the same where there is one; where
there is none it writes NULL, and then never sees the first change.
"""

from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256

import dagster as dg
from dagster import DagsterEventType

from knowledge_pipeline.config.settings import Settings, SourceConfig
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.metadata.asset_specs import list_upstream
from knowledge_pipeline.defs.partitions import group_ids_by_type
from knowledge_pipeline.defs.settings_assets import (
    DATA_VERSION,
    compute_settings_digests,
    read_latest_versions,
    report_settings,
    settings_key,
)
from knowledge_pipeline.defs.versions import compute_code_versions
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.stages.context import Stats
from knowledge_pipeline.stages.pipeline import select_stages

_INITIAL = "INITIAL"  # the data version of an asset of which nothing was ever recorded


class Provenance:
    """The inputs of one run as they were when it began: what changes later must count as changed.

    Made before the run reads anything. Ask for tags right before each materialization is logged or
    yielded, in the order of the stages.
    """

    def __init__(
        self,
        instance: dg.DagsterInstance,
        deps: Mapping[dg.AssetKey, Collection[dg.AssetKey]],
        code_versions: Mapping[dg.AssetKey, str],
        known: Mapping[tuple[dg.AssetKey, str], str],
    ) -> None:
        """Take the end of the event log as the state of every input.

        Args:
            instance: whose event log it is.
            deps: upstream assets of those that the run may materialize.
            code_versions: of those that the run may materialize.
            known: data versions of inputs and partitions that need no look-up: settings.
        """
        self._instance, self._deps, self._code_versions = instance, deps, code_versions
        self._known = known
        self._log_end_at_start = self._read_log_end()
        self._materialized: dict[tuple[dg.AssetKey, str | None], str] = {}
        self._log_end_after: dict[dg.AssetKey, str] = {}  # the end after what this run made, where looked up
        self._versions_by_partition: dict[dg.AssetKey, Mapping[str, str]] = {}

    def build_tags(self, key: dg.AssetKey, partition: str | None, version: str) -> dict[str, str]:
        """The tags of one materialization, and remember that it is made.

        Args:
            key: of the asset.
            partition: None for an asset without partitions.
            version: the data version that it has now.
        """
        tags = {"dagster/code_version": self._code_versions[key]}
        for dep in self._deps[key]:
            name = dep.to_user_string()
            tags[f"dagster/input_data_version/{name}"] = self._find_input_version(dep, partition)
            tags[f"dagster/input_event_pointer/{name}"] = self._find_event_pointer(dep, partition)
        self._materialized[key, partition] = version
        self._log_end_after.pop(key, None)
        return tags | {DATA_VERSION: version, "dagster/data_version_is_user_provided": "true"}

    def _find_event_pointer(self, dep: dg.AssetKey, partition: str | None) -> str:
        if (dep, partition) not in self._materialized:
            return self._log_end_at_start
        if dep not in self._log_end_after:
            self._log_end_after[dep] = self._read_log_end()
        return self._log_end_after[dep]

    def _read_log_end(self) -> str:
        return str(self._instance.event_log_storage.get_maximum_record_id() or "NULL")

    def _find_input_version(self, dep: dg.AssetKey, partition: str | None) -> str:
        """As Dagster tells it: of partitions a sum of their versions, else the version itself."""
        given = self._materialized.get((dep, partition))
        if partition is None:
            held = self._read_partition_versions(dep)
            return (
                _combine_versions(held[name] for name in sorted(held))
                if held
                else given or self._read_unpartitioned_version(dep)
            )
        given = (
            given or self._known.get((dep, partition)) or self._read_partition_versions(dep).get(partition)
        )
        return _combine_versions([given]) if given else _INITIAL

    def _read_unpartitioned_version(self, dep: dg.AssetKey) -> str:
        """The newest version of an asset without partitions."""
        record = self._instance.get_latest_data_version_record(dep)
        materialized = record.asset_materialization if record else None
        return (materialized.tags or {}).get(DATA_VERSION, _INITIAL) if materialized else _INITIAL

    def _read_partition_versions(self, dep: dg.AssetKey) -> Mapping[str, str]:
        if dep not in self._versions_by_partition:
            event = DagsterEventType.ASSET_MATERIALIZATION
            self._versions_by_partition[dep] = read_latest_versions(self._instance, dep, event, None)
        return self._versions_by_partition[dep]


def track_refresh_inputs(
    instance: dg.DagsterInstance, settings: Settings, sources: Iterable[SourceConfig]
) -> Provenance:
    """Report the settings in use, and remember the inputs of all stages of some sources.

    A handful of look-ups for each type among the sources, whatever their number.
    """
    sources = list(sources)
    report_settings(instance, settings, sources)
    types: list[SourceType] = list(dict.fromkeys(source.type for source in sources))
    deps = {
        dg.AssetKey([type_, stage]): [dg.AssetKey([type_, name]) for name in list_upstream(stage)]
        for type_ in types
        for stage in select_stages(type_)
    }
    versions = {
        dg.AssetKey([type_, stage]): version
        for type_ in types
        for stage, version in compute_code_versions(type_).items()
    }
    known = {
        (settings_key(source.type, name), source.id): version
        for source in sources
        for name, version in compute_settings_digests(settings, source).items()
    }
    return Provenance(instance, deps, versions, known)


def track_release_inputs(
    instance: dg.DagsterInstance,
    settings: Settings,
    key: dg.AssetKey,
    code_version: str,
    intermediate: Mapping[dg.AssetKey, str] | None = None,
) -> Provenance:
    """Remember the index of every configured type, and the code graph, right before a release reads them.

    Args:
        instance: whose event log it is.
        settings: with all types.
        key: of the release.
        code: its code version.
        between: code versions of what is made from the indexes and read by the release: its evaluation.
    """
    intermediate = intermediate or {}
    indexes = [dg.AssetKey([type_, "index"]) for type_ in group_ids_by_type(settings)]
    graphs = [
        dg.AssetKey([type_, "graph"])
        for type_ in group_ids_by_type(settings)
        if "graph" in select_stages(type_)
    ]
    deps = {**dict.fromkeys(intermediate, indexes), key: [*intermediate, *indexes, *graphs]}
    return Provenance(instance, deps, {**intermediate, key: code_version}, {})


def data_version(settings: Settings, source: SourceConfig, stats: Stats) -> str:
    """The version of a stage's table, with the space where each space has a table of its own.

    Versions of two tables may be equal by chance, and a change of the model changes the table.
    """
    if stats.stage in ("embeddings", "index"):
        return f"{resolve_space(settings.resolve_embedding(source)).name}@{stats.version}"
    return str(stats.version)


def _combine_versions(versions: Iterable[str]) -> str:
    return sha256("".join(versions).encode()).hexdigest()
