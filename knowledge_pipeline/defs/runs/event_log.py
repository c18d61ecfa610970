"""What a step did, recorded as materializations and evaluations by the step itself.

Dagster records what an asset's own step yields. The jobs over all types are plain ops, and a run of
many sources must tell the provenance of each: both log what was done.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.checks.registry import run_blocking_checks
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.checks import to_check_evaluation
from knowledge_pipeline.defs.evaluation import EVALUATION, log_evaluation
from knowledge_pipeline.defs.failures import Context, combine_failures
from knowledge_pipeline.defs.metadata.provenance import Provenance, track_refresh_inputs, track_release_inputs
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.refresh_steps import RefreshConfig, StageResult, refresh_all_sources
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages import evaluate
from knowledge_pipeline.stages import release as releasing
from knowledge_pipeline.stages.context import Stats
from knowledge_pipeline.stages.pipeline import STAGES
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.lake import Lake

RELEASE = dg.AssetKey("release")


def refresh_and_record(
    context: Context,
    project: ProjectResource,
    refresh_config: RefreshConfig,
    ids: Sequence[str],
    stages: Collection[str] = tuple(STAGES),
    *,
    release: bool,
) -> None:
    """Refresh one source after the other, record each, and release what they gave.

    Raises:
        KnowledgeError: naming the sources that failed, and the release if it did; the others are done.
    """
    settings = project.load_settings()
    configured = [source for source in settings.sources if source.id in set(ids)]
    provenance = track_refresh_inputs(context.instance, settings, configured)
    refreshed = refresh_all_sources(
        context,
        project,
        refresh_config,
        ids,
        stages,
        after_each=lambda done: log_materialization(context, provenance, done),
    )
    if release:
        try:
            release_and_log(context, project, refreshed.types)
        except KnowledgeError as error:
            refreshed.failed["release"] = error
    if refreshed.failed:
        raise combine_failures(refreshed.failed, total=len(ids))


def log_materialization(context: Context, provenance: Provenance, result: StageResult) -> None:
    """Log a stage that was just done for a source."""
    source = result.stats.source
    tags = provenance.build_tags(result.key, source, result.version)
    context.log_event(dg.AssetMaterialization(result.key, None, result.metadata, source, tags))


def release_and_log(context: Context, project: ProjectResource, types: Iterable[SourceType]) -> None:
    """Evaluate, check and release inside a step, and log it as the assets would have recorded it.

    Raises:
        ReleaseRefused: a check failed; the last release stays live.
        KnowledgeError: as the evaluation does.
    """
    settings = project.load_settings()
    lake = Lake(settings.store)
    provenance = track_release_inputs(
        context.instance, settings, RELEASE, schemas.VERSION, intermediate={EVALUATION: evaluate.VERSION}
    )
    log_evaluation(context, project, lambda version: provenance.build_tags(EVALUATION, None, version))
    for source_type in types:
        for check, finding in run_blocking_checks(lake, settings, source_type):
            found = to_check_evaluation(check, finding, source_type, lake)
            context.log_event(found)  # pyright: ignore[reportArgumentType]  # Dagster takes it
    stats = publish(context, project)
    log_release(context, stats, provenance.build_tags(RELEASE, None, str(stats.version)))


def publish(context: Context, project: ProjectResource) -> Stats:
    """Make live what the index holds.

    Raises:
        ReleaseRefused: a check failed; the last release stays live.
    """
    stats = releasing.refresh(project.open_lake(), project.load_settings())
    context.log.info(f"release {stats.version} is live" + ("" if stats.added else ", as it was"))
    return stats


def log_release(context: Context, stats: Stats, tags: dict[str, str] | None = None) -> None:
    """Log a release that no asset's step made; `tags` tell what it was made of."""
    tags = tags or {"dagster/code_version": schemas.VERSION, "dagster/data_version": str(stats.version)}
    context.log_event(dg.AssetMaterialization(RELEASE, None, build_release_metadata(stats), tags=tags))


def build_release_metadata(stats: Stats) -> dict[str, Any]:
    """What is shown beside a release."""
    return {"dagster/row_count": stats.rows, "release": stats.version, "seconds": stats.seconds}
