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

_HostedType = Literal["code", "markdown", "openapi", "git_history", "github_pr", "github_issues"]
_ServiceType = Literal["discussions", "releases", "snippets", "jira", "confluence", "slack"]
_FileType = Literal["files", "archive", "table", "custom"]
SourceType = Literal[_HostedType, _ServiceType, _FileType]
TicketType = Literal["github_issues", "github_pr", "discussions", "jira"]
DocumentType = Literal[
    "markdown", "openapi", "releases", "snippets", "confluence", "files", "archive", "table", "custom"
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
Names = tuple[Name, ...]

NAMESPACE_PREFIX = "namespace:"


def build_namespace_tag(namespace: str) -> str:
    """The tag that stands for a namespace in the tags of its sources' chunks."""
    return f"{NAMESPACE_PREFIX}{namespace}"


def about(description: str, **schema: Any) -> Mapping[str, Any]:
    """Metadata of a field, as pydantic reads them: a description, limits, examples, an alias."""
    return {"description": description, **schema}


def described(description: str, default: Any, **schema: Any) -> Any:
    """A dataclass field with a default, and its metadata."""
    return field(default=default, metadata=about(description, **schema))


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on results: all fields must hold, of a field any value; an empty field is no condition."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    languages: Names = described("Programming languages: `python`, or a file extension: `py`.", ())
    extensions: Names = described("File extensions: `py`, with or without the dot.", ())
    sources: Names = described("Sources, by id, as results name them.", ())
    source_types: tuple[SourceType, ...] = described(
        "Types of sources; `markdown` and `files` are documents.", ()
    )
    repos: Names = described("Repositories: `pallets/flask`, or the last part: `flask`.", ())
    branches: Names = described(
        "Branches, by name or pattern: `release/*`, `pull/12`. Without any, the main branch of each source.",
        (),
    )
    paths: Names = described(
        "Paths: `src/auth` and all below it, or globs: `**/*_test.go`. Where types of sources "
        "are named, as in searches of history, commits and pull requests are at the paths that they change.",
        (),
    )
    authors: Names = described("Authors, by whole words of a name or address, ignoring letter case.", ())
    tags: Names = described("Tags of sources.", ())
    labels: Names = described("Labels of tickets, pull requests and pages.", ())
    projects: Names = described("Projects of tickets, by key: `PAY`.", ())
    statuses: Names = described("Statuses of tickets and pull requests: `In Progress`.", ())
    components: Names = described("Components of tickets: `Checkout`.", ())
    fix_versions: Names = described("Versions that tickets are fixed in: `2.1`, and `2.1.3` with it.", ())
    spaces: Names = described("Spaces of a wiki, by key: `OPS`.", ())
    channels: Names = described("Channels of a chat: `general`, or `#general`.", ())
    kinds: Names = described(
        "Kinds of definitions in code: `class`, `function`, `method`, `interface`, `constant`.", ()
    )
    classes: Names = described(
        "Classes, and what is defined in them: `Store`; `Inner` of `Outer.Inner`, too.", ()
    )
    imports: Names = described(
        "Code of files that import a module, or one below it: `requests`, `./util`.", ()
    )
    titles: Names = described("Words of a document's title, in their order.", ())
    sections: Names = described("Words of a section's heading, in their order.", ())
    namespaces: Names = described("Namespaces, by which sources are grouped.", ())
    since: datetime | None = described("Last modified then or later; UTC without a time zone.", None)
    until: datetime | None = described("Last modified before then; UTC without a time zone.", None)
    created_since: datetime | None = described(
        "Tickets, pull requests, conversations and commits created then or later.", None
    )
    created_until: datetime | None = described(
        "Tickets, pull requests, conversations and commits created before then.", None
    )
    include_archived: bool = described("Include what its source no longer has.", False)


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
