"""Atlassian Document Format as Markdown: what Jira Cloud and Confluence hold instead of text.

Every node of the published schema has its place here; of a node that is not known, the text is
kept. Whatever JSON comes in, nothing is raised.

Source: https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from knowledge_pipeline.sources.jira.adf_inline import (
    INLINE_TYPES,
    People,
    attributes_of,
    children_of,
    collect_text,
    render_inline,
    render_label,
    type_of,
)
from knowledge_pipeline.sources.markdown_writing import (
    MAX_COLUMNS,
    TableCell,
    expand_spans,
    format_code_block,
    format_link,
    format_list_item,
    format_quote,
    format_table,
)

_MAX_DEPTH = 60  # nodes inside each other; deeper than anybody writes, and well before Python's own limit
_PANEL_LABELS = {name: name.title() for name in ("info", "note", "tip", "success", "warning", "error")}
_LIST_TYPES = frozenset({"bulletList", "orderedList", "taskList", "decisionList"})


def adf_to_markdown(document: Any, people: People | None = None) -> str:
    """The text of a document as Markdown, without white space around it; "" for what is no document.

    Args:
        document: the JSON, parsed; any node of it, or a list of nodes.
        people: display names by account id, for mentions that do not name whom they mean.
    """
    nodes = document if isinstance(document, list) else [document]
    return _AdfRenderer(people or {}).render_blocks(nodes, 0).strip()


class _AdfRenderer:
    """Writes the blocks of one document."""

    def __init__(self, people: People) -> None:
        self._people = people

    def render_blocks(self, nodes: list[Any], depth: int) -> str:
        """Blocks with an empty line between; a run of inline nodes that stands among them is a paragraph."""
        return "\n\n".join(text for _, text in self._render_pieces(nodes, depth))

    def _render_pieces(self, nodes: list[Any], depth: int) -> list[tuple[str, str]]:
        """The type and text of each block that has text."""
        pieces: list[tuple[str, str]] = []
        run: list[Any] = []
        for node in nodes:
            if isinstance(node, dict) and type_of(node) not in INLINE_TYPES:
                pieces.append(("paragraph", self._render_inline(run)))
                pieces.append((type_of(node), self._render_block(node, depth)))
                run = []
            else:
                run.append(node)
        pieces.append(("paragraph", self._render_inline(run)))
        return [(kind, text) for kind, text in pieces if text.strip()]

    def _render_block(self, node: Mapping[str, Any], depth: int) -> str:
        if depth > _MAX_DEPTH:
            return collect_text(node)
        write = _BLOCK_RENDERERS.get(type_of(node), _AdfRenderer._render_unknown)
        return write(self, node, depth + 1)

    def _render_inline(self, nodes: list[Any]) -> str:
        return render_inline(nodes, self._people).strip()

    def _render_children(self, node: Mapping[str, Any], depth: int) -> str:
        return self.render_blocks(children_of(node), depth)

    def _render_heading(self, node: Mapping[str, Any], depth: int) -> str:
        level = attributes_of(node).get("level")
        level = min(6, max(1, level)) if isinstance(level, int) else 1
        text = " ".join(self._render_children(node, depth).split())
        return f"{'#' * level} {text}" if text else ""

    def _render_bullet_list(self, node: Mapping[str, Any], depth: int) -> str:
        return "\n".join(self._render_list_item(child, "- ", depth) for child in children_of(node))

    def _render_ordered_list(self, node: Mapping[str, Any], depth: int) -> str:
        order = attributes_of(node).get("order")
        first = order if isinstance(order, int) and 0 <= order < 10**9 else 1
        items = enumerate(children_of(node), start=first)
        return "\n".join(self._render_list_item(child, f"{number}. ", depth) for number, child in items)

    def _render_list_item(self, node: Any, marker: str, depth: int, label: str = "") -> str:
        """A list item; its lists follow without an empty line."""
        content = (
            children_of(node)
            if isinstance(node, dict) and type_of(node) not in _ITEM_CONTENT_TYPES
            else [node]
        )
        text = label
        for kind, piece in self._render_pieces(content, depth):
            between = "\n" if kind in _LIST_TYPES else "\n\n"
            text = f"{text}{between}{piece}" if text != label else f"{label}{piece}"
        return format_list_item(marker, text)

    def _render_task_list(self, node: Mapping[str, Any], depth: int) -> str:
        lines = []
        for child in children_of(node):
            if type_of(child) == "taskList":  # in the list itself, it belongs to the item before
                lines.append(format_list_item("  ", self._render_block(child, depth)))
                continue
            done = isinstance(child, dict) and attributes_of(child).get("state") == "DONE"
            lines.append(self._render_list_item(child, "- [x] " if done else "- [ ] ", depth))
        return "\n".join(lines)

    def _render_decision_list(self, node: Mapping[str, Any], depth: int) -> str:
        lines = []
        for child in children_of(node):
            state = attributes_of(child).get("state") if isinstance(child, dict) else None
            label = "Undecided" if state == "UNDECIDED" else "Decision"
            lines.append(self._render_list_item(child, "- ", depth, f"{label}: "))
        return "\n".join(lines)

    def _render_panel(self, node: Mapping[str, Any], depth: int) -> str:
        attributes = attributes_of(node)
        label = _PANEL_LABELS.get(str(attributes.get("panelType")), "") or str(
            attributes.get("panelIconText") or ""
        )
        text = self._render_children(node, depth)
        first_type = next((type_of(child) for child in children_of(node)), "")
        if not label or not text:
            return text
        return f"{label}: {text}" if first_type == "paragraph" else f"{label}:\n\n{text}"

    def _render_expand(self, node: Mapping[str, Any], depth: int) -> str:
        title = " ".join(str(attributes_of(node).get("title") or "").split())
        return "\n\n".join(
            text for text in (f"**{title}**" if title else "", self._render_children(node, depth)) if text
        )

    def _render_table(self, node: Mapping[str, Any], depth: int) -> str:
        return format_table(self._build_grid(node, depth))

    def _build_grid(self, table: Mapping[str, Any], depth: int) -> list[list[str]]:
        rows = [
            row if type_of(row) in {"tableRow", ""} and isinstance(row, dict) else {"content": [row]}
            for row in children_of(table)
        ]
        grid = expand_spans([self._build_cell(cell, depth) for cell in children_of(row)] for row in rows)
        last = MAX_COLUMNS - 1
        return [[*row[:last], " ".join(row[last:])] if len(row) > MAX_COLUMNS else row for row in grid]

    def _build_cell(self, cell: Any, depth: int) -> TableCell:
        if not isinstance(cell, dict) or type_of(cell) not in {"tableCell", "tableHeader", ""}:
            cell = {"content": [cell]}
        spans = (attributes_of(cell).get(name) for name in ("rowspan", "colspan"))
        rows, columns = (max(1, span) if isinstance(span, int) else 1 for span in spans)
        return TableCell(self._render_cell(cell, depth), rows, min(columns, MAX_COLUMNS))

    def _render_cell(self, cell: Mapping[str, Any], depth: int) -> str:
        """What a cell holds, on one line; a table in it as its cells, one after the other."""
        parts = []
        for child in children_of(cell):
            if type_of(child) == "table" and depth <= _MAX_DEPTH:
                rows = self._build_grid(child, depth + 1)
                parts.append("; ".join(", ".join(text for text in row if text) for row in rows))
            else:
                parts.append(self.render_blocks([child], depth + 1))
        return " ".join(parts)

    def _render_code_block(self, node: Mapping[str, Any], depth: int) -> str:
        code = collect_text(node, separator="")
        return format_code_block(code, str(attributes_of(node).get("language") or "")) if code.strip() else ""

    def _render_quote(self, node: Mapping[str, Any], depth: int) -> str:
        text = self._render_children(node, depth)
        return format_quote(text) if text else ""

    def _render_rule(self, node: Mapping[str, Any], depth: int) -> str:
        return "---"

    def _render_media(self, node: Mapping[str, Any], depth: int) -> str:
        texts = (self.render_blocks([child], depth) for child in children_of(node))
        return "\n".join(text for text in texts if text)

    def _render_card(self, node: Mapping[str, Any], depth: int) -> str:
        attributes = attributes_of(node)
        source = attributes.get("datasource")
        parameters = source.get("parameters") if isinstance(source, dict) else None
        jql = parameters.get("jql") if isinstance(parameters, dict) else None
        text = render_label(node, self._people)
        return format_link(str(jql), text) if jql else text

    def _render_unknown(self, node: Mapping[str, Any], depth: int) -> str:
        """The text of a node that the schema has not, or that is only a frame around others."""
        attributes = attributes_of(node)
        values = [node.get("text"), *(attributes.get(name) for name in ("title", "text"))]
        texts = [str(text).strip() for text in values if isinstance(text, str)]
        return "\n\n".join(text for text in (*texts, self._render_children(node, depth)) if text)


_ITEM_CONTENT_TYPES = {
    *_LIST_TYPES,
    "paragraph",
    "heading",
    "table",
    "codeBlock",
    "blockquote",
    "rule",
    "panel",
}
"""Where an item is expected and one of these stands, it is the item's content."""

_BLOCK_RENDERERS: dict[str, Callable[[_AdfRenderer, Mapping[str, Any], int], str]] = {
    "paragraph": _AdfRenderer._render_children,
    "caption": _AdfRenderer._render_children,
    "heading": _AdfRenderer._render_heading,
    "bulletList": _AdfRenderer._render_bullet_list,
    "orderedList": _AdfRenderer._render_ordered_list,
    "taskList": _AdfRenderer._render_task_list,
    "decisionList": _AdfRenderer._render_decision_list,
    "panel": _AdfRenderer._render_panel,
    "expand": _AdfRenderer._render_expand,
    "nestedExpand": _AdfRenderer._render_expand,
    "table": _AdfRenderer._render_table,
    "codeBlock": _AdfRenderer._render_code_block,
    "blockquote": _AdfRenderer._render_quote,
    "rule": _AdfRenderer._render_rule,
    "mediaSingle": _AdfRenderer._render_media,
    "mediaGroup": _AdfRenderer._render_media,
    "blockCard": _AdfRenderer._render_card,
    "embedCard": _AdfRenderer._render_card,
}
