"""Questions to the code graph: what uses this, what does it call, what would break.

Every method takes an `Access`, as those of `Engine` do; a target is what `graph_target` says. A name
that may mean several things is answered with the candidates alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, fields
from typing import Any

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import GraphEdge, GraphNode, GraphResponse
from knowledge_pipeline.contract.types import MAX_DEPTH, MAX_NODES, CallDirection
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.code_graph.members import MemberScope
from knowledge_pipeline.query.code_graph.related import rank_related_code
from knowledge_pipeline.query.code_graph.target import ResolvedTarget, find_target
from knowledge_pipeline.query.code_graph.visible_graph import VisibleGraph
from knowledge_pipeline.query.code_graph.walk import DEPENDENCY_KINDS, EdgeDirection, Walk
from knowledge_pipeline.query.open_release import Index
from knowledge_pipeline.query.stopwatch import Stopwatch

DEFAULT_LIMIT = 100  # of an answer, where nobody says

CALL_KINDS = ("calls",)
USE_KINDS = ("calls", "references", "extends", "implements", "imports")
INHERITANCE_KINDS = ("extends", "implements")
_ALLOWED_FILTERS = frozenset({"languages", "sources", "source_types", "repos", "branches", "paths", "tags"})
_BOTH_DIRECTIONS: tuple[EdgeDirection, ...] = ("in", "out")
_DEPENDENT_KINDS = ("calls", "references", "extends", "implements")


@dataclass(frozen=True, slots=True)
class GraphRequest:
    """A question to the code graph."""

    operation: str
    target: str
    filters: Filters  # what the target is looked for among
    limit: int = DEFAULT_LIMIT  # nodes beside the target
    depth: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_NODES:
            raise InvalidQuery(f"found limit {self.limit}; allowed: 1 to {MAX_NODES}")
        if not 1 <= self.depth <= MAX_DEPTH:
            raise InvalidQuery(f"found depth {self.depth}; allowed: 1 to {MAX_DEPTH}")
        given = {each.name for each in fields(Filters) if getattr(self.filters, each.name)}
        if unfit := given - _ALLOWED_FILTERS:
            raise InvalidQuery(
                f"the code graph is not narrowed by {', '.join(sorted(unfit))}; "
                f"allowed: {', '.join(sorted(_ALLOWED_FILTERS))}"
            )


_Traversal = Callable[[Walk, Sequence[GraphNode]], Coroutine[Any, Any, None]]


class CodeGraph:
    """Asks the code graph of an index, as a rule the live release. Asynchronous, for one event loop.

    All methods raise `QuestionRefused` where the target, depth or limit make no sense, and `NotFound`
    where nothing is released, no code graph is, or it has no such target that the caller may see.
    """

    def __init__(self, index: Index) -> None:
        self._index = index

    async def find_usages(self, request: GraphRequest, access: Access) -> GraphResponse:
        """What uses a definition, or anything defined in it: definitions, with the places."""

        async def traverse(walk: Walk, targets: Sequence[GraphNode]) -> None:
            await walk.follow(_include_members(walk, targets), "in", USE_KINDS)
            _drop_internal_edges(walk)

        return await self._run(request, access, traverse)

    async def find_references(self, request: GraphRequest, access: Access) -> GraphResponse:
        """Every place that names exactly this definition or file."""

        async def traverse(walk: Walk, targets: Sequence[GraphNode]) -> None:
            await walk.follow({node.id for node in targets}, "in", USE_KINDS)

        return await self._run(request, access, traverse)

    async def get_call_graph(
        self, request: GraphRequest, access: Access, *, direction: CallDirection = "both"
    ) -> GraphResponse:
        """What calls a function and what it calls, step by step; of a class or file, its functions."""
        if direction not in ("callers", "callees", "both"):
            raise InvalidQuery(f"found direction {direction!r}; allowed: callers, callees, both")

        async def traverse(walk: Walk, targets: Sequence[GraphNode]) -> None:
            ids = _include_members(walk, targets)
            ways: dict[str, EdgeDirection] = {"callees": "in", "callers": "out"}  # what is not asked for
            wanted: list[EdgeDirection] = [way for other, way in ways.items() if direction != other]
            await walk.follow_all(*(_follow_from(ids, way, CALL_KINDS, request.depth) for way in wanted))
            _drop_internal_edges(walk)

        return await self._run(request, access, traverse)

    async def get_class_hierarchy(self, request: GraphRequest, access: Access) -> GraphResponse:
        """What a class extends or implements, and what extends or implements it."""

        async def traverse(walk: Walk, targets: Sequence[GraphNode]) -> None:
            ids = {node.id for node in targets}
            await walk.follow_all(
                *(_follow_from(ids, way, INHERITANCE_KINDS, request.depth) for way in _BOTH_DIRECTIONS)
            )

        return await self._run(request, access, traverse)

    async def get_dependencies(self, request: GraphRequest, access: Access) -> GraphResponse:
        """What a definition, file or folder depends on; of files these are files and imported names."""

        async def traverse(walk: Walk, targets: Sequence[GraphNode]) -> None:
            if all(node.kind == "file" for node in targets):
                await walk.follow({node.id for node in targets}, "out", DEPENDENCY_KINDS, depth=request.depth)
                return
            await walk.follow(_include_members(walk, targets), "out", USE_KINDS, depth=request.depth)
            _drop_internal_edges(walk)

        return await self._run(request, access, traverse)

    async def analyze_dependencies(self, request: GraphRequest, access: Access) -> GraphResponse:
        """What would break if this changed, by way of others too, and what it depends on itself.

        Of a definition: what calls, names or extends it, and so on, and who imports it. Of files: the
        files that use them, and so on.
        """

        async def traverse(walk: Walk, targets: Sequence[GraphNode]) -> None:
            if all(node.kind == "file" for node in targets):
                ids = {node.id for node in targets}
                ways = (
                    _follow_from(ids, "in", DEPENDENCY_KINDS, request.depth),
                    _follow_from(ids, "out", DEPENDENCY_KINDS, 1),
                )
                await walk.follow_all(*ways)
                return
            ids = _include_members(walk, targets)
            await walk.follow_all(
                _follow_from(ids, "in", _DEPENDENT_KINDS, request.depth),
                _follow_from(ids, "in", ("imports",), 1),
                _follow_from(ids, "out", USE_KINDS, 1),
            )
            _drop_internal_edges(walk)

        return await self._run(request, access, traverse)

    async def find_related_code(self, request: GraphRequest, access: Access) -> GraphResponse:
        """Definitions that have most to do with this one: by use, by common uses, by common place."""

        async def traverse(walk: Walk, targets: Sequence[GraphNode]) -> None:
            await rank_related_code(walk, targets, _include_members(walk, targets))

        return await self._run(request, access, traverse)

    async def _run(self, request: GraphRequest, access: Access, traverse: _Traversal) -> GraphResponse:
        watch = Stopwatch()
        with watch.step("open"):
            opened = await self._index.open_release()
            reader = await opened.open_graph_reader()
        if reader is None:
            raise NotFound("the code graph is not built: run `knowledge refresh`, with a source of type code")
        rows = VisibleGraph.for_access(reader, access)
        with watch.step("look_up"):
            target = await find_target(rows, request.target, request.filters)
        walk = Walk(rows, request.limit)
        if target.nodes:
            with watch.step("walk"):
                walk.add_start_nodes(target.nodes)
                await traverse(walk, target.nodes)
        return _build_answer(request, target, walk, watch, release=opened.release.release)


def _follow_from(
    ids: Collection[str], direction: EdgeDirection, kinds: Collection[str], depth: int
) -> Callable[[Walk], Coroutine[Any, Any, None]]:
    return lambda walk: walk.follow(ids, direction, kinds, depth=depth)


def _include_members(walk: Walk, targets: Sequence[GraphNode]) -> set[str]:
    """Start from what is defined in the targets, too; returns the ids of the targets."""
    walk.member_scope = MemberScope.from_nodes(targets)
    return {node.id for node in targets}


def _drop_internal_edges(walk: Walk) -> None:
    """Drop links between the target's own parts, and the parts that nothing else has to do with."""
    members = {id_ for id_, node in walk.nodes.items() if node.role == "member"}
    own = members | {id_ for id_, node in walk.nodes.items() if node.role == "target"}
    for key, link in list(walk.edges.items()):
        if link.source in own and link.target in own and (members or walk.member_scope.files):
            del walk.edges[key]
    linked = {end for link in walk.edges.values() for end in (link.source, link.target)}
    for id_ in members - linked:
        del walk.nodes[id_]


