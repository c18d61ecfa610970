"""The job that brings a store of an earlier version up to date: a plain op, as `knowledge migrate`."""

from enum import Enum

import dagster as dg
from pydantic import Field

from knowledge_pipeline.defs.dagster_internals import COMPUTE_KIND
from knowledge_pipeline.defs.failures import translate_failures
from knowledge_pipeline.defs.metadata.tables import build_list
from knowledge_pipeline.defs.names import PLAIN, Names
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.migration import migrate


class MigrationAction(Enum):
    """What `knowledge migrate` does without an option, and with each."""

    MIGRATE = "migrate"
    DRY_RUN = "dry_run"
    UNDO = "undo"
    COMMIT = "commit"


class MigrationConfig(dg.Config):
    """What to do; by default migrate."""

    action: MigrationAction = Field(
        default=MigrationAction.MIGRATE,
        description="Migrate, only report, return to the store from before, or make the migration final.",
    )


def build_migration_job(names: Names = PLAIN) -> dg.JobDefinition:
    """The job that brings a store of an earlier version up to date."""

    @dg.op(
        name=names.definition("migrate_tables"),
        description="Brings the tables that an earlier version wrote to the present schema, in place.",
        out=dg.Out(dg.Nothing),
        tags={COMPUTE_KIND: "lancedb"},
    )
    @names.bind
    def migrate_tables(
        context: dg.OpExecutionContext, config: MigrationConfig, project: ProjectResource
    ) -> None:
        """Migrate the store. It needs no pool: the store's locks separate it from refreshes."""
        with translate_failures(context, project.retry_policy()):
            lake = Lake(project.load_settings().store)
            versions = migrate.read_versions(lake)
            tables = _run_action(lake, config.action, versions, context.log.info)
            after = migrate.read_versions(lake)
        context.add_output_metadata(
            {
                "action": config.action.value,
                "from_version": versions.oldest,
                "state": after.state,
                "tables": len(tables),
                "touched": build_list([f"`{name}`" for name in tables]),
            }
        )

    @dg.job(  # pyright: ignore[reportUnknownMemberType]  # Dagster's bare PathLike
        name=names.definition("migration"),
        description="Bring a store of an earlier version up to date, in place; nothing is embedded again.",
        tags={"knowledge/kind": "maintenance"},
    )
    def migration() -> None:
        """Migrate the store, as `knowledge migrate` does."""
        migrate_tables.alias("migrate_tables")()  # pyright: ignore[reportUnknownMemberType]  # no types

    return migration


def _run_action(
    lake: Lake, action: MigrationAction, versions: migrate.StoreVersions, report: migrate.ReportTable
) -> list[str]:
    match action:
        case MigrationAction.MIGRATE:
            return migrate.migrate(lake, report=report)
        case MigrationAction.DRY_RUN:
            return [each.name for each in versions.tables if each.needs_migration]
        case MigrationAction.UNDO:
            return migrate.undo_migration(lake, report=report)
        case MigrationAction.COMMIT:
            return migrate.commit_migration(lake)
