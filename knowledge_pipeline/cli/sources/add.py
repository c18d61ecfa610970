"""`sources add`: a new entry of knowledge.yaml, by what the options name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_args

from typer import Argument, Option

from knowledge_pipeline.cli.options import Names, TokenVariable
from knowledge_pipeline.cli.prompts import ask
from knowledge_pipeline.cli.session import Session, WrongUsage, example
from knowledge_pipeline.cli.sources.entry_keys import apply_assignments, describe_keys
from knowledge_pipeline.cli.sources.organisation_entries import (
    build_organisation_connection,
    choose_organisation_id,
    find_archive_pattern,
)
from knowledge_pipeline.cli.sources.service_entries import (
    SERVICE_KINDS,
    build_archive_connection,
    build_service_entry,
    derive_archive_name,
    derive_service_name,
    is_archive_file,
    parse_bucket_url,
    parse_wiki_url,
)
from knowledge_pipeline.cli.sources.source_entries import (
    RepositoryLocation,
    SourceEntry,
    add_entries,
    choose_free_id,
    resolve_target_config,
    validate_entry,
)
from knowledge_pipeline.cli.sources.table_entries import build_table_entry
from knowledge_pipeline.contract.types import SourceType
from knowledge_pipeline.errors import ConfigError


@example(
    """
    knowledge sources add code --path ../service
    knowledge sources add markdown --url https://github.com/pallets/flask --branch main --id flask-docs
    knowledge sources add files --path ~/papers --include "*.pdf"
    knowledge sources add github_pr --url pallets/flask --token-env GITHUB_TOKEN
    knowledge sources add jira --url https://example.atlassian.net --email ann@example.com
    knowledge sources add jira --url https://jira.example.com --set projects=OPS,PAY --set 'since=2 years'
    knowledge sources add code --path . --set access.visibility=tenant --set access.tenant=acme
    knowledge sources add files --url s3://reports/2026 --set connection.region=eu-west-1
    knowledge sources add code --path exports/engine-2.4.zip
    knowledge sources add code --all --url 's3://backups/nightly/*.zip'
    knowledge sources add slack --path export.zip
    knowledge sources add code --all --url github.com/acme --set refresh.trigger=daily
    knowledge sources add jira --all --url https://example.atlassian.net --email ann@example.com
    knowledge sources add table --path 'exports/*.parquet' --set columns.text=body
    knowledge sources add custom --set connection.use=acme_feeds --set connection.settings.path=feeds
    knowledge sources add table --url '${WAREHOUSE_DSN}' --set 'connection.query=select * from articles'
