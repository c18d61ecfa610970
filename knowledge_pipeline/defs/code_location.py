"""All definitions of one knowledge base: its assets, checks, jobs, schedules, sensors and its resource."""

import os
from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.defs import alerts, commit_sensors, jobs, runs, sensors
from knowledge_pipeline.defs.assets import (
    build_release_asset,
    build_release_job,
    build_stage_assets,
    stage_asset_keys,
)
from knowledge_pipeline.defs.checks import build_checks_job, build_informational_checks, translate_load_errors
from knowledge_pipeline.defs.dagster_internals import AssetJob, set_executor, share_instance, show_on_assets
from knowledge_pipeline.defs.define import build_asset_job
from knowledge_pipeline.defs.evaluation import build_evaluation_asset
from knowledge_pipeline.defs.event_log import RELEASE
from knowledge_pipeline.defs.names import Names, build_names
from knowledge_pipeline.defs.resources import build_knowledge_base, build_project
from knowledge_pipeline.defs.settings_assets import build_sources_asset, list_source_types
from knowledge_pipeline.defs.sql_models import build_model_assets, build_models_job, new_input
from knowledge_pipeline.defs.tuning import TUNING, build_tuning_asset
from knowledge_pipeline.extensions import publish
from knowledge_pipeline.stages.permissions import list_guarded


def build_defs(
    settings: Settings | Path | str | None = None,
    *,
    key_prefix: str | Sequence[str] | None = None,
    group_prefix: str | None = None,
    partitions: str | None = None,
) -> dg.Definitions:
    """The definitions of one knowledge base, for a code location that may hold others and other assets.

    Args:
        settings: the path of a `knowledge.yaml`, which is read again after an edit; or settings. None: the
            file that `knowledge` finds, by KNOWLEDGE_CONFIG or from the working directory upwards.
        key_prefix: begins every asset key, and the names of jobs, ops, schedules, sensors, the resource and
            the pools that guard the store. Several words are a list, or text with `/` between them.
        group_prefix: begins the names of the assets' groups. None: as `key_prefix`; "": nothing.
        partitions: begins the names of the sets of partitions, which all code locations of an instance
            share. None: as `key_prefix`; "": nothing.

    Its jobs have the executor of KNOWLEDGE_EXECUTOR; that of the code location is left to others.

    Raises:
        dg.DagsterInvalidDefinitionError: settings or a prefix are wrong, in one sentence for each problem.
    """
    with translate_load_errors():
        names = build_names(key_prefix, group_prefix, partitions)
        project = build_project(settings, names)
        knowledge_base = build_knowledge_base(project)
        loaded = project.load_settings()
        types = list_source_types(loaded)
        checks = [build_informational_checks(types, names)] if types else []
        executor = runs.select_executor()
        release_job = set_executor(build_release_job(loaded, names), executor)
        built_jobs = [set_executor(job, executor) for job in _build_jobs(loaded, checks, names)]
        owners = loaded.owners
        assets = [
            build_sources_asset(owners, names),
            *(build_stage_assets(type_, loaded, names) for type_ in types),
            *([build_evaluation_asset(types, owners, names)] if loaded.evaluation.questions else []),
            build_release_asset(types, loaded, names),
            *([build_tuning_asset(owners, names)] if TUNING in loaded.model_fields_set else []),
            *([jobs.build_publication_asset(owners, names)] if _is_publishing() else []),
            build_model_assets(types, loaded, names),
        ]
        job_names = frozenset(job.name for job in (release_job, *built_jobs))
        own = alerts.OwnDefinitions(job_names, frozenset(key for asset in assets for key in asset.keys))
        return dg.Definitions(
            assets=assets,
            asset_checks=checks,
            jobs=[release_job, *built_jobs],
            schedules=jobs.build_schedules(loaded, names),
            sensors=_build_sensors(loaded, release_job, names, own),
            resources={names.resource: project, names.definition("knowledge_base"): knowledge_base},
        )


def _is_publishing() -> bool:
    return bool(os.environ.get(publish.DSN_VARIABLE))


def _build_jobs(
    settings: Settings, checks: Sequence[dg.AssetChecksDefinition], names: Names
) -> list[dg.JobDefinition | AssetJob]:
    of_assets = (  # with one asset each
        (TUNING, TUNING in settings.model_fields_set, "Learn the ranking, and release it if it is better."),
        (jobs.PUBLICATION, _is_publishing(), "Copy the live release to PostgreSQL, by what changed."),
    )
    return [
        *jobs.build_source_jobs(names),
        *([jobs.build_organisations_job(names)] if settings.organisations else []),
        *([jobs.build_permissions_job(names)] if list_guarded(settings) else []),
        jobs.build_maintenance_job(names),
        jobs.build_migration_job(names),
        *(
            build_asset_job(names, name, about, dg.AssetSelection.assets(names.key(name)))
            for name, is_configured, about in of_assets
            if is_configured
        ),
        build_models_job(names),
        *(build_checks_job(definition, names) for definition in checks),
    ]


def _build_sensors(
    settings: Settings, release_job: AssetJob, names: Names, own: alerts.OwnDefinitions
) -> list[dg.SensorDefinition]:
    types = list_source_types(settings)
    refreshed = [names.key(RELEASE), *(k for type_ in types for k in stage_asset_keys(type_, names).values())]
    built = [
        sensors.build_sources_sensor(types, names),
        sensors.removed_sources(names),
        *([jobs.unlisted_organisations(names)] if settings.organisations else []),
        commit_sensors.changed_sources(names),
        new_input(names),
        *([sensors.upstream_assets(names)] if any(source.upstream for source in settings.sources) else []),
        runs.build_lost_runs_sensor(names),
        jobs.build_new_release_sensor(names, publishes=_is_publishing()),
        alerts.build_failed_runs_sensor(release_job, names, own=own),
        *([alerts.spent_budgets(names)] if settings.costs.budgets else []),
    ]
    refresh, shown = names.definition("refresh"), dg.AssetSelection.assets(*refreshed)
    return [
        show_on_assets(share_instance(sensor), shown)
        if any(target.job_name == refresh for target in sensor.targets)
        else share_instance(sensor)
        for sensor in built
    ]
