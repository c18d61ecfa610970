"""Events of Jira and Confluence, Cloud and Data Center.

Sources: https://developer.atlassian.com/cloud/jira/platform/webhooks/,
https://confluence.atlassian.com/doc/managing-webhooks-1021225606.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from knowledge_pipeline.config.connections.services import ConfluenceConnection, JiraConnection
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.serve.webhooks.events import (
    Change,
    Payload,
    ServiceEvent,
    descend,
    list_objects,
    read_number,
    read_text,
)
from knowledge_pipeline.serve.webhooks.verification import Headers

_GATEWAY = "api.atlassian.com"  # the host of connections with scoped tokens, which no event names
_KEY = re.compile(r"(?P<project>[A-Za-z][A-Za-z0-9_]{0,99})-\d{1,12}", re.ASCII)
_TICKET_EVENTS = re.compile(r"(jira:)?(issue|comment|worklog|issuelink|attachment|sprint|version)_?[a-z_]*")

_KINDS = {
    "page": "page",
    "blog": "blogpost",
    **{kind: kind for kind in ("blogpost", "whiteboard", "database")},
}
_PAGE_HOLDERS = (*_KINDS, "attachedTo", "labeled", "content")
_RELISTED = ("space_", "content_permissions_", "page_children_")
"""Beginnings of events that concern more pages than they name: access, and what is deleted with a space."""


def parse_jira_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """What an event of Jira is about: a ticket, its tickets where it is not named, or a project."""
    del headers
    name = read_text(payload.get("webhookEvent"))
    issue = descend(payload, "issue")
    if number := read_number(issue.get("id")):
        projects = frozenset(_list_projects(payload))
        is_of = _is_of_jira(_find_host(issue), projects)
        return ServiceEvent.of([Change(is_of, (f"issue/{number}",))])
    if name.startswith("issuelink_"):
        link = descend(payload, "issueLink")
        ids = (read_number(link.get(each)) for each in ("sourceIssueId", "destinationIssueId"))
        documents = tuple(f"issue/{id_}" for id_ in ids if id_)
        return ServiceEvent.of([Change(_is_of_jira(""), documents)] if documents else [])
    if name.startswith("project_"):
        key = read_text(descend(payload, "project").get("key")).upper()
        return ServiceEvent.of([Change(_is_of_jira("", frozenset({key} if key else ())), relist=True)])
    if name.startswith("worklog_") and (number := read_number(descend(payload, "worklog").get("issueId"))):
        return ServiceEvent.of([Change(_is_of_jira(""), (f"issue/{number}",))])
    return ServiceEvent.of([Change(_is_of_jira(""))] if _TICKET_EVENTS.fullmatch(name) else [])


def parse_confluence_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """What an event of Confluence is about: pages, or everything where it says what may be seen."""
    del headers
    name = read_text(payload.get("event")) or read_text(payload.get("webhookEvent"))
    if name.startswith(_RELISTED):
        space = descend(payload, "space") or descend(payload, "content", "space")
        key = read_text(space.get("key")) or read_text(payload.get("spaceKey"))
        return ServiceEvent.of([Change(_is_of_confluence(_find_host(space), key), relist=True)])
    pages = [(_KINDS.get(holder, ""), descend(payload, holder)) for holder in _PAGE_HOLDERS]
    pages += [("", descend(payload, "comment", holder)) for holder in ("parent", "container")]
    moved = name.startswith(("page_moved", "blog_moved"))
    return ServiceEvent.of(_name_pages(pages, moved=moved))


def _name_pages(pages: list[tuple[str, Payload]], *, moved: bool) -> Iterator[Change]:
    """The pages by their ids; as both kinds where it is not said which a page is."""
    for kind, page in pages:
        if number := read_number(page.get("id")):
            said = kind or _KINDS.get(read_text(page.get("contentType")) or read_text(page.get("type")), "")
            kinds = (said,) if said else ("page", "blogpost")
            key = read_text(page.get("spaceKey")) or read_text(descend(page, "space").get("key"))
            is_of = _is_of_confluence(_find_host(page), "" if moved else key)
            yield Change(is_of, tuple(f"{each}/{number}" for each in kinds))


def _list_projects(payload: Payload) -> Iterator[str]:
    """The keys of the ticket's project, and of the one that it was moved out of."""
    issue = descend(payload, "issue")
    yield read_text(descend(issue, "fields", "project").get("key")).upper()
    keys = [read_text(issue.get("key"))]
    for item in list_objects(descend(payload, "changelog").get("items")):
        if read_text(item.get("field")).lower() == "key":
            keys += [read_text(item.get("fromString")), read_text(item.get("toString"))]
    for key in keys:
        if match := _KEY.fullmatch(key):
            yield match["project"].upper()


def _find_host(thing: Payload) -> str:
    """The host of the site, from the address of something on it; "": not said."""
    try:
        return urlsplit(read_text(thing.get("self"))).hostname or ""
    except ValueError:
        return ""


def _is_of_jira(host: str, projects: frozenset[str] = frozenset()) -> Callable[[SourceConfig], bool]:
    """Whether a source reads a site, and may read one of some projects."""

    def is_of(source: SourceConfig) -> bool:
        own = {project.upper() for project in source.projects}
        has_project = not own or not projects - {""} or not own.isdisjoint(projects)
        return isinstance(source.connection, JiraConnection) and _is_on(source, host) and has_project

    return is_of


def _is_of_confluence(host: str, space: str) -> Callable[[SourceConfig], bool]:
    def is_of(source: SourceConfig) -> bool:
        own = {key.casefold() for key in source.spaces}
        has_space = not own or not space or space.casefold() in own
        return isinstance(source.connection, ConfluenceConnection) and _is_on(source, host) and has_space

    return is_of


def _is_on(source: SourceConfig, host: str) -> bool:
    return not host or source.connection.host in (host, _GATEWAY)
