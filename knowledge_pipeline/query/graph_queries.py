"""Queries of the code graph: what uses this, what does it call, what would a change break.

Every query takes an `Access`; `find_target` describes targets. A name that may mean several things
is answered with the candidates alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, TypedDict, Unpack

from knowledge_pipeline.contract.filters import (
    FILTER_NAMES,
    CallDirection,
    Filters,
    FiltersLike,
    build_filters,
)
from knowledge_pipeline.contract.requests import GRAPH_OPERATIONS, GraphMethod, GraphOperation
from knowledge_pipeline.contract.responses import GraphNode, GraphResponse
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.answer_cache import Stopwatch
from knowledge_pipeline.query.code_graph import (
    DECLARES,
    DEPENDENCY_KINDS,
    EdgeDirection,
    EdgePath,
    ResolvedTarget,
    Walk,
    find_target,
    open_code_graph,
    rank_related_code,
)
from knowledge_pipeline.query.documents import read_by_id
from knowledge_pipeline.query.open_release import Index, OpenRelease
from knowledge_pipeline.query.places import CHUNK_ID
from knowledge_pipeline.query.visible_graph import MemberScope, VisibleGraph
from knowledge_pipeline.sync_facade import SyncFacade, blocking

CALL_KINDS = ("calls",)
USE_KINDS = ("calls", "references", "extends", "implements", "imports", "uses")
INHERITANCE_KINDS = ("extends", "implements")
_ALLOWED_FILTERS = frozenset({"languages", "sources", "source_types", "repos", "branches", "paths", "tags"})
_DEPENDENT_KINDS = ("calls", "references", "extends", "implements", "uses", DECLARES)
_EDGE_ORDER = attrgetter("path", "lines", "kind", "source", "target")
_CallDirections = Mapping[CallDirection, Sequence[EdgeDirection]]
_CALL_DIRECTIONS: _CallDirections = {"callers": ("in",), "callees": ("out",), "both": ("in", "out")}


@dataclass(frozen=True, slots=True)
class GraphRequest:
    """A query of the code graph; where limit and depth are None, the operation's defaults hold.

    Raises:
        InvalidQuery: a value is out of range or of another operation, or a filter does not apply to the code
            graph.
    """

    method: GraphMethod
    target: str
    filters: Filters = field(default_factory=Filters)  # where to look for the target
    limit: int | None = None  # nodes in addition to the target
    depth: int | None = None  # steps from the target
    direction: CallDirection = "both"  # of get_call_graph
    max_age: str | None = None  # how new its sources should be

    def __post_init__(self) -> None:
        for name, value in (("limit", self.max_nodes), ("depth", self.max_depth)):
            if value < 1:
                raise InvalidQuery(f"found {name} {value}; allowed: 1 or more")
        if self.depth is not None and self.operation.default_depth is None:
            raise InvalidQuery(f"{self.operation.path} follows no edges step by step: omit the depth")
        if self.direction not in _CALL_DIRECTIONS:
            raise InvalidQuery(f"found direction {self.direction!r}; allowed: {', '.join(_CALL_DIRECTIONS)}")
        if self.direction != "both" and not self.operation.has_direction:
            raise InvalidQuery(f"{self.operation.path} does not follow calls: omit the direction")
        if unsupported := {name for name in FILTER_NAMES if getattr(self.filters, name)} - _ALLOWED_FILTERS:
            raise InvalidQuery(
                f"the code graph is not narrowed by {', '.join(sorted(unsupported))}; "
                f"allowed: {', '.join(sorted(_ALLOWED_FILTERS))}"
            )

    @property
    def operation(self) -> GraphOperation:
        """What the contract says of it."""
        return GRAPH_OPERATIONS[self.method]

    @property
    def max_nodes(self) -> int:
        """The limit that holds."""
        return self.operation.default_limit if self.limit is None else self.limit

    @property
    def max_depth(self) -> int:
        """The depth that holds."""
        return self.operation.default_depth or 1 if self.depth is None else self.depth


async def query_graph(index: Index, request: GraphRequest, access: Access) -> GraphResponse:
    """Find the target in the code graph, and walk from it as the request's operation does.

    Raises:
        InvalidQuery: the target is empty.
        NotFound: nothing is released, there is no code graph, or it has no such target that the caller may
            see.
    """
    watch = Stopwatch()
    with watch.step("open"):
        opened = await index.open_release()
        graph = await open_code_graph(opened, access)
    with watch.step("look_up"):
        target = await _find_chunk(opened, graph, request, access)
        target = target or await find_target(graph, request.target, request.filters)
    walk = Walk(graph, request.max_nodes)
    if target.nodes:
        with watch.step("walk"):
            walk.add_start_nodes(target.nodes)
            await _traverse(walk, target.nodes, request)
    notes = _build_notes(request, target, walk)
    if request.method == "analyze_dependencies":
        with watch.step("surroundings"):
            from knowledge_pipeline.query.impact_notes import describe_surroundings  # most only search

            notes += await describe_surroundings(opened, graph, walk.nodes.values(), access)
    return GraphResponse(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=opened.release.release,
        degraded=tuple(opened.missing),
        operation=request.operation.path,
        target=request.target,
        nodes=tuple(sorted(walk.nodes.values(), key=_order_targets_first)),
        edges=tuple(sorted(walk.edges.values(), key=_EDGE_ORDER)),
        candidates=target.candidates,
        notes=tuple(notes),
        timings_ms=watch.timings_ms,
        steps=tuple(watch.steps),
    )


async def _find_chunk(
    opened: OpenRelease, graph: VisibleGraph, request: GraphRequest, access: Access
) -> ResolvedTarget | None:
    """What the chunk defines whose id the target is, else the definition around it; None: it is no id."""
    if not CHUNK_ID.fullmatch(request.target):
        return None
    try:
        chunk = (await read_by_id(await opened.open_readers(), request.target, access))[0]
    except NotFound:
        return None
    of_source = replace(request.filters, sources=(chunk.source,))
    for place in (*chunk.symbols[:1], chunk.start_line):
        with suppress(NotFound):
            return await find_target(graph, f"{chunk.path}:{place}", of_source)
    return None


async def _traverse(walk: Walk, targets: Sequence[GraphNode], request: GraphRequest) -> None:
    """Walk as the request's operation does: from the targets alone, or from their members, too."""
    ids, depth = {node.id for node in targets}, request.max_depth
    between_files = all(node.kind == "file" for node in targets)
    match request.method:
        case "find_references":
            return await walk.follow(ids, "in", USE_KINDS)
        case "get_class_hierarchy":
            paths = [EdgePath("in", INHERITANCE_KINDS, depth), EdgePath("out", INHERITANCE_KINDS, depth)]
            return await walk.follow_all(ids, *paths)
        case "get_dependencies" if between_files:
            return await walk.follow(ids, "out", DEPENDENCY_KINDS, depth=depth)
        case "analyze_dependencies" if between_files:
            dependents = EdgePath("in", (*DEPENDENCY_KINDS, DECLARES), depth)
            paths = [dependents, EdgePath("out", DEPENDENCY_KINDS)]
            return await walk.follow_all(ids, *paths)
        case _:
            walk.member_scope = MemberScope.from_nodes(targets)
    match request.method:
        case "find_related_code":
            return await rank_related_code(walk, targets, ids)
        case "find_usages":
            if targets[0].source is None:  # a route, or another name of a system
                return await walk.follow_all(ids, EdgePath("in", USE_KINDS), EdgePath("out", (DECLARES,)))
            await walk.follow(ids, "in", USE_KINDS)
        case "get_dependencies":
            await walk.follow(ids, "out", (*USE_KINDS, DECLARES), depth=depth)
        case "get_call_graph":
            paths = [EdgePath(way, CALL_KINDS, depth) for way in _CALL_DIRECTIONS[request.direction]]
            await walk.follow_all(ids, *paths)
        case "analyze_dependencies":
            dependents = (EdgePath("in", _DEPENDENT_KINDS, depth), EdgePath("in", ("imports",)))
            await walk.follow_all(ids, *dependents, EdgePath("out", (*USE_KINDS, DECLARES)))
    walk.drop_internal_edges()


