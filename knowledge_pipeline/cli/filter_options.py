"""The options that narrow a search, the same for every command that searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, cast, get_args

from typer import Option

from knowledge_pipeline.cli.session import Names, complete_source_ids
from knowledge_pipeline.contract.filters import TIME_FILTERS, Filters, SourceType
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.times import parse_query_time


def _repeatable(metavar: str, description: str, **extra: Any) -> Any:
    """`Any`: Typer types its options so."""
    return Option(metavar=metavar, help=f"Only {description} (repeatable).", **extra)


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """The filters as given on the command line; each field is an option."""

    language: Annotated[Names, _repeatable("NAME", "this language: python, go, tsx")] = None
    path: Annotated[Names, _repeatable("GLOB", "this path, or history of it: src/, 'src/**/*.py'")] = None
    source: Annotated[Names, _repeatable("ID", "this source", autocompletion=complete_source_ids)] = None
    source_type: Annotated[Names, _repeatable("TYPE", "this type of source")] = None
    repo: Annotated[Names, _repeatable("NAME", "this repository: flask, pallets/flask")] = None
    branch: Annotated[Names, _repeatable("NAME", "this branch: main, 'release/*', pull/12")] = None
    author: Annotated[Names, _repeatable("NAME", "this author, matched by whole words")] = None
    tag: Annotated[Names, _repeatable("TAG", "this tag")] = None
    label: Annotated[Names, _repeatable("NAME", "this label of tickets, pull requests and pages")] = None
    project: Annotated[Names, _repeatable("KEY", "this project of tickets")] = None
    status: Annotated[Names, _repeatable("NAME", "this status of tickets and pull requests")] = None
    component: Annotated[Names, _repeatable("NAME", "this component of tickets")] = None
    fix_version: Annotated[Names, _repeatable("NAME", "tickets fixed in this version: 2.1")] = None
    space: Annotated[Names, _repeatable("KEY", "this space of a wiki")] = None
    channel: Annotated[Names, _repeatable("NAME", "this channel of a chat")] = None
    kind: Annotated[Names, _repeatable("NAME", "this kind of definition: class, method, interface")] = None
    class_: Annotated[
        Names, Option("--class", metavar="NAME", help="Only this class and its members (repeatable).")
    ] = None
    import_: Annotated[
        Names,
        Option(
            "--import",
            metavar="MODULE",
            help="Only code of files that import this module: requests (repeatable).",
        ),
    ] = None
    title: Annotated[Names, _repeatable("WORDS", "documents with these words in the title")] = None
    section: Annotated[Names, _repeatable("WORDS", "sections with these words in the heading")] = None
    namespace: Annotated[Names, _repeatable("NAME", "sources of this namespace")] = None
    since: Annotated[
        str | None, Option(metavar="WHEN", help="Changed at this time or later: 2025-01-31, 2025, 30d, 6m.")
    ] = None
    until: Annotated[str | None, Option(metavar="WHEN", help="Changed before this time.")] = None
    created_since: Annotated[
        str | None,
        Option(metavar="WHEN", help="Only tickets, pull requests, chats and commits created then or later."),
    ] = None
    created_until: Annotated[str | None, Option(metavar="WHEN", help="The same, created before.")] = None
    archived: Annotated[
        bool, Option("--include-archived", help="Include documents that their source no longer has.")
    ] = False

    def to_filters(self) -> Filters:
        """The filters for the query engine; raises InvalidQuery for a wrong date or source type."""
        unknown = set(self.source_type or ()) - set(get_args(SourceType))
        if unknown:
            allowed = ", ".join(get_args(SourceType))
            raise InvalidQuery(f"found --source-type {min(unknown)!r}; allowed: {allowed}")
        times: dict[str, Any] = {
            name: parse_query_time(name, value)
            for name in TIME_FILTERS
            if (value := getattr(self, name)) is not None
        }
        return Filters(
            languages=tuple(self.language or ()),
            paths=tuple(self.path or ()),
            sources=tuple(self.source or ()),
            source_types=cast("tuple[SourceType, ...]", tuple(self.source_type or ())),
            repos=tuple(self.repo or ()),
            branches=tuple(self.branch or ()),
            authors=tuple(self.author or ()),
            tags=tuple(self.tag or ()),
            labels=tuple(self.label or ()),
            projects=tuple(self.project or ()),
            statuses=tuple(self.status or ()),
            components=tuple(self.component or ()),
            fix_versions=tuple(self.fix_version or ()),
            spaces=tuple(self.space or ()),
            channels=tuple(self.channel or ()),
            kinds=tuple(self.kind or ()),
            classes=tuple(self.class_ or ()),
            imports=tuple(self.import_ or ()),
            titles=tuple(self.title or ()),
            sections=tuple(self.section or ()),
            namespaces=tuple(self.namespace or ()),
            **times,
            include_archived=self.archived,
        )
