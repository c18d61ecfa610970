"""`sources add|list|remove|test|discover`: the sources and organisations of `knowledge.yaml`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from typer import Argument, Option

from knowledge_pipeline import errors
from knowledge_pipeline.cli import source_entries
from knowledge_pipeline.cli.exit_codes import FAILED, SUCCESS, exit_code_of
from knowledge_pipeline.cli.progress import show_progress
from knowledge_pipeline.cli.screen import format_count, one_line
from knowledge_pipeline.cli.session import (
    Names,
    Session,
    TokenVariable,
    WrongUsage,
    Yes,
    ask,
    complete_source_ids,
    confirm,
    example,
)
from knowledge_pipeline.config.model import read_word
from knowledge_pipeline.config.organisations import LISTINGS, OrganisationMember, matches_any, read_listing
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import FILTER_TYPES, SourceConfig, WrittenType, resolve_trigger
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.text import truncate

if TYPE_CHECKING:
    from knowledge_pipeline.cli.screen import Screen
    from knowledge_pipeline.config.embedding import EmbeddingSettings
    from knowledge_pipeline.config.organisations import OrganisationSettings
    from knowledge_pipeline.connectors.base import Source
    from knowledge_pipeline.records import Document, Item
    from knowledge_pipeline.stages.organisations import Discovery


Id = Annotated[str, Argument(metavar="ID", help="The source's id.", autocompletion=complete_source_ids)]


@example("""
    knowledge sources list
    knowledge sources list --json
