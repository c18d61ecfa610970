"""The tags of a materialization that name its inputs; the UI derives staleness from them.

Dagster writes them for what an asset's step yields, from the state of the event log when the step began.
Steps that log their materializations themselves write the same tags here, for each partition its own.

The pointer to an input is the end of the event log when the input was read: later events are changes.
Dagster uses the input's newest event instead, which is equivalent where there is one; where there is none
it writes NULL, and then never sees the first change.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import dagster as dg

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.dagster_internals import (
    DATA_VERSION,
    INITIAL_VERSION,
    build_version_tags,
    combine_versions,
    have_same_versions,
    read_latest_tags,
    read_log_end,
    read_partition_versions,
    read_unpartitioned_version,
)
from knowledge_pipeline.defs.metadata import list_upstream, list_upstream_assets
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.settings_assets import (
    SOURCES,
    describe_versions,
    list_source_types,
    report_settings,
)
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.stages.code_versions import compute_code_versions
from knowledge_pipeline.stages.context import Stats
from knowledge_pipeline.stages.pipeline import select_stages


class Provenance:
    """The inputs of one run as they were when it began, so that later changes count as changes.

    Create it before the run reads anything. Note each version as soon as there is one, in the order of the
    stages; build its tags right before the materialization is stored or yielded, after those of its inputs.
    """

    def __init__(
        self,
        instance: dg.DagsterInstance,
        deps: Mapping[dg.AssetKey, Collection[dg.AssetKey]],  # upstream assets of each that may be made
        code_versions: Mapping[dg.AssetKey, str],
        settings: Mapping[tuple[dg.AssetKey, str], str],  # their data versions, which need no look-up
        foreign: Collection[dg.AssetKey] = (),  # those that do not have the partitions of ours
        partitions: Sequence[str] = (),  # that may be made, and are looked up together
    ) -> None:
        """Take the end of the event log as the state of every input."""
        self._instance, self._deps, self._code_versions = instance, deps, code_versions
        self._settings, self._foreign, self._partitions = settings, foreign, partitions
        self._log_end_at_start = read_log_end(instance)
        self._materialized: dict[tuple[dg.AssetKey, str | None], str] = {}
        self._log_end_after: dict[dg.AssetKey, str] = {}  # of assets that this run made
        self._versions_by_partition: dict[dg.AssetKey, Mapping[str, str]] = {}
        self._recorded: dict[dg.AssetKey, Mapping[str, Mapping[str, str]]] = {}

    def note_version(self, key: dg.AssetKey, partition: str | None, version: str) -> None:
        """Remember what this run found or made, for the assets that are made of it."""
        self._materialized[key, partition] = version

    def build_tags(self, key: dg.AssetKey, partition: str | None, version: str) -> dict[str, str]:
        """Build the tags of one materialization with its data version, and remember it."""
        inputs = {
            dep: (self._find_input_version(dep, partition), self._find_event_pointer(dep, partition))
            for dep in self._deps[key]
        }
        self.note_version(key, partition, version)
        self._log_end_after.pop(key, None)
        return build_version_tags(self._code_versions[key], version, inputs)

    def is_recorded(self, key: dg.AssetKey, partition: str, version: str) -> bool:
        """Whether the newest materialization of a partition already says all that another one would."""
        inputs = {dep: (self._find_input_version(dep, partition), "") for dep in self._deps[key]}
        tags = build_version_tags(self._code_versions[key], version, inputs)
        return have_same_versions(tags, self._find_recorded(key, partition))

    def keep_version(self, key: dg.AssetKey, partition: str, version: str) -> str:
        """The recorded version of an unchanged partition, whose table has a new one for other sources."""
        recorded = self._find_recorded(key, partition).get(DATA_VERSION, "")
        is_of_same_space = recorded.rpartition("@")[0] == version.rpartition("@")[0]
        return recorded if recorded and is_of_same_space else version

    def _find_recorded(self, key: dg.AssetKey, partition: str) -> Mapping[str, str]:
        if key not in self._recorded:
            self._recorded[key] = read_latest_tags(self._instance, key, self._partitions)
        return self._recorded[key].get(partition, {})

    def _find_event_pointer(self, dep: dg.AssetKey, partition: str | None) -> str:
        if (dep, partition) not in self._materialized:
            return self._log_end_at_start
        if dep not in self._log_end_after:
            self._log_end_after[dep] = read_log_end(self._instance)
        return self._log_end_after[dep]

    def _find_input_version(self, dep: dg.AssetKey, partition: str | None) -> str:
        """As Dagster computes it: the combined versions of partitions, else the version itself."""
        version = self._materialized.get((dep, partition))
        if partition is None or dep in self._foreign:
            if by_partition := self._list_partition_versions(dep):
                return combine_versions(by_partition[name] for name in sorted(by_partition))
            return version or read_unpartitioned_version(self._instance, dep)
        version = version or self._settings.get((dep, partition))
        version = version or self._list_partition_versions(dep).get(partition)
        return combine_versions([version]) if version else INITIAL_VERSION

    def _list_partition_versions(self, dep: dg.AssetKey) -> Mapping[str, str]:
        if dep not in self._versions_by_partition:
            event = dg.DagsterEventType.ASSET_MATERIALIZATION
            self._versions_by_partition[dep] = read_partition_versions(self._instance, dep, event)
        return self._versions_by_partition[dep]


def track_refresh_inputs(
    instance: dg.DagsterInstance, settings: Settings, sources: Iterable[SourceConfig], names: Names = PLAIN
) -> Provenance:
    """Record the settings in use, and remember the inputs of all stages, in some look-ups for each type."""
    sources = list(sources)
    report_settings(instance, settings, sources, names)
    types: list[SourceType] = list(dict.fromkeys(source.type for source in sources))
    deps = {
        names.key(type_, stage): list_upstream(type_, stage, names)
        for type_ in types
        for stage in select_stages(type_)
    }
    upstream = {type_: [dep.asset_key for dep in list_upstream_assets(type_, settings)] for type_ in types}
    for type_, keys in upstream.items():
        deps[names.key(type_, "snapshot")] += keys
    versions = {
        names.key(type_, stage): version
        for type_ in types
        for stage, version in compute_code_versions(type_).items()
    }
    used = {(names.key(SOURCES), source.id): describe_versions(settings, source) for source in sources}
    foreign = {key for keys in upstream.values() for key in keys}
    return Provenance(instance, deps, versions, used, foreign, [source.id for source in sources])


def track_release_inputs(
    instance: dg.DagsterInstance,
    settings: Settings,
    key: dg.AssetKey,
    code_version: str,
    intermediate: Mapping[dg.AssetKey, str] | None = None,
    names: Names = PLAIN,
) -> Provenance:
    """Remember the index of every configured type, and the code graph, right before a release reads them.

    `key` and `code_version` are the release's; `intermediate` has those of its evaluation.
    """
    intermediate, types = intermediate or {}, list_source_types(settings)
    indexes = [names.key(type_, "index") for type_ in types]
    graphs = [names.key(type_, "graph") for type_ in types if "graph" in select_stages(type_)]
    deps = {**dict.fromkeys(intermediate, indexes), key: [*intermediate, *indexes, *graphs]}
    return Provenance(instance, deps, {**intermediate, key: code_version}, {})


def data_version(settings: Settings, source: SourceConfig, stats: Stats) -> str:
    """The version of a stage's table, with the space where each has a table: two may be equal by chance."""
    if stats.stage in ("embeddings", "index"):
        return f"{resolve_space(settings.resolve_embedding(source)).name}@{stats.version}"
    return str(stats.version)
