"""Follows the code graph from what the searches of a task found, and to what its text asks for.

What answers often stands in what a function calls; and who calls a function is what the graph knows, and a
search can only guess. (docs/decisions/contexts.md) Nothing is added that the caller may not see, or that is
of another release.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from os.path import commonpath

from knowledge_pipeline.context.select import SearchChances
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import GraphEdge, GraphNode, GraphResponse, SearchResult
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.graph_queries import GraphRequest
from knowledge_pipeline.query.plan import find_used_names
from knowledge_pipeline.query.search import Engine

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
    """The results with the chances that links give them, then definitions that the best code uses."""
    best = [result for result in search.results if result.graph][:_LINKING_RESULTS]
    if not best:
        return search
    limit = sorted(search.chances, reverse=True)[:_RANK][-1]  # the kind of task may change their order
    factors = _find_factors(best)
    raised: list[float] = []
    for result, chance in zip(search.results, search.chances, strict=True):
        in_file = factors.get((result.citation.source, result.citation.path), {})
        lines = range(result.span.start_line, result.span.end_line + 1)
        factor = max((factor for line, factor in in_file.items() if line in lines), default=1.0)
        raised.append(max(chance, min(_MAX_SHARE * limit, chance * factor)))
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
        users = ((neighbour, _USER_FACTOR) for neighbour in (*graph.called_by, *graph.implemented_by))
        used = ((neighbour, _USED_FACTOR) for neighbour in (*graph.calls, *graph.extends))
        for neighbour, factor in (*users, *used):
            if neighbour.line is not None:
                factors.setdefault((neighbour.source, neighbour.path), {})[neighbour.line] = factor
    return factors


_MAX_USERS = 30  # of one definition
_MAX_MEANINGS = 5  # definitions of one name
_LINES_PER_USER = 3  # in one file
_NEXT_USER = 0.99  # of the chance of the one before


async def find_users(
    engine: Engine, access: Access, text: str, filters: Filters, release: int
) -> Sequence[SearchResult]:
    """The chunks that use the definitions whose users a text asks for, the surest first.

    Calls come before other uses, then those in the file of the definition and in the folders nearest to it.
    Nothing for a text that asks for no users, and for names that are unknown.
    """
    names = find_used_names(text)
    if not names or (filters.source_types and "code" not in filters.source_types):
        return ()
    uses = [use for name in names for use in await _find_uses(engine, access, name)]
    uses.sort(key=lambda use: (use[1].kind != "calls", -use[1].confidence, -use[2]))
    lines = ((source, edge.path, line) for source, edge, _ in uses for line in edge.lines[:_LINES_PER_USER])
    if not (places := list(dict.fromkeys(lines))):
        return ()
    response = await engine.read_lines(places, access, replace(filters, source_types=("code",)))
    return response.results if response.release == release else ()


def put_first(search: SearchChances, users: Sequence[SearchResult]) -> SearchChances:
    """The results after those that use what was asked for, whose chance is between the best one's and 1."""
    chance = (1 + max(search.chances, default=0.0)) / 2
    ids = {result.id for result in users}
    others = [pair for pair in zip(search.results, search.chances, strict=True) if pair[0].id not in ids]
    return SearchChances(
        search.name,
        [*users, *(result for result, _ in others)],
        [*(chance * _NEXT_USER**rank for rank, _ in enumerate(users)), *(chance for _, chance in others)],
    )


async def _find_uses(engine: Engine, access: Access, name: str) -> list[tuple[str, GraphEdge, int]]:
    """The uses of a name, or of each of the few definitions that it may mean: see `_iter_uses`."""
    try:
        answer = await engine.query_graph(GraphRequest("find_usages", name, limit=_MAX_USERS), access)
    except NotFound:
        return []
    answers = [answer]
    if answer.candidates and len(answer.candidates) <= _MAX_MEANINGS:
        requests = map(_ask_for_users, answer.candidates)
        answers = [await engine.query_graph(request, access) for request in requests]
    return [use for answer in answers for use in _iter_uses(answer)]


def _ask_for_users(node: GraphNode) -> GraphRequest:
    filters = Filters(sources=(node.source,) if node.source else ())
    return GraphRequest("find_usages", f"{node.path}:{node.name}", filters, limit=_MAX_USERS)


def _iter_uses(answer: GraphResponse) -> Iterator[tuple[str, GraphEdge, int]]:
    """Source and edge of each use, and how much its path shares with that of what it uses."""
    nodes = {node.id: node for node in answer.nodes}
    for edge in answer.edges:
        user, used = nodes.get(edge.source), nodes.get(edge.target)
        if edge.kind != "imports" and user and user.role == "used_by" and user.source:
            paths = [edge.path, (used and used.path) or ""]
            yield user.source, edge, len(commonpath(paths))
