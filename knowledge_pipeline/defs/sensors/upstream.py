"""The sensor that refreshes sources when the assets that they are read from are materialized.

It looks up the newest materialization of each asset, whichever code location made it.
"""

import json
from collections.abc import Sequence

import dagster as dg

from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.defs.failures import skip_on_config_error
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.requests import build_refresh_requests
from knowledge_pipeline.defs.sensors.unfinished_runs import (
    WAITING_STATUSES,
    list_unfinished_sources,
    list_unpartitioned_sources,
)


def build_upstream_sensor(names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor of the sources that have `upstream`."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("upstream_assets"),
        job_name=names.definition("refresh"),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Refreshes the sources whose `upstream` names an asset that was materialized.",
    )
    @names.bind
    @skip_on_config_error("no asset is looked up")
    def upstream_assets(
        context: dg.SensorEvaluationContext, project: ProjectResource
    ) -> dg.SensorResult | dg.SkipReason:
        """Request one refresh of the sources of new materializations, and remember these."""
        sources = [source for source in project.load_settings().sources if source.upstream]
        seen: dict[str, int] = json.loads(context.cursor or "{}")
        newest = find_newest_events(context.instance, sources)
        moved = {key: event for key, event in newest.items() if seen.get(key) != event}
        # A run that waits reads what is there by then, as does the first refresh of a new source.
        excluded = list_unfinished_sources(context.instance, WAITING_STATUSES, names)
        excluded |= list_unpartitioned_sources(context.instance, sources, names)
        changed = [each for each in sources if moved.keys() & set(each.upstream) and each.id not in excluded]
        key = "upstream " + " ".join(f"{asset}@{event}" for asset, event in sorted(moved.items()))
        requests = list(build_refresh_requests(changed, names, trigger="upstream", run_key=key))
        skip = None if requests else dg.SkipReason(f"none of {len(newest)} assets was materialized since")
        cursor = json.dumps(newest, separators=(",", ":"))
        return dg.SensorResult(run_requests=requests, cursor=cursor, skip_reason=skip)

    return upstream_assets


def find_newest_events(instance: dg.DagsterInstance, sources: Sequence[SourceConfig]) -> dict[str, int]:
    """The id of the newest materialization of each asset that sources are read from, if there is one."""
    found: dict[str, int] = {}
    for key in dict.fromkeys(key for source in sources for key in source.upstream):
        records = instance.fetch_materializations(dg.AssetKey.from_user_string(key), limit=1).records
        if records:
            found[key] = records[0].storage_id
    return found
