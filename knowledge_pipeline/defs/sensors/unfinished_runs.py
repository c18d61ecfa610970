"""The sources that have an unfinished run: a sensor need not, or must not yet, look at them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast, get_args

import dagster as dg

from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.dagster_internals import PARTITION, RANGE_END, RANGE_START
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.partitions import list_partitions

WAITING_STATUSES = (dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED)  # read nothing yet
READING_STATUSES = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)


def list_unfinished_sources(
    instance: dg.DagsterInstance,
    statuses: Sequence[dg.DagsterRunStatus] = (*WAITING_STATUSES, *READING_STATUSES),
    names: Names = PLAIN,
) -> set[str]:
    """The sources of unfinished runs, by the partitions of a run or the ids in its configuration."""
    runs = instance.get_runs(filters=dg.RunsFilter(statuses=list(statuses)))
    own = [run for run in runs if names.has_run(run)]
    return {source for run in own for source in _iter_run_sources(instance, run, names)}


def list_unpartitioned_sources(
    instance: dg.DagsterInstance, sources: Collection[SourceConfig], names: Names = PLAIN
) -> set[str]:
    """The sources that `sources_in_config` has not seen; it requests their first refresh."""
    types = {each.type for each in sources}
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
