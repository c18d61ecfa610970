"""Which values of filters exist in a release, for a caller, and which are nearest to one that does not.

Every read takes the caller's `Access`: what they may not see neither exists nor is near.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import NamedTuple

from cachetools import LRUCache

from knowledge_pipeline.contract.filters import FILTER_NAMES, NAMESPACE_PREFIX, Filters, build_single_filter
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter, normalize_path
from knowledge_pipeline.query.open_release import OpenRelease, find_rows
from knowledge_pipeline.query.plan import FilterTerm
from knowledge_pipeline.records import RECORD_KINDS, is_branch_tag
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.release import Release
from knowledge_pipeline.store.schemas import HELD_LISTS
from knowledge_pipeline.store.search import IndexReader, SpaceUnreadable
from knowledge_pipeline.sync_facade import gather_all

TAKEN_AS_FILTERS = "taken as filters, and not searched for"
"""Begins the note on the terms that are filters."""

_COLUMNS = {
    **{"repos": "repo", "sources": "source", "languages": "language", "paths": "path"},
    **{"projects": "project", "statuses": "status", "spaces": "wiki_space"},
    **{"labels": "labels", "tags": "tags", "namespaces": "tags"},
    **{name: name for name in HELD_LISTS},
}
"""Filters whose nearest values are named, and the columns that have them."""

_NOUNS: Mapping[str, str] = {
    **{"repos": "repository", "statuses": "status", "branches": "branch", "classes": "class"},
    **{"source_types": "type of source", "kinds": "kind of definition", "fix_versions": "version"},
    "record_kinds": "kind of record",
    **{"symbols": "definition", "exports": "exported definition"},
}
_MAX_NAMED = 3  # values, in a sentence
_MAX_DESCRIBED = 5  # values of one filter
_MAX_COMPARED = 5_000  # names that one is compared with
_CUTOFF = 0.6
_MAX_SHOWN_CHARS = 100
_MAX_KEPT = 1_000  # answers
_MAX_LISTS = 16  # of values


class JudgedTerms(NamedTuple):
    """Which terms of a question are words of it, and what is said of all."""

    as_words: frozenset[str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _View:
    """A release as one caller may see it."""

    release: Release
    readers: Sequence[IndexReader]
    access: Access


class KnownValues:
    """Keeps what it has read of the release that was asked last. For one event loop."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._release: Release | None = None
        self._existing: LRUCache[Hashable, bool] = LRUCache(_MAX_KEPT)
        self._values: LRUCache[Hashable, Sequence[str]] = LRUCache(_MAX_LISTS)

    async def judge_terms(
        self, opened: OpenRelease, access: Access, terms: Collection[FilterTerm], filters: Filters
    ) -> JudgedTerms:
        """Take a term as a filter where something has its value, beside the filters of the question."""
        if not terms:
            return JudgedTerms(frozenset(), ())
        view = await self._open_view(opened, access)
        scope = Filters(branches=filters.branches, include_archived=filters.include_archived)
        taken, words = list[str](), dict[str, str]()
        for term in sorted(terms, key=lambda term: not term.filters.branches):
            if term.problem:
                words[term.text] = term.problem
            elif await self._exists(view, term.filters, scope):
                taken.append(term.text)
                scope = replace(scope, branches=(*scope.branches, *term.filters.branches))
            else:
                words[term.text] = await self._describe(view, term.filters)
        notes = [f"`{text}` was searched for as words: {why}" for text, why in words.items()]
        if taken:
            notes.insert(0, f"{TAKEN_AS_FILTERS}: {', '.join(f'`{it}`' for it in taken)}")
        return JudgedTerms(frozenset(words), tuple(notes))

    async def describe_unknown(
        self, opened: OpenRelease, access: Access, filters: Filters
    ) -> tuple[str, ...]:
        """A sentence for each value that nothing has, of the filters whose values are known."""
        scope = Filters(branches=filters.branches, include_archived=filters.include_archived)
        values = [
            (name, value)
            for name in (*_COLUMNS, "record_kinds")
            for value in getattr(filters, name)[:_MAX_DESCRIBED]
        ]
        if not values:
            return ()
        view, sentences = await self._open_view(opened, access), list[str]()
        for name, value in values:
            restriction = build_single_filter(name, (value,))
            if not value.startswith("!") and not await self._exists(view, restriction, scope):
                sentences.append(await self._describe(view, restriction))
        return tuple(sentences)

    async def suggest(self, opened: OpenRelease, access: Access, name: str, value: str) -> list[str]:
        """The values of a filter that are nearest to one that nothing has."""
        return await self._suggest(await self._open_view(opened, access), name, value)

    async def _open_view(self, opened: OpenRelease, access: Access) -> _View:
        if opened.release != self._release:
            self._existing.clear()
            self._values.clear()
            self._release = opened.release
        return _View(opened.release, (await opened.open_readable_readers())[0], access)

    async def _exists(self, view: _View, filters: Filters, scope: Filters) -> bool:
        """Whether any row has one of the values; a path may be one that a commit changes."""
        if not any(getattr(filters, name) for name in FILTER_NAMES if not name.endswith(("since", "until"))):
            return True
        branches = (*scope.branches, *filters.branches)
        wanted = replace(filters, branches=branches, include_archived=scope.include_archived)
        kept = self._existing.get((view.access, wanted))
        if kept is not None:
            return kept
        exists = await _has_rows(view, wanted) or (
            bool(filters.paths)
            and await _has_rows(view, replace(wanted, source_types=("git_history", "github_pr")))
        )
        if view.release is self._release:  # else a later question has emptied what is kept
            self._existing[view.access, wanted] = exists
        return exists

    async def _describe(self, view: _View, filters: Filters) -> str:
        name = next(name for name in FILTER_NAMES if getattr(filters, name))
        values: tuple[str, ...] = getattr(filters, name)
        noun = _NOUNS.get(name, name.removesuffix("s"))
        shown = " or ".join(repr(value[:_MAX_SHOWN_CHARS]) for value in values[:_MAX_NAMED])
        sentence = f"nothing that you may see has the {noun} {shown}"
        if nearest := await self._suggest(view, name, values[0]):
            return f"{sentence}; the nearest: {', '.join(nearest)}"
        known = self._values.get((view.access, name), ()) if name == "kinds" else ()
        return f"{sentence}; there are: {', '.join(known)}" if known else sentence

    async def _suggest(self, view: _View, name: str, value: str) -> list[str]:
        if name == "record_kinds":
            kinds = [build_single_filter(name, (kind,)) for kind in sorted({*RECORD_KINDS.values()})]
            existing = [kind.record_kinds[0] for kind in kinds if await self._exists(view, kind, Filters())]
            return find_nearest(value, existing) or existing
        if (column := _COLUMNS.get(name)) is None:
            return []
        key = (view.access, name)
        if (values := self._values.get(key)) is None:
            visible = compile_filter(view.access)
            by_reader = await gather_all(_list_values(reader, column, visible) for reader in view.readers)
            values = sorted({value for listed in by_reader for value in listed if value})
            if column == "tags":  # which hold namespaces, and in which branches a row stands
                tags, prefix = values, NAMESPACE_PREFIX
                values = [tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)]
                if name == "tags":
                    values = [tag for tag in tags if not (tag.startswith(prefix) or is_branch_tag(tag))]
            if view.release is self._release:
                self._values[key] = values
        find = find_nearest_paths if name == "paths" else find_nearest
        return await asyncio.to_thread(lambda: find(value, values))


