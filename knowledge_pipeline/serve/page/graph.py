"""The code graph around a definition or a file: a drawing and lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.graph_operations import GRAPH_OPERATIONS, GraphMethod
from knowledge_pipeline.contract.responses.graph import GraphEdge, GraphNode, GraphResponse
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.code_graph.engine import GraphRequest
from knowledge_pipeline.serve.page import links
from knowledge_pipeline.serve.page.graph_drawing import draw_graph
from knowledge_pipeline.serve.page.rendering import PageRoute, render_page
from knowledge_pipeline.serve.page.sessions import PageContext

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

_MAX_NODES = 200


@dataclass(frozen=True, slots=True)
class GraphView:
    """One operation of the code graph that the page shows."""

    method: GraphMethod
    title: str
    users_title: str  # heading of nodes that use the target
    used_title: str

    @property
    def operation(self) -> str:
        """Its name in the address of the page."""
        return GRAPH_OPERATIONS[self.method].path


_VIEWS: Mapping[str, GraphView] = {
    view.operation: view
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
        views=[(each, _view_url(target, source, each.operation)) for each in _VIEWS.values()],
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
    return links.document_url(node.source, node.path, node.lines or "") if node.source and node.path else None


def graph_url(node: GraphNode) -> str | None:
    """The page that shows the graph around a node; None if the node is outside."""
    if not (node.source and node.path):
        return None
    return _view_url(node.path if node.kind == "file" else f"{node.path}:{node.name}", node.source, "calls")


def _view_url(target: str, source: str, operation: str) -> str:
    params = {"target": target, "source": source, "operation": operation if operation != "calls" else ""}
    return f"/graph?{urlencode({name: value for name, value in params.items() if value})}"
