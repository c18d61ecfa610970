"""Refreshes one source without releasing it, as a step of Dagster does."""

from __future__ import annotations

from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.stages.pipeline import SourceRefresh


def refresh_source(ctx: RefreshContext) -> list[Stats]:
    """Bring one source up to date, stage by stage."""
    run = SourceRefresh(ctx)
    return [*run.cut_and_index_words(), *run.finish()]