""",
    more=lambda: (
        f"Keys of --set, by type of source (docs/configuration.md explains them):\n{describe_keys()}"
    ),
)
def add(
    session: Session,
    type: Annotated[SourceType, Argument(metavar="TYPE", help=f"{', '.join(get_args(SourceType))}.")],
    path: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="A folder on this machine, or a ZIP or TAR archive; of a table, a file or a pattern.",
        ),
    ] = None,
    url: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="A git repository, a bucket or an archive in it (s3://, gs://, Azure's https://), or the "
            "address of a service.",
        ),
    ] = None,
    id: Annotated[str | None, Option(metavar="ID", help="By default, the name and the type.")] = None,
    branch: Annotated[str | None, Option(metavar="NAME", help="The branch of --url.")] = None,
    include: Annotated[
        Names, Option(metavar="PATTERN", help="Only files that match, as in .gitignore.")
    ] = None,
    exclude: Annotated[
        Names, Option(metavar="PATTERN", help="No files that match, as in .gitignore.")
    ] = None,
    token_env: TokenVariable = None,
    all: Annotated[
        bool,
        Option(
            "--all",
            help="All repositories of an organisation, projects, spaces or channels of a site, folders or "
            "archives of a bucket, checkouts of a folder: --url github.com/acme.",
        ),
    ] = False,
    email: Annotated[
        str | None, Option(metavar="ADDRESS", help="Jira and Confluence Cloud: the token's account.")
    ] = None,
    set: Annotated[
        Names,
        Option(
            metavar="KEY=VALUE",
            help="Any other key of the entry, of a list with commas between values (repeatable); see below.",
        ),
    ] = None,
) -> None:
    """Add a source to knowledge.yaml, keeping its comments; nothing is indexed yet."""
    from knowledge_pipeline.config.file import load_settings
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.config.sources.filters import FILTER_TYPES
    from knowledge_pipeline.config.template import USUAL_IDS

    config = resolve_target_config(session)
    entry: SourceEntry
    if all:
        if path is not None and (url or email or token_env):
            raise WrongUsage("give --path or --url, not both")
        if path is None and url is None and type != "slack":
            raise WrongUsage("--all needs --url, such as github.com/acme, or --path FOLDER")
        connection = (
            {"type": "checkouts", "path": _relative_path(path, config)}
            if path is not None
            else build_organisation_connection(type, url or "", email=email, token_variable=token_env)
        )
        entry, name = {"type": type, "connection": connection}, ""
    elif type == "slack" and path is not None:
        name = "slack"
        entry = {"type": type, "connection": {"type": "slack_export", "path": _relative_path(path, config)}}
    elif type == "table":
        if branch or email or token_env:
            raise WrongUsage("a table takes --path, or --url '${NAME}' with the variable of its address")
        entry, name = build_table_entry(path, url, relative_to=config)
    elif type == "custom":
        if path is not None or url or branch or email or token_env:
            raise WrongUsage(
                "a custom source takes --set connection.use=NAME and --set connection.settings.KEY"
            )
        entry, name = {"type": type, "connection": {"type": "custom"}}, "custom"
    elif service := SERVICE_KINDS.get(type):
        if path is not None or branch:
            raise WrongUsage(f"{type} is read from a service: give --url, not --path or --branch")
        if url is None and service.address_prompt:
            option = "--url: the address of the site, or of the repository"
            url = ask(session, service.address_prompt, option=option)
        entry = build_service_entry(type, url or "", email=email, token_variable=token_env)
        name = f"{derive_service_name(entry)}-{service.id_suffix}"
    elif url is not None and (bucket := parse_bucket_url(url)):
        if path is not None or branch or email or token_env:
            raise WrongUsage("a bucket takes --url alone, and keys such as --set connection.region=eu-west-1")
        entry = {"type": type, "connection": build_archive_connection(bucket)}
        name = f"{derive_service_name(entry)}-{USUAL_IDS.get(type, type)}"
    elif path is not None and is_archive_file(path):
        if url or branch or email or token_env:
            raise WrongUsage("an archive of this machine takes --path alone")
        entry = {"type": type, "connection": {"type": "archive_file", "path": _relative_path(path, config)}}
        name = f"{derive_archive_name(path.name)}-{USUAL_IDS.get(type, type)}"
    elif url is not None and (wiki := parse_wiki_url(url)):
        if path is not None or branch or email:
            raise WrongUsage("a wiki takes --url, and --token-env with the variable of its token")
        token = {"token": f"${{{token_env}}}"} if token_env else {}
        entry = {"type": type, "connection": {**wiki, **token}}
        name = f"{derive_service_name(entry)}-wiki"
    else:
        if email:
            raise WrongUsage("--email is for Jira and Confluence")
        repository = _choose_repository(session, path, url, branch, token_env)
        local = {"type": "local", "path": _relative_path(repository.folder, config)}
        entry = {"type": type, "connection": local if repository.is_local else repository.to_connection()}
        name = f"{repository.slug}-{USUAL_IDS.get(type, type)}"
    entry |= {"include": list(include)} if include else {}
    entry |= {"exclude": list(exclude)} if exclude else {}
    apply_assignments(entry, set or ())
    if type in FILTER_TYPES["attachments"] and path is None:  # an export has none
        entry = {"attachments": True, **entry}
    settings = load_settings(config, allow_unset=True) if config.exists() else Settings()
    used = {each.id for each in (*settings.sources, *settings.organisations)}
    if all:
        connection = entry.pop("connection")
        named = {"id": id or choose_organisation_id(connection, used), "connection": connection}
        members = {"include": [pattern]} if (pattern := find_archive_pattern(url or "")) else {}
        _add_organisation(session, config, {**named, **members, "sources": [entry]})
    else:
        _add_entry(session, config, {"id": id or choose_free_id(name, used), **entry})


def _choose_repository(
    session: Session, path: Path | None, url: str | None, branch: str | None, token_variable: str | None
) -> RepositoryLocation:
    """The folder or git repository that the options name, or else the person."""
    if path is not None and url is not None:
        raise WrongUsage("give --path or --url, not both")
    if path is not None and (branch or token_variable):
        raise WrongUsage("--branch and --token-env need --url")
    if path is not None and not path.expanduser().is_dir():
        raise ConfigError(f"{path} is not a folder: correct --path")
    if path is not None:
        repository = RepositoryLocation(str(path), is_git=False)
    elif url is not None:
        repository = replace(RepositoryLocation.parse(url, branch, token_variable), is_git=True)
    else:
        named = ask(session, "Folder, or address of a git repository", option="--path FOLDER or --url URL")
        repository = RepositoryLocation.parse(named, branch, token_variable)
    repository.require_valid()
    return repository


def _add_entry(session: Session, config: Path, entry: SourceEntry) -> None:
    """Write an entry if such a source can be opened, and say what comes next."""
    from knowledge_pipeline.sources.registry import open_source

    with open_source(validate_entry(entry, config, allow_unset=True), cache=config.parent):
        pass  # contacts no service
    add_entries(session, config, [entry])
    session.screen.print_json({"config": str(config), "added": entry})
    id_ = entry["id"]
    session.screen.print_text(f"Added {id_} to {config}.")
    session.screen.print_text(f"Next: knowledge sources test {id_}, then knowledge refresh --source {id_}")


def _add_organisation(session: Session, config: Path, entry: SourceEntry) -> None:
    """Write an entry of an organisation, and say what comes next."""
    add_entries(session, config, [entry], "organisations")
    session.screen.print_json({"config": str(config), "added": entry})
    session.screen.print_text(f"Added organisation {entry['id']} to {config}.")
    session.screen.print_text(f"Next: knowledge sources test {entry['id']}, then knowledge refresh")


def _relative_path(path: Path, config: Path) -> str:
    """The path relative to the file's folder if it is inside, or else absolute."""
    path, parent = path.expanduser().resolve(), config.resolve().parent
    return path.relative_to(parent).as_posix() if path.is_relative_to(parent) else path.as_posix()
