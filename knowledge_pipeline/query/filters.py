"""What a caller may narrow a search by, typed, and compiled in one place to the store's conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import and_

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.languages import detect_language
from knowledge_pipeline.query import access as accesses
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter

_EARLIEST, _LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
_LANGUAGE_ALIASES = {"c++": "cpp", "c#": "c_sharp", "csharp": "c_sharp", "shell": "bash", "golang": "go"}


def compile_filter(access: Access, *restrictions: Filters) -> Filter:
    """The rows that a caller may see and asks for: all of the filters hold at once."""
    parts = [accesses.build_visibility_filter(access)]
    if not any(filters_.include_archived for filters_ in restrictions):
        parts.append(filters.eq("archived", False))
    parts += [condition for filters_ in restrictions for condition in to_conditions(filters_)]
    return reduce(and_, parts)


def to_conditions(restriction: Filters) -> list[Filter]:
    """One condition for every field that is set; `include_archived` is no condition."""
    conditions = [
        compile_(tuple(replace_invalid_characters(value) for value in getattr(restriction, name)))
        for name, compile_ in _FIELD_COMPILERS.items()
        if getattr(restriction, name)
    ]
    if restriction.since:
        conditions.append(filters.at_least("last_modified", _to_aware(restriction.since)))
    if restriction.until:
        conditions.append(filters.below("last_modified", _to_aware(restriction.until)))
    return conditions


def replace_invalid_characters(value: str) -> str:
    """Text that the store can take: what is no valid Unicode, and NUL, become `?`."""
    return value.encode("utf-8", "replace").decode().replace("\x00", "?")


def _match_exactly(column: str) -> Callable[[Sequence[str]], Filter]:
    return lambda values: filters.one_of(column, values)


def _match_any(build: Callable[[str], Filter]) -> Callable[[Sequence[str]], Filter]:
    return lambda values: _join_with_or([build(value) for value in values])


def _join_with_or(parts: Sequence[Filter]) -> Filter:
    """Any of them, nested as little as can be: the store refuses conditions that are nested deeply."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return _join_with_or(parts[:middle]) | _join_with_or(parts[middle:])


def _match_folded(column: str) -> Callable[[Sequence[str]], Filter]:
    return _match_any(lambda value: filters.equals_folded(column, value))


def _compile_languages(values: Iterable[str]) -> Filter:
    names = {name for value in values for name in _resolve_language_names(value.lower())}
    return filters.one_of("language", sorted(names))


def _resolve_language_names(value: str) -> set[str]:
    by_ending = detect_language(f"x.{value}")
    return {_LANGUAGE_ALIASES.get(value, value), *([by_ending] if by_ending else [])}


def _compile_extensions(values: Iterable[str]) -> Filter:
    return filters.one_of("extension", sorted({"." + value.lower().removeprefix(".") for value in values}))


def _compile_repo(value: str) -> Filter:
    return filters.glob("repo", value) | filters.glob("repo", f"**/{value}")


def _compile_path(value: str) -> Filter:
    return filters.glob("path", value.removeprefix("./").lstrip("/"))


def _to_aware(moment: datetime) -> datetime:
    """With a time zone; at the ends of the calendar a time that every zone has."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min(max(aware, _EARLIEST), _LATEST)


_FIELD_COMPILERS: dict[str, Callable[[Sequence[str]], Filter]] = {
    "languages": _compile_languages,
    "extensions": _compile_extensions,
    "sources": _match_exactly("source"),
    "source_types": _match_exactly("source_type"),
    "repos": _match_any(_compile_repo),
    "branches": _match_exactly("branch"),
    "paths": _match_any(_compile_path),
    "authors": _match_any(lambda value: filters.contains_words("author", value)),
    "tags": lambda values: filters.has_any("tags", values),
    "labels": lambda values: filters.has_any("labels", values),
    "projects": _match_folded("project"),
    "statuses": _match_folded("status"),
    "spaces": _match_folded("wiki_space"),
}
