"""Issues of Linear: one document an issue, with its comments."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator

from knowledge_linear.client import Json, LinearClient
from knowledge_pipeline.extending import ApiSource, Document, DocumentSkipped, Item, SourceRefused

VERSION = "1"  # raised when the same issue would make another document
OVERLAP = timedelta(minutes=10)
"""How much before a moment updates are listed from: a replica of Linear's may be behind."""

_BATCH_SIZE = 40  # issues a query; 40 cost some 1,300 of the 10,000 points that a query may cost

_TEAMS = """query($filter: TeamFilter, $after: String) {
  teams(filter: $filter, first: 250, after: $after) { nodes { id key } pageInfo { hasNextPage endCursor } }
}"""
_LISTED_ISSUES = """query($filter: IssueFilter, $after: String) {
  issues(filter: $filter, first: 250, after: $after, includeArchived: true) {
    nodes { id updatedAt trashed } pageInfo { hasNextPage endCursor }
  }
}"""
_LISTED_COMMENTS = """query($filter: CommentFilter, $after: String) {
  comments(filter: $filter, first: 250, after: $after, includeArchived: true) {
    nodes { id updatedAt issue { id } } pageInfo { hasNextPage endCursor }
  }
}"""
_ISSUES = """query($filter: IssueFilter, $after: String) {
  issues(filter: $filter, first: 40, after: $after, includeArchived: true) {
    nodes {
      id identifier title description url priorityLabel createdAt updatedAt trashed
      state { name } team { key } project { name } parent { identifier title }
      creator { displayName } assignee { displayName } labels(first: 20) { nodes { name } }
    }
    pageInfo { hasNextPage endCursor }
  }
}"""
_COMMENTS = """query($filter: CommentFilter, $after: String) {
  comments(filter: $filter, first: 100, after: $after, includeArchived: true) {
    nodes { id body createdAt updatedAt issue { id } user { displayName } }
    pageInfo { hasNextPage endCursor }
  }
}"""


class LinearSettings(BaseModel):
    """The keys of `connection.settings`."""

    model_config = ConfigDict(extra="forbid")

    api_key: SecretStr
    teams: tuple[str, ...] = ()  # keys, such as ENG; empty: all that the key sees
    url: str = "https://api.linear.app/graphql"

    @field_validator("teams", mode="before")
    @classmethod
    def _split_teams(cls, value: Any) -> Any:
        """`--set connection.settings.teams=ENG,OPS` gives text."""
        return [key.strip() for key in value.split(",")] if isinstance(value, str) else value