def _order_targets_first(node: GraphNode) -> tuple[Any, ...]:
    """Then by score, else by role and distance."""
    role = ("target", "member", "used_by", "uses").index(node.role)
    rank = (2, -node.score) if node.score is not None else (role, 0.0)
    return *rank, node.distance, node.source or "~", node.path or "", node.name


def _build_notes(request: GraphRequest, target: ResolvedTarget, walk: Walk) -> list[str]:
    notes: list[str] = []
    if target.candidates:
        more = "more than " if target.is_truncated else ""
        notes.append(
            f"{request.target!r} may mean {more}{len(target.candidates)} things: "
            "give more of its name, path:name, or a source"
        )
    if walk.left_out:
        notes.append(f"{walk.left_out} more were left out: the limit is {request.max_nodes}")
    if walk.is_truncated:
        notes.append("there may be more than is shown: use less depth, or a higher limit")
    if walk.unresolved:
        notes.append(f"{walk.unresolved} uses in it could not be resolved, and are left out")
    return notes


class GraphArguments(TypedDict, total=False):
    """What every method takes besides its target; where one is None, `GRAPH_OPERATIONS` has the default."""

    filters: FiltersLike  # where to look for the target: `_ALLOWED_FILTERS`
    limit: int | None  # nodes in addition to the target
    max_age: str | None  # how new its sources should be ("15m"): those that may be older are named
    access: Access | None  # the caller's


