"""What commands do with organisations: discover their members, show them, try whether they can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.exit_codes import FAILED, SUCCESS
from knowledge_pipeline.cli.render.progress import show_progress
from knowledge_pipeline.cli.render.terminal_text import format_count
from knowledge_pipeline.cli.session import Session
from knowledge_pipeline.errors import KnowledgeError

if TYPE_CHECKING:
    from knowledge_pipeline.config.organisations.members import OrganisationMember
    from knowledge_pipeline.config.organisations.organisation import OrganisationSettings
    from knowledge_pipeline.config.settings import Settings
    from knowledge_pipeline.stages.organisations import Discovery

_SHOWN = 5  # names of members in a line


def discover_members(
    session: Session, ids: Sequence[str] = (), *, accept_removals: bool = False
) -> list[Discovery]:
    """List organisations, all without ids, say what is new or wrong, and read the settings again.

    Raises:
        NotFound: there is no such organisation.
        StoreError: a listing cannot be written.
    """
    from knowledge_pipeline.stages.organisations import discover, select_organisations

    settings = session.settings
    found: list[Discovery] = []
    with show_progress(session.screen) as report_for:
        for each in select_organisations(settings, ids):
            report = report_for(each.id)
            found.append(
                discover(
                    settings,
                    each,
                    accept_removals=accept_removals,
                    report=lambda _, count, report=report: report("listing", count, None),
                )
            )
    session.use_config(session.config_path)
    for discovery in found:
        _print_discovery(session, discovery)
    return found


def _print_discovery(session: Session, discovery: Discovery) -> None:
    if discovery.problem:
        rest = f"; the {format_count(discovery.taken, 'member')} known before stay" if discovery.taken else ""
        session.screen.print_note(f"{discovery.problem}{rest}")
        return
    changes = [
        f"{len(names):,} {what} ({_join_first_names(names)})"
        for what, names in (("new", discovery.added), ("gone", discovery.removed))
        if names
    ]
    if changes:
        members = f"{discovery.taken:,} of {format_count(discovery.listed, 'member')}"
        session.screen.print_note(f"{discovery.organisation}: {members}, {', '.join(changes)}")


def _join_first_names(names: Sequence[str]) -> str:
    return ", ".join([*names[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])])


def list_organisations(settings: Settings) -> list[dict[str, Any]]:
    """A row for each: what was known of its members at the last listing."""
    from knowledge_pipeline.config.organisations.listing import LISTINGS, read_listing

    rows: list[dict[str, Any]] = []
    for each in settings.organisations:
        location = each.connection.location
        known = read_listing(settings.local_folder / LISTINGS, each.id, location)
        rows.append(
            {
                "organisation": each.id,
                "where": location,
                "members": sum(map(each.takes, known.members)) if known else None,
                "listed": len(known.members) if known else None,
                "listed_at": known.listed_at if known else None,
                "problem": (known.problem if known else "not listed yet: run `knowledge refresh`") or None,
            }
        )
    return rows


def probe_organisation(session: Session, organisation: OrganisationSettings) -> int:
    """List an organisation without keeping the listing, and read a document of each kind of its sources.

    A kind that the identity may not read fails with what it lacks.

    Returns:
        The exit code.

    Raises:
        SourceRefused, SourceUnavailable: it cannot be listed.
    """
    from knowledge_pipeline.sources.organisations.registry import list_members

    with show_progress(session.screen):
        members = list(list_members(organisation.connection))
    taken = list(filter(organisation.takes, members))
    counts = {
        "archived": 0 if organisation.archived else sum(each.archived for each in members),
        "forks": 0 if organisation.forks else sum(each.fork for each in members),
    }
    left_out = {reason: count for reason, count in counts.items() if count}
    notes = _find_unused_patterns(organisation, members)
    tried = [_probe_type(session, organisation, taken, source.type) for source in organisation.sources]
    found = {
        "organisation": organisation.id,
        "listed": len(members),
        "members": len(taken),
        "left_out": left_out,
        "sources": tried,
        "notes": notes,
    }
    session.screen.print_json(found)
    left = "".join(f", {count:,} {reason} left out" for reason, count in left_out.items())
    session.screen.print_text(f"{organisation.id}: {len(taken):,} of {len(members):,} members taken{left}.")
    session.screen.print_table(tried)
    for note in notes:
        session.screen.print_note(note)
    failed = not taken or any(each["problem"] for each in tried)
    return FAILED if failed else SUCCESS


def _find_unused_patterns(
    organisation: OrganisationSettings, members: Sequence[OrganisationMember]
) -> list[str]:
    from knowledge_pipeline.config.organisations.members import matches_any

    patterns = [("include", each) for each in organisation.include]
    patterns += [("exclude", each) for each in organisation.exclude]
    patterns += [("sources.members", each) for source in organisation.sources for each in source.members]
    return [
        f"{key}: the pattern {pattern!r} fits no member, such as {members[0].name!r}: correct it"
        for key, pattern in patterns
        if members and not any(matches_any(organisation.connection, each, [pattern]) for each in members)
    ]


def _probe_type(
    session: Session,
    organisation: OrganisationSettings,
    members: Sequence[OrganisationMember],
    source_type: str,
) -> dict[str, Any]:
    """Whether a source of a type can be read: of the first few members that have one, until one can."""
    from knowledge_pipeline.sources.registry import open_source

    row: dict[str, Any] = {"type": source_type, "member": None, "documents": None}
    problem = "no member has it: correct its `members`, or `include`"
    for member in members[:_SHOWN]:
        for source in organisation.build_sources(member):
            if source.type != source_type:
                continue
            try:
                with open_source(source, cache=session.lake.cache) as opened:
                    count = sum(1 for item in opened.discover() if not item.skip)
            except KnowledgeError as error:
                problem = str(error)
                continue
            return {**row, "member": member.name, "documents": count, "problem": None}
    return {**row, "problem": problem}
