"""The asset jobs: one for each type, launched for a partition, for a backfill, or by a sensor."""

from typing import TYPE_CHECKING

import dagster as dg

from knowledge_pipeline.config import SourceType
from knowledge_pipeline.defs.assets import RELEASE

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

RELEASE_JOB = dg.define_asset_job(
    "release",
    selection=dg.AssetSelection.assets(RELEASE),
    description="Make what the index holds live, if the checks allow it.",
)


def refresh_of(source_type: SourceType) -> "UnresolvedAssetJobDefinition":
    """The asset job of one type: its chain for a partition or several, then the release."""
    return dg.define_asset_job(
        f"refresh_{source_type}",
        selection=dg.AssetSelection.groups(source_type) | dg.AssetSelection.assets(RELEASE),
        description=f"Refresh sources of the type {source_type} and release what they gave.",
        tags={"knowledge/type": source_type},
    )