class WalkArguments(GraphArguments, total=False):
    """Of a method that follows edges."""

    depth: int | None  # steps from the target


class CallArguments(WalkArguments, total=False):
    """Of the method that follows calls."""

    direction: CallDirection


class AsyncGraph:
    """The code graph of the live release, as `AsyncKnowledgeBase` offers it.

    `find_target` describes targets.

    Raises (all methods):
        InvalidQuery: the target or an argument makes no sense.
        NotFound: nothing is released, there is no code graph, or it has no such target.
    """

    def __init__(self, run: Callable[[GraphRequest, Access | None], Awaitable[GraphResponse]]) -> None:
        self._run = run

    async def query(self, request: GraphRequest, *, access: Access | None = None) -> GraphResponse:
        """Any operation."""
        return await self._run(request, access)

    async def find_usages(self, target: str, **arguments: Unpack[GraphArguments]) -> GraphResponse:
        """What uses a definition, or anything defined in it: definitions, with the places."""
        return await self._ask("find_usages", target, **arguments)

    async def find_references(self, target: str, **arguments: Unpack[GraphArguments]) -> GraphResponse:
        """Every place that names exactly this definition or file."""
        return await self._ask("find_references", target, **arguments)

    async def get_call_graph(self, target: str, **arguments: Unpack[CallArguments]) -> GraphResponse:
        """What calls a function and what it calls, step by step; of a class or file, its functions."""
        return await self._ask("get_call_graph", target, **arguments)

    async def get_class_hierarchy(self, target: str, **arguments: Unpack[WalkArguments]) -> GraphResponse:
        """What a class extends or implements, and what extends or implements it."""
        return await self._ask("get_class_hierarchy", target, **arguments)

    async def get_dependencies(self, target: str, **arguments: Unpack[WalkArguments]) -> GraphResponse:
        """What a definition, file or folder depends on; of files these are files and imported names."""
        return await self._ask("get_dependencies", target, **arguments)

    async def analyze_dependencies(self, target: str, **arguments: Unpack[WalkArguments]) -> GraphResponse:
        """What a change could break, directly and indirectly, and what the target depends on.

        Of a definition: what calls, names or extends it, and so on, and who imports it. Of files: the
        files that use them, and so on.
        """
        return await self._ask("analyze_dependencies", target, **arguments)

    async def find_related_code(self, target: str, **arguments: Unpack[GraphArguments]) -> GraphResponse:
        """The definitions most closely related to one, by use, by common uses and by place."""
        return await self._ask("find_related_code", target, **arguments)

    async def _ask(
        self,
        method: GraphMethod,
        target: str,
        *,
        filters: FiltersLike | None = None,
        access: Access | None = None,
        **arguments: Any,
    ) -> GraphResponse:
        request = GraphRequest(method, target, build_filters(filters or {}), **arguments)
        return await self._run(request, access)


class Graph(SyncFacade[AsyncGraph]):
    """`AsyncGraph`, for code that waits for the response."""

    query = blocking(AsyncGraph.query)
    find_usages = blocking(AsyncGraph.find_usages)
    find_references = blocking(AsyncGraph.find_references)
    get_call_graph = blocking(AsyncGraph.get_call_graph)
    get_class_hierarchy = blocking(AsyncGraph.get_class_hierarchy)
    get_dependencies = blocking(AsyncGraph.get_dependencies)
    analyze_dependencies = blocking(AsyncGraph.analyze_dependencies)
    find_related_code = blocking(AsyncGraph.find_related_code)
