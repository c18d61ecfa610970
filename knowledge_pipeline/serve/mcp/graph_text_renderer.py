"""Answers of the code graph as a model reads them: each node once, with how it has to do with another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from knowledge_pipeline.contract.responses import GraphEdge, GraphNode, GraphResponse
from knowledge_pipeline.serve.text_renderer import format_location

_CERTAIN_CONFIDENCE = 0.95
_SECTIONS = {"used_by": "Uses it", "uses": "Used by it", "member": "Defined in it"}


def render_graph_answer(answer: GraphResponse) -> str:
    """What was asked for, then what was found by how it has to do with that, then notes."""
    if answer.candidates:
        return _render_candidates(answer)
    names = {node.id: node.name for node in answer.nodes}
    lines = [
        f"{_format_node(node)}{f'  {node.signature}' if node.signature else ''}" for node in answer.targets
    ]
    told: set[GraphEdge] = set()
    for side, title in _SECTIONS.items():
        nodes = [node for node in answer.nodes if node.role == side]
        lines += [f"{title}:" for _ in nodes[:1]]
        for node in nodes:
            links = _select_new_links(node, answer.edges, told)
            told.update(links)
            lines.append(f"- {_format_node(node)}{_format_distance(node)}{_render_links(node, links, names)}")
    between = [
        f"- {names[each.source]} {_format_link(each, names)}" for each in answer.edges if each not in told
    ]
    lines += ["Between them:", *between] if between else []
    if not answer.matches:
        lines.append("Nothing else was found.")
    return "\n".join([*lines, *(f"({note}.)" for note in answer.notes)])


def _render_candidates(answer: GraphResponse) -> str:
    lines = [f"`{answer.target}` may mean several things. Ask again with one of these as the target:"]
    for node in answer.candidates:
        within = f"  (sources=[{node.source!r}])" if node.source else ""
        asked = node.path if node.kind == "file" else f"{node.path}:{node.name}"
        lines.append(f"- {asked}  {node.kind}, {format_location(node.path or '', node.lines)}{within}")
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


def _select_new_links(
    node: GraphNode, links: Sequence[GraphEdge], rendered: set[GraphEdge]
) -> list[GraphEdge]:
    """Those that brought the node into the answer: what it does, or what is done with it."""
    ways = {"used_by": ("source",), "uses": ("target",), "member": ("source", "target")}[node.role]
    return [
        each for each in links if each not in rendered and node.id in (getattr(each, way) for way in ways)
    ]


def _render_links(node: GraphNode, links: Sequence[GraphEdge], names: dict[str, str]) -> str:
    return "".join(f"\n    {text}" for text in _iter_link_lines(node, links, names))


def _iter_link_lines(node: GraphNode, links: Sequence[GraphEdge], names: dict[str, str]) -> Iterator[str]:
    for link in links:
        does = link.source == node.id
        yield _format_link(link, names) if does else f"{names[link.source]} {_format_link(link, names)}"


def _format_link(link: GraphEdge, names: dict[str, str]) -> str:
    """`calls Store.get at src/app.py:5,12`."""
    unsure = f" (confidence {link.confidence:.2f})" if link.confidence < _CERTAIN_CONFIDENCE else ""
    lines = ",".join(map(str, link.lines))
    return f"{link.kind} {names[link.target]} at {link.path}:{lines}{unsure}"
