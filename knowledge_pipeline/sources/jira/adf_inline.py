"""The inline nodes of the Atlassian Document Format: text with its marks, mentions, cards, dates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.sources.markdown_writing import format_inline_code, format_link

People = Mapping[str, str]
"""Display names by account id or user name."""

INLINE_TYPES = frozenset(
    {
        *("text", "hardBreak", "mention", "emoji", "date", "status", "inlineCard", "mediaInline", "media"),
        *("placeholder", "inlineExtension", "image", "confluenceJiraIssue", "unsupportedInline"),
    }
)
"""Types of node that stand within a line."""

_EMPHASIS = {"strong": "**", "em": "*", "strike": "~~"}
_WORD = re.compile(r"\w")


def type_of(node: Any) -> str:
    """The type of a node; "" for what is none."""
    kind = node.get("type") if is_object(node) else None
    return kind if isinstance(kind, str) else ""


def children_of(node: Any) -> list[Any]:
    """What a node contains."""
    content = node.get("content") if is_object(node) else None
    return content if is_list(content) else []


def attributes_of(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of a node."""
    attributes = node.get("attrs")
    return attributes if is_object(attributes) else {}


def render_inline(nodes: list[Any], people: People) -> str:
    """Inline nodes as one text, their white space as it is."""
    parts: list[str] = []
    for url, group in groupby(nodes, key=_link_of):
        text = _render_runs(list(group), people)
        if url:
            lead, text, trail = _split_whitespace(text)
            text = f"{lead}{format_link(text, url)}{trail}"
        parts.append(text)
    return "".join(parts)


def render_label(node: Any, people: People) -> str:
    """What a node other than text shows within a line."""
    kind = type_of(node)
    attributes: Mapping[str, Any] = attributes_of(node) if kind else {}
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
            given = attributes.get("data")
            data: Mapping[str, Any] = given if is_object(given) else {}
            url = str(attributes.get("url") or data.get("url") or "")
            return format_link(str(data.get("name") or ""), url)
        case "media" | "mediaInline" | "image":  # the name of a file; an image from elsewhere is a link
            names = (attributes.get(key) for key in ("alt", "__fileName", "title"))
            name = str(next(filter(None, names), "")).strip()
            url = attributes.get("url") or attributes.get("src")
            if isinstance(url, str) and url:
                return format_link(name or "image", url)
            return f"(attachment: {name})" if name else "(attachment)"
        case _:
            return collect_text(node)


def collect_text(node: Any, separator: str = " ") -> str:
    """Every text under a node, however deep; a hard break is a new line."""
    texts: list[str] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if is_list(current):
            pending.extend(reversed(current))
        elif is_object(current):
            if type_of(current) == "hardBreak":
                texts.append("\n")
            for text in (current.get("text"), attributes_of(current).get("text")):
                if isinstance(text, str):
                    texts.append(text)
            pending.append(current.get("content"))
        elif isinstance(current, str):
            texts.append(current)
    return separator.join(texts)


def _render_runs(nodes: list[Any], people: People) -> str:
    """Neighbours with the same emphasis are emphasized once."""
    runs = [
        ("".join(_render_node(node, people) for node in group), emphasis)
        for emphasis, group in groupby(nodes, key=_emphasis_of)
    ]
    parts: list[str] = []
    for place, (text, emphasis) in enumerate(runs):
        before = runs[place - 1][0][-1:] if place else ""
        after = runs[place + 1][0][:1] if place + 1 < len(runs) else ""
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
    if type_of(node) == "text":
        text = node.get("text")
        text = text if isinstance(text, str) else ""
        return format_inline_code(text) if "code" in _marks_of(node) else text
    return render_label(node, people)


def _split_whitespace(text: str) -> tuple[str, str, str]:
    core = text.strip()
    start = text.index(core) if core else 0
    return text[:start], core, text[start + len(core) :]


def _marks_of(node: Any) -> dict[str, Mapping[str, Any]]:
    marks = node.get("marks") if is_object(node) else None
    known = marks if is_list(marks) else []
    return {type_of(mark): attributes_of(mark) for mark in known if is_object(mark)}


def _emphasis_of(node: Any) -> tuple[str, ...]:
    marks = _marks_of(node)
    if "code" in marks:
        return ()
    return tuple(sign for name, sign in _EMPHASIS.items() if name in marks)


def _link_of(node: Any) -> str:
    url = _marks_of(node).get("link", {}).get("href")
    return url if isinstance(url, str) else ""
