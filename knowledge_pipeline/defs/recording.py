"""What a step did, recorded as materializations by the step itself.

Dagster records what an asset's own step yields. The jobs over all types are plain ops, and a step
that fails yields nothing: both log what was done, with the tags that Dagster would have given.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.defs.failures import Context
from knowledge_pipeline.defs.refreshing import Done
from knowledge_pipeline.defs.versions import code_versions
from knowledge_pipeline.stages.base import Stats
from knowledge_pipeline.stages.pipeline import STAGES
from knowledge_pipeline.store import schemas

RELEASE = dg.AssetKey("release")


def log_materializations(context: Context, done: Sequence[Done]) -> None:
    """Log every stage that was done for a source, those of one source together."""
    made = {(one.key, one.stats.source): str(one.stats.version) for one in done}
    for one in done:
        tags = _provenance(one, made)
        context.log_event(dg.AssetMaterialization(one.key, None, one.metadata, one.stats.source, tags))


def log_release(context: Context, stats: Stats) -> None:
    """Log a release that a plain op made."""
    tags = {"dagster/code_version": schemas.VERSION, "dagster/data_version": str(stats.version)}
    context.log_event(dg.AssetMaterialization(RELEASE, None, release_metadata(stats), tags=tags))


def release_metadata(stats: Stats) -> dict[str, Any]:
    """What is shown beside a release."""
    return {"dagster/row_count": stats.rows, "release": stats.version, "seconds": stats.seconds}


def _provenance(one: Done, made: Mapping[tuple[dg.AssetKey, str], str]) -> dict[str, str]:
    """What the UI tells staleness from."""
    source = one.stats.source
    tags = {
        "dagster/code_version": code_versions(one.source_type)[one.stats.stage],
        "dagster/data_version": made[one.key, source],
    }
    stages = list(STAGES)
    for upstream in stages[: stages.index(one.stats.stage)][-1:]:
        key = dg.AssetKey([one.source_type, upstream])
        if (key, source) in made:
            name = key.to_user_string()
            tags[f"dagster/input_data_version/{name}"] = made[key, source]
            tags[f"dagster/input_event_pointer/{name}"] = "NULL"
    return tags
