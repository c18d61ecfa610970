"""The closed sets of words that requests and responses are made of."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, Literal

from annotated_types import Len

SourceType = Literal[
    "code",
    "markdown",
    "openapi",
    "git_history",
    "github_pr",
    "github_issues",
    "discussions",
    "releases",
    "snippets",
    "jira",
    "confluence",
    "slack",
    "files",
    "archive",
    "table",
    "custom",
]
TicketType = Literal["github_issues", "github_pr", "discussions", "jira"]
DocumentType = Literal[
    "markdown",
    "openapi",
    "releases",
    "snippets",
    "confluence",
    "files",
    "archive",
    "table",
    "custom",
]

SearchType = Literal["semantic", "code", "similar", "historical"]

SectionType = Literal["semantic", "code", "similar", "historical", "conventions", "type_definitions"]
"""What a section of a context is found by: a search, or the types that the code refers to."""

SearchMode = Literal["hybrid", "words", "vectors"]
"""By words and by meaning; by words alone, which asks no model; by meaning alone."""

TaskKind = Literal[
    "code_generation",
    "code_review",
    "merge_resolution",
    "issue_resolution",
    "complete_code",
    "question",
    "chat",
]

ChatRole = Literal["user", "assistant"]

FileState = Literal["same", "changed", "missing"]

SearchName = Literal["semantic", "similar"]

CallDirection = Literal["callers", "callees", "both"]

NodeRole = Literal["target", "used_by", "uses", "member"]
"""How a node came into an answer: it was asked for, it uses the target, the target uses it, or it is
defined within the target."""

Judgement = Literal["clicked", "useful", "useless"]

HealthState = Literal["ok", "unhealthy", "disabled", "unknown"]
RefreshState = Literal["queued", "running", "interrupted", "succeeded", "failed"]
EventState = Literal["waiting", "done", "failed"]
EventType = Literal["index.refreshed", "release.published", "source.failed"]

Name = Annotated[str, Len(1)]

NAMESPACE_PREFIX = "namespace:"


def build_namespace_tag(namespace: str) -> str:
    """The tag that stands for a namespace in the tags of its sources' chunks."""
    return f"{NAMESPACE_PREFIX}{namespace}"


def described(description: str, *, default: Any, **schema: Any) -> Any:
    """A dataclass field with a default; its type is `Any`, as that of `dataclasses.field` would be.

    pydantic reads the description and what else the metadata say: limits, examples, an alias.
    """
    return field(default=default, metadata={"description": description, **schema})
