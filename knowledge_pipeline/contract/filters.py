"""Filters of a search, and the closed sets of words that requests and responses are made of.

HTTP, MCP, the CLI, the page and golden questions derive from them. The metadata of a field is what pydantic
reads of a dataclass: a description.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import date, datetime, time
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast, get_args

from annotated_types import Len

from knowledge_pipeline.contract.aliases import list_aliases, rename_aliases
from knowledge_pipeline.contract.arguments import drop_unset, lenient_schema, split_values, suggest_name
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.times import parse_query_time

_HostedType = Literal["code", "markdown", "openapi", "git_history", "github_pr", "github_issues"]
_ServiceType = Literal["discussions", "releases", "snippets", "jira", "confluence", "slack"]
_FileType = Literal["files", "archive", "table", "custom", "push"]
SourceType = Literal[_HostedType, _ServiceType, _FileType]
SOURCE_TYPE_LABELS: Mapping[str, str] = {
    "code": "code",
    "markdown": "docs",
    "openapi": "API",
    "git_history": "commit",
    "github_pr": "pull request",
    "github_issues": "issue",
    "discussions": "discussion",
    "releases": "release",
    "snippets": "snippet",
    "jira": "ticket",
    "confluence": "wiki",
    "slack": "chat",
    "files": "file",
    "archive": "archive",
    "table": "row",
    "custom": "document",
    "push": "pushed document",
}
"""What people call a document of a type of source, and may write for the type."""

TicketType = Literal["github_issues", "github_pr", "discussions", "jira"]
DocumentType = Literal[
    "markdown", "openapi", "releases", "snippets", "confluence", "files", "archive", "table", "custom", "push"
]

SearchType = Literal["semantic", "code", "similar", "historical"]

SectionType = Literal["semantic", "code", "similar", "historical", "conventions", "type_definitions"]
"""What a section of a context is found by: a search, or the types that the code refers to."""

SectionFormat = Literal["excerpt", "full", "code", "list", "summary"]
"""How a section shows its results: the lines that say most, all lines, lines as code alone, places, or places
with a line of each."""
ContentType = Literal["code", "document"]
"""What is searched for what is like a text."""

RankedMode = Literal["hybrid", "words", "vectors"]
"""By words and by meaning; by words alone, which asks no model; by meaning alone."""
SearchMode = Literal[RankedMode, "exact", "regex"]
"""Or all that has a text as it is written, or that a regular expression matches; letter case counts."""
EXACT_MODES = ("exact", "regex")

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

_TYPES_BY_LABEL = {
    form.casefold(): type_
    for type_, label in SOURCE_TYPE_LABELS.items()
    for form in (label, f"{label}s", label.removesuffix("s"))
}


def parse_source_type(text: Any) -> Any:
    """The type that is meant by its name or its label; anything else as it is."""
    is_type = not isinstance(text, str) or text in SOURCE_TYPE_LABELS
    return text if is_type else _TYPES_BY_LABEL.get(text.replace("_", " ").casefold(), text)


LIMIT_KEY = "x-limit"
"""In the schema of a field, the keys of `limits` that say how much it may ask for: see `mark_limits`."""

NAMESPACE_PREFIX = "namespace:"


def build_namespace_tag(namespace: str) -> str:
    """The tag that stands for a namespace in the tags of its sources' chunks."""
    return f"{NAMESPACE_PREFIX}{namespace}"


def about(description: str, **schema: Any) -> Mapping[str, Any]:
    """Metadata of a field, as pydantic reads them: a description, limits, examples, an alias."""
    return {"description": description, **schema}


def mark_limits(*keys: str) -> Mapping[str, Any]:
    """Metadata of a field that asks for no more than the settings below `limits` allow: it, and its items."""
    return {"json_schema_extra": {LIMIT_KEY: list(keys)}}


def described(description: str, default: Any, **schema: Any) -> Any:
    """A dataclass field with a default, and its metadata."""
    return field(default=default, metadata=about(description, **schema))


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on results: all fields must hold, of a field any value; an empty field is no condition."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Values as callers write them, which `normalize_filters` reads."""
        return lenient_schema(source, handler, _normalize_mapping)

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
        "Paths, as lines of `.gitignore`: `src/auth`, `*.py`, `!*_test.go`. Where types of sources "
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
    record_kinds: Names = described(
        "Kinds of a project's records: `session`, `plan`, `adr`, `discussion`, `spec`.", ()
    )
    symbols: Names = described("Definitions in code, by name: `Store.get`, or `get` of any class.", ())
    classes: Names = described(
        "Classes, and what is defined in them: `Store`; `Inner` of `Outer.Inner`, too.", ()
    )
    exports: Names = described("Definitions that other files can use, by name: `Store`.", ())
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


