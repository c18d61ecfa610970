"""What an organisation consists of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OrganisationMember:
    """One repository, project, space, channel or folder of an organisation."""

    name: str  # as the service names it: "acme/billing", "ENG", "PAY", "C0123ABC", "exports/2024/"
    title: str = ""  # for people
    url: str = ""  # the web page
    archived: bool = False
    fork: bool = False
    topics: tuple[str, ...] = ()
