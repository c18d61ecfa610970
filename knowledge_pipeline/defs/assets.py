"""The assets: for each configured type the chain snapshot, chunks, embeddings, index; then the release.

A chain is one step with four assets, as a dbt project is (docs/decisions/0006-dagster-shape.md):
a source that fails stops itself alone, and a source costs one step.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from pydantic import Field

from knowledge_pipeline.config import SourceType
from knowledge_pipeline.defs.failures import failures, summed_up
from knowledge_pipeline.defs.metadata import metadata_of
from knowledge_pipeline.defs.partitions import sources_of
from knowledge_pipeline.defs.progress import progress
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.versions import code_versions
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.stages import release as releasing
from knowledge_pipeline.stages.base import Pass, Stats
from knowledge_pipeline.stages.pipeline import STAGES
from knowledge_pipeline.store import schemas

PARTITIONS_PER_RUN = 25
"""Sources of one run of a backfill: starting a run costs 5 to 10 s, an unchanged source about 0.2 s,
so that 25 share the start, and a killed run repeats 25 listings at most."""

RELEASE = dg.AssetKey("release")

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


class RefreshConfig(dg.Config):
    """How a chain is run; the defaults are an ordinary refresh."""

    full: bool = Field(default=False, description="Make every row anew, whether it changed or not.")
    reembed: bool = Field(default=False, description="Embed again even what was embedded before.")
    allow_empty: bool = Field(default=False, description="Believe a listing that is empty all at once.")


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
        with failures(context, project.patience()):
            if len(context.partition_keys) == 1:
                yield from _one(context, config, project)
            else:
                yield from _many(context, config, project)

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
            stats = releasing.refresh(project.lake(), project.settings())
        context.log.info(f"release {stats.version} is live" + ("" if stats.added else ", as it was"))
        return dg.MaterializeResult(
            metadata={"dagster/row_count": stats.rows, "release": stats.version, "seconds": stats.seconds},
            data_version=dg.DataVersion(str(stats.version)),
        )

    return release


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
    context: dg.AssetExecutionContext, config: RefreshConfig, project: ProjectResource
) -> Iterator[dg.MaterializeResult]:
    """Each asset is recorded as soon as its stage is done."""
    this = _pass(context, config, project, context.partition_key)
    for key, stats in _staged(context, this):
        version = dg.DataVersion(str(stats.version))
        yield dg.MaterializeResult(asset_key=key, metadata=metadata_of(this, stats), data_version=version)


def _many(
    context: dg.AssetExecutionContext, config: RefreshConfig, project: ProjectResource
) -> Iterator[dg.MaterializeResult]:
    """One source after the other; those that fail are named at the end, the others are recorded."""
    done: list[tuple[dg.AssetKey, Stats, Mapping[str, Any]]] = []
    failed: dict[str, KnowledgeError] = {}
    for source in context.partition_keys:
        try:
            this = _pass(context, config, project, source)
            for key, stats in _staged(context, this):
                done.append((key, stats, metadata_of(this, stats)))
        except KnowledgeError as error:
            failed[source] = error
            context.log.error(f"{source}: {error}")
    if failed:
        versions = {(key, stats.source): str(stats.version) for key, stats, _ in done}
        for key, stats, metadata in done:
            tags = _provenance(context.assets_def, key, stats.source, versions)
            context.log_event(dg.AssetMaterialization(key, None, metadata, stats.source, tags))
        raise summed_up(failed, of=len(context.partition_keys))
    for key, stats, metadata in done:
        context.add_asset_metadata(metadata, asset_key=key, partition_key=stats.source)
    yield from (dg.MaterializeResult(asset_key=key) for key in dict.fromkeys(key for key, _, _ in done))


def _provenance(
    assets: dg.AssetsDefinition,
    key: dg.AssetKey,
    source: str,
    versions: Mapping[tuple[dg.AssetKey, str], str],
) -> dict[str, str]:
    """What the UI tells staleness from; Dagster records it by itself where a step does not fail."""
    tags = {
        "dagster/code_version": assets.code_versions_by_key[key] or "",
        "dagster/data_version": versions[key, source],
    }
    for upstream in assets.asset_deps[key]:
        if (upstream, source) in versions:
            name = upstream.to_user_string()
            tags[f"dagster/input_data_version/{name}"] = versions[upstream, source]
            tags[f"dagster/input_event_pointer/{name}"] = "NULL"
    return tags


def _pass(
    context: dg.AssetExecutionContext, config: RefreshConfig, project: ProjectResource, source: str
) -> Pass:
    return project.work(
        source,
        full=config.full,
        reembed=config.reembed,
        allow_empty=config.allow_empty,
        report=progress(context.log, source),
    )


def _staged(context: dg.AssetExecutionContext, this: Pass) -> Iterator[tuple[dg.AssetKey, Stats]]:
    """Run the selected stages of one source, which nobody else refreshes meanwhile."""
    keys = stage_keys(this.source.type)
    with this.lake.source_lock(this.source.id):
        for stage, refresh in STAGES.items():
            if keys[stage] in context.selected_asset_keys:
                stats = refresh(this)
                context.log.info(_summary(stats))
                yield keys[stage], stats


def _summary(stats: Stats) -> str:
    return (
        f"{stats.source}: {stats.stage}: {stats.added} added, {stats.changed} changed, "
        f"{stats.removed} removed, {stats.unchanged} unchanged, {stats.seconds:g} s"
    )
