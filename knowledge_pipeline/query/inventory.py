"""What there is to search, as far as a caller may see it, and why nothing was found in it.

Every read takes the caller's `Access`, so the answers are the same whether or not something hidden exists.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from knowledge_pipeline.contract.filters import SOURCE_TYPE_LABELS, Filters
from knowledge_pipeline.contract.operation import IndexedSource, IndexedSourcesResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.query.open_release import Index, find_rows
from knowledge_pipeline.query.plan import SearchPlan
from knowledge_pipeline.store.search import IndexReader

_COLUMNS = ("source", "source_type", "repo", "language")
_MAX_TRIED = 6  # filters, each by one bounded read
_MAX_COUNTED = 100  # chunks that a filter leaves out
_MAX_SHOWN_CHARS = 60
_DEFAULTS = Filters()


async def list_indexed_sources(index: Index, filters: Filters, access: Access) -> IndexedSourcesResponse:
    """The sources of the live release that have a chunk which the caller may see and the filters take.

    Raises:
        NotFound: nothing is released yet.
        StoreError: an index cannot be read.
    """
    opened = await index.open_release()
    readers = await opened.open_readers()
    where = compile_filter(access, filters)
    counts: Counter[tuple[Any, ...]] = Counter()
    for of_space in await asyncio.gather(*(reader.count_by(_COLUMNS, where) for reader in readers)):
        counts.update(of_space)
    chunks = Counter[tuple[str, str]]()
    repos, languages = (defaultdict[str, Counter[str | None]](Counter) for _ in range(2))
    for (source, type_, repo, language), rows in counts.items():
        chunks[source, type_] += rows
        repos[source][repo] += rows
        languages[source][language] += rows
    sources = tuple(
        IndexedSource(source, type_, rows, _rank(repos[source]), _rank(languages[source]))
        for (source, type_), rows in sorted(chunks.items())
    )
    return IndexedSourcesResponse(opened.release.release, tuple(opened.missing), sources)


async def count_documents(index: Index, access: Access) -> int:
    """The documents of the live release that have a chunk which the caller may see; raises as above."""
    readers = await (await index.open_release()).open_readers()
    where, columns = compile_filter(access), ("source", "uri")
    counts = await asyncio.gather(*(reader.count_by(columns, where) for reader in readers))
    return len(set[tuple[Any, ...]]().union(*counts))


def _rank(counts: Counter[str | None]) -> tuple[str, ...]:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0] or ""))
    return tuple(name for name, _ in ranked if name)


async def explain_absence(
    plan: SearchPlan, readers: Sequence[IndexReader], finds: Callable[[SearchPlan], Awaitable[bool]]
) -> tuple[str, ...]:
    """Sentences on a plan that found nothing; `finds`: whether a wider one does. Raises `SpaceUnreadable`."""
    kinds = Counter[str]()
    for reader in readers:
        visible = await reader.count_by(("source_type",), compile_filter(plan.access))
        kinds.update({type_: count for (type_,), count in visible.items()})
    if not kinds:
        return ("nothing is indexed here that you may see",)
    by_words, removals = plan.question.mode == "words", list[str]()
    if by_words or not await find_rows(readers, plan.condition, ("id",), limit=1):
        for name in _list_set_filters(plan)[:_MAX_TRIED]:
            wider = _widen(plan, name)
            rows = await find_rows(readers, wider.condition, ("id",), limit=_MAX_COUNTED + 1)
            if rows and (not by_words or await finds(wider)):
                count = "over 100" if len(rows) > _MAX_COUNTED else str(len(rows))
                remain = "chunk remains" if count == "1" else "chunks remain"
                there_is = "something is found" if by_words else f"{count} {remain}"
                values = dict.fromkeys(
                    it for one in plan.restrictions for it in _to_texts(getattr(one, name))
                )
                removals.append(f"without `{name}: {', '.join(values)[:_MAX_SHOWN_CHARS]}` {there_is}")
    wanted = plan.profile.filters.source_types
    missing = f"no source that you may see has any {' or '.join(SOURCE_TYPE_LABELS[it] for it in wanted)}; "
    listed = ", ".join(
        f"{SOURCE_TYPE_LABELS.get(type_, type_)} ({count})" for type_, count in kinds.most_common()
    )
    there_is = f"{missing if wanted and kinds.keys().isdisjoint(wanted) else ''}there are chunks of {listed}"
    return (*([f"filters leave nothing: {'; '.join(removals)}"] if removals else []), there_is)


def _list_set_filters(plan: SearchPlan) -> list[str]:
    """The names of the filters that were given or typed."""
    given_filters = [it for it in plan.restrictions if it is not plan.profile.filters]
    names = (item.name for item in fields(Filters) if item.name != "include_archived")
    return [
        name for name in names if any(getattr(it, name) != getattr(_DEFAULTS, name) for it in given_filters)
    ]


def _widen(plan: SearchPlan, name: str) -> SearchPlan:
    """The same without one filter."""
    unset = {name: getattr(_DEFAULTS, name)}
    own = plan.profile.filters
    restrictions = tuple(it if it is own else replace(it, **unset) for it in plan.restrictions)
    return replace(plan, restrictions=restrictions, condition=compile_filter(plan.access, *restrictions))


def _to_texts(value: object) -> list[str]:
    parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    return [str(part) for part in parts if part]
