"""The job that discovers the members of organisations, and the sensor that starts it for a new one.

The sensor `sources_in_config` gives what is new a partition and a refresh, since it reads the listings.
"""

from datetime import UTC, datetime

import dagster as dg

from knowledge_pipeline.defs.failures import skip_on_config_error, translate_failures
from knowledge_pipeline.defs.metadata.tables import build_table
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.stages.organisations import discover

JOB = "organisations"

_MAX_NAMED = 50


def build_organisations_job(names: Names = PLAIN) -> dg.JobDefinition:
    """The job that lists all organisations."""

    @dg.op(
        name=names.definition("discover_members"),
        description="Lists the repositories, spaces or channels of every organisation; one that cannot be "
        "listed keeps its last members.",
        out=dg.Out(dg.Nothing),
    )
    @names.bind
    def discover_members(context: dg.OpExecutionContext, project: ProjectResource) -> None:
        """Fail at the end if any organisation could not be listed; the others are."""
        with translate_failures(context, project.retry_policy()):
            settings = project.load_settings()
            found = [discover(settings, each) for each in settings.organisations]
            rows = [
                {
                    "organisation": each.organisation,
                    "listed": each.listed,
                    "members": each.taken,
                    "added": ", ".join(each.added[:_MAX_NAMED]),
                    "removed": ", ".join(each.removed[:_MAX_NAMED]),
                    "problem": each.problem,
                }
                for each in found
            ]
            context.add_output_metadata({"organisations": build_table(rows)})
            if problems := [each.problem for each in found if each.problem]:
                raise SourceRefused("; ".join(problems))

    @dg.job(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition(JOB),
        description="List the members of organisations, each of which has partitions of its own.",
    )
    def organisations() -> None:
        discover_members.alias("discover_members")()  # pyright: ignore[reportUnknownMemberType]  # no types

    return organisations


def build_organisations_sensor(names: Names = PLAIN) -> dg.SensorDefinition:
    """The sensor that lists an organisation which has not been listed yet, once an hour if that fails."""

    @dg.sensor(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("unlisted_organisations"),
        job_name=names.definition(JOB),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Lists an organisation that is new in knowledge.yaml, without waiting for the schedule.",
    )
    @names.bind
    @skip_on_config_error("no organisation is listed")
    def unlisted_organisations(
        context: dg.SensorEvaluationContext, project: ProjectResource
    ) -> dg.RunRequest | dg.SkipReason:
        """Request a run where a listing is missing."""
        del context
        unlisted = project.load_settings().unlisted_organisations
        if not unlisted:
            return dg.SkipReason("every organisation is listed")
        hour = datetime.now(UTC).strftime("%Y-%m-%dT%H")
        return dg.RunRequest(run_key=f"{hour} {' '.join(unlisted)}", tags={"knowledge/trigger": "unlisted"})

    return unlisted_organisations
