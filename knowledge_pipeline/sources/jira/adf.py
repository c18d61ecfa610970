"""Atlassian Document Format as Markdown: what Jira Cloud and Confluence hold instead of text.

Every node of the published schema has its place here; of a node that is not known, the text is
kept. Whatever JSON comes in, nothing is raised.

Source: https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from knowledge_pipeline.sources.jira.adf_inline import (
    INLINE,
    People,
    all_text,
    attributes,
    inline_text,
    label_of,
    nodes_of,
    type_of,
)
from knowledge_pipeline.sources.jira.adf_table import grid
from knowledge_pipeline.sources.markdown_writing import fenced, hanging, linked, quoted, table

_DEEPEST = 60  # nodes inside each other; deeper than anybody writes, and well before Python's own limit
_PANELS = {
    "info": "Info",
    "note": "Note",
    "tip": "Tip",
    "success": "Success",
    "warning": "Warning",
    "error": "Error",
}
_LISTS = frozenset({"bulletList", "orderedList", "taskList", "decisionList"})


def adf_text(document: Any, people: People | None = None) -> str:
    """The text of a document as Markdown, without white space around it; "" for what is no document.

    Args:
        document: the JSON, parsed; any node of it, or a list of nodes.
        people: display names by account id, for mentions that do not name whom they mean.
    """
    nodes = document if isinstance(document, list) else [document]
    return _Writer(people or {}).blocks(nodes, 0).strip()


class _Writer:
    """Writes the blocks of one document."""

    def __init__(self, people: People) -> None:
        self._people = people

    def blocks(self, nodes: list[Any], depth: int) -> str:
        """Blocks with an empty line between; a run of inline nodes that stands among them is a paragraph."""
        return "\n\n".join(text for _, text in self._pieces(nodes, depth))

    def _pieces(self, nodes: list[Any], depth: int) -> list[tuple[str, str]]:
        """The type and text of each block that has text."""
        pieces: list[tuple[str, str]] = []
        run: list[Any] = []
        for node in nodes:
            if isinstance(node, dict) and type_of(node) not in INLINE:
                pieces.append(("paragraph", self._inline(run)))
                pieces.append((type_of(node), self._block(node, depth)))
                run = []
            else:
                run.append(node)
        pieces.append(("paragraph", self._inline(run)))
        return [(kind, text) for kind, text in pieces if text.strip()]

    def _block(self, node: Mapping[str, Any], depth: int) -> str:
        if depth > _DEEPEST:
            return all_text(node)
        write = _BLOCKS.get(type_of(node), _Writer._unknown)
        return write(self, node, depth + 1)

    def _inline(self, nodes: list[Any]) -> str:
        return inline_text(nodes, self._people).strip()

    def _content(self, node: Mapping[str, Any], depth: int) -> str:
        return self.blocks(nodes_of(node), depth)

    def _paragraph(self, node: Mapping[str, Any], depth: int) -> str:
        return self._content(node, depth)

    def _heading(self, node: Mapping[str, Any], depth: int) -> str:
        level = attributes(node).get("level")
        level = min(6, max(1, level)) if isinstance(level, int) else 1
        text = " ".join(self._content(node, depth).split())
        return f"{'#' * level} {text}" if text else ""

    def _bullets(self, node: Mapping[str, Any], depth: int) -> str:
        return "\n".join(self._item(child, "- ", depth) for child in nodes_of(node))

    def _numbers(self, node: Mapping[str, Any], depth: int) -> str:
        order = attributes(node).get("order")
        first = order if isinstance(order, int) and 0 <= order < 10**9 else 1
        items = enumerate(nodes_of(node), start=first)
        return "\n".join(self._item(child, f"{number}. ", depth) for number, child in items)

    def _item(self, node: Any, marker: str, depth: int, label: str = "") -> str:
        """A list item; its lists follow without an empty line."""
        content = nodes_of(node) if isinstance(node, dict) and type_of(node) not in _ALONE else [node]
        text = label
        for kind, piece in self._pieces(content, depth):
            between = "\n" if kind in _LISTS else "\n\n"
            text = f"{text}{between}{piece}" if text != label else f"{label}{piece}"
        return hanging(marker, text)

    def _tasks(self, node: Mapping[str, Any], depth: int) -> str:
        lines = []
        for child in nodes_of(node):
            if type_of(child) == "taskList":  # in the list itself, it belongs to the item before
                lines.append(hanging("  ", self._block(child, depth)))
                continue
            done = isinstance(child, dict) and attributes(child).get("state") == "DONE"
            lines.append(self._item(child, "- [x] " if done else "- [ ] ", depth))
        return "\n".join(lines)

    def _decisions(self, node: Mapping[str, Any], depth: int) -> str:
        lines = []
        for child in nodes_of(node):
            state = attributes(child).get("state") if isinstance(child, dict) else None
            said = "Undecided" if state == "UNDECIDED" else "Decision"
            lines.append(self._item(child, "- ", depth, f"{said}: "))
        return "\n".join(lines)

    def _panel(self, node: Mapping[str, Any], depth: int) -> str:
        told = attributes(node)
        label = _PANELS.get(str(told.get("panelType")), "") or str(told.get("panelIconText") or "")
        text = self._content(node, depth)
        begins = next((type_of(child) for child in nodes_of(node)), "")
        if not label or not text:
            return text
        return f"{label}: {text}" if begins == "paragraph" else f"{label}:\n\n{text}"

    def _expand(self, node: Mapping[str, Any], depth: int) -> str:
        title = " ".join(str(attributes(node).get("title") or "").split())
        return "\n\n".join(
            text for text in (f"**{title}**" if title else "", self._content(node, depth)) if text
        )

    def _table(self, node: Mapping[str, Any], depth: int) -> str:
        return table(grid(node, lambda cell: self._cell(cell, depth)))

    def _cell(self, cell: Mapping[str, Any], depth: int) -> str:
        """What a cell holds, on one line; a table in it as its cells, one after the other."""
        parts = []
        for child in nodes_of(cell):
            if type_of(child) == "table" and depth <= _DEEPEST:
                rows = grid(child, lambda inner: self._cell(inner, depth + 1))
                parts.append("; ".join(", ".join(text for text in row if text) for row in rows))
            else:
                parts.append(self.blocks([child], depth + 1))
        return " ".join(parts)

    def _code(self, node: Mapping[str, Any], depth: int) -> str:
        code = all_text(node, between="")
        return fenced(code, str(attributes(node).get("language") or "")) if code.strip() else ""

    def _quote(self, node: Mapping[str, Any], depth: int) -> str:
        text = self._content(node, depth)
        return quoted(text) if text else ""

    def _rule(self, node: Mapping[str, Any], depth: int) -> str:
        return "---"

    def _media_single(self, node: Mapping[str, Any], depth: int) -> str:
        texts = (self.blocks([child], depth) for child in nodes_of(node))
        return "\n".join(text for text in texts if text)

    def _card(self, node: Mapping[str, Any], depth: int) -> str:
        told = attributes(node)
        source = told.get("datasource")
        asked = source.get("parameters") if isinstance(source, dict) else None
        jql = asked.get("jql") if isinstance(asked, dict) else None
        text = label_of(node, self._people)
        return linked(str(jql), text) if jql else text

    def _unknown(self, node: Mapping[str, Any], depth: int) -> str:
        """The text of a node that the schema has not, or that is only a frame around others."""
        told = attributes(node)
        own = [node.get("text"), *(told.get(name) for name in ("title", "text"))]
        texts = [str(text).strip() for text in own if isinstance(text, str)]
        return "\n\n".join(text for text in (*texts, self._content(node, depth)) if text)


_ALONE = _LISTS | {"paragraph", "heading", "table", "codeBlock", "blockquote", "rule", "panel"}
"""Where an item is expected and one of these stands, it is the item's content."""

_BLOCKS: dict[str, Callable[[_Writer, Mapping[str, Any], int], str]] = {
    "paragraph": _Writer._paragraph,
    "caption": _Writer._paragraph,
    "heading": _Writer._heading,
    "bulletList": _Writer._bullets,
    "orderedList": _Writer._numbers,
    "taskList": _Writer._tasks,
    "decisionList": _Writer._decisions,
    "panel": _Writer._panel,
    "expand": _Writer._expand,
    "nestedExpand": _Writer._expand,
    "table": _Writer._table,
    "codeBlock": _Writer._code,
    "blockquote": _Writer._quote,
    "rule": _Writer._rule,
    "mediaSingle": _Writer._media_single,
    "mediaGroup": _Writer._media_single,
    "blockCard": _Writer._card,
    "embedCard": _Writer._card,
}
