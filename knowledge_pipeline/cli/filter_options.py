"""The options that narrow a search, the same for every command that searches."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from knowledge_pipeline.cli.options import SourceKind, source_ids
from knowledge_pipeline.errors import QuestionRefused

if TYPE_CHECKING:
    from datetime import datetime

    from knowledge_pipeline.query.filters import Filters

Words = list[str] | None


def _several(flag: str, metavar: str, what: str, **more: Any) -> Any:
    return typer.Option(flag, metavar=metavar, help=f"Only {what} (repeatable).", **more)


def narrowing_options(
    language: Annotated[Words, _several("--language", "NAME", "this language: python, go, tsx")] = None,
    path: Annotated[Words, _several("--path", "GLOB", "this path: src/, 'src/**/*.py'")] = None,
    source: Annotated[Words, _several("--source", "ID", "this source", autocompletion=source_ids)] = None,
    source_type: Annotated[Words, _several("--source-type", "TYPE", "this type of source")] = None,
    repo: Annotated[Words, _several("--repo", "NAME", "this repository: flask, pallets/flask")] = None,
    branch: Annotated[Words, _several("--branch", "NAME", "this branch")] = None,
    author: Annotated[Words, _several("--author", "NAME", "this author, by whole words")] = None,
    tag: Annotated[Words, _several("--tag", "TAG", "this tag")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Changed then or later: 2025-01-31, 2025, 30d, 6m.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Changed before that.")] = None,
    archived: Annotated[
        bool, typer.Option("--include-archived", help="Also what its source no longer has.")
    ] = False,
) -> None:
    """The options that narrow a search; only the signature counts."""


OPTIONS = inspect.signature(narrowing_options, eval_str=True).parameters


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The options as given."""

    language: Words = None
    path: Words = None
    source: Words = None
    source_type: Words = None
    repo: Words = None
    branch: Words = None
    author: Words = None
    tag: Words = None
    since: str | None = None
    until: str | None = None
    archived: bool = False

    def filters(self) -> Filters:
        """As the query engine takes them.

        Raises:
            QuestionRefused: a date that is none, or too many values.
        """
        from knowledge_pipeline.query.filters import Filters

        unknown = set(self.source_type or ()) - set(get_args(SourceKind))
        if unknown:
            allowed = ", ".join(get_args(SourceKind))
            raise QuestionRefused(f"found --source-type {min(unknown)!r}; allowed: {allowed}")
        return Filters(
            languages=tuple(self.language or ()),
            paths=tuple(self.path or ()),
            sources=tuple(self.source or ()),
            source_types=tuple(self.source_type or ()),
            repos=tuple(self.repo or ()),
            branches=tuple(self.branch or ()),
            authors=tuple(self.author or ()),
            tags=tuple(self.tag or ()),
            since=_moment("since", self.since),
            until=_moment("until", self.until),
            include_archived=self.archived,
        )


def narrowed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which gets them as `narrowing`."""

    @functools.wraps(function)
    def run(*args: Any, **given: Any) -> Any:
        taken = {field.name: given.pop(field.name) for field in fields(Narrowing)}
        return function(*args, **given, narrowing=Narrowing(**taken))

    own = [*inspect.signature(function, eval_str=True).parameters.values()]
    added = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in OPTIONS.values()]
    signed = [*(each for each in own if each.name != "narrowing"), *added]
    run.__dict__["__signature__"] = inspect.Signature(signed)
    return run


def _moment(name: str, value: str | None) -> datetime | None:
    """A date or span, as it is understood inside a question too."""
    from knowledge_pipeline.query.search.understand import understand

    if value is None:
        return None
    filters = understand(f'changed {name}:"{value}"').filters
    moment = filters.since if name == "since" else filters.until
    if moment is None:
        raise QuestionRefused(f"found --{name} {value!r}; allowed: a date such as 2024-01-31, or a span: 30d")
    return moment
