"""The projects of a Jira site, as members of an organisation.

API: https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-projects/ (Cloud),
https://developer.atlassian.com/server/jira/platform/rest/ (Server, Data Center)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from knowledge_pipeline.config.organisations import JiraProjectsConnection, OrganisationMember
from knowledge_pipeline.connectors.jira.client import JiraClient
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.text import is_list, is_object

_PAGE_SIZE = 100  # the most that Cloud gives
_MAX_READS = 3

_Json = Mapping[str, Any]


def list_members(connection: JiraProjectsConnection) -> Iterator[OrganisationMember]:
    """Every project that the account may browse, archived ones included."""
    with closing(JiraClient(connection.connect(""))) as api:
        if api.is_authenticated:
            api.get("myself")  # fails where we count as a guest, who would see fewer projects
        projects = (
            _list_cloud(api)
            if api.is_cloud
            else _require_projects(api, api.get("project", includeArchived="true"))  # it has no pages
        )
        if not projects:
            raise SourceRefused(
                f"{api.service} shows no project at all: give our account the permission Browse Projects"
            )
        for project in projects:
            category: _Json = project.get("projectCategory") or {}
            yield OrganisationMember(
                name=str(project["key"]),
                title=str(project.get("name") or ""),
                url=f"{api.url}/browse/{project['key']}",
                archived=bool(project.get("archived")),
                topics=(str(category["name"]),) if category.get("name") else (),
            )


def _list_cloud(api: JiraClient) -> list[_Json]:
    for _ in range(_MAX_READS):
        if (projects := _read_pages(api)) is not None:
            return projects
    raise SourceUnavailable(
        f"{api.service}: projects came or went while they were listed: nothing is deleted: try again later"
    )


def _read_pages(api: JiraClient) -> list[_Json] | None:
    """All pages, by offset; None: they do not fit together.

    Each begins with the last project of the one before. If it does not, a project before it came or
    went, and another one may be lost between the two pages.
    """
    projects: list[_Json] = []
    while True:
        start = max(0, len(projects) - 1)
        question: dict[str, Any] = {"startAt": start, "maxResults": _PAGE_SIZE, "orderBy": "key"}
        # by default those come too that the account administers, but may not read
        page = api.get("project/search", action="browse", status=["live", "archived"], **question)
        page_projects = _require_projects(api, page.get("values") if is_object(page) else None)
        if projects and (not page_projects or page_projects[0]["key"] != projects[-1]["key"]):
            return None
        projects += page_projects[1:] if projects else page_projects
        if page["isLast"] is True:
            return projects
        if len(projects) <= start + 1:
            raise api.listing_incomplete("does not end its list of projects")


def _require_projects(api: JiraClient, answer: Any) -> list[_Json]:
    if not is_list(answer) or not all(is_object(project) and project.get("key") for project in answer):
        raise api.listing_incomplete("answered without a list of projects")
    return answer
