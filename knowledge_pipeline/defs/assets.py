"""The assets, and the jobs that materialize them: for each type its chain, then the release.

A chain is snapshot, chunks, embeddings, index; code also has the code graph. A chain is one step with all its
assets, as a dbt project is (docs/decisions/dagster.md): a source costs one step, and one that fails stops
only itself. Each type has an asset job, launched for a partition, for a backfill, or by a sensor.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.checks.registry import list_checks, run_blocking_checks
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.checks import build_check_specs, to_check_result, translate_failures
from knowledge_pipeline.defs.dagster_internals import STORAGE_KIND, URI, AssetJob
from knowledge_pipeline.defs.define import build_asset_job
from knowledge_pipeline.defs.evaluation import EVALUATION, QUALITY_CHECK
from knowledge_pipeline.defs.event_log import (
    RELEASE,
    build_early_releases,
    build_release_metadata,
    publish,
    refresh_and_record,
)
from knowledge_pipeline.defs.metadata import build_stage_specs
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.provenance import track_refresh_inputs
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs import (
    SOURCE_STEP_TAGS,
    RefreshConfig,
    RefreshStep,
    read_sources_per_run,
    tag_process,
)
from knowledge_pipeline.defs.settings_assets import build_freshness_policy, source_partitions
from knowledge_pipeline.stages.pipeline import STAGES, select_stages
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.lake import Lake

RELEASED_STAGES = frozenset({"index", "graph"})


def stage_asset_keys(source_type: SourceType, names: Names = PLAIN) -> dict[str, dg.AssetKey]:
    """The assets of a type by stage, in their order: `code/snapshot`, `code/chunks`, ..."""
    return {stage: names.key(source_type, stage) for stage in select_stages(source_type)}


def released_asset_keys(types: Sequence[SourceType], names: Names = PLAIN) -> list[dg.AssetKey]:
    """The assets whose tables a release names."""
    return [
        key
        for type_ in types
        for stage, key in stage_asset_keys(type_, names).items()
        if stage in RELEASED_STAGES
    ]


def build_stage_assets(
    source_type: SourceType, settings: Settings, names: Names = PLAIN
) -> dg.AssetsDefinition:
    """The assets of one type, partitioned by its sources, each runnable alone."""

    @dg.multi_asset(
        name=names.definition(source_type),
        description=f"Refreshes sources of the type {source_type}, stage by stage.",
        specs=build_stage_specs(source_type, settings, names),
        check_specs=build_check_specs(source_type, names),
        partitions_def=source_partitions(source_type, names),
        backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=read_sources_per_run()),
        can_subset=True,
        op_tags=SOURCE_STEP_TAGS,
    )
    @names.bind
    def refresh(
        context: dg.AssetExecutionContext, config: RefreshConfig, project: ProjectResource
    ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
        selected = {key.path[-1] for key in context.selected_asset_keys}
        stages = [stage for stage in STAGES if stage in selected]
        selection = context.run.asset_selection
        release = selection is None or names.key(RELEASE) in selection
        with translate_failures(context, project.retry_policy()):
            tag_process(context)
            if len(context.partition_keys) == 1:
                settings, source = project.load_settings(), context.partition_key
                sources = settings.select_sources([source])
                provenance = track_refresh_inputs(context.instance, settings, sources, names)
                releases = build_early_releases(context, project) if release else None
                step = RefreshStep(context, project, settings, config.options, stages, releases)
                for done in step.refresh_source(source):
                    metadata = done.read_metadata()
                    tags = provenance.build_tags(done.key, source, done.version)  # as soon as it is done
                    if done.is_final:
                        yield dg.MaterializeResult(asset_key=done.key, metadata=metadata, tags=tags)
                    else:  # one that is yielded would be the last
                        context.log_event(dg.AssetMaterialization(done.key, None, metadata, source, tags))
            else:
                # Logged, not yielded: Dagster would record one provenance for all partitions of a run. It
                # then skips what waits for a yield, so a run that selects the release makes it here.
                ids = list(context.partition_keys)
                refresh_and_record(context, project, config.options, ids, stages, release=release)
            wanted = {key.name for key in context.selected_asset_check_keys}
            if wanted:
                settings, lake = project.load_settings(), project.open_lake()
                for check, result in run_blocking_checks(lake, settings, source_type):
                    if check.name in wanted:
                        yield to_check_result(check, result, source_type, lake, names)

    return refresh


def build_release_asset(
    types: Sequence[SourceType], settings: Settings, names: Names = PLAIN
) -> dg.AssetsDefinition:
    """The asset that makes all spaces live together, after the index of every type and their evaluation."""
    spec = dg.AssetSpec(
        names.key(RELEASE),
        deps=[names.key(EVALUATION), *released_asset_keys(types, names)],
        group_name=names.group("release"),
        kinds={"lancedb"},
        description="One row per release: the version of each space's index table, and of the code graph, "
        "that queries read. All of them are released together once their blocking checks pass; until then "
        "readers see the last one. `knowledge releases` lists them, `knowledge rollback` returns to one.",
        code_version=schemas.VERSION,
        owners=list(settings.owners),
        freshness_policy=build_freshness_policy(settings),
        metadata={URI: str(Lake(settings.store).releases().path), STORAGE_KIND: "lancedb"},
    )

    # The job has the name `release`.
    @dg.multi_asset(name=names.definition("publish"), specs=[spec], pool=names.pool("release"))
    @names.bind
    def release(context: dg.AssetExecutionContext, project: ProjectResource) -> dg.MaterializeResult[Any]:
        with translate_failures(context, project.retry_policy()):
            stats = publish(context, project)
        return dg.MaterializeResult(
            metadata=build_release_metadata(stats), data_version=dg.DataVersion(str(stats.version))
        )

    return release


def build_release_job(names: Names = PLAIN) -> AssetJob:
    """The job that evaluates and releases."""
    return build_asset_job(
        names, "release", "Make live what the index holds, if the checks allow it.", _select_release(names)
    )


def build_refresh_job(source_type: SourceType, names: Names = PLAIN) -> AssetJob:
    """The asset job of one type: its chain for some partitions, the blocking checks, and the release.

    The informational checks have a schedule of their own: they look at the whole store.
    """
    keys = stage_asset_keys(source_type, names)
    guards = [
        dg.AssetCheckKey(keys[check.stage], check.name) for check in list_checks(source_type, blocking=True)
    ]
    selection = dg.AssetSelection.assets(*keys.values()).without_checks() | dg.AssetSelection.checks(*guards)
    return build_asset_job(
        names,
        f"refresh_{source_type}",
        f"Refresh sources of the type {source_type} and release what changed.",
        selection | _select_release(names),
        tags={"knowledge/type": source_type},
    )


def _select_release(names: Names) -> dg.AssetSelection:
    evaluation = names.key(EVALUATION)
    assets = dg.AssetSelection.assets(evaluation, names.key(RELEASE)).without_checks()
    return assets | dg.AssetSelection.checks(dg.AssetCheckKey(evaluation, QUALITY_CHECK))