def _build_answer(
    request: GraphRequest, target: ResolvedTarget, walk: Walk, watch: Stopwatch, *, release: int
) -> GraphResponse:
    nodes = sorted(walk.nodes.values(), key=_node_sort_key)
    return GraphResponse(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=release,
        degraded=(),
        operation=request.operation,
        target=request.target,
        nodes=tuple(nodes),
        edges=tuple(sorted(walk.edges.values(), key=_edge_sort_key)),
        candidates=target.candidates,
        notes=tuple(_build_notes(request, target, walk)),
        timings_ms=watch.timings_ms,
        steps=tuple(watch.steps),
    )


def _node_sort_key(node: GraphNode) -> tuple[Any, ...]:
    """What was asked for first, then by score, else by side and distance."""
    side = ("target", "member", "used_by", "uses").index(node.role)
    ranked = (2, -node.score) if node.score is not None else (side, 0.0)
    return *ranked, node.distance, node.source or "~", node.path or "", node.name


def _edge_sort_key(link: GraphEdge) -> tuple[Any, ...]:
    return link.path, link.lines, link.kind, link.source, link.target


def _build_notes(request: GraphRequest, target: ResolvedTarget, walk: Walk) -> list[str]:
    notes: list[str] = []
    if target.candidates:
        more = "more than " if target.is_truncated else ""
        notes.append(
            f"{request.target!r} may mean {more}{len(target.candidates)} things: "
            "give more of its name, path:name, or a source"
        )
    if walk.left_out:
        notes.append(f"{walk.left_out} more were left out: the limit is {request.limit}")
    if walk.is_truncated:
        notes.append("there may be more beyond what is told: ask for less depth, or with a higher limit")
    if walk.unresolved:
        notes.append(f"{walk.unresolved} uses in it could not be resolved, and are left out")
    return notes
