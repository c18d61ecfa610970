"""An answer of the code graph as a picture: Mermaid for Markdown pages, DOT for Graphviz. Pure."""

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
_MAX_NAME_CHARS = 80  # of a name in a picture


def render_mermaid(answer: GraphResponse) -> str:
    """A flowchart, one box for each node, one arrow for each way in which two have to do with each other.

    Syntax: https://mermaid.js.org/syntax/flowchart.html
    """
    return "\n".join(_iter_mermaid_lines(answer)) + "\n"


def render_dot(answer: GraphResponse) -> str:
    """A directed graph in the language of Graphviz: https://graphviz.org/doc/info/lang.html"""
    return "\n".join(_iter_dot_lines(answer)) + "\n"


def _iter_mermaid_lines(answer: GraphResponse) -> Iterator[str]:
    numbers = {node.id: f"n{number}" for number, node in enumerate(answer.nodes)}
    yield "flowchart LR"
    for node in answer.nodes:
        start, end = ('(["', '"])') if node.kind == "outside" else ('["', '"]')
        yield f"    {numbers[node.id]}{start}{_escape_for_mermaid(node)}{end}"
    for link in answer.edges:
        arrow = _ARROWS.get(link.kind, "-->")
        yield f"    {numbers[link.source]} {arrow}|{link.kind}| {numbers[link.target]}"
    targets = [numbers[node.id] for node in answer.targets]
    if targets:
        yield f"    style {','.join(targets)} stroke-width:3px"


def _escape_for_mermaid(node: GraphNode) -> str:
    """Quotes would end the text, and `#` begins the number of a character."""
    escaped = (
        "".join(f"#{ord(char)};" if char in '"#<>&`' else char for char in part)
        for part in _build_label_lines(node)
    )
    return "<br/>".join(escaped)


def _iter_dot_lines(answer: GraphResponse) -> Iterator[str]:
    numbers = {node.id: f"n{number}" for number, node in enumerate(answer.nodes)}
    yield "digraph code {"
    yield '    rankdir=LR; node [fontname="sans-serif"]; edge [fontname="sans-serif", fontsize=10];'
    for node in answer.nodes:
        shape = "ellipse" if node.kind == "outside" else "box"
        weight = 3 if node.role == "target" else 1
        yield f"    {numbers[node.id]} [label={_quote_for_dot(node)}, shape={shape}, penwidth={weight}];"
    for link in answer.edges:
        style = _STYLES.get(link.kind, "solid")
        yield f"    {numbers[link.source]} -> {numbers[link.target]} [label={link.kind}, style={style}];"
    yield "}"


def _quote_for_dot(node: GraphNode) -> str:
    escaped = (part.replace("\\", "\\\\").replace('"', '\\"') for part in _build_label_lines(node))
    return '"' + "\\n".join(escaped) + '"'


def _build_label_lines(node: GraphNode) -> list[str]:
    """The name, and the path of what is no file itself, each on one line."""
    lines = [node.name, *([node.path] if node.path and node.kind != "file" else [])]
    spaced = (" ".join(line.split()) for line in lines)
    return [line if len(line) <= _MAX_NAME_CHARS else f"{line[: _MAX_NAME_CHARS - 1]}…" for line in spaced]
