"""Which sources have a run that is not over: what a sensor need not, or must not yet, look at."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, get_args

import dagster as dg

from knowledge_pipeline.config.settings import SourceConfig
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.partitions import source_partitions

WAITING_STATUSES = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED)
"""What such a run reads, it reads later than now."""
READING_STATUSES = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)

_RANGE_START, _RANGE_END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


def list_unfinished_sources(
    instance: dg.DagsterInstance,
    statuses: Sequence[dg.DagsterRunStatus] = (*WAITING_STATUSES, *READING_STATUSES),
) -> set[str]:
    """Sources of runs that are not over, by the ids that the runs name and the partitions they have."""
    runs = instance.get_runs(filters=dg.RunsFilter(statuses=list(statuses)))
    return {source for run in runs for source in _list_run_sources(instance, run)}


def list_unpartitioned_sources(instance: dg.DagsterInstance, sources: Collection[SourceConfig]) -> set[str]:
    """Those that `sources_in_config` has not seen: it requests their first refresh."""
    held = {
        type_: set(instance.get_dynamic_partitions(str(source_partitions(type_).name)))
        for type_ in {source.type for source in sources}
    }
    return {source.id for source in sources if source.id not in held[source.type]}


def _list_run_sources(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Sequence[str]:
    if partition := run.tags.get("dagster/partition"):
        return [partition]
    if first := run.tags.get(_RANGE_START):
        return list(_iter_partition_range(instance, first, run.tags[_RANGE_END]))
    return _parse_run_sources(run.run_config)


def _iter_partition_range(instance: dg.DagsterInstance, first: str, last: str) -> Iterator[str]:
    """The partitions from one to another, of every type that has both."""
    for type_ in get_args(SourceType):
        held = list(instance.get_dynamic_partitions(str(source_partitions(type_).name)))
        if first in held and last in held:
            yield from held[held.index(first) : held.index(last) + 1]


def _parse_run_sources(run_config: Mapping[str, Any]) -> Sequence[str]:
    return run_config.get("ops", {}).get("refresh_sources", {}).get("config", {}).get("sources", [])
