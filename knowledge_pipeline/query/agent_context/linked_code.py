"""Raises the chance of code that the best code uses, or that uses it, and adds what no search found of it.

What answers often stands in what a function calls. (docs/decisions/contexts.md)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses.search import SearchResult
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.agent_context.select import SearchChances
from knowledge_pipeline.query.search.engine import Engine

_LINKING_RESULTS = 3  # the best code, whose links are followed
_USED_FACTOR, _USER_FACTOR = 4.0, 2.0  # of the chance of a definition that one of them uses; of a caller
_RANK = 3  # of the result whose chance limits what is linked
_MAX_SHARE = 0.7  # of its chance, that a linked result rises to
_ADDED_SHARE = 0.4  # of its chance, that a definition has which no search found

_File = tuple[str | None, str | None]
"""Source and path."""


async def follow_links(
    engine: Engine, access: Access, filters: Filters, search: SearchChances, release: int
) -> SearchChances:
    """The results with the chances that links give them, then definitions that the best code uses.

    Nothing is added that the caller may not see, or that is of another release.
    """
    best = [result for result in search.results if result.graph][:_LINKING_RESULTS]
    if not best:
        return search
    limit = sorted(search.chances, reverse=True)[:_RANK][-1]  # the kind of task may change their order
    factors = _find_factors(best)
    raised = [
        max(chance, min(_MAX_SHARE * limit, chance * _factor_of(result, factors)))
        for result, chance in zip(search.results, search.chances, strict=True)
    ]
    added = await _read_used_code(engine, access, filters, search.results, best, release)
    chances = [*raised, *[_ADDED_SHARE * limit] * len(added)]
    return SearchChances(search.name, [*search.results, *added], chances)


async def _read_used_code(
    engine: Engine,
    access: Access,
    filters: Filters,
    results: Sequence[SearchResult],
    best: Sequence[SearchResult],
    release: int,
) -> Sequence[SearchResult]:
    """The definitions that the best code calls or extends, as far as they are not among the results."""
    shown = {
        (result.citation.source, result.citation.path, line)
        for result in results
        for line in range(result.span.start_line, result.span.end_line + 1)
    }
    used = (
        (neighbour.source, neighbour.path, neighbour.line)
        for result in best
        if result.graph
        for neighbour in (*result.graph.calls, *result.graph.extends)
        if neighbour.source and neighbour.path and neighbour.line
    )
    missing = [location for location in dict.fromkeys(used) if location not in shown]
    if not missing or (filters.source_types and "code" not in filters.source_types):
        return ()
    response = await engine.read_lines(missing, access, replace(filters, source_types=("code",)))
    return response.results if response.release == release else ()


def _find_factors(best: Sequence[SearchResult]) -> dict[_File, dict[int, float]]:
    """By file, the lines that the best code leads to or is used from, with their factors."""
    factors: dict[_File, dict[int, float]] = {}
    for result in best:
        if result.graph is None:
            continue
        graph = result.graph
        neighbours = {
            _USER_FACTOR: (*graph.called_by, *graph.implemented_by),
            _USED_FACTOR: (*graph.calls, *graph.extends),
        }
        for factor, linked in neighbours.items():
            for neighbour in linked:
                if neighbour.line is not None:
                    factors.setdefault((neighbour.source, neighbour.path), {})[neighbour.line] = factor
    return factors


def _factor_of(result: SearchResult, factors: Mapping[_File, Mapping[int, float]]) -> float:
    lines = factors.get((result.citation.source, result.citation.path), {})
    span = result.span
    return max(
        (factor for line, factor in lines.items() if span.start_line <= line <= span.end_line), default=1.0
    )
