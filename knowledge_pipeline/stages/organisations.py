"""Discovers the members of organisations: lists them, and keeps the listing that the sources follow from.

A member appears and vanishes on evidence only. A listing that fails changes nothing. One that lacks known
members is made a second time, because pages of a list may shift while it is read: a member is gone when
both lack it. One that lacks more than half of them is not taken at all, unless a person accepts it: this is
what a revoked token or a suspended App look like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from knowledge_pipeline.config.organisations import (
    LISTINGS,
    OrganisationListing,
    OrganisationMember,
    OrganisationSettings,
    read_listing,
    write_listing,
)
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.connectors.registry import list_members
from knowledge_pipeline.errors import KnowledgeError, NotFound, SourceRefused, StoreError
from knowledge_pipeline.store.listings import fetch_listings, publish_listing

ListProgress = Callable[[str, int], None]
"""Takes the id of an organisation, and how many members are listed so far."""

_Members = dict[str, OrganisationMember]


@dataclass(frozen=True, slots=True)
class Discovery:
    """What became of one organisation; `problem` says why what was known before counts."""

    organisation: str
    listed: int  # members, whether selected or not
    selected: int
    added: tuple[str, ...] = ()  # names of members
    removed: tuple[str, ...] = ()
    problem: str = ""


def select_organisations(settings: Settings, ids: Sequence[str] = ()) -> list[OrganisationSettings]:
    """Those of some ids; all without any. Raises NotFound."""
    by_id = {organisation.id: organisation for organisation in settings.organisations}
    if unknown := [id_ for id_ in ids if id_ not in by_id]:
        raise NotFound(f"there is no organisation {unknown[0]!r}; declared: {', '.join(by_id) or 'none'}")
    return [by_id[id_] for id_ in ids or by_id]


def discover(
    settings: Settings,
    organisation: OrganisationSettings,
    *,
    accept_removals: bool = False,
    report: ListProgress = lambda organisation, count: None,
) -> Discovery:
    """List one organisation, and keep the listing if it can be trusted.

    Args:
        settings: name the store's folder.
        organisation: one of theirs.
        accept_removals: take a listing that lacks more than half of the known members.
        report: is told of the progress.

    Raises:
        StoreError, StoreUnavailable: the listing cannot be written.
    """
    fetch_listings(settings)
    folder, location = settings.local_folder / LISTINGS, organisation.connection.location
    former = read_listing(folder, organisation.id, location)
    before = _index(organisation, former.members) if former else {}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        members = _list(organisation, report)
        if not before.keys() <= members.keys():
            members = {**members, **_list(organisation, report)}
        after = _index(organisation, members.values())
        removed = tuple(name for name in before if name not in after)
        if 2 * len(removed) > len(before) and not accept_removals:
            raise SourceRefused(
                f"the listing lacks {len(removed)} of {len(before)} known members: if they are gone, run "
                f"`knowledge sources discover {organisation.id} --accept-removals`, else give the identity "
                "its access back (nothing is removed meanwhile)"
            )
        listing = OrganisationListing(location, now, tuple(members.values()))
        added = tuple(name for name in after if name not in before)
        result = Discovery(organisation.id, len(members), len(after), added, removed)
    except KnowledgeError as error:
        problem = f"organisation {organisation.id!r}: {error}"
        listing = replace(former, problem=problem) if former else None
        count = len(former.members) if former else 0
        result = Discovery(organisation.id, count, len(before), problem=problem)
    if listing and listing != former:
        try:
            write_listing(folder, organisation.id, listing)
            publish_listing(settings, organisation.id)
        except OSError as error:
            raise StoreError(f"{folder} cannot be written ({error.strerror}): check `store`") from None
    return result


def _list(organisation: OrganisationSettings, report: ListProgress) -> _Members:
    """All members by name.

    Raises:
        SourceRefused: there are more than `max_members`, or a source cannot be made of one.
        SourceRefused, SourceUnavailable: as `list_members`.
    """
    organisation.require_variables()
    members: _Members = {}
    for member in list_members(organisation.connection):
        members[member.name] = member
        if len(members) > organisation.max_members:
            raise SourceRefused(
                f"there are more than {organisation.max_members:,} members: raise max_members, or list fewer"
            )
        if len(members) % 100 == 0:
            report(organisation.id, len(members))
        try:
            list(organisation.build_sources(member))
        except ValueError:
            raise SourceRefused(f"the name of a member is not understood: {member.name[:200]!r}") from None
    return members


def _index(organisation: OrganisationSettings, members: Iterable[OrganisationMember]) -> _Members:
    """The selected members, by name."""
    return {member.name: member for member in members if organisation.takes(member)}
