"""What Dagster loads: every asset, check, job, schedule, sensor and resource of one `knowledge.yaml`."""

import dagster as dg

from knowledge_pipeline.defs.alerts.sensor import failed_runs
from knowledge_pipeline.defs.asset_jobs import RELEASE_JOB, refresh_of
from knowledge_pipeline.defs.assets import chain, release_of
from knowledge_pipeline.defs.checks import checks_job, informing_checks_of
from knowledge_pipeline.defs.evaluation import EVALUATION, evaluation_of
from knowledge_pipeline.defs.failures import loading
from knowledge_pipeline.defs.jobs import full_reindex, purge, refresh
from knowledge_pipeline.defs.maintenance import maintenance
from knowledge_pipeline.defs.partitions import types_in
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.dead_workers import lost_runs
from knowledge_pipeline.defs.runs.executor import chosen_executor
from knowledge_pipeline.defs.schedules import schedules
from knowledge_pipeline.defs.sensors.changed_files import changed_files
from knowledge_pipeline.defs.sensors.commits import new_commits
from knowledge_pipeline.defs.sensors.configuration import (
    release_after_failures,
    removed_sources,
    sources_in_config,
)
from knowledge_pipeline.defs.settings_assets import changed_settings, settings_specs
from knowledge_pipeline.defs.sql_models import SQL_MODELS, models_of

with loading():
    project = ProjectResource()
    settings = project.settings()
    types, owners = types_in(settings), settings.owners
    checks = [informing_checks_of(type_) for type_ in types]
    defs = dg.Definitions(
        assets=[
            *(spec for type_ in types for spec in settings_specs(type_, owners)),
            *(chain(type_, settings) for type_ in types),
            evaluation_of(types, owners),
            release_of(types, settings),
            models_of(types, owners=owners, evaluation=EVALUATION),
        ],
        asset_checks=checks,
        jobs=[
            refresh,
            full_reindex,
            purge,
            maintenance,
            RELEASE_JOB,
            SQL_MODELS,
            *([checks_job(checks)] if checks else []),
            *(refresh_of(type_) for type_ in types),
        ],
        schedules=schedules(settings, jobs=["maintenance", "sql_models", *(["checks"] if checks else [])]),
        sensors=[
            sources_in_config(types),
            removed_sources,
            new_commits,
            changed_files,
            changed_settings,
            lost_runs,
            release_after_failures,
            failed_runs(),
        ],
        resources={"project": project},
        executor=chosen_executor(),
    )
