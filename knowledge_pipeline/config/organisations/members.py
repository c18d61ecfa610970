"""The members of organisations: which are taken, and what their sources are called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Annotated

from pydantic import Field, StringConstraints

from knowledge_pipeline.config.model import SettingsModel
from knowledge_pipeline.config.organisations.connections import OrganisationConnection

MemberPatterns = tuple[Annotated[str, StringConstraints(min_length=1, pattern=r"^\S")], ...]
"""Names of members, with `*`, `?` and `[...]` as of files; upper and lower case are alike."""

_MAX_ID_CHARS = 64
_HASH_CHARS = 8


@dataclass(frozen=True, slots=True)
class OrganisationMember:
    """One repository, project, space, channel or folder of an organisation."""

    name: str  # as the service names it: "acme/billing", "ENG", "PAY", "C0123ABC", "exports/2024/"
    title: str = ""  # for people
    url: str = ""  # the web page
    archived: bool = False
    fork: bool = False
    topics: tuple[str, ...] = ()


class MemberFilter(SettingsModel):
    """Which members of an organisation are taken; empty means all."""

    include: MemberPatterns = ()
    exclude: MemberPatterns = ()
    topics: tuple[str, ...] = ()  # members with any of them
    archived: bool = False  # whether those that are archived are taken too
    forks: bool = False
    max_members: int = Field(default=10_000, ge=1)  # of a listing; a longer one is an error


def matches_any(
    connection: OrganisationConnection, member: OrganisationMember, patterns: Sequence[str]
) -> bool:
    """Whether the name of a member fits one of the patterns."""
    names = [member.name, member.title] if connection.known_by_title else [member.name]
    return any(fnmatchcase(name.lower(), each.lower()) for name in names for each in patterns)


def build_source_id(
    organisation: str, connection: OrganisationConnection, member: str, source_type: str
) -> str:
    """The id of a member's source: "acme-billing-code"; with a hash where the name does not fit into it."""
    name = member if connection.keeps_case else member.lower()
    short = name.removeprefix(
        connection.name_prefix if connection.keeps_case else connection.name_prefix.lower()
    ).removesuffix(connection.name_suffix)
    slug = re.sub(r"[^a-z0-9_]+", "-", short.lower()).strip("-_")
    room = _MAX_ID_CHARS - len(organisation) - len(source_type) - 2
    if slug != short or len(slug) > room:
        mark = sha256(name.encode()).hexdigest()[:_HASH_CHARS]
        slug = f"{slug[: room - _HASH_CHARS - 1]}-{mark}".lstrip("-")
    return f"{organisation}-{slug}-{source_type}"
