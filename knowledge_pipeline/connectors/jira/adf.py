"""Atlassian Document Format as Markdown: what Jira Cloud and Confluence hold instead of text.

Every node of the published schema has its place here; of an unknown node, the text is kept. Whatever JSON
comes in, nothing is raised.

Source: https://developer.atlassian.com/cloud/jira/platform/apis/document/structure/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any

from knowledge_pipeline.extraction import markdown
from knowledge_pipeline.text import descend, is_list, is_object, list_objects

People = Mapping[str, str]
"""Display names by account id or user name."""

_INLINE_TYPES = frozenset(
    {
        *("text", "hardBreak", "mention", "emoji", "date", "status", "inlineCard", "mediaInline", "media"),
        *("placeholder", "inlineExtension", "image", "confluenceJiraIssue", "unsupportedInline"),
    }
)
_MAX_DEPTH = 60  # nodes inside each other; deeper than anybody writes, and well before Python's own limit
_LIST_TYPES = frozenset({"bulletList", "orderedList", "taskList", "decisionList"})
# where an item is expected and one of these stands, it is the item's content
_ITEM_CONTENT_TYPES = _LIST_TYPES.union(
    ("paragraph", "heading", "table", "codeBlock", "blockquote", "rule", "panel")
)
_EMPHASIS = {"strong": "**", "em": "*", "strike": "~~"}
_WORD = re.compile(r"\w")


def adf_to_markdown(document: Any, people: People | None = None) -> str:
    """The text of a document, a node of it or a list of nodes as Markdown; "" for anything else.

    `people`: display names by account id, for mentions that do not name whom they mean.
    """
    nodes = document if is_list(document) else [document]
    return _AdfRenderer(people or {}).render_blocks(nodes, 0).strip()


class _AdfRenderer:
    def __init__(self, people: People) -> None:
        self._people = people

    def render_blocks(self, nodes: list[Any], depth: int) -> str:
        """Blocks with an empty line between; a run of inline nodes that stands among them is a paragraph."""
        return "\n\n".join(text for _, text in self._render_pieces(nodes, depth))

    def _render_pieces(self, nodes: list[Any], depth: int) -> list[tuple[str, str]]:
        pieces: list[tuple[str, str]] = []
        run: list[Any] = []
        for node in nodes:
            if is_object(node) and _type_of(node) not in _INLINE_TYPES:
                pieces.append(("paragraph", self._render_inline(run)))
                pieces.append((_type_of(node), self._render_block(node, depth)))
                run = []
            else:
                run.append(node)
        pieces.append(("paragraph", self._render_inline(run)))
        return [(kind, text) for kind, text in pieces if text.strip()]

    def _render_block(self, node: Mapping[str, Any], depth: int) -> str:
        if depth > _MAX_DEPTH:
            return _collect_text(node)
        depth += 1
        attributes, children = descend(node, "attrs"), _children_of(node)
        match _type_of(node):
            case "paragraph" | "caption":
                return self.render_blocks(children, depth)
            case "heading":
                level = attributes.get("level")
                level = min(6, max(1, level)) if isinstance(level, int) else 1
                text = " ".join(self.render_blocks(children, depth).split())
                return f"{'#' * level} {text}" if text else ""
            case "bulletList":
                return "\n".join(self._render_list_item(child, "- ", depth) for child in children)
            case "orderedList":
                order = attributes.get("order")
                first = order if isinstance(order, int) and 0 <= order < 10**9 else 1
                items = enumerate(children, start=first)
                return "\n".join(self._render_list_item(item, f"{number}. ", depth) for number, item in items)
            case "taskList":
                return "\n".join(self._render_task(child, depth) for child in children)
            case "decisionList":
                return "\n".join(self._render_decision(child, depth) for child in children)
            case "panel":
                return self._render_panel(node, depth)
            case "expand" | "nestedExpand":
                title = " ".join(str(attributes.get("title") or "").split())
                parts = (f"**{title}**" if title else "", self.render_blocks(children, depth))
                return "\n\n".join(part for part in parts if part)
            case "table":
                if not _has_lines_of_code(node):
                    return markdown.format_table(self._build_grid(node, depth))
                cells = (cell for row in children for cell in _children_of(row))
                return "\n\n".join(filter(None, (self.render_blocks([cell], depth) for cell in cells)))
            case "codeBlock":
                code, language = _collect_text(node, separator=""), str(attributes.get("language") or "")
                return markdown.format_code_block(code, language) if code.strip() else ""
            case "blockquote":
                text = self.render_blocks(children, depth)
                return markdown.format_quote(text) if text else ""
            case "rule":
                return "---"
            case "mediaSingle" | "mediaGroup":
                text = "\n".join(text for child in children if (text := self.render_blocks([child], depth)))
                if link := _link_of(node):
                    first, *rest = text.split("\n")
                    text = "\n".join([markdown.format_link(first, link), *rest])
                return text
            case "blockCard" | "embedCard":
                jql = descend(attributes, "datasource", "parameters").get("jql")
                label = _render_label(node, self._people)
                return markdown.format_link(str(jql), label) if jql else label
            case _:  # not in the schema, or only a frame around others
                values = (node.get("text"), attributes.get("title"), attributes.get("text"))
                texts = [value.strip() for value in values if isinstance(value, str)]
                if formula := _formula_of(node):
                    texts.append(markdown.format_code_block(formula))
                return "\n\n".join(text for text in (*texts, self.render_blocks(children, depth)) if text)

    def _render_inline(self, nodes: list[Any]) -> str:
        parts: list[str] = []
        for url, group in groupby(nodes, key=_link_of):
            text = _render_runs(list(group), self._people)
            if url:
                lead, text, trail = _split_whitespace(text)
                text = f"{lead}{markdown.format_link(text, url)}{trail}"
            parts.append(text)
        return "".join(parts).strip()

    def _render_list_item(self, node: Any, marker: str, depth: int, label: str = "") -> str:
        """A list item; its lists follow without an empty line."""
        is_item = is_object(node) and _type_of(node) not in _ITEM_CONTENT_TYPES
        content = _children_of(node) if is_item else [node]
        text = label
        for kind, piece in self._render_pieces(content, depth):
            between = "\n" if kind in _LIST_TYPES else "\n\n"
            text = f"{text}{between}{piece}" if text != label else f"{label}{piece}"
        return markdown.format_list_item(marker, text)

    def _render_task(self, node: Any, depth: int) -> str:
        if _type_of(node) == "taskList":  # in the list itself, it belongs to the item before
            return markdown.format_list_item("  ", self._render_block(node, depth))
        is_done = descend(node, "attrs").get("state") == "DONE"
        return self._render_list_item(node, "- [x] " if is_done else "- [ ] ", depth)

    def _render_decision(self, node: Any, depth: int) -> str:
        label = "Undecided" if descend(node, "attrs").get("state") == "UNDECIDED" else "Decision"
        return self._render_list_item(node, "- ", depth, f"{label}: ")

    def _render_panel(self, node: Mapping[str, Any], depth: int) -> str:
        attributes = descend(node, "attrs")
        label = markdown.PANEL_LABELS.get(str(attributes.get("panelType"))) or attributes.get("panelIconText")
        text = self.render_blocks(_children_of(node), depth)
        first_type = next((_type_of(child) for child in _children_of(node)), "")
        if not label or not text:
            return text
        return f"{label}: {text}" if first_type == "paragraph" else f"{label}:\n\n{text}"

    def _build_grid(self, table: Mapping[str, Any], depth: int) -> list[list[str]]:
        rows = [
            row if _type_of(row) in {"tableRow", ""} and is_object(row) else {"content": [row]}
            for row in _children_of(table)
        ]
        grid = markdown.expand_spans(
            [self._build_cell(cell, depth) for cell in _children_of(row)] for row in rows
        )
        last = markdown.MAX_COLUMNS - 1
        return [
            [*row[:last], " ".join(row[last:])] if len(row) > markdown.MAX_COLUMNS else row for row in grid
        ]

    def _build_cell(self, cell: Any, depth: int) -> markdown.TableCell:
        if not is_object(cell) or _type_of(cell) not in {"tableCell", "tableHeader", ""}:
            cell = {"content": [cell]}
        spans = (descend(cell, "attrs").get(name) for name in ("rowspan", "colspan"))
        rows, columns = (max(1, span) if isinstance(span, int) else 1 for span in spans)
        parts: list[str] = []  # on one line; a table in it as its cells, one after the other
        for child in _children_of(cell):
            if _type_of(child) == "table" and depth <= _MAX_DEPTH:
                grid = self._build_grid(child, depth + 1)
                parts.append("; ".join(", ".join(text for text in row if text) for row in grid))
            elif _type_of(child) == "codeBlock":
                parts.append(markdown.format_inline_code(_collect_text(child, separator="").strip()))
            else:
                parts.append(self.render_blocks([child], depth + 1))
        return markdown.TableCell(" ".join(parts), rows, min(columns, markdown.MAX_COLUMNS))


def _type_of(node: Any) -> str:
    kind = descend(node).get("type")
    return kind if isinstance(kind, str) else ""


def _children_of(node: Any) -> list[Any]:
    content = descend(node).get("content")
    return content if is_list(content) else []


def _render_label(node: Any, people: People) -> str:
    """What a node other than text shows within a line."""
    kind = _type_of(node)
    attributes = descend(node, "attrs")
    match kind:
        case "hardBreak":
            return "\n"
        case "mention":
            name = str(attributes.get("text") or "").strip().lstrip("@")
            return f"@{name or people.get(str(attributes.get('id')), 'someone')}"
        case "emoji":
            return str(attributes.get("text") or attributes.get("shortName") or "")
        case "date":
            timestamp = attributes.get("timestamp")
            try:
                return datetime.fromtimestamp(int(timestamp or "") / 1000, UTC).date().isoformat()
            except (ValueError, OverflowError, OSError, TypeError):
                return str(timestamp or "")
        case "status" | "placeholder":
            return str(attributes.get("text") or "").strip()
        case "inlineCard" | "blockCard" | "embedCard":  # its name, where the card has its own JSON-LD
            data = descend(attributes, "data")
            url = str(attributes.get("url") or data.get("url") or "")
            return markdown.format_link(str(data.get("name") or ""), url)
        case "media" | "mediaInline" | "image":  # the name of a file; an image from elsewhere is a link
            names = (attributes.get(key) for key in ("alt", "__fileName", "title"))
            name = str(next(filter(None, names), "")).strip()
            url = attributes.get("url") or attributes.get("src")
            if isinstance(url, str) and url:
                return markdown.format_link(name or "image", url)
            return f"(attachment: {name})" if name else "(attachment)"
        case _:
            return markdown.format_inline_code(_formula_of(node)) or _collect_text(node)


def _formula_of(node: Any) -> str:
    """The LaTeX of an extension that shows a formula: it is a parameter, and what its text says a name."""
    parameters = descend(node, "attrs", "parameters", "macroParams")
    values = (descend(parameters, name).get("value") for name in markdown.FORMULA_PARAMETERS)
    return next((value.strip() for value in values if isinstance(value, str) and value.strip()), "")


def _has_lines_of_code(table: Any) -> bool:
    """Whether a cell holds code of several lines, of which a comment would end no more in one."""
    pending = [table]
    while pending:
        node = pending.pop()
        if _type_of(node) == "codeBlock" and "\n" in _collect_text(node, separator="").strip():
            return True
        pending.extend(_children_of(node))
    return False


def _collect_text(node: Any, separator: str = " ") -> str:
    texts: list[str] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if is_list(current):
            pending.extend(reversed(current))
        elif is_object(current):
            if _type_of(current) == "hardBreak":
                texts.append("\n")
            for text in (current.get("text"), descend(current, "attrs").get("text")):
                if isinstance(text, str):
                    texts.append(text)
            pending.append(current.get("content"))
        elif isinstance(current, str):
            texts.append(current)
    return separator.join(texts)


def _render_runs(nodes: list[Any], people: People) -> str:
    """Neighbours with the same emphasis are emphasized once."""
    texts: list[str] = []
    for node in nodes:
        text = _render_node(node, people)
        is_raised = _marks_of(node).get("subsup", {}).get("type") == "sup"
        texts.append(markdown.format_superscript(text, texts[-1] if texts else "") if is_raised else text)
    runs = [
        ("".join(text for text, _ in group), emphasis)
        for emphasis, group in groupby(zip(texts, map(_emphasis_of, nodes), strict=True), key=itemgetter(1))
    ]
    parts: list[str] = []
    for index, (text, emphasis) in enumerate(runs):
        before = runs[index - 1][0][-1:] if index else ""
        after = runs[index + 1][0][:1] if index + 1 < len(runs) else ""
        parts.append(_emphasize(text, emphasis, before, after))
    return "".join(parts)


def _emphasize(text: str, emphasis: tuple[str, ...], before: str, after: str) -> str:
    """The text between its signs; none where they would stand inside a word and break it."""
    lead, core, trail = _split_whitespace(text)
    if not core or not emphasis or "\n" in core:
        return text
    if (not lead and _WORD.match(before)) or (not trail and _WORD.match(after)):
        return text
    signs = "".join(emphasis)
    return f"{lead}{signs}{core}{signs[::-1]}{trail}"


def _render_node(node: Any, people: People) -> str:
    if _type_of(node) == "text":
        text = node.get("text")
        text = text if isinstance(text, str) else ""
        return markdown.format_inline_code(text) if "code" in _marks_of(node) else text
    return _render_label(node, people)


def _split_whitespace(text: str) -> tuple[str, str, str]:
    core = text.strip()
    start = text.index(core) if core else 0
    return text[:start], core, text[start + len(core) :]


def _marks_of(node: Any) -> dict[str, Mapping[str, Any]]:
    marks = list_objects(descend(node).get("marks"))
    return {_type_of(mark): descend(mark, "attrs") for mark in marks}


def _emphasis_of(node: Any) -> tuple[str, ...]:
    marks = _marks_of(node)
    if "code" in marks:
        return ()
    return tuple(sign for name, sign in _EMPHASIS.items() if name in marks)


def _link_of(node: Any) -> str:
    url = _marks_of(node).get("link", {}).get("href")
    return url if isinstance(url, str) else ""