@dataclass(frozen=True, slots=True)
class SectionFilters(Filters):
    """Filters of a section of a context."""

    content_contains: Names = described(
        "Words that stand in a result, each of them, ignoring letter case: `idempotency key`.", ()
    )


FILTER_NAMES = tuple(declared.name for declared in fields(Filters))

TIME_FILTERS = ("since", "until", "created_since", "created_until")
"""Those that hold a moment, which people write as a date or a span before now."""

LIST_FILTERS = tuple(name for name in FILTER_NAMES if name not in (*TIME_FILTERS, "include_archived"))

_WHOLE_TEXTS = frozenset(
    {"authors", "content_contains", "titles", "sections", "statuses", "components", "labels"}
)
"""Filters whose values may have a comma of their own: "Doe, Ann"."""

FiltersLike = Filters | Mapping[str, Any]
"""Filters, or a mapping with the names of their fields."""

FiltersT = TypeVar("FiltersT", bound=Filters)

_NO_FILTERS = Filters()


def build_single_filter(name: str, value: Any) -> Filters:
    """Filters of which one is set."""
    values: dict[str, Any] = {name: value}
    return Filters(**values)


def split_filter(name: str, value: Any) -> Any:
    """The values of the filter of a name; see `split_values`. Types of sources may be labels."""
    values: Any = split_values(value, at_commas=name not in _WHOLE_TEXTS)
    if name != "source_types" or not isinstance(values, tuple):
        return values
    return tuple(parse_source_type(text) for text in cast("tuple[Any, ...]", values))


def normalize_filters(values: Mapping[str, Any]) -> dict[str, Any]:
    """The filters that are set, lists as tuples and texts of times as times; what is wrong stays as it is."""
    normalized = dict[str, Any]()
    for name, value in drop_unset(values).items():
        if name in TIME_FILTERS and isinstance(value, str):
            normalized[name] = value
            with suppress(InvalidQuery):
                normalized[name] = parse_query_time(name, value.strip())
        elif name not in (*LIST_FILTERS, "content_contains"):
            normalized[name] = value
        elif (names := split_filter(name, value)) != ():
            normalized[name] = names
    return normalized


def build_filters(given: FiltersLike | None) -> Filters:
    """Filters, from themselves or from a mapping, in the form that everything else relies on.

    Raises `InvalidQuery`: a name is unknown, or a value is not what its filter takes.
    """
    if given is None or given is _NO_FILTERS:
        return _NO_FILTERS
    if isinstance(given, Filters):
        # One that is made with lists, which cannot be compared with what was asked before
        values = {name: getattr(given, name) for name in FILTER_NAMES}
        checked = _check(normalize_filters(values))
        return (
            given
            if all(checked.get(name) == value for name, value in values.items() if value)
            else (type(given)(**checked))
        )
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        raise InvalidQuery(f"the filters are {type(given).__name__}: give `Filters`, or a mapping")
    names = (*FILTER_NAMES, *list_aliases(Filters))
    if unknown := [str(name)[:100] for name in given if name not in names]:
        allowed, suggestion = ", ".join(FILTER_NAMES), suggest_name(unknown[0], Filters)
        raise InvalidQuery(f"there is no filter {', '.join(unknown)}; allowed: {allowed}{suggestion}")
    return Filters(**_check(_normalize_mapping(given)))


def _normalize_mapping(values: Mapping[str, Any]) -> dict[str, Any]:
    return normalize_filters(rename_aliases(Filters, drop_unset(values)))


def _check(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values in the types that `Filters` declares. Raises `InvalidQuery`: one is of another type."""
    checked = dict[str, Any]()
    for name, value in values.items():
        if name in TIME_FILTERS:
            checked[name] = _check_time(name, value)
        elif name == "include_archived":
            flag = {"true": True, "1": True, "false": False, "0": False}.get(str(value).strip().lower())
            if flag is None:
                raise InvalidQuery(f"found {name} {str(value)[:40]}; allowed: true, false")
            checked[name] = flag
        else:
            checked[name] = _check_names(name, value)
    return checked


def _check_time(name: str, value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    if isinstance(value, date):
        return datetime.combine(value, time())
    return parse_query_time(name, str(value))


def _check_names(name: str, value: Any) -> tuple[str, ...]:
    values = cast("tuple[Any, ...]", value if isinstance(value, tuple) else (value,))
    texts = [text for text in values if isinstance(text, str)]
    if wrong := [item for item in values if not isinstance(item, str)]:
        raise InvalidQuery(f"found {name} {str(wrong[0])[:40]}; allowed: a text, or a list of texts")
    if name == "source_types" and (unknown := [text for text in texts if text not in get_args(SourceType)]):
        raise InvalidQuery(f"found {name} {unknown[0][:40]!r}; allowed: {', '.join(get_args(SourceType))}")
    return tuple(texts)
