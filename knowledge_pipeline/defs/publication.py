"""The released index in PostgreSQL as an asset after the release, where the environment names a database."""

import os
from collections.abc import Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.defs.dagster_internals import AssetJob
from knowledge_pipeline.defs.failures import skip_on_config_error, translate_failures
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.event_log import RELEASE
from knowledge_pipeline.stages.publish import publish
from knowledge_pipeline.stages.publish.postgres import DSN_VARIABLE, open_target
from knowledge_pipeline.store.release import find_live_release

PUBLICATION = "publication"
"""The last part of the asset's key."""


def build_publication_job(names: Names = PLAIN) -> AssetJob:
    """The job that publishes."""
    return dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        names.definition("publication"),
        selection=dg.AssetSelection.assets(names.key(PUBLICATION)),
        description="Copy the live release to PostgreSQL, by what changed.",
    )


def is_publishing() -> bool:
    """Whether the environment names a database to publish to."""
    return bool(os.environ.get(DSN_VARIABLE))


def build_publication_asset(owners: Sequence[str] = (), names: Names = PLAIN) -> dg.AssetsDefinition:
    """The asset that copies what is live."""
    spec = dg.AssetSpec(
        names.key(PUBLICATION),
        deps=[names.key(RELEASE)],
        group_name=names.group("release"),
        kinds={"postgres"},
        owners=list(owners),
        description="One row per chunk of the live release, in PostgreSQL with pgvector: what changed is "
        "copied in one transaction, and a rollback is copied as well: docs/publish.md",
        code_version=publish.VERSION,
    )

    @dg.multi_asset(name=names.definition("copy_release"), specs=[spec], pool=names.pool("publication"))
    @names.bind
    def publication(context: dg.AssetExecutionContext, project: ProjectResource) -> dg.MaterializeResult[Any]:
        with translate_failures(context, project.retry_policy()):
            result = publish.refresh(project.open_lake(), project.load_settings(), open_target())
        return dg.MaterializeResult(
            metadata=result.as_metadata(), data_version=dg.DataVersion(str(result.release))
        )

    return publication


def build_publication_sensor(names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor that publishes each release."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("new_release"),
        job_name=names.definition("publication"),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Publishes each release, whoever made it live: a refresh, a rollback, the command line.",
    )
    @names.bind
    @skip_on_config_error("nothing is published")
    def new_release(
        context: dg.SensorEvaluationContext, project: ProjectResource
    ) -> dg.SensorResult | dg.SkipReason:
        """Request a run where another release is live than the last time."""
        release = find_live_release(project.open_lake())
        if release is None:
            return dg.SkipReason("nothing is released yet")
        number = str(release.release)
        if number == context.cursor:
            return dg.SkipReason(f"release {number} is published, or being published")
        run_key = f"{number} {release.created_at.isoformat()}"
        return dg.SensorResult(run_requests=[dg.RunRequest(run_key=run_key)], cursor=number)

    return new_release
