"""`sources list|add|remove|test`: the entries of knowledge.yaml."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from knowledge_pipeline.cli.exit_codes import FAILED
from knowledge_pipeline.cli.options import SourceKind, TokenVariable, Yes, complete_source_ids
from knowledge_pipeline.cli.releases import confirm
from knowledge_pipeline.cli.render.terminal_text import format_count
from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.cli.sources.service_entries import (
    SERVICE_KINDS,
    build_service_entry,
    derive_service_name,
)
from knowledge_pipeline.cli.sources.source_entries import (
    RepositoryLocation,
    SourceEntry,
    add_entries,
    choose_free_id,
    resolve_target_config,
    validate_entry,
)
from knowledge_pipeline.errors import ConfigError, NotFound

if TYPE_CHECKING:
    pass

Id = Annotated[str, typer.Argument(metavar="ID", help="The source's id.", autocompletion=complete_source_ids)]
Patterns = list[str] | None


@example("""
    knowledge sources list
    knowledge sources list --json
""")
def list_(session: Session) -> None:
    """List the configured sources."""
    from knowledge_pipeline.config.settings import resolve_trigger

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
    if session.as_json:
        session.screen.print_json({"config": str(session.config_path), "sources": rows})
    elif rows:
        session.screen.print_table(rows)
    else:
        session.screen.print_text(f"{session.config_path} declares no source: run `knowledge sources add`.")


@example("""
    knowledge sources add code --path ../service
    knowledge sources add markdown --url https://github.com/pallets/flask --branch main --id flask-docs
    knowledge sources add files --path ~/papers --include "*.pdf"
    knowledge sources add github_pr --url pallets/flask --token-env GITHUB_TOKEN
    knowledge sources add jira --url https://example.atlassian.net --email ann@example.com
    knowledge sources add slack --path export.zip
""")
def add(
    session: Session,
    type: Annotated[
        SourceKind,
        typer.Argument(
            metavar="TYPE",
            help=f"{', '.join(get_args(SourceKind))}.",
        ),
    ],
    path: Annotated[
        Path | None, typer.Option("--path", metavar="FOLDER", help="A folder of this machine.")
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="A git repository, or the site of a service.")
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="By default made of the name and the type.")
    ] = None,
    branch: Annotated[str | None, typer.Option("--branch", metavar="NAME", help="Of --url.")] = None,
    include: Annotated[
        Patterns, typer.Option("--include", metavar="PATTERN", help="Only files like this, as in .gitignore.")
    ] = None,
    exclude: Annotated[
        Patterns, typer.Option("--exclude", metavar="PATTERN", help="No files like this, as in .gitignore.")
    ] = None,
    token_env: TokenVariable = None,
    email: Annotated[
        str | None,
        typer.Option("--email", metavar="ADDRESS", help="Jira, Confluence Cloud: whose token it is."),
    ] = None,
) -> None:
    """Add a source to knowledge.yaml, whose comments stay; nothing is indexed yet."""
    if type == "slack" and path is not None:
        export = {"type": "slack_export", "path": _relative_folder(path, resolve_target_config(session))}
        _add_entry(session, {"id": id, "type": type, "connection": export}, "slack")
        return
    if type in SERVICE_KINDS:
        if path is not None or branch or include or exclude:
            raise WrongUsage(f"{type} is read from a service: give --url, --email and --token-env only")
        address = url or _ask_address(session, SERVICE_KINDS[type].address_prompt)
        entry = build_service_entry(type, address, email=email, token_variable=token_env)
        _add_entry(
            session, {"id": id, **entry}, f"{derive_service_name(entry)}-{SERVICE_KINDS[type].id_suffix}"
        )
        return
    if email:
        raise WrongUsage("--email is for Jira and Confluence")
    if path is not None and url is not None:
        raise WrongUsage("give --path or --url, not both")
    if path is not None and (branch or token_env):
        raise WrongUsage("--branch and --token-env say more about --url")
    if path is None and url is None:
        path, url = _ask_location(session)
    if path is not None and not path.expanduser().is_dir():
        raise ConfigError(f"{path} is no folder: correct --path")
    config = resolve_target_config(session)
    repository = RepositoryLocation(str(url or path), branch, token_env)
    repository.require_valid()
    entry = {
        "id": id,
        "type": type,
        "connection": repository.to_connection()
        if url
        else {"type": "local", "path": _relative_folder(path, config)},
        **({"include": list(include)} if include else {}),
        **({"exclude": list(exclude)} if exclude else {}),
    }
    _add_entry(session, entry, f"{repository.slug}-{_ID_SUFFIXES[type]}")


def _add_entry(session: Session, entry: SourceEntry, default_id: str) -> None:
    """Write an entry, with an id of its own where none is given, and say what comes next."""
    config = resolve_target_config(session)
    entry["id"] = entry["id"] or choose_free_id(default_id, _list_declared_ids(config))
    _require_openable(entry, config)
    add_entries(session, config, [entry])
    if session.as_json:
        session.screen.print_json({"config": str(config), "added": entry})
        return
    session.screen.print_text(f"Added {entry['id']} to {config}.")
    session.screen.print_text(
        f"Next: knowledge sources test {entry['id']}, then knowledge refresh --source {entry['id']}"
    )


@example("""
    knowledge sources remove flask-docs
    knowledge sources remove flask-docs --keep-content --yes
