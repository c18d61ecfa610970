"""Projects of a group on GitLab, and of its subgroups, by REST with keyset pages of a hundred.

API: https://docs.gitlab.com/api/groups/#list-projects
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

from knowledge_pipeline.config.organisations import GitlabGroupConnection, OrganisationMember
from knowledge_pipeline.connectors.gitlab.client import GitlabClient
from knowledge_pipeline.connectors.permissions import list_pages
from knowledge_pipeline.errors import SourceRefused


def list_members(connection: GitlabGroupConnection) -> Iterator[OrganisationMember]:
    """The projects that the token may see, without those that other groups share, and empty ones."""
    with closing(GitlabClient(connection, "issues")) as client:
        path = f"groups/{quote(connection.group, safe='')}/projects"
        parameters = {
            "include_subgroups": str(connection.subgroups).lower(),
            "with_shared": "false",
            "order_by": "id",  # does not shift while projects change
            "sort": "asc",
        }
        projects = list_pages(client, path, parameters)
        if projects is None:
            way = "give its owner access to it" if connection.token else "set connection.token"
            raise SourceRefused(
                f"{client.service} shows no group {connection.group!r}: correct connection.group, or "
                f"{way} (nothing is removed meanwhile)"
            )
        for project in projects:
            if not project.get("empty_repo"):
                yield OrganisationMember(
                    name=str(project["path_with_namespace"]),
                    title=" ".join(str(project.get("description") or "").split())[:200],
                    url=str(project.get("web_url") or ""),
                    archived=bool(project.get("archived")),
                    fork="forked_from_project" in project,
                    topics=tuple(map(str, project.get("topics") or ())),
                )
