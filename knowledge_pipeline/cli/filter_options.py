"""The options that narrow a search, the same for every command that searches."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from knowledge_pipeline.cli.options import SourceKind, complete_source_ids
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.times import parse_query_time

if TYPE_CHECKING:
    from knowledge_pipeline.contract.filters import Filters

OptionalStrings = list[str] | None


def _repeatable_option(flag: str, metavar: str, description: str, **extra: Any) -> Any:
    return typer.Option(flag, metavar=metavar, help=f"Only {description} (repeatable).", **extra)


def declare_filter_options(
    language: Annotated[
        OptionalStrings, _repeatable_option("--language", "NAME", "this language: python, go, tsx")
    ] = None,
    path: Annotated[
        OptionalStrings, _repeatable_option("--path", "GLOB", "this path: src/, 'src/**/*.py'")
    ] = None,
    source: Annotated[
        OptionalStrings,
        _repeatable_option("--source", "ID", "this source", autocompletion=complete_source_ids),
    ] = None,
    source_type: Annotated[
        OptionalStrings, _repeatable_option("--source-type", "TYPE", "this type of source")
    ] = None,
    repo: Annotated[
        OptionalStrings, _repeatable_option("--repo", "NAME", "this repository: flask, pallets/flask")
    ] = None,
    branch: Annotated[OptionalStrings, _repeatable_option("--branch", "NAME", "this branch")] = None,
    author: Annotated[
        OptionalStrings, _repeatable_option("--author", "NAME", "this author, by whole words")
    ] = None,
    tag: Annotated[OptionalStrings, _repeatable_option("--tag", "TAG", "this tag")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Changed then or later: 2025-01-31, 2025, 30d, 6m.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Changed before that.")] = None,
    archived: Annotated[
        bool, typer.Option("--include-archived", help="Also what its source no longer has.")
    ] = False,
) -> None:
    """The options that narrow a search; only the signature counts."""


FILTER_OPTIONS = inspect.signature(declare_filter_options, eval_str=True).parameters


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """The options as given."""

    language: OptionalStrings = None
    path: OptionalStrings = None
    source: OptionalStrings = None
    source_type: OptionalStrings = None
    repo: OptionalStrings = None
    branch: OptionalStrings = None
    author: OptionalStrings = None
    tag: OptionalStrings = None
    since: str | None = None
    until: str | None = None
    archived: bool = False

    def to_filters(self) -> Filters:
        """As the query engine takes them.

        Raises:
            QuestionRefused: a date that is none, or too many values.
        """
        from knowledge_pipeline.contract.filters import Filters

        unknown = set(self.source_type or ()) - set(get_args(SourceKind))
        if unknown:
            allowed = ", ".join(get_args(SourceKind))
            raise InvalidQuery(f"found --source-type {min(unknown)!r}; allowed: {allowed}")
        return Filters(
            languages=tuple(self.language or ()),
            paths=tuple(self.path or ()),
            sources=tuple(self.source or ()),
            source_types=tuple(self.source_type or ()),
            repos=tuple(self.repo or ()),
            branches=tuple(self.branch or ()),
            authors=tuple(self.author or ()),
            tags=tuple(self.tag or ()),
            since=parse_query_time("since", self.since) if self.since is not None else None,
            until=parse_query_time("until", self.until) if self.until is not None else None,
            include_archived=self.archived,
        )


def with_filter_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which gets them as `filter_options`."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        taken = {field.name: options.pop(field.name) for field in fields(FilterOptions)}
        return function(*args, **options, filter_options=FilterOptions(**taken))

    own = [*inspect.signature(function, eval_str=True).parameters.values()]
    added = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in FILTER_OPTIONS.values()]
    signed = [*(each for each in own if each.name != "filter_options"), *added]
    run.__dict__["__signature__"] = inspect.Signature(signed)
    return run
