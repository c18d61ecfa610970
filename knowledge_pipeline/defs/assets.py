"""The assets: for each configured type the chain snapshot, chunks, embeddings, index; then the release.

Of code there is the code graph beside the index. A chain is one step with all its assets, as a dbt
project is (docs/decisions/0006-dagster-shape.md): a source that fails stops itself alone, and a source
costs one step.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from knowledge_pipeline.checks.registry import blocking_findings
from knowledge_pipeline.config.settings import Settings, SourceType
from knowledge_pipeline.defs.checks import checks_of, result_of
from knowledge_pipeline.defs.evaluation import EVALUATION
from knowledge_pipeline.defs.failures import failures
from knowledge_pipeline.defs.freshness import release_freshness
from knowledge_pipeline.defs.metadata.asset_specs import stage_specs
from knowledge_pipeline.defs.metadata.provenance import begin
from knowledge_pipeline.defs.partitions import sources_of
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.dead_workers import note_process
from knowledge_pipeline.defs.runs.event_log import RELEASE, publish, refresh_recorded, release_metadata
from knowledge_pipeline.defs.runs.executor import TAGS_OF_SOURCES
from knowledge_pipeline.defs.runs.refresh_steps import RefreshConfig, refresh_one
from knowledge_pipeline.defs.runs.requests import sources_per_run
from knowledge_pipeline.stages.pipeline import STAGES, chosen, stages_of
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.lake import Lake

RELEASED = frozenset({"index", "graph"})


def stage_keys(source_type: SourceType) -> dict[str, dg.AssetKey]:
    """The assets of a type by stage, in their order: `code/snapshot`, `code/chunks`, ..."""
    return {stage: dg.AssetKey([source_type, stage]) for stage in stages_of(source_type)}


def released_keys(types: Sequence[SourceType]) -> list[dg.AssetKey]:
    """The assets whose tables a release names."""
    return [key for type_ in types for stage, key in stage_keys(type_).items() if stage in RELEASED]


def chain(source_type: SourceType, settings: Settings) -> dg.AssetsDefinition:
    """The assets of one type, partitioned by its sources, each runnable alone."""

    @dg.multi_asset(
        name=source_type,
        description=f"Refreshes sources of the type {source_type}, stage by stage.",
        specs=stage_specs(source_type, settings),
        check_specs=checks_of(source_type),
        partitions_def=sources_of(source_type),
        backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=sources_per_run()),
        can_subset=True,
        op_tags=TAGS_OF_SOURCES,
    )
    def refresh(
        context: dg.AssetExecutionContext, config: RefreshConfig, project: ProjectResource
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        note_process(context)
        with failures(context, project.patience()):
            if len(context.partition_keys) == 1:
                yield from _one(context, config, project)
            else:
                # Logged and not yielded, because Dagster would tell one provenance for all partitions of a
                # run. What waits for a yield is then skipped, so a run that was to release does so here.
                ids, released = list(context.partition_keys), _releases(context)
                refresh_recorded(context, project, config, ids, _stages(context), release=released)
            yield from _checked(context, project, source_type)

    return refresh


def release_of(types: Sequence[SourceType], settings: Settings) -> dg.AssetsDefinition:
    """The asset that makes all spaces live together, after the index of every type and their evaluation."""

    spec = dg.AssetSpec(
        RELEASE,
        deps=[EVALUATION, *released_keys(types)],
        group_name="release",
        kinds={"lancedb"},
        description="One row per release: the version of each space's index table, and of the code graph, "
        "that queries read. Made from all of them together, once their blocking checks passed; readers see "
        "the one before until then. `knowledge releases` lists them, `knowledge rollback` goes back to one.",
        code_version=schemas.VERSION,
        owners=list(settings.owners),
        freshness_policy=release_freshness(settings),
        metadata={
            "dagster/uri": str(Lake(settings.store).releases().path),
            "dagster/storage_kind": "lancedb",
        },
    )

    @dg.multi_asset(name="publish", specs=[spec], pool="release")  # the job has the name `release`
    def release(context: dg.AssetExecutionContext, project: ProjectResource) -> dg.MaterializeResult:
        with failures(context, project.patience()):
            stats = publish(context, project)
        return dg.MaterializeResult(
            metadata=release_metadata(stats), data_version=dg.DataVersion(str(stats.version))
        )

    return release


def _one(
    context: dg.AssetExecutionContext, config: RefreshConfig, project: ProjectResource
) -> Iterator[dg.MaterializeResult]:
    """Each asset is recorded as soon as its stage is done."""
    settings, source = project.settings(), context.partition_key
    provenance = begin(context.instance, settings, chosen(settings, [source]))
    for done in refresh_one(context, project, settings, config, source, _stages(context)):
        tags = provenance.tags(done.key, source, done.version)
        yield dg.MaterializeResult(asset_key=done.key, metadata=done.metadata, tags=tags)


def _releases(context: dg.AssetExecutionContext) -> bool:
    selected = context.run.asset_selection
    return selected is None or RELEASE in selected


def _checked(
    context: dg.AssetExecutionContext, project: ProjectResource, source_type: SourceType
) -> Iterator[dg.AssetCheckResult]:
    wanted = {key.name for key in context.selected_asset_check_keys}
    if wanted:
        settings = project.settings()
        lake = Lake(settings.store)
        for check, finding in blocking_findings(lake, settings, source_type):
            if check.name in wanted:
                yield result_of(check, finding, source_type, lake)


def _stages(context: dg.AssetExecutionContext) -> list[str]:
    return [stage for stage in STAGES if any(key.path[-1] == stage for key in context.selected_asset_keys)]
