"""Which documents of its origin a source takes, by what its type knows of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from knowledge_pipeline.config.operation import Frozen

Names = tuple[str, ...]


class DocumentFilters(Frozen):
    """The filters of all types; each says in `FILTERS` whose it is. Empty means all."""

    languages: Names = ()
    depth: int = Field(default=1000, ge=1)  # at most so many commits
    since: str | None = None  # "2024-01-31", or a span: "180 days"; None: the default of the type
    max_results: int | None = Field(default=None, ge=1)  # the most recently updated ones
    state: Literal["open", "closed", "merged", "all"] | None = None  # None: the default of the type
    labels: Names = ()  # documents with any of them
    projects: Names = ()  # keys
    jql: str | None = None  # beside the other filters
    issue_types: Names = ()
    statuses: Names = ()
    custom_fields: Names = ()  # by the names that people see: taken into the text
    spaces: Names = ()  # keys
    comments: bool = True
    channels: Names = ()  # names or ids


_TICKETS = ("github_pr", "github_issues", "jira")
_SERVICES = (*_TICKETS, "confluence")

FILTERS: dict[str, tuple[str, ...]] = {
    "languages": ("code",),
    "depth": ("git_history",),
    "since": ("git_history", *_SERVICES, "slack"),
    "max_results": (*_SERVICES, "slack"),
    "state": ("github_pr", "github_issues"),
    "labels": _SERVICES,
    "projects": ("jira",),
    "jql": ("jira",),
    "issue_types": ("jira",),
    "statuses": ("jira",),
    "custom_fields": ("jira",),
    "spaces": ("confluence",),
    "comments": ("confluence",),
    "channels": ("slack",),
}
"""Which types each filter is of."""


def require_fitting_filters(filters: DocumentFilters, source_type: str) -> None:
    """Raises ValueError where a filter is set that the type knows nothing of: it would pass silently."""
    for name, types in FILTERS.items():
        default = DocumentFilters.model_fields[name].default
        if getattr(filters, name) != default and source_type not in types:
            raise ValueError(f"{name} is no filter of type {source_type!r}: it is one of {', '.join(types)}")
    if filters.state == "merged" and source_type == "github_issues":
        raise ValueError("state 'merged' is of pull requests; allowed for issues: open, closed, all")
