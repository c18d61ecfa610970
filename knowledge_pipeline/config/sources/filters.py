"""Which documents a source takes, by filters that depend on its type."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from knowledge_pipeline.config.model import PluginName, SettingsModel

NameList = tuple[str, ...]
ContentType = Literal["page", "blogpost", "whiteboard", "database"]
Part = Literal["description", "comments", "reviews", "diff", "worklogs", "remote_links"]

DEFAULT_PARTS: tuple[Part, ...] = ("description", "comments", "reviews")
"""A diff is several times as long, and its code is read by other sources; links cost a call a ticket."""

PARTS_BY_TYPE: dict[str, tuple[Part, ...]] = {
    "github_pr": ("description", "comments", "reviews", "diff"),
    "jira": ("description", "comments", "worklogs", "remote_links"),
}
"""The parts that a document of each type may have."""


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _read_switch(value: Any) -> Any:
    """`true` is every default, `false` is nothing; a file's values come as text."""
    choices: dict[str, Any] = {"true": {}, "false": None}
    return choices.get(str(value).lower(), value)


class TableColumns(SettingsModel):
    """Which columns of a table say what of a document.

    A column that is not named has the name of its key, where the table has such a column.
    """

    id: str = "id"
    text: Annotated[NameList, BeforeValidator(_to_list), Field(min_length=1)] = ("text",)  # joined
    title: str | None = None
    url: str | None = None
    author: str | None = None
    updated: str | None = None  # changes with the row; None: the whole row is compared
    created: str | None = None
    language: str | None = None  # of the text: markdown, python
    labels: str | None = None  # a list, or text with commas
    project: str | None = None
    status: str | None = None
    filters: Annotated[NameList, BeforeValidator(_to_list)] = ()  # each value a tag: `region:emea`


class AttachmentSettings(SettingsModel):
    """Which of the files that hang on a document are read."""

    include: NameList = ()  # of file names, gitignore syntax; empty: the formats of type `files`
    exclude: NameList = ()
    max_bytes: int = Field(default=20_000_000, ge=1)  # of one file
    max_count: int = Field(default=50, ge=1)  # at one document


class FileSettings(SettingsModel):
    """How files are read, also those that hang on documents."""

    extractor: PluginName | None = None  # of another package; what it leaves is read as usual


class SourceFilters(SettingsModel):
    """The filters of all types; `FILTER_TYPES` says which types each applies to. Empty means all."""

    include: NameList = ()  # gitignore syntax; empty: the default of the type
    exclude: NameList = ()
    max_bytes: int | None = Field(default=None, ge=1)  # None: the default of the type
    languages: NameList = ()
    depth: int = Field(default=1000, ge=1)  # at most so many commits
    since: str | None = None  # "2024-01-31", or a span: "180 days"; None: the default of the type
    max_results: int | None = Field(default=None, ge=1)  # the most recently updated ones
    state: Literal["open", "closed", "merged", "all"] | None = None  # None: the default of the type
    parts: tuple[Part, ...] = Field(default=DEFAULT_PARTS, min_length=1)  # of a pull request or a ticket
    labels: NameList = ()  # documents with any of them
    projects: NameList = ()  # keys
    jql: str | None = None  # in addition to the other filters
    issue_types: NameList = ()
    statuses: NameList = ()
    custom_fields: NameList = ()  # display names of fields to include in the text
    spaces: NameList = ()  # keys
    comments: bool = True
    exclude_labels: NameList = ()  # no documents with any of them
    content_types: tuple[ContentType, ...] = ()  # empty: pages and blog posts
    channels: NameList = ()  # names or ids
    columns: TableColumns = TableColumns.defaults()
    attachments: Annotated[AttachmentSettings | None, BeforeValidator(_read_switch)] = None  # None: not read
    files: FileSettings = FileSettings.defaults()
    branches: NameList = ()  # patterns: what further branches of a repository have otherwise is read too


_TICKET_TYPES = ("github_pr", "github_issues", "discussions", "jira")
_SERVICE_TYPES = (*_TICKET_TYPES, "confluence")
_ISSUE_STATES = ("open", "closed", "all")
_STATES: dict[str, tuple[str, ...]] = {
    "github_issues": _ISSUE_STATES,
    "discussions": _ISSUE_STATES,
    "releases": ("all",),  # also what is not final
}
"""The states of the types that have not all of them."""

_FILE_TYPES = ("code", "markdown", "openapi", "files", "archive")

FILTER_TYPES: dict[str, tuple[str, ...]] = {
    # of a commit or a pull request, by the files that it changes
    **dict.fromkeys(("include", "exclude"), (*_FILE_TYPES, "git_history", "github_pr")),
    "max_bytes": (*_FILE_TYPES, "snippets", "confluence", "table", "custom"),
    "languages": ("code",),
    "depth": ("git_history",),
    "since": ("git_history", *_SERVICE_TYPES, "releases", "slack"),
    "max_results": (*_SERVICE_TYPES, "releases", "slack"),
    "state": ("github_pr", *_STATES),
    "parts": tuple(PARTS_BY_TYPE),
    "labels": _SERVICE_TYPES,
    **dict.fromkeys(("projects", "jql", "issue_types", "statuses", "custom_fields"), ("jira",)),
    **dict.fromkeys(("spaces", "comments", "exclude_labels", "content_types"), ("confluence",)),
    "channels": ("slack",),
    "columns": ("table",),
    "attachments": (*_SERVICE_TYPES, "slack"),
    "files": ("files", *_SERVICE_TYPES, "slack"),
    "branches": ("code", "markdown", "openapi"),
}
"""The types that each filter applies to."""

_LATER_KEYS = ("attachments", "files", "branches")


def dump_filters(filters: SourceFilters) -> dict[str, Any]:
    """The filters as JSON values; later keys only where they are set, so that others keep their hashes."""
    defaults = {name: SourceFilters.model_fields[name].default for name in _LATER_KEYS}
    unset = {name for name, default in defaults.items() if getattr(filters, name) == default}
    return filters.model_dump(mode="json", include=FILTER_TYPES.keys() - unset)


def require_supported_filters(filters: SourceFilters, source_type: str) -> None:
    """Raises ValueError if a filter is set that does not apply to the type: it would have no effect."""
    for name, types in FILTER_TYPES.items():
        default = SourceFilters.model_fields[name].default
        if getattr(filters, name) != default and source_type not in types:
            own = ", ".join(each for each in FILTER_TYPES if source_type in FILTER_TYPES[each])
            raise ValueError(
                f"{name} does not apply to type {source_type!r}, only to {', '.join(types)}: use {own}"
            )
    allowed = PARTS_BY_TYPE.get(source_type, DEFAULT_PARTS)
    if filters.parts != DEFAULT_PARTS and (others := sorted({*filters.parts} - {*allowed})):
        own = ", ".join(allowed)
        raise ValueError(f"parts {', '.join(others)} do not apply to type {source_type!r}: use {own}")
    states = _STATES.get(source_type)
    if filters.state and states and filters.state not in states:
        raise ValueError(
            f"state {filters.state!r} does not apply to type {source_type!r}: use {', '.join(states)}"
        )