""")
def list_(session: Session) -> None:
    """List the configured sources, and the organisations that some of them are of."""
    rows = [
        {
            "source": source.id,
            "type": source.type,
            "where": source.connection.location,
            "branch": getattr(source.connection, "branch", None),
            "refreshed": resolve_trigger(source),
            "visibility": source.access.visibility,
        }
        for source in session.settings.sources
    ]
    organisations = list_organisations(session.settings)
    shown = {"config": str(session.config_path), "sources": rows}
    session.screen.print_json({**shown, "organisations": organisations} if organisations else shown)
    session.screen.print_table(organisations)
    session.screen.print_table(rows)
    if not rows and not organisations:
        session.screen.print_text(f"{session.config_path} declares no source: run `knowledge sources add`.")


@example(
    """
    knowledge sources add code --path ../service
    knowledge sources add markdown --url https://github.com/pallets/flask --branch main --id flask-docs
    knowledge sources add --type files --path ~/papers --include "*.pdf"
    knowledge sources add files --path ~/mails --encoding windows-1252
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
        "Keys of --set, by type of source (docs/configuration.md explains them):\n"
        + source_entries.describe_keys()
    ),
)
def add(
    session: Session,
    type_argument: Annotated[
        WrittenType | None,
        Argument(metavar="TYPE", help=f"{', '.join(get_args(SourceType))}.", show_default=False),
    ] = None,
    type_option: Annotated[
        WrittenType | None, Option("--type", metavar="TYPE", help="The type, in place of the argument.")
    ] = None,
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
    encoding: Annotated[
        str | None,
        Option(metavar="LABEL", help="Of text that is not UTF-8 and declares none: windows-1252, gb18030."),
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
    from knowledge_pipeline.config.edit import USUAL_IDS
    from knowledge_pipeline.config.file import load_settings
    from knowledge_pipeline.connectors.registry import open_source

    if (type_argument is None) == (type_option is None):
        raise WrongUsage("give one type, as TYPE or as --type TYPE")
    type: str = read_word(type_argument or type_option)
    config = source_entries.resolve_target_config(session)
    entry: source_entries.SourceEntry
    if all:
        if path is not None and (url or email or token_env):
            raise WrongUsage("give --path or --url, not both")
        if path is None and url is None and type != "slack":
            raise WrongUsage("--all needs --url, such as github.com/acme, or --path FOLDER")
        connection = (
            {"type": "checkouts", "path": source_entries.relative_path(path, config)}
            if path is not None
            else source_entries.build_organisation_connection(
                type, url or "", email=email, token_variable=token_env
            )
        )
        entry, name = {"type": type, "connection": connection}, ""
    elif type == "slack" and path is not None:
        name = "slack"
        entry = {
            "type": type,
            "connection": {"type": "slack_export", "path": source_entries.relative_path(path, config)},
        }
    elif type == "table":
        if branch or email or token_env:
            raise WrongUsage("a table takes --path, or --url '${NAME}' with the variable of its address")
        entry, name = source_entries.build_table_entry(path, url, relative_to=config)
    elif type in ("custom", "push"):
        if path is not None or url or branch or email or token_env:
            raise WrongUsage(
                "a custom source takes --set connection.use=NAME and --set connection.settings.KEY"
                if type == "custom"
                else "a source of type push is read from nowhere: give --id and --set KEY=VALUE alone"
            )
        entry, name = {"type": type, "connection": {"type": type}}, type
    elif service := source_entries.SERVICE_KINDS.get(type):
        if path is not None or branch:
            raise WrongUsage(f"{type} is read from a service: give --url, not --path or --branch")
        if url is None and service.address_prompt:
            option = "--url: the address of the site, or of the repository"
            url = ask(session, service.address_prompt, option=option)
        entry = source_entries.build_service_entry(type, url or "", email=email, token_variable=token_env)
        name = f"{source_entries.derive_service_name(entry)}-{service.id_suffix}"
    elif url is not None and (bucket := source_entries.parse_bucket_url(url)):
        if path is not None or branch or email or token_env:
            raise WrongUsage("a bucket takes --url alone, and keys such as --set connection.region=eu-west-1")
        entry = {"type": type, "connection": source_entries.build_archive_connection(bucket)}
        name = f"{source_entries.derive_service_name(entry)}-{USUAL_IDS.get(type, type)}"
    elif path is not None and source_entries.is_archive_file(path):
        if url or branch or email or token_env:
            raise WrongUsage("an archive of this machine takes --path alone")
        entry = {
            "type": type,
            "connection": {"type": "archive_file", "path": source_entries.relative_path(path, config)},
        }
        name = f"{source_entries.derive_archive_name(path.name)}-{USUAL_IDS.get(type, type)}"
    elif url is not None and (wiki := source_entries.parse_wiki_url(url)):
        if path is not None or branch or email:
            raise WrongUsage("a wiki takes --url, and --token-env with the variable of its token")
        token = {"token": f"${{{token_env}}}"} if token_env else {}
        entry = {"type": type, "connection": {**wiki, **token}}
        name = f"{source_entries.derive_service_name(entry)}-wiki"
    else:
        if email:
            raise WrongUsage("--email is for Jira and Confluence")
        repository = _choose_repository(session, path, url, branch, token_env)
        local = {"type": "local", "path": source_entries.relative_path(repository.folder, config)}
        entry = {"type": type, "connection": local if repository.is_local else repository.to_connection()}
        name = f"{repository.slug}-{USUAL_IDS.get(type, type)}"
    entry |= {"include": list(include)} if include else {}
    entry |= {"exclude": list(exclude)} if exclude else {}
    if encoding:
        (entry["connection"] if type == "table" else entry)["encoding"] = encoding
    source_entries.apply_assignments(entry, set or ())
    if type in FILTER_TYPES["attachments"] and path is None:  # an export has none
        entry = {"attachments": True, **entry}
    settings = load_settings(config) if config.exists() else Settings()
    used = {entry_settings.id for entry_settings in (*settings.sources, *settings.organisations)}
    if all:
        connection = entry.pop("connection")
        id = id or source_entries.choose_organisation_id(connection, used)
        members = (
            {"include": [pattern]} if (pattern := source_entries.find_archive_pattern(url or "")) else {}
        )
        entry = {"id": id, "connection": connection, **members, "sources": [entry]}
        source_entries.add_entries(session, config, [entry], "organisations")
    else:
        id = id or source_entries.choose_free_id(name, used)
        entry = {"id": id, **entry}
        source = source_entries.validate_entry(entry, config)
        if not source.unset_variables:
            open_source(source, cache=config.parent).close()  # contacts no service
        source_entries.add_entries(session, config, [entry])
    session.screen.print_json({"config": str(config), "added": entry})
    session.screen.print_text(f"Added {'organisation ' if all else ''}{id} to {config}.")
    what = "" if all else f" --source {id}"
    session.screen.print_text(f"Next: knowledge sources test {id}, then knowledge refresh{what}")


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
    from knowledge_pipeline.receipts import purge_with_receipt

    _require_own_entry(session, id)
    if not keep_content and not confirm(
        session, f"Remove {id!r}, and erase its stored content and all earlier releases?", yes=yes
    ):
        return FAILED
    documents = 0
    if not keep_content:
        with suppress(errors.NotFound):  # nothing was ever stored
            documents = purge_with_receipt(session.lake, session.settings, id, scope="source").documents
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
    for organisation in session.settings.organisations:
        if organisation.id == id:
            return _probe_organisation(session, organisation)
    (source,) = session.settings.select_sources([id])
    return _probe_source(session, source)


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
    discoveries = discover_members(session, id or (), accept_removals=accept_removals)
    session.screen.print_json([asdict(discovery) for discovery in discoveries])
    session.screen.print_table(list_organisations(session.settings))
    return FAILED if any(discovery.problem for discovery in discoveries) else SUCCESS


COMMANDS = (list_, add, remove, test, discover)


def _choose_repository(
    session: Session, path: Path | None, url: str | None, branch: str | None, token_variable: str | None
) -> source_entries.RepositoryLocation:
    if path is not None and url is not None:
        raise WrongUsage("give --path or --url, not both")
    if path is not None and (branch or token_variable):
        raise WrongUsage("--branch and --token-env need --url")
    if path is not None and not path.expanduser().is_dir():
        raise errors.ConfigError(f"{path} is not a folder: correct --path")
    if path is not None:
        repository = source_entries.RepositoryLocation(str(path), is_git=False)
    elif url is not None:
        repository = replace(
            source_entries.RepositoryLocation.parse(url, branch, token_variable), is_git=True
        )
    else:
        location = ask(session, "Folder, or address of a git repository", option="--path FOLDER or --url URL")
        repository = source_entries.RepositoryLocation.parse(location, branch, token_variable)
    repository.require_valid()
    return repository


_SHOWN = 5  # names of members in a line


def discover_members(
    session: Session, ids: Sequence[str] = (), *, accept_removals: bool = False
) -> list[Discovery]:
    """List organisations, all without ids, say what is new or wrong, and read the settings again."""
    from knowledge_pipeline.stages.organisations import discover, select_organisations

    settings = session.settings
    discoveries: list[Discovery] = []
    with show_progress(session.screen) as report_for:
        for organisation in select_organisations(settings, ids):
            report = report_for(organisation.id)
            discoveries.append(
                discover(
                    settings,
                    organisation,
                    accept_removals=accept_removals,
                    report=lambda _, count, report=report: report("listing", count, None),
                )
            )
    session.use_config(session.config_path)
    for discovery in discoveries:
        _print_discovery(session, discovery)
    return discoveries


def _print_discovery(session: Session, discovery: Discovery) -> None:
    if discovery.problem:
        stored = format_count(discovery.selected, "member")
        rest = f"; the {stored} known before stay" if discovery.selected else ""
        session.screen.print_note(f"{discovery.problem}{rest}")
        return
    changes = [
        f"{len(names):,} {what} ({', '.join([*names[:_SHOWN], *(['...'] if len(names) > _SHOWN else [])])})"
        for what, names in (("new", discovery.added), ("gone", discovery.removed))
        if names
    ]
    if changes:
        members = f"{discovery.selected:,} of {format_count(discovery.listed, 'member')}"
        session.screen.print_note(f"{discovery.organisation}: {members}, {', '.join(changes)}")


def list_organisations(settings: Settings) -> list[dict[str, Any]]:
    """A row for each: what was known of its members at the last listing."""
    rows: list[dict[str, Any]] = []
    for organisation in settings.organisations:
        location = organisation.connection.location
        listing = read_listing(settings.local_folder / LISTINGS, organisation.id, location)
        rows.append(
            {
                "organisation": organisation.id,
                "where": location,
                "members": sum(map(organisation.takes, listing.members)) if listing else None,
                "listed": len(listing.members) if listing else None,
                "listed_at": listing.listed_at if listing else None,
                "problem": (listing.problem if listing else "not listed yet: run `knowledge refresh`")
                or None,
            }
        )
    return rows


def _probe_organisation(session: Session, organisation: OrganisationSettings) -> int:
    from knowledge_pipeline.connectors.registry import list_members

    organisation.require_variables()
    with show_progress(session.screen):
        members = list(list_members(organisation.connection))
    selected = list(filter(organisation.takes, members))
    counts = {
        "archived": 0 if organisation.archived else sum(member.archived for member in members),
        "forks": 0 if organisation.forks else sum(member.fork for member in members),
    }
    left_out = {reason: count for reason, count in counts.items() if count}
    notes = _find_unused_patterns(organisation, members)
    tried = [_probe_type(session, organisation, selected, source.type) for source in organisation.sources]
    counts = {"listed": len(members), "members": len(selected), "left_out": left_out}
    session.screen.print_json({"organisation": organisation.id, **counts, "sources": tried, "notes": notes})
    left = "".join(f", {count:,} {reason} left out" for reason, count in left_out.items())
    session.screen.print_text(
        f"{organisation.id}: {len(selected):,} of {len(members):,} members taken{left}."
    )
    session.screen.print_table(tried)
    for note in notes:
        session.screen.print_note(note)
    return FAILED if not selected or any(row["problem"] for row in tried) else SUCCESS


def _find_unused_patterns(
    organisation: OrganisationSettings, members: Sequence[OrganisationMember]
) -> list[str]:
    patterns = [("include", pattern) for pattern in organisation.include]
    patterns += [("exclude", pattern) for pattern in organisation.exclude]
    patterns += [("sources.members", member) for source in organisation.sources for member in source.members]
    return [
        f"{key}: the pattern {pattern!r} fits no member, such as {members[0].name!r}: correct it"
        for key, pattern in patterns
        if members and not any(matches_any(organisation.connection, member, [pattern]) for member in members)
    ]


def _probe_type(
    session: Session,
    organisation: OrganisationSettings,
    members: Sequence[OrganisationMember],
    source_type: str,
) -> dict[str, Any]:
    """Whether a source of a type can be read: of the first few members that have one, until one can."""
    from knowledge_pipeline.connectors.registry import open_source

    row: dict[str, Any] = {"type": source_type, "member": None, "documents": None}
    problem = "no member has it: correct its `members`, or `include`"
    for member in members[:_SHOWN]:
        for source in organisation.build_sources(member):
            if source.type != source_type:
                continue
            try:
                with open_source(source, cache=session.lake.cache) as opened:
                    count = sum(1 for item in opened.discover() if not item.skip)
            except errors.KnowledgeError as error:
                problem = str(error)
                continue
            return {**row, "member": member.name, "documents": count, "problem": None}
    return {**row, "problem": problem}


def _require_own_entry(session: Session, id: str) -> None:
    from knowledge_pipeline.config.file import check_config, read_config

    settings = session.settings
    settings.select_sources([id])
    declared, _ = check_config(read_config(session.config_path), session.config_path)
    if declared and id not in {source.id for source in declared.sources}:
        raise errors.ConfigError(
            f"source {id!r} is of a member of an organisation: exclude the member in {session.config_path}"
        )


_MAX_LINES_SHOWN = 8


def _show_listing(
    screen: Screen,
    source: str,
    listed: int,
    skipped: Counter[str],
    notes: Counter[str],
    document: Document,
    permissions: Mapping[str, Any] | None = None,
    embedding: Mapping[str, Any] | None = None,
) -> None:
    """Show how many documents a source lists, skips and leaves out, the beginning of one, and the rest."""
    shown = {
        **{name: getattr(document, name) for name in ("uri", "path", "title", "language", "author")},
        "last_modified": document.last_modified.isoformat() if document.last_modified else None,
        "characters": len(document.text),
        "beginning": document.text[:500],
        "note": document.metadata.get("note"),
    }
    counts = {"listed": listed, "skipped": dict(skipped.most_common()), "notes": dict(notes)}
    extras = {"permissions": permissions} if permissions else {}
    extras |= {"embedding": embedding} if embedding else {}
    screen.print_json({"source": source, **counts, "document": shown, **extras})
    screen.print_text(f"{source}: {format_count(listed, 'document')}, {skipped.total():,} to be skipped.")
    for reason, count in skipped.most_common(5):
        screen.print_text(f"  {count:,}: {one_line(reason)}")
    for note, count in notes.items():
        screen.print_text(f"Not read: {count:,} {one_line(note)}.")
    screen.print_text(
        f"For example {document.uri}: {len(document.text):,} characters, {document.language or 'no language'}"
    )
    if note := document.metadata.get("note"):
        screen.print_text(f"  {one_line(note)}")
    lines = [truncate(line, 200) for line in document.text.rstrip().split("\n")[:_MAX_LINES_SHOWN]]
    screen.print_code("\n".join(lines), language=document.language, first_line=1)
    if permissions:
        read = format_count(permissions["documents"], "document")
        screen.print_text(f"Permissions: {permissions['with_readers']:,} of {read} have known readers.")
        for problem, count in permissions["problems"].items():
            screen.print_text(f"  {count:,}: {one_line(problem)}")
    if embedding:
        problem = embedding["problem"]
        model = f"{embedding['model']} ({embedding['provider']})"
        screen.print_text(f"Embedding: {one_line(problem) if problem else f'{model} answers.'}")
        for note in embedding["notes"]:
            screen.print_text(f"  {one_line(note)}")


PROBED_PERMISSIONS = 100  # documents


def _probe_source(session: Session, source: SourceConfig) -> int:
    from knowledge_pipeline.connectors.registry import list_notes, open_source, read_permissions

    if source.type == "push":
        from knowledge_pipeline.pushed import PushInbox

        waiting = len(PushInbox(session.lake.folder).list_waiting(source.id))
        session.screen.print_json({"source": source.id, "waiting": waiting})
        session.screen.print_text(
            f"{source.id}: takes what is pushed; {format_count(waiting, 'document')} to be taken in."
        )
        return SUCCESS
    with open_source(source, cache=session.lake.cache) as opened:
        items = list(opened.discover())
        skipped = Counter(item.skip for item in items if item.skip)
        notes = list_notes(opened)
        document = _read_first_document(source.id, opened, [item for item in items if not item.skip], notes)
    permissions = None
    if source.access.visibility == "from_source":
        uris = [item.uri for item in items[:PROBED_PERMISSIONS]]
        readers = read_permissions(source, uris)
        with_readers = len(uris) - readers.count_closed(uris)
        if not with_readers:
            reason = next(iter(readers.problems), "the source names nobody who may read them")
            raise errors.SourceRefused(
                f"source {source.id!r}: no document has permissions that can be read: {reason}"
            )
        problems = dict(readers.problems.most_common())
        permissions = {"documents": len(uris), "with_readers": with_readers, "problems": problems}
    embedding, code = _probe_embedding(session.settings.resolve_embedding(source))
    _show_listing(session.screen, source.id, len(items), skipped, notes, document, permissions, embedding)
    return code


def _probe_embedding(settings: EmbeddingSettings) -> tuple[dict[str, Any] | None, int]:
    """Whether an endpoint has the model and answers, and the exit code; None for a model of this machine."""
    from knowledge_pipeline.embedding.registry import check_endpoint

    if settings.provider == "local":
        return None, SUCCESS
    model = {"provider": settings.provider, "model": settings.model}
    try:
        return {**model, "ready": True, "problem": None, "notes": check_endpoint(settings)}, SUCCESS
    except (errors.ConfigError, errors.ModelError, errors.EmbeddingUnavailable) as error:
        return {**model, "ready": False, "problem": str(error), "notes": []}, exit_code_of(error)


def _read_first_document(
    source: str, opened: Source, items: list[Item], left_out: Mapping[str, int]
) -> Document:
    others = "".join(f", but {count:,} {note}" for note, count in left_out.items())
    reason = f"it lists no document{others}: check its connection, include and exclude"
    for item in items[:20]:
        try:
            return opened.fetch(item)
        except errors.DocumentSkipped as skipped:
            reason = f"the first documents cannot be read ({item.uri}: {skipped})"
    raise errors.SourceRefused(f"source {source!r}: {reason}")
