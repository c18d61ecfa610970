"""What Dagster loads: every asset, check, job, schedule, sensor and resource of one `knowledge.yaml`."""

import dagster as dg

from knowledge_pipeline.defs.alerts.sensor import build_failed_runs_sensor
from knowledge_pipeline.defs.asset_jobs import RELEASE_JOB, build_refresh_job
from knowledge_pipeline.defs.assets import build_release_asset, build_stage_assets
from knowledge_pipeline.defs.checks import build_checks_job, build_informational_checks
from knowledge_pipeline.defs.evaluation import EVALUATION, build_evaluation_asset
from knowledge_pipeline.defs.failures import translate_load_errors
from knowledge_pipeline.defs.jobs import full_reindex, purge, refresh
from knowledge_pipeline.defs.maintenance import maintenance
from knowledge_pipeline.defs.migration import migration
from knowledge_pipeline.defs.partitions import list_source_types
from knowledge_pipeline.defs.publication import (
    PUBLICATION_JOB,
    build_publication_asset,
    is_publishing,
    new_release,
)
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.dead_workers import lost_runs
from knowledge_pipeline.defs.runs.executor import select_executor
from knowledge_pipeline.defs.schedules import build_schedules
from knowledge_pipeline.defs.sensors.changed_files import changed_files
from knowledge_pipeline.defs.sensors.commits import new_commits
from knowledge_pipeline.defs.sensors.configuration import (
    build_sources_sensor,
    release_after_failures,
    removed_sources,
)
from knowledge_pipeline.defs.settings_assets import build_settings_specs, changed_settings
from knowledge_pipeline.defs.sql_models import SQL_MODELS_JOB, build_model_assets
from knowledge_pipeline.defs.tuning import TUNING_JOB, build_tuning_asset

with translate_load_errors():
    project = ProjectResource()
    settings = project.load_settings()
    types, owners = list_source_types(settings), settings.owners
    checks = [build_informational_checks(type_) for type_ in types]
    defs = dg.Definitions(
        assets=[
            *(spec for type_ in types for spec in build_settings_specs(type_, owners)),
            *(build_stage_assets(type_, settings) for type_ in types),
            build_evaluation_asset(types, owners),
            build_release_asset(types, settings),
            build_tuning_asset(owners),
            *([build_publication_asset(owners)] if is_publishing() else []),
            build_model_assets(
                types, owners=owners, evaluation=EVALUATION, folders=settings.sql_models.folders
            ),
        ],
        asset_checks=checks,
        jobs=[
            refresh,
            full_reindex,
            purge,
            maintenance,
            migration,
            RELEASE_JOB,
            TUNING_JOB,
            *([PUBLICATION_JOB] if is_publishing() else []),
            SQL_MODELS_JOB,
            *([build_checks_job(checks)] if checks else []),
            *(build_refresh_job(type_) for type_ in types),
        ],
        schedules=build_schedules(settings, has_checks=bool(checks)),
        sensors=[
            build_sources_sensor(types),
            removed_sources,
            new_commits,
            changed_files,
            changed_settings,
            lost_runs,
            release_after_failures,
            *([new_release] if is_publishing() else []),
            build_failed_runs_sensor(),
        ],
        resources={"project": project},
        executor=select_executor(),
    )
