"""Who may read a project: its members, direct, inherited and by invited groups.

A role decides: guests of a private project see its issues, but neither its merge requests nor its code.
Confidential issues are not indexed at all. Source: https://docs.gitlab.com/api/project_members/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Literal
from urllib.parse import quote

from knowledge_pipeline.config.connections import GitlabConnection
from knowledge_pipeline.connectors.gitlab.client import GitlabClient
from knowledge_pipeline.connectors.permissions import (
    EVERYBODY,
    INTERNAL,
    Member,
    Permissions,
    Readers,
    build_permissions,
    list_pages,
)
from knowledge_pipeline.text import is_object

ProjectPart = Literal["issue", "merge_request", "release", "snippet", "wiki", "repository"]
"""What has readers of its own; the name of its audience."""

_LEAST_LEVELS: dict[ProjectPart, int] = {
    **dict.fromkeys(("issue", "snippet", "wiki"), 10),  # guest
    **dict.fromkeys(("merge_request", "repository"), 20),  # reporter
    "release": 20,  # guests see none of the tag and the commit that its document names
}
_FEATURES: dict[ProjectPart, str] = {
    "issue": "issues_access_level",
    "merge_request": "merge_requests_access_level",
    "release": "releases_access_level",
    "snippet": "snippets_access_level",
    "wiki": "wiki_access_level",
    "repository": "repository_access_level",
}
UNREADABLE = "members of the project are not shown: give connection.token the scope read_api"


def read_project_permissions(
    connection: GitlabConnection, part: ProjectPart, uris: Sequence[str]
) -> Permissions:
    """The audience of a part of a project, as it is now."""
    with closing(GitlabClient(connection, "issues")) as client:
        openness = _read_openness(client, connection.project, part)
        is_public = openness == "public"
        members = frozenset[Member]() if is_public else _read_members(client, connection.project, part)
        readers = None if members is None else _admit(members, openness)
        return build_permissions(part, readers, uris, Counter(), UNREADABLE)


def read_snippet_readers(client: GitlabClient, project: str) -> dict[str, Readers] | None:
    """The readers of snippets by visibility, which narrows whom the project lets read; None: not shown."""
    of_project = _read_openness(client, project, "snippet")
    members = _read_members(client, project, "snippet")
    if members is None:
        return None
    levels = ("private", "internal", "public")
    return {
        level: _admit(members, min(of_project, level, key=levels.index))  # the stricter one
        for level in levels
    }


def _admit(members: Readers, openness: str) -> Readers:
    if openness == "public":
        return EVERYBODY
    return members | {INTERNAL} if openness == "internal" else members


def _read_openness(client: GitlabClient, project: str, part: ProjectPart) -> str:
    """Whom the project shows the part to: "public", "internal"; "private": members alone."""
    facts = client.get_or_status(_project_path(project), {})
    if not is_object(facts):
        raise client.project_not_found()
    is_open = facts.get(_FEATURES[part]) in ("enabled", "public")  # else for members alone
    visibility = facts.get("visibility")
    return str(visibility) if is_open and visibility in ("public", "internal") else "private"


def _read_members(client: GitlabClient, project: str, part: ProjectPart) -> Readers | None:
    """Active ones whose role suffices; None: not shown. An address is shown to administrators alone."""
    members = list_pages(client, f"{_project_path(project)}/members/all")
    if members is None:
        return None
    return frozenset(
        Member(str(member["username"]), str(member.get("email") or "") or None)
        for member in members
        if {member.get("state"), member.get("membership_state", "active")} == {"active"}
        and int(member.get("access_level") or 0) >= _LEAST_LEVELS[part]
    )


def _project_path(project: str) -> str:
    return f"projects/{quote(project, safe='')}"