class LinearIssues(ApiSource):
    """The issues of a workspace, archived ones too; those in the trash are left out."""

    settings_model = LinearSettings
    full_listing_interval = timedelta(days=1)

    def __init__(self, settings: LinearSettings) -> None:
        self._client = LinearClient(settings.url, settings.api_key.get_secret_value())
        self._teams = settings.teams

    def close(self) -> None:
        """Free the connections."""
        self._client.close()

    def discover(self) -> Iterator[Item]:
        """Every issue; its revision has its own time of update, and those of its comments."""
        self._require_teams()
        team = {"team": {"key": {"in": list(self._teams)}}} if self._teams else {}
        issues = list(self._client.iter_nodes(_LISTED_ISSUES, team))
        yield from self._to_items(issues, {"issue": team} if team else {})

    def discover_updated(self, since: datetime) -> Iterator[Item]:
        """The issues that were updated, or commented on, since then."""
        team: dict[str, Any] = {"team": {"key": {"in": list(self._teams)}}} if self._teams else {}
        updated = {"updatedAt": {"gte": (since - OVERLAP).astimezone(UTC).isoformat()}}
        commented = updated | ({"issue": team} if team else {})
        ids = [node["id"] for node in self._client.iter_nodes(_LISTED_ISSUES, updated | team)]
        comments = self._client.iter_nodes(_LISTED_COMMENTS, commented)
        ids += [node["issue"]["id"] for node in comments if node["issue"]]
        for several in _split(list(dict.fromkeys(ids))):
            issues = list(self._client.iter_nodes(_LISTED_ISSUES, {"id": {"in": several}}))
            yield from self._to_items(issues, {"issue": {"id": {"in": several}}})

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read issues, forty a call, and their comments in one more."""
        for several in _split(items):
            ids = [item.locator for item in several]
            found = {node["id"]: node for node in self._client.iter_nodes(_ISSUES, {"id": {"in": ids}})}
            comments = defaultdict[str, list[Json]](list)
            for node in self._client.iter_nodes(_COMMENTS, {"issue": {"id": {"in": ids}}}):
                comments[node["issue"]["id"]].append(node)
            for item in several:
                issue = found.get(item.locator)
                if issue is None or issue["trashed"]:
                    yield item, DocumentSkipped("deleted while it was read")
                else:
                    yield item, build_document(item, issue, comments[item.locator])

    def _to_items(self, issues: Sequence[Json], comment_filter: Json) -> Iterator[Item]:
        marks = defaultdict[str, list[str]](list)
        for node in self._client.iter_nodes(_LISTED_COMMENTS, comment_filter):
            if node["issue"]:
                marks[node["issue"]["id"]].append(f"{node['id']} {node['updatedAt']}")
        for issue in issues:
            if not issue["trashed"]:
                digest = hashlib.sha256("\n".join(sorted(marks[issue["id"]])).encode()).hexdigest()[:12]
                revision = f"{issue['updatedAt']}-{digest}-{VERSION}"
                yield Item(f"issue/{issue['id']}", revision, locator=issue["id"])

    def _require_teams(self) -> None:
        """A named team that is hidden must not look as if all its issues were deleted."""
        if self._teams:
            found = self._client.iter_nodes(_TEAMS, {"key": {"in": list(self._teams)}})
            if hidden := sorted(set(self._teams) - {node["key"] for node in found}):
                raise SourceRefused(
                    f"{self._client.service} shows no team {', '.join(hidden)}: correct "
                    "connection.settings.teams (keys, not names), or give the key access to it"
                )


def build_document(item: Item, issue: Json, comments: Sequence[Json]) -> Document:
    """An issue as Markdown: what is asked, what its fields say, and a section for each comment."""
    title = f"{issue['identifier']} {issue['title']}"
    parent = issue["parent"]
    details = {
        "Parent": f"{parent['identifier']} {parent['title']}" if parent else None,
        "Project": (issue["project"] or {}).get("name"),
        "Assignee": (issue["assignee"] or {}).get("displayName"),
    }
    lines = [f"- {name}: {value}" for name, value in details.items() if value]
    parts = [f"# {title}", issue["description"] or "", "\n".join(lines)]
    for comment in sorted(comments, key=lambda each: (each["createdAt"], each["id"])):
        author = (comment["user"] or {}).get("displayName")
        by = f" by {author}" if author else ""
        parts.append(f"## Comment{by}, {comment['createdAt'][:10]}\n\n{comment['body']}")
    updates = (issue["updatedAt"], *(comment["updatedAt"] for comment in comments))
    return Document(
        uri=item.uri,
        text="\n\n".join(part for part in parts if part.strip()),
        path=f"{issue['team']['key']}/{issue['identifier']}",
        title=title,
        language="markdown",
        url=issue["url"],
        author=(issue["creator"] or {}).get("displayName"),
        last_modified=max(map(datetime.fromisoformat, updates)),  # where the next listing begins
        metadata={
            "key": issue["identifier"],
            "project": issue["team"]["key"],
            "status": issue["state"]["name"],
            "labels": sorted(label["name"] for label in issue["labels"]["nodes"]),
            "priority": issue["priorityLabel"],
            "mentions": [{"kind": "references", "target": parent["identifier"]}] if parent else [],
        },
    )


def _split(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(values), _BATCH_SIZE):
        yield values[start : start + _BATCH_SIZE]
