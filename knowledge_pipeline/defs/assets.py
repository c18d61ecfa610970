"""The assets: for each configured type the chain snapshot, chunks, embeddings, index; then the release.

Of code there is the code graph beside the index. A chain is one step with all its assets, as a dbt
project is (docs/decisions/0006-dagster-shape.md): a source that fails stops itself alone, and a source
costs one step.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from knowledge_pipeline.checks.registry import run_blocking_checks
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.defs.checks import build_check_specs, to_check_result
from knowledge_pipeline.defs.evaluation import EVALUATION
from knowledge_pipeline.defs.failures import translate_failures
from knowledge_pipeline.defs.freshness import build_release_freshness_policy
from knowledge_pipeline.defs.metadata.asset_specs import build_stage_specs
from knowledge_pipeline.defs.metadata.provenance import track_refresh_inputs
from knowledge_pipeline.defs.partitions import source_partitions
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.dead_workers import tag_process
from knowledge_pipeline.defs.runs.event_log import (
    RELEASE,
    build_release_metadata,
    publish,
    refresh_and_record,
)
from knowledge_pipeline.defs.runs.executor import SOURCE_STEP_TAGS
from knowledge_pipeline.defs.runs.refresh_steps import RefreshConfig, refresh_source
from knowledge_pipeline.defs.runs.requests import read_sources_per_run
from knowledge_pipeline.stages.pipeline import STAGES, select_sources, select_stages
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.lake import Lake

RELEASED_STAGES = frozenset({"index", "graph"})


def stage_asset_keys(source_type: SourceType) -> dict[str, dg.AssetKey]:
    """The assets of a type by stage, in their order: `code/snapshot`, `code/chunks`, ..."""
    return {stage: dg.AssetKey([source_type, stage]) for stage in select_stages(source_type)}


def released_asset_keys(types: Sequence[SourceType]) -> list[dg.AssetKey]:
    """The assets whose tables a release names."""
    return [
        key for type_ in types for stage, key in stage_asset_keys(type_).items() if stage in RELEASED_STAGES
    ]


def build_stage_assets(source_type: SourceType, settings: Settings) -> dg.AssetsDefinition:
    """The assets of one type, partitioned by its sources, each runnable alone."""

    @dg.multi_asset(
        name=source_type,
        description=f"Refreshes sources of the type {source_type}, stage by stage.",
        specs=build_stage_specs(source_type, settings),
        check_specs=build_check_specs(source_type),
        partitions_def=source_partitions(source_type),
        backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=read_sources_per_run()),
        can_subset=True,
        op_tags=SOURCE_STEP_TAGS,
    )
    def refresh(
        context: dg.AssetExecutionContext, config: RefreshConfig, project: ProjectResource
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        tag_process(context)
        with translate_failures(context, project.retry_policy()):
            if len(context.partition_keys) == 1:
                yield from _materialize_source(context, config, project)
            else:
                # Logged and not yielded, because Dagster would tell one provenance for all partitions of a
                # run. What waits for a yield is then skipped, so a run that was to release does so here.
                ids, released = list(context.partition_keys), _is_release_selected(context)
                refresh_and_record(
                    context, project, config, ids, _list_selected_stages(context), release=released
                )
            yield from _run_blocking_checks(context, project, source_type)

    return refresh


def build_release_asset(types: Sequence[SourceType], settings: Settings) -> dg.AssetsDefinition:
    """The asset that makes all spaces live together, after the index of every type and their evaluation."""

    spec = dg.AssetSpec(
        RELEASE,
        deps=[EVALUATION, *released_asset_keys(types)],
        group_name="release",
        kinds={"lancedb"},
        description="One row per release: the version of each space's index table, and of the code graph, "
        "that queries read. Made from all of them together, once their blocking checks passed; readers see "
        "the one before until then. `knowledge releases` lists them, `knowledge rollback` goes back to one.",
        code_version=schemas.VERSION,
        owners=list(settings.owners),
        freshness_policy=build_release_freshness_policy(settings),
        metadata={
            "dagster/uri": str(Lake(settings.store).releases().path),
            "dagster/storage_kind": "lancedb",
        },
    )

    @dg.multi_asset(name="publish", specs=[spec], pool="release")  # the job has the name `release`
    def release(context: dg.AssetExecutionContext, project: ProjectResource) -> dg.MaterializeResult:
        with translate_failures(context, project.retry_policy()):
            stats = publish(context, project)
        return dg.MaterializeResult(
            metadata=build_release_metadata(stats), data_version=dg.DataVersion(str(stats.version))
        )

    return release


def _materialize_source(
    context: dg.AssetExecutionContext, config: RefreshConfig, project: ProjectResource
) -> Iterator[dg.MaterializeResult]:
    """Each asset is recorded as soon as its stage is done."""
    settings, source = project.load_settings(), context.partition_key
    provenance = track_refresh_inputs(context.instance, settings, select_sources(settings, [source]))
    for done in refresh_source(context, project, settings, config, source, _list_selected_stages(context)):
        tags = provenance.build_tags(done.key, source, done.version)
        yield dg.MaterializeResult(asset_key=done.key, metadata=done.metadata, tags=tags)


def _is_release_selected(context: dg.AssetExecutionContext) -> bool:
    selected = context.run.asset_selection
    return selected is None or RELEASE in selected


def _run_blocking_checks(
    context: dg.AssetExecutionContext, project: ProjectResource, source_type: SourceType
) -> Iterator[dg.AssetCheckResult]:
    wanted = {key.name for key in context.selected_asset_check_keys}
    if wanted:
        settings = project.load_settings()
        lake = Lake(settings.store)
        for check, finding in run_blocking_checks(lake, settings, source_type):
            if check.name in wanted:
                yield to_check_result(check, finding, source_type, lake)


def _list_selected_stages(context: dg.AssetExecutionContext) -> list[str]:
    return [stage for stage in STAGES if any(key.path[-1] == stage for key in context.selected_asset_keys)]
