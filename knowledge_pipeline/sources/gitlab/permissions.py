"""Who may read a project's issues and merge requests: its members, direct, inherited and by invited groups.

A role decides: guests of a private project see its issues, not its merge requests. Confidential issues are
not indexed at all. Source: https://docs.gitlab.com/api/project_members/
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from knowledge_pipeline.config.connections import GitlabConnection
from knowledge_pipeline.errors import SourceUnavailable
from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.sources.base import Sleep
from knowledge_pipeline.sources.gitlab.client import GitlabClient
from knowledge_pipeline.sources.permissions import EVERYONE, Member, Permissions, Readers

_PAGE_SIZE = 100  # GitLab's most
_LEAST_LEVELS = {"issue": 10, "merge_request": 20}  # guest, reporter
_FEATURES = {"issue": "issues_access_level", "merge_request": "merge_requests_access_level"}


def read_project_permissions(
    connection: GitlabConnection, uris: Sequence[str], *, sleep: Sleep = time.sleep
) -> Permissions:
    """The audiences of issues and of merge requests, as they are now.

    Raises:
        SourceRefused: GitLab refuses the token, or shows no such project.
        SourceUnavailable: it did not answer.
    """
    client = GitlabClient(connection, "issues", sleep=sleep)
    try:
        return _read_permissions(client, f"projects/{quote(connection.project, safe='')}", uris)
    finally:
        client.close()


def _read_permissions(client: GitlabClient, path: str, uris: Sequence[str]) -> Permissions:
    project = client.get_or_status(path, {})
    if not is_object(project):
        raise client.errors.project_not_found()
    kinds = {uri.partition("/")[0] for uri in uris}
    public = {kind for kind in kinds if _is_public(project, kind)}
    members = _list_members(client, path) if kinds - public else []
    problems = Counter[str]()
    if members is None:
        hidden = sum(1 for uri in uris if uri.partition("/")[0] not in public)
        problems["members of the project are not shown: give connection.token the scope read_api"] = hidden
        kinds = public
    audiences: dict[str, Sequence[Readers]] = {
        kind: [
            frozenset({Member(EVERYONE)} if kind in public else _select(members or (), _LEAST_LEVELS[kind]))
        ]
        for kind in kinds
    }
    by_uri = {uri: kind for uri in uris if (kind := uri.partition("/")[0]) in audiences}
    return Permissions(audiences, by_uri, problems)


def _is_public(project: dict[str, Any], kind: str) -> bool:
    return project.get("visibility") == "public" and project.get(_FEATURES[kind]) in ("enabled", "public")


def _list_members(client: GitlabClient, path: str) -> list[dict[str, Any]] | None:
    """All members of the project; None: they are not shown."""
    found: list[dict[str, Any]] = []
    for page in range(1, 1_000):
        answer = client.get_or_status(f"{path}/members/all", {"per_page": _PAGE_SIZE, "page": page})
        if isinstance(answer, int):
            return None
        if not is_list(answer):
            break
        found += filter(is_object, answer)
        if len(answer) < _PAGE_SIZE:
            return found
    raise SourceUnavailable(f"{client.errors.service} does not end the list of members: try again later")


def _select(members: Sequence[dict[str, Any]], level: int) -> Iterator[Member]:
    """Active ones of at least a role, by user name; an address is shown to administrators alone."""
    for each in members:
        states = {each.get("state"), each.get("membership_state", "active")}
        if states == {"active"} and int(each.get("access_level") or 0) >= level:
            yield Member(str(each["username"]), str(each.get("email") or "") or None)
