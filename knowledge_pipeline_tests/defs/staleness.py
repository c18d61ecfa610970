"""A chain of assets over real stages that records itself by `Provenance`, and what the UI says of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import dagster as dg
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.defs.metadata import build_stage_specs
from knowledge_pipeline.defs.provenance import data_version, track_refresh_inputs
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.settings_assets import (
    build_sources_asset,
    group_ids_by_type,
    list_source_types,
    source_partitions,
)
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.stages.pipeline import STAGES, select_stages
from knowledge_pipeline_tests.conftest import Project


def definitions_of(project: Project, versions: dict[str, str] | None = None) -> dg.Definitions:
    """Settings, the chains of all types, and an op that runs sources of any type.

    Args:
        project: as it is configured now.
        versions: code versions, by stage, other than today's.
    """
    types = list_source_types(project.settings)

    def made(context, sources: Sequence[SourceConfig], stages: Sequence[str]):
        """Run stages of sources: their key, source, version and tags, as each is done."""
        settings = project.settings
        provenance = track_refresh_inputs(context.instance, settings, sources)
        for source in sources:
            this = RefreshContext(project.lake, settings, source)
            for stage in (stage for stage in stages if stage in select_stages(source.type)):
                key = dg.AssetKey([source.type, stage])
                version = data_version(settings, source, STAGES[stage](this))
                tags = provenance.build_tags(key, source.id, version)
                if versions and stage in versions:
                    tags["dagster/code_version"] = versions[stage]
                yield key, source.id, tags

    def log(context, sources: Sequence[SourceConfig], stages: Sequence[str]) -> None:
        for key, source, tags in made(context, sources, stages):
            context.log_event(dg.AssetMaterialization(key, partition=source, tags=tags))

    def chain(source_type) -> dg.AssetsDefinition:
        specs = [
            spec.replace_attributes(code_version=(versions or {}).get(spec.key.path[-1], spec.code_version))
            for spec in build_stage_specs(source_type, project.settings)
        ]

        @dg.multi_asset(
            name=source_type,
            specs=specs,
            partitions_def=source_partitions(source_type),
            can_subset=True,
            backfill_policy=dg.BackfillPolicy.multi_run(25),
        )
        def refresh(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult]:
            mine = select_stages(source_type)
            stages = [stage for stage in mine if dg.AssetKey([source_type, stage]) in _selected(context)]
            sources = chosen(project, context.partition_keys)
            if len(sources) == 1:
                for key, _, tags in made(context, sources, stages):
                    yield dg.MaterializeResult(key, tags=tags)
            else:
                log(context, sources, stages)

        return refresh

    @dg.op(config_schema={"sources": [str]})
    def refresh_sources(context: dg.OpExecutionContext) -> None:
        log(context, chosen(project, context.op_config["sources"]), list(STAGES))

    @dg.job
    def refresh() -> None:
        refresh_sources()

    return dg.Definitions(
        assets=[
            build_sources_asset(),
            *(chain(type_) for type_ in types),
        ],
        jobs=[
            refresh,
            *(
                dg.define_asset_job(f"refresh_{type_}", [f"{type_}/{s}" for s in select_stages(type_)])
                for type_ in types
            ),
        ],
        resources={"project": ProjectResource()},  # of the step that records settings, which nobody runs
    )


def _selected(context: dg.AssetExecutionContext) -> set[dg.AssetKey]:
    return set(context.selected_asset_keys)


def chosen(project: Project, ids: Sequence[str]) -> list[SourceConfig]:
    """Sources by their ids, in that order."""
    by_id = {source.id: source for source in project.settings.sources}
    return [by_id[id_] for id_ in ids]


@dataclass
class Shown:
    """What the page of an asset would say: made by the code that makes it."""

    project: Project
    instance: dg.DagsterInstance

    def stale(self, definitions: dg.Definitions) -> dict[str, list[str]]:
        """Stale stages of every source, each as `source: stage`, and why."""
        resolver = self._resolver(definitions)
        found: dict[str, list[str]] = {}
        for source in self.project.settings.sources:
            for stage in select_stages(source.type):
                key = dg.AssetKey([source.type, stage])
                status = resolver.get_status(key, source.id)
                assert status != StaleStatus.MISSING, (stage, source.id)
                if status == StaleStatus.STALE:
                    causes = resolver.get_stale_root_causes(key, source.id)
                    found[f"{source.id}: {stage}"] = [
                        f"{cause.asset_key.to_user_string()} {cause.reason}" for cause in causes
                    ]
        return found

    def causes(self, definitions: dg.Definitions, key: dg.AssetKey) -> list[str]:
        """Why an asset without partitions is stale; nothing if it is not."""
        causes = self._resolver(definitions).get_stale_root_causes(key)
        return [f"{cause.asset_key.to_user_string()} {cause.reason}" for cause in causes]

    def _resolver(self, definitions: dg.Definitions) -> CachingStaleStatusResolver:
        graph = definitions.resolve_asset_graph()
        return CachingStaleStatusResolver(self.instance, graph, LoadingContextForTest(self.instance))

    def add_partitions(self) -> None:
        """What the sensor for partitions does."""
        for type_, ids in group_ids_by_type(self.project.settings).items():
            self.instance.add_dynamic_partitions(str(source_partitions(type_).name), ids)
