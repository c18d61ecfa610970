"""Responses of the code graph as text for a model: each node once, with its edges."""

from __future__ import annotations

from knowledge_pipeline.contract.responses.graph import GraphEdge, GraphNode, GraphResponse
from knowledge_pipeline.serve.text_renderer import format_location

_SECTIONS = {"used_by": "Uses it", "uses": "Used by it", "member": "Defined in it"}


def render_graph_answer(answer: GraphResponse) -> str:
    """The targets, then what was found by its role, then notes."""
    if answer.candidates:
        return _render_candidates(answer)
    names = {node.id: node.name for node in answer.nodes}
    lines = [
        f"{_format_node(node)}{f'  {node.signature}' if node.signature else ''}" for node in answer.targets
    ]
    rendered: set[GraphEdge] = set()
    for role, title in _SECTIONS.items():
        nodes = [node for node in answer.nodes if node.role == role]
        lines += [f"{title}:" for _ in nodes[:1]]
        for node in nodes:
            edges = [edge for edge in answer.edges if edge not in rendered and _connects(edge, node)]
            rendered.update(edges)
            lines.append(f"- {_format_node(node)}{_format_distance(node)}")
            for edge in edges:
                subject = "" if edge.source == node.id else f"{names[edge.source]} "
                lines.append(f"    {subject}{_format_edge(edge, names)}")
    between = [
        f"- {names[each.source]} {_format_edge(each, names)}" for each in answer.edges if each not in rendered
    ]
    lines += ["Between them:", *between] if between else []
    if not answer.matches:
        lines.append("Nothing else was found.")
    return "\n".join([*lines, *(f"({note}.)" for note in answer.notes)])


def _render_candidates(answer: GraphResponse) -> str:
    lines = [f"`{answer.target}` may mean several things. Ask again with one of these as the target:"]
    for node in answer.candidates:
        within = f"  (sources=[{node.source!r}])" if node.source else ""
        target = node.path if node.kind == "file" else f"{node.path}:{node.name}"
        lines.append(f"- {target}  {node.kind}, {format_location(node.path or '', node.lines)}{within}")
    return "\n".join([*lines, *(f"({note}.)" for note in answer.notes)])


def _format_node(node: GraphNode) -> str:
    if node.path is None:
        return f"{node.kind} {node.full_name or node.name}"
    where = format_location(node.path, node.lines)
    named = f"{node.kind} {where}" if node.kind == "file" else f"{node.kind} {node.name}  {where}"
    return f"{named}  [{node.source}]"


def _format_distance(node: GraphNode) -> str:
    score = f"  score {node.score:.2f}" if node.score is not None else ""
    return f"  ({node.distance} steps away){score}" if node.distance > 1 else score


def _connects(edge: GraphEdge, node: GraphNode) -> bool:
    """Whether an edge is why a node was found: what it does, or what is done with it."""
    return (edge.source == node.id and node.role != "uses") or (
        edge.target == node.id and node.role != "used_by"
    )


def _format_edge(edge: GraphEdge, names: dict[str, str]) -> str:
    """`calls Store.get at src/app.py:5,12 · by import or scope · 1.0`."""
    lines = ",".join(map(str, edge.lines))
    return f"{edge.kind} {names[edge.target]} at {edge.path}:{lines} · {edge.certainty}"
