"""`sources list|remove|test|discover`: the entries of knowledge.yaml; `add` has a module of its own."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

from typer import Argument, Option

from knowledge_pipeline.cli.exit_codes import FAILED, SUCCESS
from knowledge_pipeline.cli.options import Yes, complete_source_ids
from knowledge_pipeline.cli.prompts import confirm
from knowledge_pipeline.cli.render.terminal_text import format_count
from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.cli.sources.add import add
from knowledge_pipeline.errors import ConfigError, NotFound

Id = Annotated[str, Argument(metavar="ID", help="The source's id.", autocompletion=complete_source_ids)]


@example("""
    knowledge sources list
    knowledge sources list --json
""")
def list_(session: Session) -> None:
    """List the configured sources, and the organisations that some of them are of."""
    from knowledge_pipeline.cli.sources.organisations import list_organisations
    from knowledge_pipeline.config.sources.source import resolve_trigger

    rows = [
        {
            "source": source.id,
            "type": source.type,
            "where": source.connection.location,
            "branch": getattr(source.connection, "branch", None),
            "refreshed": resolve_trigger(source),
            "visibility": source.access.visibility,
        }
        for source in session.settings_without_secrets.sources
    ]
    organisations = list_organisations(session.settings_without_secrets)
    shown = {"config": str(session.config_path), "sources": rows}
    session.screen.print_json({**shown, "organisations": organisations} if organisations else shown)
    session.screen.print_table(organisations)
    session.screen.print_table(rows)
    if not rows and not organisations:
        session.screen.print_text(f"{session.config_path} declares no source: run `knowledge sources add`.")


@example("""
    knowledge sources remove flask-docs
    knowledge sources remove flask-docs --keep-content --yes
""")
def remove(
    session: Session,
    id: Id,
    keep_content: Annotated[
        bool, Option("--keep-content", help="Remove it from knowledge.yaml only; keep what is indexed.")
    ] = False,
    yes: Yes = False,
) -> int | None:
    """Remove a source from knowledge.yaml, and erase its stored content."""
    from knowledge_pipeline.config.edit import remove_source
    from knowledge_pipeline.maintenance.purge import purge_source

    _require_own_entry(session, id)
    if not keep_content and not confirm(
        session, f"Remove {id!r}, and erase its stored content and all earlier releases?", yes=yes
    ):
        return FAILED
    documents = 0
    if not keep_content:
        with suppress(NotFound):  # nothing was ever stored
            documents = purge_source(session.lake, session.settings_without_secrets, id)
    remove_source(session.config_path, id)
    session.screen.print_json({"removed": id, "documents": documents})
    erased = f"and erased {format_count(documents, 'document')}"
    rest = "its content stays until `knowledge purge`" if keep_content else erased
    session.screen.print_text(f"Removed {id} from {session.config_path}, {rest}.")
    return None


@example("""
    knowledge sources test flask-docs
    knowledge sources test acme
""")
def test(session: Session, id: Id) -> int:
    """Read a source without storing anything: count its documents, show one, and ask what embeds them.

    Of an organisation, lists its members, and reads a source of each of its types.
    """
    from knowledge_pipeline.cli.sources.organisations import probe_organisation
    from knowledge_pipeline.cli.sources.probe import probe_source

    for organisation in session.settings.organisations:
        if organisation.id == id:
            return probe_organisation(session, organisation)
    (source,) = session.settings.select_sources([id])
    return probe_source(session, source)


@example("""
    knowledge sources discover
    knowledge sources discover acme --accept-removals
""")
def discover(
    session: Session,
    id: Annotated[list[str] | None, Argument(metavar="ID", help="Organisations; all without any.")] = None,
    accept_removals: Annotated[
        bool,
        Option("--accept-removals", help="Take a listing that lacks more than half of the known members."),
    ] = False,
) -> int:
    """List the members of organisations, as every refresh does; nothing is indexed yet."""
    from knowledge_pipeline.cli.sources.organisations import discover_members, list_organisations

    found = discover_members(session, id or (), accept_removals=accept_removals)
    session.screen.print_json([asdict(each) for each in found])
    session.screen.print_table(list_organisations(session.settings))
    return FAILED if any(each.problem for each in found) else SUCCESS


COMMANDS = (list_, add, remove, test, discover)


def _require_own_entry(session: Session, id: str) -> None:
    """Raise NotFound unless a source is declared by itself, and ConfigError if it is a member's."""
    from knowledge_pipeline.config.file import check_config, read_config

    settings = session.settings_without_secrets
    settings.select_sources([id])
    declared, _ = check_config(read_config(session.config_path), session.config_path, allow_unset=True)
    if declared and id not in {source.id for source in declared.sources}:
        raise ConfigError(
            f"source {id!r} is of a member of an organisation: exclude the member in {session.config_path}"
        )
