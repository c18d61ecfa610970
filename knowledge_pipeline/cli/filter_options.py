"""The options that narrow a search, the same for every command that searches."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, get_args

from typer import Option

from knowledge_pipeline.cli.session import Names, complete_source_ids
from knowledge_pipeline.contract.filters import Filters, SourceType, build_filters, normalize_filters
from knowledge_pipeline.errors import InvalidQuery


def _only(name: str, metavar: str, description: str, **extra: Any) -> Any:
    """`Any`: Typer types its options so."""
    return Option(f"--{name}", metavar=metavar, help=f"Only {description} (repeatable).", **extra)


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """The filters as given on the command line; each field is an option, named as in `Filters`."""

    languages: Annotated[Names, _only("language", "NAME", "this language: python, go, tsx")] = None
    paths: Annotated[Names, _only("path", "GLOB", "this path, or history of it: src/, 'src/**/*.py'")] = None
    sources: Annotated[Names, _only("source", "ID", "this source", autocompletion=complete_source_ids)] = None
    source_types: Annotated[Names, _only("source-type", "TYPE", "this type of source")] = None
    repos: Annotated[Names, _only("repo", "NAME", "this repository: flask, pallets/flask")] = None
    branches: Annotated[Names, _only("branch", "NAME", "this branch: main, 'release/*', pull/12")] = None
    authors: Annotated[Names, _only("author", "NAME", "this author, matched by whole words")] = None
    tags: Annotated[Names, _only("tag", "TAG", "this tag")] = None
    labels: Annotated[Names, _only("label", "NAME", "this label of tickets, pull requests and pages")] = None
    projects: Annotated[Names, _only("project", "KEY", "this project of tickets")] = None
    statuses: Annotated[Names, _only("status", "NAME", "this status of tickets and pull requests")] = None
    components: Annotated[Names, _only("component", "NAME", "this component of tickets")] = None
    fix_versions: Annotated[Names, _only("fix-version", "NAME", "tickets fixed in this version: 2.1")] = None
    spaces: Annotated[Names, _only("space", "KEY", "this space of a wiki")] = None
    channels: Annotated[Names, _only("channel", "NAME", "this channel of a chat")] = None
    kinds: Annotated[Names, _only("kind", "NAME", "this kind of definition: class, method, interface")] = None
    record_kinds: Annotated[
        Names, _only("record-kind", "NAME", "this kind of record: session, plan, adr, discussion, spec")
    ] = None
    symbols: Annotated[Names, _only("symbol", "NAME", "this definition: get, Store.get")] = None
    classes: Annotated[Names, _only("class", "NAME", "this class and its members")] = None
    exports: Annotated[Names, _only("export", "NAME", "code that gives others this definition")] = None
    imports: Annotated[
        Names, _only("import", "MODULE", "code of files that import this module: requests")
    ] = None
    titles: Annotated[Names, _only("title", "WORDS", "documents with these words in the title")] = None
    sections: Annotated[Names, _only("section", "WORDS", "sections with these words in the heading")] = None
    namespaces: Annotated[Names, _only("namespace", "NAME", "sources of this namespace")] = None
    since: Annotated[
        str | None, Option(metavar="WHEN", help="Changed at this time or later: 2025-01-31, 2025, 30d, 6m.")
    ] = None
    until: Annotated[str | None, Option(metavar="WHEN", help="Changed before this time.")] = None
    created_since: Annotated[
        str | None,
        Option(metavar="WHEN", help="Only tickets, pull requests, chats and commits created then or later."),
    ] = None
    created_until: Annotated[str | None, Option(metavar="WHEN", help="The same, created before.")] = None
    include_archived: Annotated[
        bool, Option("--include-archived", help="Include documents that their source no longer has.")
    ] = False

    def to_filters(self) -> Filters:
        """The filters for the query engine; raises InvalidQuery for a wrong date or source type."""
        chosen = normalize_filters(asdict(self))
        if unknown := set(chosen.get("source_types", ())) - set(get_args(SourceType)):
            allowed = ", ".join(get_args(SourceType))
            raise InvalidQuery(f"found --source-type {min(unknown)!r}; allowed: {allowed}")
        return build_filters(chosen)
