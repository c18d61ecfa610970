"""The code graph around a definition or a file: a drawing and lists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.query.code_graph.answers import GraphAnswer, Node
from knowledge_pipeline.query.code_graph.interface import GraphQuestions
from knowledge_pipeline.query.filters import Filters
from knowledge_pipeline.serve.page import links
from knowledge_pipeline.serve.page.graph_drawing import drawing
from knowledge_pipeline.serve.page.rendering import PageRoute, page
from knowledge_pipeline.serve.page.sessions import Visiting

routes = APIRouter(include_in_schema=False, route_class=PageRoute)

Ask = Callable[..., Awaitable[GraphAnswer]]
Questions = GraphQuestions[Awaitable[GraphAnswer]]

_LISTED = 200


@dataclass(frozen=True, slots=True)
class Kind:
    """One question that can be asked of the graph."""

    told: str
    users: str  # what those that use the target are called
    used: str
    ask: Callable[[Questions], Ask]


_KINDS: Mapping[str, Kind] = {
    "calls": Kind("Calls", "Called by", "Calls", lambda graph: graph.get_call_graph),
    "usages": Kind("Usages", "Used by", "Uses", lambda graph: graph.find_usages),
    "hierarchy": Kind("Hierarchy", "Extended by", "Extends", lambda graph: graph.get_class_hierarchy),
    "dependencies": Kind("Depends on", "Used by", "Depends on", lambda graph: graph.get_dependencies),
    "impact": Kind("What would break", "Would break", "Uses", lambda graph: graph.analyze_dependencies),
    "related": Kind("Related", "Related, uses it", "Related", lambda graph: graph.find_related_code),
}


@routes.get("/graph")
async def graph(request: Request, visiting: Visiting) -> Response:
    """What uses a piece of code and what it uses, one of several ways."""
    given = request.query_params
    target, source, question = (
        given.get("target", ""),
        given.get("source", ""),
        given.get("question", "calls"),
    )
    if question not in _KINDS:
        raise QuestionRefused(f"found the question {question[:40]!r}; allowed: {', '.join(_KINDS)}")
    kind, filters = _KINDS[question], Filters(sources=(source,) if source else ())
    how = {"filters": filters, "limit": _LISTED}
    answer = await visiting.ask(lambda base, access: kind.ask(base.agraph)(target, access=access, **how))
    return page(
        request,
        "graph.html.j2",
        answer=answer,
        kind=kind,
        kinds=[(name, each.told, _url(target, source, name)) for name, each in _KINDS.items()],
        question=question,
        drawing=drawing(answer),
        users=_sided(answer, "used_by"),
        used=_sided(answer, "uses"),
        node_url=node_url,
        graph_url=graph_url,
    )


def node_url(node: Node) -> str | None:
    """Where a node's code is shown; None where it is outside."""
    return links.document_url(node.source, node.path, node.lines or "") if node.source and node.path else None


def graph_url(node: Node) -> str | None:
    """Where the graph around a node is shown; None where it is outside."""
    if not (node.source and node.path):
        return None
    return _url(node.path if node.kind == "file" else f"{node.path}:{node.name}", node.source, "calls")


def _url(target: str, source: str, question: str) -> str:
    asked = {"target": target, **({"source": source} if source else {})}
    return f"/graph?{urlencode(asked | ({'question': question} if question != 'calls' else {}))}"


def _sided(answer: GraphAnswer, side: str) -> list[Node]:
    return [node for node in answer.nodes if node.side == side]
