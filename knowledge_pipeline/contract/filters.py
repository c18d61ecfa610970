"""Filters of a search, and the closed sets of words that requests and responses are made of.

HTTP, MCP, the CLI, the page and golden questions derive from them. The metadata of a field is what pydantic
reads of a dataclass: a description.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, get_args

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


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on results: all fields must hold, of a field any value; an empty field is no condition."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    languages: tuple[Name, ...] = described(
        "Programming languages: `python`, or a file extension: `py`.", default=()
    )
    extensions: tuple[Name, ...] = described("File extensions: `py`, with or without the dot.", default=())
    sources: tuple[Name, ...] = described("Sources, by id, as results name them.", default=())
    source_types: tuple[SourceType, ...] = described(
        "Types of sources; `markdown` and `files` are documents.", default=()
    )
    repos: tuple[Name, ...] = described(
        "Repositories: `pallets/flask`, or the last part: `flask`.", default=()
    )
    branches: tuple[Name, ...] = described(
        "Branches, by name or pattern: `release/*`, `pull/12`. Without any, the main branch of each source.",
        default=(),
    )
    paths: tuple[Name, ...] = described(
        "Paths: `src/auth` and all below it, or globs: `**/*_test.go`. Where types of sources "
        "are named, as in searches of history, commits and pull requests are at the paths that they change.",
        default=(),
    )
    authors: tuple[Name, ...] = described(
        "Authors, by whole words of a name or address, ignoring letter case.", default=()
    )
    tags: tuple[Name, ...] = described("Tags of sources.", default=())
    labels: tuple[Name, ...] = described("Labels of tickets, pull requests and pages.", default=())
    projects: tuple[Name, ...] = described("Projects of tickets, by key: `PAY`.", default=())
    statuses: tuple[Name, ...] = described(
        "Statuses of tickets and pull requests: `In Progress`.", default=()
    )
    components: tuple[Name, ...] = described("Components of tickets: `Checkout`.", default=())
    fix_versions: tuple[Name, ...] = described(
        "Versions that tickets are fixed in: `2.1`, and `2.1.3` with it.", default=()
    )
    spaces: tuple[Name, ...] = described("Spaces of a wiki, by key: `OPS`.", default=())
    channels: tuple[Name, ...] = described("Channels of a chat: `general`, or `#general`.", default=())
    kinds: tuple[Name, ...] = described(
        "Kinds of definitions in code: `class`, `function`, `method`, `interface`, `constant`.", default=()
    )
    classes: tuple[Name, ...] = described(
        "Classes, and what is defined in them: `Store`; `Inner` of `Outer.Inner`, too.", default=()
    )
    imports: tuple[Name, ...] = described(
        "Code of files that import a module, or one below it: `requests`, `./util`.", default=()
    )
    titles: tuple[Name, ...] = described("Words of a document's title, in their order.", default=())
    sections: tuple[Name, ...] = described("Words of a section's heading, in their order.", default=())
    namespaces: tuple[Name, ...] = described("Namespaces, by which sources are grouped.", default=())
    since: datetime | None = described("Last modified then or later; UTC without a time zone.", default=None)
    until: datetime | None = described("Last modified before then; UTC without a time zone.", default=None)
    created_since: datetime | None = described(
        "Tickets, pull requests, conversations and commits created then or later.", default=None
    )
    created_until: datetime | None = described(
        "Tickets, pull requests, conversations and commits created before then.", default=None
    )
    include_archived: bool = described("Include what its source no longer has.", default=False)


@dataclass(frozen=True, slots=True)
class TicketFilters(Filters):
    """Filters of a search of issues, discussions, tickets and pull requests."""

    source_types: tuple[TicketType, ...] = field(default=get_args(TicketType), metadata={"min_length": 1})


@dataclass(frozen=True, slots=True)
class DocumentFilters(Filters):
    """Filters of a search of documents."""

    source_types: tuple[DocumentType, ...] = field(default=get_args(DocumentType), metadata={"min_length": 1})


FILTER_NAMES = tuple(declared.name for declared in fields(Filters))

TIME_FILTERS = ("since", "until", "created_since", "created_until")
"""Those that hold a moment, which people write as a date or a span before now."""
