"""The asset jobs: one for each type, launched for a partition, for a backfill, or by a sensor."""

import dagster as dg

from knowledge_pipeline.checks.registry import list_blocking_checks
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.assets import stage_asset_keys
from knowledge_pipeline.defs.dagster_internals import AssetJob
from knowledge_pipeline.defs.evaluation import EVALUATION, QUALITY_CHECK
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.runs.event_log import RELEASE


def build_release_job(names: Names = PLAIN) -> AssetJob:
    """The job that evaluates and releases."""
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        names.definition("release"),
        selection=_select_release(names),
        description="Make live what the index holds, if the checks allow it.",
    )


def build_refresh_job(source_type: SourceType, names: Names = PLAIN) -> AssetJob:
    """The asset job of one type: its chain for some partitions, the blocking checks, and the release.

    The informational checks have a schedule of their own: they look at the whole store.
    """
    keys = stage_asset_keys(source_type, names)
    guards = [dg.AssetCheckKey(keys[check.stage], check.name) for check in list_blocking_checks(source_type)]
    selection = dg.AssetSelection.assets(*keys.values()).without_checks() | dg.AssetSelection.checks(*guards)
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        names.definition(f"refresh_{source_type}"),
        selection=selection | _select_release(names),
        description=f"Refresh sources of the type {source_type} and release what changed.",
        tags={"knowledge/type": source_type},
    )


def _select_release(names: Names) -> dg.AssetSelection:
    evaluation = names.key(EVALUATION)
    assets = dg.AssetSelection.assets(evaluation, names.key(RELEASE)).without_checks()
    return assets | dg.AssetSelection.checks(dg.AssetCheckKey(evaluation, QUALITY_CHECK))
