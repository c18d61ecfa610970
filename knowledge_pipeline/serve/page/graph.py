"""The code graph around a definition or a file: a drawing and lists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import GraphNode, GraphResponse
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.code_graph.interface import AsyncGraph
from knowledge_pipeline.serve.page import links
from knowledge_pipeline.serve.page.graph_drawing import draw_graph
from knowledge_pipeline.serve.page.rendering import PageRoute, render_page
from knowledge_pipeline.serve.page.sessions import PageContext

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

GraphQuery = Callable[..., Awaitable[GraphResponse]]
GraphApi = AsyncGraph

_MAX_NODES = 200


@dataclass(frozen=True, slots=True)
class GraphView:
    """One question that can be asked of the graph."""

    title: str
    users_title: str  # what those that use the target are called
    used_title: str
    select_query: Callable[[GraphApi], GraphQuery]


_VIEWS: Mapping[str, GraphView] = {
    "calls": GraphView("Calls", "Called by", "Calls", lambda graph: graph.get_call_graph),
    "usages": GraphView("Usages", "Used by", "Uses", lambda graph: graph.find_usages),
    "hierarchy": GraphView("Hierarchy", "Extended by", "Extends", lambda graph: graph.get_class_hierarchy),
    "dependencies": GraphView("Depends on", "Used by", "Depends on", lambda graph: graph.get_dependencies),
    "impact": GraphView("What would break", "Would break", "Uses", lambda graph: graph.analyze_dependencies),
    "related": GraphView("Related", "Related, uses it", "Related", lambda graph: graph.find_related_code),
}


@routes.get("/graph")
async def graph(request: Request, ctx: PageContext) -> Response:
    """What uses a piece of code and what it uses, one of several ways."""
    given = request.query_params
    target, source, question = (
        given.get("target", ""),
        given.get("source", ""),
        given.get("question", "calls"),
    )
    if question not in _VIEWS:
        raise InvalidQuery(f"found the question {question[:40]!r}; allowed: {', '.join(_VIEWS)}")
    kind, filters = _VIEWS[question], Filters(sources=(source,) if source else ())
    how = {"filters": filters, "limit": _MAX_NODES}
    answer = await ctx.execute(
        lambda base, access: kind.select_query(base.agraph)(target, access=access, **how)
    )
    return render_page(
        request,
        "graph.html.j2",
        answer=answer,
        kind=kind,
        kinds=[(name, each.title, _view_url(target, source, name)) for name, each in _VIEWS.items()],
        question=question,
        drawing=draw_graph(answer),
        users=_nodes_on_side(answer, "used_by"),
        used=_nodes_on_side(answer, "uses"),
        node_url=node_url,
        graph_url=graph_url,
    )


def node_url(node: GraphNode) -> str | None:
    """Where a node's code is shown; None where it is outside."""
    return links.document_url(node.source, node.path, node.lines or "") if node.source and node.path else None


def graph_url(node: GraphNode) -> str | None:
    """Where the graph around a node is shown; None where it is outside."""
    if not (node.source and node.path):
        return None
    return _view_url(node.path if node.kind == "file" else f"{node.path}:{node.name}", node.source, "calls")


def _view_url(target: str, source: str, view: str) -> str:
    asked = {"target": target, **({"source": source} if source else {})}
    return f"/graph?{urlencode(asked | ({'question': view} if view != 'calls' else {}))}"


def _nodes_on_side(answer: GraphResponse, side: str) -> list[GraphNode]:
    return [node for node in answer.nodes if node.role == side]
