"""Who may read a project: its members, direct, inherited and by invited groups.

A role decides: guests of a private project see its issues, but neither its merge requests nor its code.
Confidential issues are not indexed at all. Source: https://docs.gitlab.com/api/project_members/
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Literal
from urllib.parse import quote

from knowledge_pipeline.config.connections import GitlabConnection
from knowledge_pipeline.json_values import is_object
from knowledge_pipeline.sources.base import Sleep
from knowledge_pipeline.sources.gitlab.client import GitlabClient
from knowledge_pipeline.sources.permissions import Member, Permissions, Readers
from knowledge_pipeline.sources.repository_permissions import (
    EVERYBODY,
    INTERNAL,
    build_permissions,
    list_pages,
)

ProjectPart = Literal["issue", "merge_request", "repository"]
"""What has readers of its own; the name of its audience."""

_LEAST_LEVELS: dict[ProjectPart, int] = {
    "issue": 10,
    "merge_request": 20,
    "repository": 20,
}  # guest, reporter
_FEATURES: dict[ProjectPart, str] = {
    "issue": "issues_access_level",
    "merge_request": "merge_requests_access_level",
    "repository": "repository_access_level",
}
_UNREADABLE = "members of the project are not shown: give connection.token the scope read_api"


def read_project_permissions(
    connection: GitlabConnection, part: ProjectPart, uris: Sequence[str], *, sleep: Sleep = time.sleep
) -> Permissions:
    """The audience of a part of a project, as it is now.

    Raises:
        SourceRefused: GitLab refuses the token, or shows no such project.
        SourceUnavailable: it did not answer.
    """
    client = GitlabClient(connection, "issues", sleep=sleep)
    try:
        readers = _read_readers(client, f"projects/{quote(connection.project, safe='')}", part)
        return build_permissions(part, readers, uris, Counter(), _UNREADABLE)
    finally:
        client.close()


def _read_readers(client: GitlabClient, path: str, part: ProjectPart) -> Readers | None:
    """None: they are not shown."""
    project = client.get_or_status(path, {})
    if not is_object(project):
        raise client.errors.project_not_found()
    visibility = project.get("visibility")
    is_open = project.get(_FEATURES[part]) in ("enabled", "public")  # else for members alone
    if visibility == "public" and is_open:
        return EVERYBODY
    members = list_pages(client, f"{path}/members/all")
    if members is None:
        return None
    everyone_inside = {INTERNAL} if visibility == "internal" and is_open else set[Member]()
    return frozenset({*_select(members, _LEAST_LEVELS[part]), *everyone_inside})


def _select(members: Sequence[dict[str, Any]], level: int) -> Iterator[Member]:
    """Active ones of at least a role, by user name; an address is shown to administrators alone."""
    for each in members:
        states = {each.get("state"), each.get("membership_state", "active")}
        if states == {"active"} and int(each.get("access_level") or 0) >= level:
            yield Member(str(each["username"]), str(each.get("email") or "") or None)
