"""The released index in PostgreSQL as an asset after the release, where the environment names a database."""

import os
from collections.abc import Sequence
from typing import Any

import dagster as dg

from knowledge_pipeline.defs.failures import skip_on_config_error, translate_failures
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.runs.event_log import RELEASE
from knowledge_pipeline.stages.publish import publish
from knowledge_pipeline.stages.publish.postgres import DSN_VARIABLE, open_target
from knowledge_pipeline.store.release import find_live_release

PUBLICATION = dg.AssetKey("publication")

PUBLICATION_JOB = dg.define_asset_job(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
    "publication",
    selection=dg.AssetSelection.assets(PUBLICATION),
    description="Copy the live release to PostgreSQL, by what changed.",
)


def is_publishing() -> bool:
    """Whether the environment names a database to publish to."""
    return bool(os.environ.get(DSN_VARIABLE))


def build_publication_asset(owners: Sequence[str] = ()) -> dg.AssetsDefinition:
    """The asset that copies what is live."""
    spec = dg.AssetSpec(
        PUBLICATION,
        deps=[RELEASE],
        group_name="release",
        kinds={"postgres"},
        owners=list(owners),
        description="One row per chunk of the live release, in PostgreSQL with pgvector: what changed is "
        "copied in one transaction, and a rollback is copied as well: docs/publish.md",
        code_version=publish.VERSION,
    )

    @dg.multi_asset(name="copy_release", specs=[spec], pool="publication")
    def publication(context: dg.AssetExecutionContext, project: ProjectResource) -> dg.MaterializeResult[Any]:
        with translate_failures(context, project.retry_policy()):
            result = publish.refresh(project.open_lake(), project.load_settings(), open_target())
        return dg.MaterializeResult(
            metadata=result.as_metadata(), data_version=dg.DataVersion(str(result.release))
        )

    return publication


@dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
    name="new_release",
    job_name="publication",
    minimum_interval_seconds=30,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Publishes each release, whoever made it live: a refresh, a rollback, the command line.",
)
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