""")
def remove(
    session: Session,
    id: Id,
    keep_content: Annotated[
        bool, typer.Option("--keep-content", help="Only out of knowledge.yaml; what is indexed stays.")
    ] = False,
    yes: Yes = False,
) -> int | None:
    """Remove a source from knowledge.yaml, and erase what is stored of it."""
    from knowledge_pipeline.config.edit import remove_source
    from knowledge_pipeline.maintenance.purge import purge_source
    from knowledge_pipeline.stages.pipeline import select_sources

    select_sources(session.settings_without_secrets, [id])
    if not keep_content and not confirm(
        session, f"Remove {id!r}, and erase all that is stored of it, and all earlier releases?", yes=yes
    ):
        return FAILED
    documents = 0
    if not keep_content:
        with suppress(NotFound):  # nothing of it was ever stored
            documents = purge_source(session.lake, session.settings_without_secrets, id)
    remove_source(session.config_path, id)
    if session.as_json:
        session.screen.print_json({"removed": id, "documents": documents})
    else:
        erased = f"and erased {format_count(documents, 'document')}"
        rest = "its content stays until `knowledge purge`" if keep_content else erased
        session.screen.print_text(f"Removed {id} from {session.config_path}, {rest}.")
    return None


@example("""
    knowledge sources test flask-docs
""")
def test(session: Session, id: Id) -> None:
    """Read a source without storing anything: how many documents it lists, and what one looks like."""
    from knowledge_pipeline.cli.sources.probe import probe_source
    from knowledge_pipeline.stages.pipeline import select_sources

    (source,) = select_sources(session.settings, [id])
    probe_source(session, source)


_ID_SUFFIXES = {
    "code": "code",
    "markdown": "docs",
    "openapi": "api",
    "git_history": "history",
    "files": "files",
    "archive": "archive",
}


def _ask_location(session: Session) -> tuple[Path | None, str | None]:
    if not session.screen.is_interactive:
        raise WrongUsage("give --path FOLDER or --url URL")
    given = str(typer.prompt("Folder, or address of a git repository", err=True))
    repository = RepositoryLocation(given)
    repository.require_valid()
    return (repository.folder, None) if repository.is_local else (None, given)


def _ask_address(session: Session, question: str) -> str:
    if not question:
        return ""
    if not session.screen.is_interactive:
        raise WrongUsage("give --url: the address of the site, or of the repository")
    return str(typer.prompt(question, err=True))


def _require_openable(entry: SourceEntry, config: Path) -> None:
    """Raises ConfigError where such a source could never be read; contacts nobody."""
    from knowledge_pipeline.sources.registry import open_source

    with open_source(validate_entry(entry, config, unset_allowed=True), cache=config.parent):
        pass


def _list_declared_ids(config: Path) -> set[str]:
    from knowledge_pipeline.config.file import load_settings

    return (
        {source.id for source in load_settings(config, allow_unset=True).sources}
        if config.exists()
        else set()
    )


def _relative_folder(path: Path | None, config: Path) -> str:
    """A folder below the file's is written relative to it, any other absolute."""
    folder = (path or Path()).expanduser().resolve()
    parent = config.resolve().parent
    return folder.relative_to(parent).as_posix() if folder.is_relative_to(parent) else folder.as_posix()
