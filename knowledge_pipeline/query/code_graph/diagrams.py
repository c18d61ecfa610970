"""Draws responses of the code graph: Mermaid for Markdown pages, DOT for Graphviz. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from knowledge_pipeline.contract.responses import GraphNode, GraphResponse

_ARROWS = {"calls": "-->", "references": "-.->", "imports": "-.->", "extends": "==>", "implements": "==>"}
_STYLES = {
    "references": "dashed",
    "imports": "dashed",
    "depends": "solid",
    "extends": "bold",
    "implements": "bold",
}
_MAX_NAME_CHARS = 80  # shown


def render_mermaid(response: GraphResponse) -> str:
    """A flowchart with a box for each node and an arrow for each edge.

    Syntax: https://mermaid.js.org/syntax/flowchart.html
    """
    return "\n".join(_iter_mermaid_lines(response)) + "\n"


def render_dot(response: GraphResponse) -> str:
    """A directed graph in the language of Graphviz: https://graphviz.org/doc/info/lang.html"""
    return "\n".join(_iter_dot_lines(response)) + "\n"


def _iter_mermaid_lines(response: GraphResponse) -> Iterator[str]:
    numbers = {node.id: f"n{number}" for number, node in enumerate(response.nodes)}
    yield "flowchart LR"
    for node in response.nodes:
        start, end = ('(["', '"])') if node.kind == "outside" else ('["', '"]')
        yield f"    {numbers[node.id]}{start}{_escape_for_mermaid(node)}{end}"
    for edge in response.edges:
        arrow = _ARROWS.get(edge.kind, "-->")
        yield f"    {numbers[edge.source]} {arrow}|{edge.kind}| {numbers[edge.target]}"
    targets = [numbers[node.id] for node in response.targets]
    if targets:
        yield f"    style {','.join(targets)} stroke-width:3px"


def _escape_for_mermaid(node: GraphNode) -> str:
    """Quotes would end the text, and `#` starts the number of a character."""
    escaped = (
        "".join(f"#{ord(char)};" if char in '"#<>&`' else char for char in part)
        for part in _build_label_lines(node)
    )
    return "<br/>".join(escaped)


def _iter_dot_lines(response: GraphResponse) -> Iterator[str]:
    numbers = {node.id: f"n{number}" for number, node in enumerate(response.nodes)}
    yield "digraph code {"
    yield '    rankdir=LR; node [fontname="sans-serif"]; edge [fontname="sans-serif", fontsize=10];'
    for node in response.nodes:
        shape = "ellipse" if node.kind == "outside" else "box"
        weight = 3 if node.role == "target" else 1
        yield f"    {numbers[node.id]} [label={_quote_for_dot(node)}, shape={shape}, penwidth={weight}];"
    for edge in response.edges:
        style = _STYLES.get(edge.kind, "solid")
        yield f"    {numbers[edge.source]} -> {numbers[edge.target]} [label={edge.kind}, style={style}];"
    yield "}"


def _quote_for_dot(node: GraphNode) -> str:
    escaped = (part.replace("\\", "\\\\").replace('"', '\\"') for part in _build_label_lines(node))
    return '"' + "\\n".join(escaped) + '"'


def _build_label_lines(node: GraphNode) -> list[str]:
    """The name, and the path unless it is a file, each on one line."""
    lines = [node.name, *([node.path] if node.path and node.kind != "file" else [])]
    spaced = (" ".join(line.split()) for line in lines)
    return [line if len(line) <= _MAX_NAME_CHARS else f"{line[: _MAX_NAME_CHARS - 1]}…" for line in spaced]
