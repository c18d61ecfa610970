"""Compiles the filters of a question, and what its caller may see, to one condition of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from itertools import groupby

from knowledge_pipeline.contract.filters import Filters, SectionFilters, build_namespace_tag
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.query.access import Access, build_visibility_filter
from knowledge_pipeline.records import RECORD_KINDS, parse_record_kind
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.times import ensure_zone

_Compile = Callable[[Sequence[str]], Filter]

_NO_FILTERS = Filters()  # most restrictions are none

_EARLIEST, _LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
_TYPES_WITH_CHANGES = frozenset({"git_history", "github_pr"})  # that name the files which they change
_OF_CODE = filters.eq("source_type", "code")
_OF_TICKETS = filters.one_of("source_type", ("custom", "jira"))
_OF_RECORDS = filters.one_of("source_type", ("archive", "custom"))
_LANGUAGE_ALIASES = {"c++": "cpp", "c#": "c_sharp", "csharp": "c_sharp", "shell": "bash", "golang": "go"}
_KIND_ALIASES = {
    **{"const": "constant", "iface": "interface", "typedef": "type", "alias": "type", "mod": "module"},
    **dict.fromkeys(("func", "fn", "fun", "def"), "function"),
    **{"meth": "method", "prop": "property", "cls": "class", "namespace": "module", "package": "module"},
}


def compile_filter(access: Access, *restrictions: Filters) -> Filter:
    """The rows that a caller may see and asks for: all restrictions hold at once.

    Where no branch is named, these are rows of main branches.
    Where types of sources are named, a commit, a pull or merge request is at each path that it changes;
    else the store would read what each of its rows changes. A part of a commit's diff is at its own paths.
    """
    conditions = [build_visibility_filter(access)]
    has_archived = any(restriction.include_archived for restriction in restrictions)
    own = ~filters.IS_VARIANT if has_archived else filters.eq("archived", False)
    if not any(restriction.branches for restriction in restrictions):
        conditions.append(own)
    for restriction in restrictions:
        if restriction == _NO_FILTERS:
            continue
        conditions += to_conditions(replace(restriction, paths=(), branches=()))
        if restriction.branches:
            branches = map(replace_invalid_characters, restriction.branches)
            conditions.append(filters.on_branch(branches, own))
        if restriction.paths:
            conditions.append(_at_or_changing(restriction.paths, restrictions))
    return reduce(lambda left, right: left & right, conditions)


def select_changes(paths: Sequence[str], restrictions: Iterable[Filters]) -> set[str]:
    """Those of the paths that a commit changes which restrictions take."""
    selected = set(paths)
    for restriction in restrictions:
        if patterns := _list_changed_patterns(restriction.paths):
            selected &= filters.select_paths(paths, patterns)
    return selected


def _list_changed_patterns(paths: Sequence[str]) -> list[str]:
    """Patterns of paths that a commit may change; those that leave out say nothing of it."""
    return [normalize_path(path) for path in paths if not path.startswith("!")]


def _at_or_changing(paths: Sequence[str], restrictions: Iterable[Filters]) -> Filter:
    of_each = [frozenset[str](it.source_types) for it in restrictions if it.source_types]
    types = reduce(lambda one, other: one & other, of_each) if of_each else frozenset[str]()
    conditions = [_at_paths(paths)] if not types or types - _TYPES_WITH_CHANGES else []
    if types & _TYPES_WITH_CHANGES:
        have_changes = filters.one_of("source_type", sorted(_TYPES_WITH_CHANGES))
        if patterns := _list_changed_patterns(paths):
            files, hunks = (
                _join_with_or([filters.gitignore_in_json_list("metadata", key, it) for it in patterns])
                for key in ("files", "paths")
            )
            is_diff = filters.starts_with("anchor", "diff ")  # without the commit's message
            have_changes &= (is_diff & hunks) | (~is_diff & files)
        conditions.append(have_changes)
    return _join_with_or(conditions)


def to_conditions(restriction: Filters) -> list[Filter]:
    """One condition for every field that is set, except `include_archived`."""
    conditions = [
        compile_(tuple(replace_invalid_characters(value) for value in getattr(restriction, name)))
        for name, compile_ in _FIELD_COMPILERS.items()
        if getattr(restriction, name)
    ]
    if isinstance(restriction, SectionFilters):
        texts = map(replace_invalid_characters, restriction.content_contains)
        conditions += [Filter(filters.contains_words("text", text).sql) for text in texts]  # not by values
    if restriction.since:
        conditions.append(filters.at_least("last_modified", _clamp_time(restriction.since)))
    if restriction.until:
        conditions.append(filters.below("last_modified", _clamp_time(restriction.until)))
    if restriction.created_since:
        moment = _clamp_time(restriction.created_since)
        conditions.append(_compile_creation(filters.at_least, filters.time_in_json_at_least, moment))
    if restriction.created_until:
        moment = _clamp_time(restriction.created_until)
        conditions.append(_compile_creation(filters.below, filters.time_in_json_below, moment))
    return conditions


def replace_invalid_characters(value: str) -> str:
    """Text that the store can take: NUL and invalid Unicode become `?`."""
    return value.encode("utf-8", "replace").decode().replace("\x00", "?")


def _match_any(build: Callable[[str], Filter]) -> _Compile:
    return lambda values: _join_with_or([build(value) for value in values])


def _match_folded(column: str) -> _Compile:
    return _match_any(lambda value: filters.equals_folded(column, value))


def _match_metadata_names(key: str, *, fold: bool = False) -> _Compile:
    return _match_any(lambda name: filters.has_name_in_json_list("metadata", key, name, fold=fold))


def _within(condition: Filter, compile_: _Compile) -> _Compile:
    """Of few rows alone, those whose metadata may name any."""
    return lambda values: condition & compile_(values)


def _at_paths(values: Sequence[str]) -> Filter:
    """Paths that the patterns choose as the lines of `.gitignore` do: of those that match, the last decides.

    Patterns that only leave out leave the rest.
    """
    groups = groupby(values, key=lambda value: value.startswith("!"))
    chosen: Filter | None = None
    for is_negated, group in groups:
        patterns = [filters.gitignore("path", normalize_path(value.removeprefix("!"))) for value in group]
        matching = _join_with_or(patterns)
        if is_negated:
            chosen = ~matching if chosen is None else chosen & ~matching
        else:
            chosen = matching if chosen is None else chosen | matching
    return filters.MATCH_ALL if chosen is None else chosen


def normalize_path(value: str) -> str:
    """A path within its source as the store has it: by slashes, and without a dot before it.

    A slash before it says, as in `.gitignore`, that nothing is before it.
    """
    path = replace_invalid_characters(value).strip().replace("\\", "/")
    while path.startswith("./"):
        path = path.removeprefix("./")
    return "**" if path.strip("/") in ("", ".") else path


def _join_with_or(parts: Sequence[Filter]) -> Filter:
    """Any of them, nested as little as possible: the store refuses conditions that are nested deeply."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return _join_with_or(parts[:middle]) | _join_with_or(parts[middle:])