async def _has_rows(view: _View, filters: Filters) -> bool:
    try:
        rows = await find_rows(view.readers, compile_filter(view.access, filters), ("id",), limit=1)
    except SpaceUnreadable:  # the search meets the same, and says so
        return True
    return bool(rows)


async def _list_values(reader: IndexReader, column: str, where: Filter) -> Sequence[str]:
    try:
        return await reader.list_values(column, where)
    except SpaceUnreadable:
        return ()


def find_nearest(value: str, values: Sequence[str]) -> list[str]:
    """The values most like one, letter case aside, by all of them or what follows a slash or a dot."""
    named = [(form, (known,)) for known in values for form in _forms(known)]
    return _find_close(value, named) or _find_close(value.rpartition("/")[2], named)


def find_nearest_paths(value: str, values: Sequence[str]) -> list[str]:
    """Paths whose last part is most like that of one: of files, and of the folders that they are in."""
    wanted = [part for part in normalize_path(value).split("/") if part.strip("*?.")]
    if not wanted:
        return []
    prefixes = dict[str, set[str]]()
    for path in values:
        parts = path.split("/")
        for end, part in enumerate(parts, start=1):
            below = "" if end == len(parts) else "/"
            prefixes.setdefault(part.casefold(), set()).add("/".join(parts[:end]) + below)
    return _find_close(wanted[-1].strip("*"), ((name, sorted(of)) for name, of in prefixes.items()))


def _forms(value: str) -> set[str]:
    return {part.casefold() for part in (value, value.rpartition("/")[2], value.rpartition(".")[2])}


def _find_close(value: str, named: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """What stands under the names that are most like a value; names of another length cannot be."""
    folded, by_name = value.casefold(), dict[str, list[str]]()
    for name, values in named:
        is_near_in_length = 2 * min(len(name), len(folded)) >= _CUTOFF * (len(name) + len(folded))
        if is_near_in_length and (name in by_name or len(by_name) < _MAX_COMPARED):
            by_name.setdefault(name, []).extend(values)
    close = get_close_matches(folded, by_name, n=_MAX_NAMED, cutoff=_CUTOFF)
    nearest = dict.fromkeys(value for name in close for value in by_name[name])
    return [" ".join(value[:_MAX_SHOWN_CHARS].split()) for value in nearest][:_MAX_NAMED]
