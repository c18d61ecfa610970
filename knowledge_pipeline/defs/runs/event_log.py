"""What a step did, recorded as materializations and evaluations by the step itself.

Dagster records what an asset's own step yields. The jobs over all types are plain ops, and a run of
many sources must tell the provenance of each: both log what was done.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.checks.registry import blocking_findings
from knowledge_pipeline.config.settings import SourceType
from knowledge_pipeline.defs.checks import evaluation_event
from knowledge_pipeline.defs.evaluation import EVALUATION, log_evaluation
from knowledge_pipeline.defs.failures import Context, summed_up
from knowledge_pipeline.defs.metadata.provenance import Provenance, begin, begin_release
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.refresh_steps import Done, RefreshConfig, refresh_each
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages import evaluate
from knowledge_pipeline.stages import release as releasing
from knowledge_pipeline.stages.context import Stats
from knowledge_pipeline.stages.pipeline import STAGES
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.lake import Lake

RELEASE = dg.AssetKey("release")


def refresh_recorded(
    context: Context,
    project: ProjectResource,
    how: RefreshConfig,
    ids: Sequence[str],
    stages: Collection[str] = tuple(STAGES),
    *,
    release: bool,
) -> None:
    """Refresh one source after the other, record each, and release what they gave.

    Raises:
        KnowledgeError: naming the sources that failed, and the release if it did; the others are done.
    """
    settings = project.settings()
    configured = [source for source in settings.sources if source.id in set(ids)]
    provenance = begin(context.instance, settings, configured)
    refreshed = refresh_each(
        context,
        project,
        how,
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
        raise summed_up(refreshed.failed, of=len(ids))


def log_materialization(context: Context, provenance: Provenance, done: Done) -> None:
    """Log a stage that was just done for a source."""
    source = done.stats.source
    tags = provenance.tags(done.key, source, done.version)
    context.log_event(dg.AssetMaterialization(done.key, None, done.metadata, source, tags))


def release_and_log(context: Context, project: ProjectResource, types: Iterable[SourceType]) -> None:
    """Evaluate, check and release inside a step, and log it as the assets would have recorded it.

    Raises:
        ReleaseRefused: a check failed; the last release stays live.
        KnowledgeError: as the evaluation does.
    """
    settings = project.settings()
    lake = Lake(settings.store)
    provenance = begin_release(
        context.instance, settings, RELEASE, schemas.VERSION, between={EVALUATION: evaluate.VERSION}
    )
    log_evaluation(context, project, lambda version: provenance.tags(EVALUATION, None, version))
    for source_type in types:
        for check, finding in blocking_findings(lake, settings, source_type):
            found = evaluation_event(check, finding, source_type, lake)
            context.log_event(found)  # pyright: ignore[reportArgumentType]  # Dagster takes it
    stats = publish(context, project)
    log_release(context, stats, provenance.tags(RELEASE, None, str(stats.version)))


def publish(context: Context, project: ProjectResource) -> Stats:
    """Make live what the index holds.

    Raises:
        ReleaseRefused: a check failed; the last release stays live.
    """
    stats = releasing.refresh(project.lake(), project.settings())
    context.log.info(f"release {stats.version} is live" + ("" if stats.added else ", as it was"))
    return stats


def log_release(context: Context, stats: Stats, tags: dict[str, str] | None = None) -> None:
    """Log a release that no asset's step made; `tags` tell what it was made of."""
    tags = tags or {"dagster/code_version": schemas.VERSION, "dagster/data_version": str(stats.version)}
    context.log_event(dg.AssetMaterialization(RELEASE, None, release_metadata(stats), tags=tags))


def release_metadata(stats: Stats) -> dict[str, Any]:
    """What is shown beside a release."""
    return {"dagster/row_count": stats.rows, "release": stats.version, "seconds": stats.seconds}
