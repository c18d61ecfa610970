"""Records what a step did: it logs materializations and check evaluations itself.

Dagster records what an asset's own step yields. The jobs over all types are plain ops, and a run of
many sources records the provenance of each: both log what they did.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.checks import Context, SourcesFailed, check_releasable
from knowledge_pipeline.defs.dagster_internals import (
    ROW_COUNT,
    build_evaluation,
    build_planned_entry,
    log_check_result,
    read_unpartitioned_version,
    store_asset_events,
)
from knowledge_pipeline.defs.evaluation import EVALUATION, list_evaluation_keys, log_evaluation
from knowledge_pipeline.defs.names import Names
from knowledge_pipeline.defs.plots import build_table
from knowledge_pipeline.defs.provenance import Provenance, track_refresh_inputs, track_release_inputs
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs import RefreshStep, StageRecorder
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages import evaluate
from knowledge_pipeline.stages.context import RefreshOptions, Stats
from knowledge_pipeline.stages.pipeline import STAGES, EarlyReleases, release_early, release_newest
from knowledge_pipeline.stages.release_changes import CHANGES, compare_releases
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.release import list_releases

RELEASE = "release"
"""The last part of the asset's key."""
PIN_CHECK = "not_pinned"

_MAX_SOURCES = 100  # of a table of changes


def refresh_and_record(
    context: Context,
    project: ProjectResource,
    options: RefreshOptions,
    ids: Sequence[str],
    stages: Collection[str] = tuple(STAGES),
    *,
    release: bool,
    is_op: bool = False,
) -> None:
    """Refresh one source after the other, record each, and release what changed.

    Of an op (`is_op`), Dagster is told here what it is to make, and nothing that is unchanged is recorded
    again; of an asset's step it knows, and waits for each partition.
    Raises SourcesFailed, naming the sources and the release that failed; the others are done.
    """
    settings = project.load_settings()
    configured = [source for source in settings.sources if source.id in set(ids)]
    provenance = track_refresh_inputs(context.instance, settings, configured, project.names)
    recorder = StageRecorder(context, provenance, ids)
    if is_op:
        recorder.plan(settings, project.names, stages)
    releases = build_early_releases(context, project, before_each=recorder.flush) if release else None
    step = RefreshStep(context, project, settings, options, stages, releases, provenance)
    refreshed = step.refresh_all(ids, recorder)
    recorder.finish()
    if release:
        try:
            release_and_log(context, project, refreshed.types)
        except KnowledgeError as error:
            refreshed.failed["release"] = error
    if refreshed.failed:
        recorder.finish_failed(refreshed.failed)
        raise SourcesFailed(refreshed.failed, total=len(ids))


def build_early_releases(
    context: Context, project: ProjectResource, *, before_each: Callable[[], None] = lambda: None
) -> EarlyReleases:
    """Releases of sources that are not embedded yet, each logged; `before_each` records what it releases."""

    def release() -> None:
        stats = release_early(project.open_lake(), project.load_settings())
        if stats and stats.has_changes:
            before_each()
            log_release(context, project)

    return EarlyReleases(release)


def release_and_log(
    context: Context, project: ProjectResource, types: Iterable[SourceType], *, unpin: bool = False
) -> None:
    """Evaluate, check and release inside a step, and log what the assets would have recorded.

    Raises KnowledgeError as `publish` and the evaluation do.
    """
    settings, lake, names = project.load_settings(), project.open_lake(), project.names
    release, evaluation = names.key(RELEASE), names.key(EVALUATION)
    store_asset_events(context.instance, [build_planned_entry(context, release, None)])
    provenance = _track_inputs(context.instance, project)
    log_evaluation(context, project, lambda version: provenance.build_tags(evaluation, None, version))
    for source_type in types:
        log_check_result(context, check_releasable(lake, settings, source_type, names))
    stats = publish(context, project, unpin=unpin)
    if not is_release_recorded(context.instance, stats.version, names):
        log_release(context, project, provenance.build_tags(release, None, str(stats.version)))


def publish(context: Context, project: ProjectResource, *, unpin: bool = False) -> Stats:
    """Make live what the index holds; raises ReleaseRefused if a check failed: the last one stays live."""
    stats = release_newest(project.open_lake(), project.load_settings(), unpin=unpin)
    context.log.info(f"release {stats.version} is {'live' if stats.added else 'still live'}")
    for note in stats.notes:
        context.log.warning(note)
    return stats


def is_release_recorded(instance: dg.DagsterInstance, version: int, names: Names) -> bool:
    """Whether Dagster knows of a release, so that what waits for new ones need not run."""
    return read_unpartitioned_version(instance, names.key(RELEASE)) == str(version)


def log_release(context: Context, project: ProjectResource, tags: Mapping[str, str] | None = None) -> None:
    """Log the live release, which was made outside its asset's step; `tags` are its provenance."""
    for event in build_release_events(context.instance, project, tags):
        context.log_event(event)  # pyright: ignore[reportArgumentType]  # accepted, but not declared


def build_release_events(
    instance: dg.DagsterInstance, project: ProjectResource, tags: Mapping[str, str] | None = None
) -> tuple[dg.AssetMaterialization, dg.AssetCheckEvaluation]:
    """What Dagster is told of the live release, and of its pin."""
    metadata, key = build_release_metadata(project), project.names.key(RELEASE)
    tags = tags or _track_inputs(instance, project).build_tags(key, None, str(metadata["release"]))
    return dg.AssetMaterialization(key, None, metadata, tags=tags), build_evaluation(check_pin(project))


def _track_inputs(instance: dg.DagsterInstance, project: ProjectResource) -> Provenance:
    names, settings = project.names, project.load_settings()
    extra = dict.fromkeys(list_evaluation_keys(settings, names), evaluate.VERSION)
    return track_release_inputs(instance, settings, names.key(RELEASE), schemas.VERSION, extra, names)


def check_pin(project: ProjectResource) -> dg.AssetCheckResult:
    """The result of `PIN_CHECK`: a warning that says what is pinned since when, and what ends that."""
    pin = list_releases(project.open_lake())[-1].pin
    until = "refreshes publish nothing until the job rollback runs with `pin: false` and no release, or"
    return dg.AssetCheckResult(
        asset_key=project.names.key(RELEASE),
        check_name=PIN_CHECK,
        passed=pin is None,
        severity=dg.AssetCheckSeverity.WARN,
        description=f"{pin}: {until} `knowledge releases --unpin`"
        if pin
        else "refreshes publish what they change",
    )


def build_release_metadata(project: ProjectResource) -> dict[str, Any]:
    """What the UI shows of the live release, and what it changed since the one before that is kept."""
    *earlier, live = list_releases(lake := project.open_lake())
    former = earlier[-1] if earlier else None
    changes = compare_releases(lake, former, live) if former or live.release == 1 else None
    metadata: dict[str, Any] = {
        ROW_COUNT: live.rows,
        "release": live.release,
        "rows_without_vector": live.unembedded,
        "embedded_share": round(live.embedded_share, 4),
        "compared_with": f"release {former.release}" if former and changes is not None else "nothing",
    }
    if changes:
        total = sum(changes.values(), Counter[str]())
        most = sorted(changes.items(), key=lambda item: -item[1].total())[:_MAX_SOURCES]
        rows = [{"source": source, **{it: counts[it] for it in CHANGES}} for source, counts in most]
        metadata |= {**{it: total[it] for it in CHANGES}, "changes_by_source": build_table(rows)}
    return metadata
