"""Events of Jira: https://developer.atlassian.com/cloud/jira/platform/webhooks/."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from knowledge_pipeline.config.connections import JiraConnection
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.events import (
    Change,
    Headers,
    Payload,
    SourceTest,
    WebhookService,
    is_on_site,
    read_number,
    read_text,
    require_signature_or_bearer,
)
from knowledge_pipeline.text import descend, list_objects

_KEY = re.compile(r"(?P<project>[A-Za-z][A-Za-z0-9_]{0,99})-\d{1,12}", re.ASCII)
_TICKET_EVENTS = re.compile(r"(jira:)?(issue|comment|worklog|issuelink|attachment|sprint|version)_?[a-z_]*")


def _find_changes(payload: Payload, headers: Headers) -> Iterator[Change]:
    """A ticket, tickets of the site where it is not named, or a project."""
    name, issue = read_text(payload.get("webhookEvent")), descend(payload, "issue")
    if number := read_number(issue.get("id")):
        yield Change(_reads_tickets(issue, set(_iter_projects(payload, issue))), (f"issue/{number}",))
    elif name.startswith("issuelink_"):
        link = descend(payload, "issueLink")
        ids = (read_number(link.get(end)) for end in ("sourceIssueId", "destinationIssueId"))
        if documents := tuple(f"issue/{id_}" for id_ in ids if id_):
            yield Change(_reads_tickets(), documents)
    elif name.startswith("project_"):
        key = read_text(descend(payload, "project").get("key")).upper()
        yield Change(_reads_tickets(projects={key}), relist=True)
    elif name.startswith("worklog_") and (number := read_number(descend(payload, "worklog").get("issueId"))):
        yield Change(_reads_tickets(), (f"issue/{number}",))
    elif _TICKET_EVENTS.fullmatch(name):
        yield Change(_reads_tickets())


def _iter_projects(payload: Payload, issue: Payload) -> Iterator[str]:
    """The keys of the ticket's project, and of the one that it was moved out of."""
    yield read_text(descend(issue, "fields", "project").get("key")).upper()
    keys = [read_text(issue.get("key"))]
    for item in list_objects(descend(payload, "changelog").get("items")):
        if read_text(item.get("field")).lower() == "key":
            keys += [read_text(item.get("fromString")), read_text(item.get("toString"))]
    for key in keys:
        if match := _KEY.fullmatch(key):
            yield match["project"].upper()


def _reads_tickets(issue: Payload | None = None, projects: Set[str] = frozenset()) -> SourceTest:
    """Whether a source reads a ticket's site, and may read one of some projects."""

    def reads(source: SourceConfig) -> bool:
        own = {project.upper() for project in source.projects}
        has_project = not own or not projects - {""} or not own.isdisjoint(projects)
        return (
            isinstance(source.connection, JiraConnection) and is_on_site(source, issue or {}) and has_project
        )

    return reads


SERVICE = WebhookService(
    "jira",
    "Jira",
    "jira_secret",
    ("X-Hub-Signature", "Authorization", "X-Atlassian-Webhook-Identifier"),
    require_signature_or_bearer,
    _find_changes,
    ("x-atlassian-webhook-identifier",),
    ("timestamp",),
)
