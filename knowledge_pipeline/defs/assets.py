"""The assets: for each type its chain, then the release, and the job that makes it.

A chain is snapshot, chunks, embeddings, index; code also has the code graph. A chain is one step with all its
assets, as a dbt project is (docs/decisions/dagster.md): a source costs one step, and one that fails stops
only itself. A person launches it from the asset graph, for a partition or a backfill.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.checks import build_check_specs, check_releasable, run_step
from knowledge_pipeline.defs.dagster_internals import BACKFILL, STORAGE_KIND, URI, AssetJob
from knowledge_pipeline.defs.define import build_asset_job
from knowledge_pipeline.defs.evaluation import QUALITY_CHECK, list_evaluation_keys
from knowledge_pipeline.defs.event_log import (
    PIN_CHECK,
    RELEASE,
    build_early_releases,
    build_release_metadata,
    check_pin,
    is_release_recorded,
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
)
from knowledge_pipeline.defs.settings_assets import source_partitions
from knowledge_pipeline.errors import NotFound
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
    ids = [source.id for source in settings.sources if source.type == source_type]

    @dg.multi_asset(
        name=names.definition(source_type),
        description=f"Refreshes sources of the type {source_type}, stage by stage.",
        specs=build_stage_specs(source_type, settings, names),
        check_specs=build_check_specs(source_type, names),
        partitions_def=source_partitions(source_type, names, ids),
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
        with run_step(context, project.retry_policy()):
            ids = _list_partitions(context) if stages else []
            if len(ids) == 1:
                settings, source = project.load_settings(), context.partition_key
                sources = settings.select_sources([source])
                provenance = track_refresh_inputs(context.instance, settings, sources, names)
                releases = build_early_releases(context, project) if release else None
                step = RefreshStep(context, project, settings, config.options, stages, releases, provenance)
                for done in step.refresh_source(source):
                    metadata = done.read_metadata()
                    tags = provenance.build_tags(done.key, source, done.version)  # as soon as it is done
                    if done.is_final:
                        version = dg.DataVersion(done.version)
                        yield dg.MaterializeResult(
                            asset_key=done.key, metadata=metadata, tags=tags, data_version=version
                        )
                    else:  # one that is yielded would be the last
                        context.log_event(dg.AssetMaterialization(done.key, None, metadata, source, tags))
            elif stages:  # else a person executes checks alone, without a partition
                # Logged, not yielded: Dagster would record one provenance for all partitions of a run. It
                # then skips what waits for a yield, so a run that selects the release makes it here.
                refresh_and_record(context, project, config.options, ids, stages, release=release)
            if context.selected_asset_check_keys:
                yield check_releasable(project.open_lake(), project.load_settings(), source_type, names)

    return refresh


def _list_partitions(context: dg.AssetExecutionContext) -> list[str]:
    try:
        return list(context.partition_keys)
    except dg.DagsterInvalidInvocationError as error:
        raise NotFound(f"{' '.join(str(error).split())}. Launch the partitions that exist.") from error


def build_release_asset(
    types: Sequence[SourceType], settings: Settings, names: Names = PLAIN
) -> dg.AssetsDefinition:
    """The asset that makes all spaces live together, after the index of every type and their evaluation."""
    spec = dg.AssetSpec(
        names.key(RELEASE),
        deps=[*list_evaluation_keys(settings, names), *released_asset_keys(types, names)],
        group_name=names.group("release"),
        kinds={"lancedb"},
        description="One row per release: the version of each space's index table, and of the code graph, "
        "that queries read. All of them are released together once their blocking checks pass; until then "
        "readers see the last one. `knowledge releases` lists them, the job rollback returns to one.",
        code_version=schemas.VERSION,
        owners=list(settings.owners),
        skippable=True,  # where nothing changed: what is downstream of it has nothing to do
        metadata={URI: str(Lake(settings.store).releases().path), STORAGE_KIND: "lancedb"},
    )

    check = dg.AssetCheckSpec(
        PIN_CHECK,
        asset=spec.key,
        description="No release is pinned: refreshes publish what they change. The job rollback pins one, "
        "and ends a pin: docs/refresh.md",
    )

    # The job has the name `release`.
    @dg.multi_asset(
        name=names.definition("publish"), specs=[spec], check_specs=[check], pool=names.pool("release")
    )
    @names.bind
    def release(
        context: dg.AssetExecutionContext, project: ProjectResource
    ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
        with run_step(context, project.retry_policy()):
            version = publish(context, project).version
            # A backfill takes an asset that one of its runs skipped for failed.
            if BACKFILL in context.run.tags or not is_release_recorded(context.instance, version, names):
                metadata = build_release_metadata(project)
                yield dg.MaterializeResult(metadata=metadata, data_version=dg.DataVersion(str(version)))
            yield check_pin(project)

    return release


def build_release_job(settings: Settings, names: Names = PLAIN) -> AssetJob:
    """The job that evaluates and releases."""
    evaluation, release = list_evaluation_keys(settings, names), names.key(RELEASE)
    assets = dg.AssetSelection.assets(*evaluation, release).without_checks()
    checks = [
        dg.AssetCheckKey(release, PIN_CHECK),
        *(dg.AssetCheckKey(key, QUALITY_CHECK) for key in evaluation),
    ]
    return build_asset_job(
        names,
        "release",
        "Make live what the index holds, if the checks allow it.",
        assets | dg.AssetSelection.checks(*checks),
    )