def _compile_languages(values: Sequence[str]) -> Filter:
    lower = [value.lower() for value in values]
    names = {_LANGUAGE_ALIASES.get(value, value) for value in lower}
    names |= {language for value in lower if (language := detect_language(f"x.{value}"))}
    return filters.one_of("language", sorted(names))


def _compile_record_kinds(values: Sequence[str]) -> Filter:
    """By every name of a kind: a record's front matter may say `decision`, and its folder `adr`."""
    kinds = {parse_record_kind(value) or value.lower() for value in values}
    names = kinds | {
        f"{name}{end}" for name, kind in RECORD_KINDS.items() if kind in kinds for end in ("", "s")
    }
    return _join_with_or([filters.equals_in_json("metadata", "kind", name) for name in sorted(names)])


def _compile_kinds(values: Sequence[str]) -> Filter:
    forms = {form for value in map(str.lower, values) for form in (value, *_list_singulars(value))}
    return filters.has_any("kinds", sorted({_KIND_ALIASES.get(form, form) for form in forms}))


def _list_singulars(value: str) -> tuple[str, str]:
    return value.removesuffix("es"), value.removesuffix("s")


def _match_names(column: str) -> _Compile:
    return _match_any(lambda name: filters.lists_ending(column, name.removesuffix("()").replace("::", ".")))


def _clamp_time(moment: datetime) -> datetime:
    """With a time zone, and within the times that every zone has."""
    return min(max(ensure_zone(moment), _EARLIEST), _LATEST)


def _compile_creation(
    of_column: Callable[[str, datetime], Filter],
    of_metadata: Callable[[str, str, datetime], Filter],
    moment: datetime,
) -> Filter:
    """Tickets, pull requests and conversations were created when they say, commits when they were made."""
    conditions = [
        filters.one_of("source_type", types) & of_metadata("metadata", key, moment)
        for key, types in _CREATION_KEYS.items()
    ]
    commits = filters.eq("source_type", "git_history") & of_column("last_modified", moment)
    return _join_with_or([*conditions, commits])


_CREATION_KEYS = {
    "created_at": (
        *("github_pr", "github_issues", "discussions", "releases", "snippets", "slack", "table", "push"),
    ),
    "created": ("jira",),
}
"""Keys of the metadata that have the time of creation, in UTC, and the types that have it there."""

PATTERN_FIELDS = frozenset(
    (
        *("repos", "paths", "authors", "projects", "statuses", "spaces", "channels"),
        *("symbols", "classes", "exports", "imports", "titles", "sections", "components", "fix_versions"),
        "record_kinds",
    )
)
"""Filters whose values the store compares with each row as patterns, one after the other."""

_FIELD_COMPILERS: dict[str, _Compile] = {
    "languages": _compile_languages,
    "extensions": lambda values: filters.one_of(
        "extension", sorted({"." + value.lower().removeprefix(".") for value in values})
    ),
    "sources": lambda values: filters.one_of("source", values),
    "source_types": lambda values: filters.one_of("source_type", values),
    "repos": _match_any(lambda value: filters.glob("repo", value) | filters.glob("repo", f"**/{value}")),
    "branches": filters.on_branch,
    "paths": _at_paths,
    "authors": _match_any(lambda value: filters.contains_words("author", value)),
    "tags": lambda values: filters.has_any("tags", values),
    "labels": lambda values: filters.has_any("labels", values),
    "projects": _match_folded("project"),
    "statuses": _match_folded("status"),
    "components": _within(_OF_TICKETS, _match_metadata_names("components", fold=True)),
    "fix_versions": _within(_OF_TICKETS, _match_metadata_names("fix_versions", fold=True)),
    "spaces": _match_folded("wiki_space"),
    "channels": _within(
        filters.eq("source_type", "slack"),
        _match_any(lambda name: filters.starts_with("path", f"#{name.removeprefix('#')}/")),
    ),
    "record_kinds": _within(_OF_RECORDS, _compile_record_kinds),
    **{name: _match_names(name) for name in ("symbols", "classes", "exports")},
    "imports": _within(_OF_CODE, _match_metadata_names("imports")),
    "titles": _match_any(lambda value: filters.contains_words("title", value)),
    "sections": _match_any(lambda value: filters.contains_words("sections", value, of_list=True)),
    "namespaces": lambda values: filters.has_any("tags", [build_namespace_tag(value) for value in values]),
    "kinds": _compile_kinds,
}
