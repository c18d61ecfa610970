"""Records what a step did: it logs materializations and check evaluations itself.

Dagster records what an asset's own step yields. The jobs over all types are plain ops, and a run of
many sources records the provenance of each: both log what they did.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.checks.registry import run_blocking_checks
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.checks import Context, SourcesFailed, to_check_result
from knowledge_pipeline.defs.dagster_internals import CODE_VERSION, DATA_VERSION, ROW_COUNT, log_check_result
from knowledge_pipeline.defs.evaluation import EVALUATION, log_evaluation
from knowledge_pipeline.defs.names import Names
from knowledge_pipeline.defs.provenance import track_refresh_inputs, track_release_inputs
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs import RefreshStep, StageRecorder
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages import evaluate
from knowledge_pipeline.stages.context import RefreshOptions, Stats
from knowledge_pipeline.stages.pipeline import STAGES, EarlyReleases, release_early, release_newest
from knowledge_pipeline.store import schemas

RELEASE = "release"
"""The last part of the asset's key."""


def refresh_and_record(
    context: Context,
    project: ProjectResource,
    options: RefreshOptions,
    ids: Sequence[str],
    stages: Collection[str] = tuple(STAGES),
    *,
    release: bool,
    skip_recorded: bool = False,
) -> None:
    """Refresh one source after the other, record each, and release what changed.

    `skip_recorded` records no unchanged stage again; Dagster waits for one where it asked for partitions.
    Raises SourcesFailed, naming the sources and the release that failed; the others are done.
    """
    settings = project.load_settings()
    configured = [source for source in settings.sources if source.id in set(ids)]
    provenance = track_refresh_inputs(context.instance, settings, configured, project.names)
    recorder = StageRecorder(context, provenance, ids, skip_recorded=skip_recorded)
    releases = build_early_releases(context, project, before_each=recorder.flush) if release else None
    step = RefreshStep(context, project, settings, options, stages, releases)
    refreshed = step.refresh_all(ids, recorder)
    recorder.finish()
    if release:
        try:
            release_and_log(context, project, refreshed.types)
        except KnowledgeError as error:
            refreshed.failed["release"] = error
    if refreshed.failed:
        raise SourcesFailed(refreshed.failed, total=len(ids))


def build_early_releases(
    context: Context, project: ProjectResource, *, before_each: Callable[[], None] = lambda: None
) -> EarlyReleases:
    """Releases of sources that are not embedded yet, each logged; `before_each` records what it releases."""

    def release() -> None:
        stats = release_early(project.open_lake(), project.load_settings())
        if stats and stats.has_changes:
            before_each()
            log_release(context, stats, project.names)

    return EarlyReleases(release)


def release_and_log(context: Context, project: ProjectResource, types: Iterable[SourceType]) -> None:
    """Evaluate, check and release inside a step, and log what the assets would have recorded.

    Raises KnowledgeError as `publish` and the evaluation do.
    """
    settings, lake, names = project.load_settings(), project.open_lake(), project.names
    release, evaluation = names.key(RELEASE), names.key(EVALUATION)
    extra = {evaluation: evaluate.VERSION}
    provenance = track_release_inputs(context.instance, settings, release, schemas.VERSION, extra, names)
    log_evaluation(context, project, lambda version: provenance.build_tags(evaluation, None, version))
    for source_type in types:
        for check, result in run_blocking_checks(lake, settings, source_type):
            log_check_result(context, to_check_result(check, result, source_type, lake, names))
    stats = publish(context, project)
    log_release(context, stats, names, provenance.build_tags(release, None, str(stats.version)))


def publish(context: Context, project: ProjectResource) -> Stats:
    """Make live what the index holds; raises ReleaseRefused if a check failed: the last one stays live."""
    stats = release_newest(project.open_lake(), project.load_settings())
    context.log.info(f"release {stats.version} is {'live' if stats.added else 'still live'}")
    for note in stats.notes:
        context.log.warning(note)
    return stats


def log_release(context: Context, stats: Stats, names: Names, tags: dict[str, str] | None = None) -> None:
    """Log a release that was made outside its asset's step; `tags` are its provenance."""
    tags = tags or {CODE_VERSION: schemas.VERSION, DATA_VERSION: str(stats.version)}
    context.log_event(
        dg.AssetMaterialization(names.key(RELEASE), None, build_release_metadata(stats), tags=tags)
    )


def build_release_metadata(stats: Stats) -> dict[str, Any]:
    """What the UI shows of a release."""
    return {
        ROW_COUNT: stats.rows,
        "release": stats.version,
        "seconds": stats.seconds,
        "rows_without_vector": stats.unembedded,
        "embedded_share": round(stats.embedded_share, 4),
        **({"note": "; ".join(stats.notes)} if stats.notes else {}),
    }
