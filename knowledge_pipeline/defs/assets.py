"""The assets: for each configured type the chain snapshot, chunks, embeddings, index; then the release.

A chain is one step with four assets, as a dbt project is (docs/decisions/0006-dagster-shape.md):
a source that fails stops itself alone, and a source costs one step.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from knowledge_pipeline.config import SourceType
from knowledge_pipeline.defs.failures import Context, failures, summed_up
from knowledge_pipeline.defs.lost import note_process
from knowledge_pipeline.defs.partitions import sources_of
from knowledge_pipeline.defs.recording import RELEASE, log_materializations, release_metadata
from knowledge_pipeline.defs.refreshing import RefreshConfig, refresh_each, refresh_one
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.versions import code_versions
from knowledge_pipeline.stages import release as releasing
from knowledge_pipeline.stages.base import Stats
from knowledge_pipeline.stages.pipeline import STAGES
from knowledge_pipeline.store import schemas

PARTITIONS_PER_RUN = 25
"""Sources of one run of a backfill: starting a run costs 5 to 10 s, an unchanged source about 0.2 s,
so that 25 share the start, and a killed run repeats 25 listings at most."""

_ROWS = {
    "snapshot": "One row per document of the source, as it was read; "
    "what the source no longer has is kept, marked as archived.",
    "chunks": "One row per chunk of the source's documents: an exact slice of a document, with its header.",
    "embeddings": "One row per embedded text of the source: a vector in the space of the source's model.",
    "index": "One row per retrievable chunk in the shared table of the space; readers see it once released.",
}
_KINDS = {
    "snapshot": {"lancedb"},
    "chunks": {"python", "lancedb"},
    "embeddings": {"huggingface", "lancedb"},
    "index": {"lancedb"},
}


def stage_keys(source_type: str) -> dict[str, dg.AssetKey]:
    """The assets of a type by stage, in their order: `code/snapshot`, `code/chunks`, ..."""
    return {stage: dg.AssetKey([source_type, stage]) for stage in STAGES}


def chain(source_type: SourceType) -> dg.AssetsDefinition:
    """The four assets of one type, partitioned by its sources, each runnable alone."""

    @dg.multi_asset(
        name=source_type,
        description=f"Refreshes sources of the type {source_type}, stage by stage.",
        specs=_specs(source_type),
        partitions_def=sources_of(source_type),
        backfill_policy=dg.BackfillPolicy.multi_run(max_partitions_per_run=PARTITIONS_PER_RUN),
        can_subset=True,
    )
    def refresh(
        context: dg.AssetExecutionContext, config: RefreshConfig, project: ProjectResource
    ) -> Iterator[dg.MaterializeResult]:
        note_process(context)
        with failures(context, project.patience()):
            if len(context.partition_keys) == 1:
                yield from _one(context, config, project, _selected(context))
            else:
                yield from _many(context, config, project, _selected(context))

    return refresh


def release_of(types: Sequence[SourceType]) -> dg.AssetsDefinition:
    """The asset that makes all spaces live together, after the index of every type."""

    spec = dg.AssetSpec(
        RELEASE,
        deps=[stage_keys(source_type)["index"] for source_type in types],
        group_name="release",
        kinds={"lancedb"},
        description="One row per release: the version of each space's index table that queries read.",
        code_version=schemas.VERSION,
    )

    @dg.multi_asset(name="publish", specs=[spec], pool="release")  # the job has the name `release`
    def release(context: dg.AssetExecutionContext, project: ProjectResource) -> dg.MaterializeResult:
        with failures(context, project.patience()):
            stats = publish(context, project)
        return dg.MaterializeResult(
            metadata=release_metadata(stats), data_version=dg.DataVersion(str(stats.version))
        )

    return release


def publish(context: Context, project: ProjectResource) -> Stats:
    """Make live what the index holds.

    Raises:
        ReleaseRefused: a check failed; the last release stays live.
    """
    stats = releasing.refresh(project.lake(), project.settings())
    context.log.info(f"release {stats.version} is live" + ("" if stats.added else ", as it was"))
    return stats


def _specs(source_type: SourceType) -> list[dg.AssetSpec]:
    keys, versions = stage_keys(source_type), code_versions(source_type)
    upstream = dict(zip(list(keys)[1:], list(keys.values())[:-1], strict=True))
    return [
        dg.AssetSpec(
            key,
            deps=[upstream[stage]] if stage in upstream else [],
            group_name=source_type,
            description=_ROWS[stage],
            kinds=_KINDS[stage],
            code_version=versions[stage],
            tags={"knowledge/stage": stage},
        )
        for stage, key in keys.items()
    ]


def _one(
    context: dg.AssetExecutionContext, config: RefreshConfig, project: ProjectResource, stages: Sequence[str]
) -> Iterator[dg.MaterializeResult]:
    """Each asset is recorded as soon as its stage is done."""
    for done in refresh_one(context, project, project.settings(), config, context.partition_key, stages):
        version = dg.DataVersion(str(done.stats.version))
        yield dg.MaterializeResult(asset_key=done.key, metadata=done.metadata, data_version=version)


def _many(
    context: dg.AssetExecutionContext, config: RefreshConfig, project: ProjectResource, stages: Sequence[str]
) -> Iterator[dg.MaterializeResult]:
    """One source after the other; those that fail are named at the end, the others are recorded."""
    refreshed = refresh_each(context, project, config, context.partition_keys, stages)
    if refreshed.failed:
        log_materializations(context, refreshed.done)
        raise summed_up(refreshed.failed, of=len(context.partition_keys))
    for done in refreshed.done:
        context.add_asset_metadata(done.metadata, asset_key=done.key, partition_key=done.stats.source)
    yield from (dg.MaterializeResult(asset_key=key) for key in dict.fromkeys(d.key for d in refreshed.done))


def _selected(context: dg.AssetExecutionContext) -> list[str]:
    return [stage for stage in STAGES if any(key.path[-1] == stage for key in context.selected_asset_keys)]
