"""The code graph around a definition or a file: a drawing, what uses it on the left, and lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.requests import GRAPH_OPERATIONS, GraphMethod
from knowledge_pipeline.contract.responses import GraphEdge, GraphNode, GraphResponse
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.graph_queries import GraphRequest
from knowledge_pipeline.serve.page.rendering import PageRoute, render_page
from knowledge_pipeline.serve.page.results import document_url
from knowledge_pipeline.serve.page.sessions import PageContext

MAX_BOXES = 10  # boxes in one column
_WIDTH, _HEIGHT = 220, 40
_GAP_X, _GAP_Y = 90, 12
_NAME_CHARS, _PLACE_CHARS = 27, 34


@dataclass(frozen=True, slots=True)
class Box:
    """One node, with the left and top of its box in pixels."""

    node: GraphNode | None  # None: those that are not drawn
    x: int
    y: int
    name: str
    location: str

    @property
    def middle_y(self) -> int:
        """The height at which lines end."""
        return self.y + _HEIGHT // 2


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes, the curves between them as paths of SVG with the kinds of their links, and the size."""

    boxes: tuple[Box, ...]
    curves: tuple[tuple[str, str], ...]
    width: int
    height: int
    box_width: int = _WIDTH
    box_height: int = _HEIGHT


def draw_graph(answer: GraphResponse) -> Drawing | None:
    """The nearest nodes of an answer about one thing; None where there is nothing to draw."""
    users = [node for node in answer.nodes if node.role == "used_by" and node.distance <= 1]
    used = [node for node in answer.nodes if node.role == "uses" and node.distance <= 1]
    middle = [node for node in answer.nodes if node.role in ("target", "member")]
    if not middle or not (users or used):
        return None
    columns = [users, middle, used]
    rows = max(min(len(column), MAX_BOXES + 1) for column in columns)
    height = rows * (_HEIGHT + _GAP_Y) - _GAP_Y
    boxes = [list(_layout_column(nodes, at, height)) for at, nodes in enumerate(columns)]
    every = tuple(box for column in boxes for box in column)
    width = 3 * _WIDTH + 2 * _GAP_X
    return Drawing(every, tuple(_iter_curves(answer, every)), width, height)


def _layout_column(nodes: Sequence[GraphNode], column: int, height: int) -> Iterator[Box]:
    drawn = nodes if len(nodes) <= MAX_BOXES + 1 else nodes[:MAX_BOXES]
    count = len(drawn) + (len(drawn) < len(nodes))
    x, top = column * (_WIDTH + _GAP_X), (height - count * (_HEIGHT + _GAP_Y) + _GAP_Y) // 2
    for row, node in enumerate(drawn):
        y = top + row * (_HEIGHT + _GAP_Y)
        yield Box(node, x, y, _truncate_start(node.name, _NAME_CHARS), _format_location(node))
    if len(drawn) < len(nodes):
        y = top + len(drawn) * (_HEIGHT + _GAP_Y)
        yield Box(None, x, y, f"{len(nodes) - len(drawn)} more", "in the list below")


def _format_location(node: GraphNode) -> str:
    if node.path is None:
        return "outside"
    line = (node.lines or "").partition("-")[0].removeprefix("L")
    location = f"{node.path}:{line}" if line and node.kind != "file" else node.path
    while len(location) > _PLACE_CHARS and "/" in location:
        location = location.partition("/")[2]
    return _truncate_start(location, _PLACE_CHARS)


def _iter_curves(answer: GraphResponse, boxes: Sequence[Box]) -> Iterator[tuple[str, str]]:
    at = {box.node.id: box for box in boxes if box.node}
    drawn = set[tuple[str, str]]()
    for link in answer.edges:
        start, end = at.get(link.source), at.get(link.target)
        if start is None or end is None or start.x >= end.x or (link.source, link.target) in drawn:
            continue
        drawn.add((link.source, link.target))
        left, right = start.x + _WIDTH, end.x - 6
        bend = (right - left) // 2
        bent = f"{left + bend} {start.middle_y} {right - bend} {end.middle_y}"
        yield f"M{left} {start.middle_y}C{bent} {right} {end.middle_y}", link.kind


def _truncate_start(text: str, max_chars: int) -> str:
    """The end of a text, which tells more of a path or a qualified name than its beginning."""
    spaced = " ".join(text.split())
    return spaced if len(spaced) <= max_chars else f"…{spaced[1 - max_chars :]}"


routes = APIRouter(include_in_schema=False, route_class=PageRoute)

_MAX_NODES = 200


@dataclass(frozen=True, slots=True)
class GraphView:
    """One operation of the code graph that the page shows."""

    method: GraphMethod
    title: str
    users_title: str  # heading of nodes that use the target
    used_title: str


_VIEWS: Mapping[str, GraphView] = {
    GRAPH_OPERATIONS[view.method].path: view
    for view in (
        GraphView("get_call_graph", "Calls", "Called by", "Calls"),
        GraphView("find_usages", "Usages", "Used by", "Uses"),
        GraphView("get_class_hierarchy", "Hierarchy", "Extended by", "Extends"),
        GraphView("get_dependencies", "Depends on", "Used by", "Depends on"),
        GraphView("analyze_dependencies", "What would break", "Would break", "Uses"),
        GraphView("find_related_code", "Related", "Related, uses it", "Related"),
    )
}


@routes.get("/graph")
async def graph(request: Request, ctx: PageContext) -> Response:
    """What uses a piece of code and what it uses, in one of several views."""
    params = request.query_params
    target, source = params.get("target", ""), params.get("source", "")
    operation = params.get("operation", "calls")
    if operation not in _VIEWS:
        raise InvalidQuery(f"found the operation {operation[:40]!r}; allowed: {', '.join(_VIEWS)}")
    view, filters = _VIEWS[operation], Filters(sources=(source,) if source else ())
    graph_request = GraphRequest(
        view.method, target, filters, limit=min(_MAX_NODES, ctx.service.settings.limits.graph_nodes)
    )
    answer = await ctx.execute(lambda base, access: base.graph.query(graph_request, access=access))
    return render_page(
        request,
        "graph.html.j2",
        answer=answer,
        view=view,
        views=[(other, _view_url(target, source, name)) for name, other in _VIEWS.items()],
        drawing=draw_graph(answer),
        users=[node for node in answer.nodes if node.role == "used_by"],
        used=[node for node in answer.nodes if node.role == "uses"],
        edges_of=group_edges(answer),
        node_url=node_url,
        graph_url=graph_url,
    )


def group_edges(answer: GraphResponse) -> dict[str, list[GraphEdge]]:
    """By the id of a node that was found, the edges by which it was."""
    roles = {node.id: node.role for node in answer.nodes}
    edges: dict[str, list[GraphEdge]] = {}
    for edge in answer.edges:
        for end, role in ((edge.source, "used_by"), (edge.target, "uses")):
            if roles.get(end) == role:
                edges.setdefault(end, []).append(edge)
    return edges


def node_url(node: GraphNode) -> str | None:
    """The page that shows a node's code; None if the node is outside."""
    return document_url(node.source, node.path, node.lines or "") if node.source and node.path else None


def graph_url(node: GraphNode) -> str | None:
    """The page that shows the graph around a node; None if the node is outside."""
    if not (node.source and node.path):
        return None
    return _view_url(node.path if node.kind == "file" else f"{node.path}:{node.name}", node.source, "calls")


def _view_url(target: str, source: str, operation: str) -> str:
    params = {"target": target, "source": source, "operation": operation if operation != "calls" else ""}
    return f"/graph?{urlencode({name: value for name, value in params.items() if value})}"
