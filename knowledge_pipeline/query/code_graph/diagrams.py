"""Draws responses of the code graph: Mermaid for Markdown pages, DOT for Graphviz. Pure."""

from __future__ import annotations

from knowledge_pipeline.contract.responses.graph import GraphNode, GraphResponse

_ARROWS = {"calls": "-->", "references": "-.->", "imports": "-.->", "extends": "==>", "implements": "==>"}
_STYLES = {"references": "dashed", "imports": "dashed", "extends": "bold", "implements": "bold"}
_MAX_NAME_CHARS = 80  # shown
_MERMAID_ESCAPES = {ord(char): f"#{ord(char)};" for char in '"#<>&`'}


def render_mermaid(response: GraphResponse) -> str:
    """A flowchart with a box for each node and an arrow for each edge.

    Syntax: https://mermaid.js.org/syntax/flowchart.html
    """
    numbers = {node.id: f"n{number}" for number, node in enumerate(response.nodes)}
    lines = ["flowchart LR"]
    for node in response.nodes:
        # quotes would end the text, and `#` starts the number of a character
        label = "<br/>".join(part.translate(_MERMAID_ESCAPES) for part in _label_lines(node))
        start, end = ('(["', '"])') if node.kind == "outside" else ('["', '"]')
        lines.append(f"    {numbers[node.id]}{start}{label}{end}")
    for edge in response.edges:
        arrow = _ARROWS.get(edge.kind, "-->")
        lines.append(f"    {numbers[edge.source]} {arrow}|{edge.kind}| {numbers[edge.target]}")
    if targets := [numbers[node.id] for node in response.targets]:
        lines.append(f"    style {','.join(targets)} stroke-width:3px")
    return "\n".join(lines) + "\n"


def render_dot(response: GraphResponse) -> str:
    """A directed graph in the language of Graphviz: https://graphviz.org/doc/info/lang.html"""
    numbers = {node.id: f"n{number}" for number, node in enumerate(response.nodes)}
    lines = ["digraph code {"]
    lines.append('    rankdir=LR; node [fontname="sans-serif"]; edge [fontname="sans-serif", fontsize=10];')
    for node in response.nodes:
        label = "\\n".join(part.replace("\\", "\\\\").replace('"', '\\"') for part in _label_lines(node))
        shape = "ellipse" if node.kind == "outside" else "box"
        weight = 3 if node.role == "target" else 1
        lines.append(f'    {numbers[node.id]} [label="{label}", shape={shape}, penwidth={weight}];')
    for edge in response.edges:
        style = _STYLES.get(edge.kind, "solid")
        ends = f"{numbers[edge.source]} -> {numbers[edge.target]}"
        lines.append(f"    {ends} [label={edge.kind}, style={style}];")
    return "\n".join(lines) + "\n}\n"


def _label_lines(node: GraphNode) -> list[str]:
    """The name, and the path unless it is a file, each on one line."""
    lines = [node.name, *([node.path] if node.path and node.kind != "file" else [])]
    spaced = (" ".join(line.split()) for line in lines)
    return [line if len(line) <= _MAX_NAME_CHARS else f"{line[: _MAX_NAME_CHARS - 1]}…" for line in spaced]
