"""The inline nodes of the Atlassian Document Format: text with its marks, mentions, cards, dates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from knowledge_pipeline.sources.markdown_writing import coded, linked

People = Mapping[str, str]
"""Display names by account id or user name."""

INLINE = frozenset(
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
    told = node.get("type") if isinstance(node, dict) else None
    return told if isinstance(told, str) else ""


def nodes_of(node: Any) -> list[Any]:
    """What a node contains."""
    content = node.get("content") if isinstance(node, dict) else None
    return content if isinstance(content, list) else []


def attributes(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attributes of a node."""
    told = node.get("attrs")
    return told if isinstance(told, dict) else {}


def inline_text(nodes: list[Any], people: People) -> str:
    """Inline nodes as one text, their white space as it is."""
    parts: list[str] = []
    for url, group in groupby(nodes, key=_link_of):
        text = _marked(list(group), people)
        if url:
            lead, text, trail = _without_space(text)
            text = f"{lead}{linked(text, url)}{trail}"
        parts.append(text)
    return "".join(parts)


def label_of(node: Any, people: People) -> str:
    """What a node that is no text shows within a line."""
    show = _LABELS.get(type_of(node))
    return show(attributes(node), people) if show else all_text(node)


def all_text(node: Any, between: str = " ") -> str:
    """Every text under a node, however deep; a hard break is a new line."""
    texts: list[str] = []
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if isinstance(here, list):
            waiting.extend(reversed(here))
        elif isinstance(here, dict):
            if type_of(here) == "hardBreak":
                texts.append("\n")
            for told in (here.get("text"), attributes(here).get("text")):
                if isinstance(told, str):
                    texts.append(told)
            waiting.append(here.get("content"))
        elif isinstance(here, str):
            texts.append(here)
    return between.join(texts)


def _marked(nodes: list[Any], people: People) -> str:
    """Neighbours with the same emphasis are emphasized once."""
    runs = [
        ("".join(_shown(node, people) for node in group), emphasis)
        for emphasis, group in groupby(nodes, key=_emphasis_of)
    ]
    parts = []
    for place, (text, emphasis) in enumerate(runs):
        before = runs[place - 1][0][-1:] if place else ""
        after = runs[place + 1][0][:1] if place + 1 < len(runs) else ""
        parts.append(_emphasized(text, emphasis, before, after))
    return "".join(parts)


def _emphasized(text: str, emphasis: tuple[str, ...], before: str, after: str) -> str:
    """The text between its signs; none where they would stand inside a word and break it."""
    lead, core, trail = _without_space(text)
    if not core or not emphasis or "\n" in core:
        return text
    inside = (not lead and _WORD.match(before)) or (not trail and _WORD.match(after))
    if inside:
        return text
    signs = "".join(emphasis)
    return f"{lead}{signs}{core}{signs[::-1]}{trail}"


def _shown(node: Any, people: People) -> str:
    if type_of(node) == "text":
        text = node.get("text")
        text = text if isinstance(text, str) else ""
        return coded(text) if "code" in _marks(node) else text
    return label_of(node, people)


def _without_space(text: str) -> tuple[str, str, str]:
    core = text.strip()
    start = text.index(core) if core else 0
    return text[:start], core, text[start + len(core) :]


def _marks(node: Any) -> dict[str, Mapping[str, Any]]:
    marks = node.get("marks") if isinstance(node, dict) else None
    known = marks if isinstance(marks, list) else []
    return {type_of(mark): attributes(mark) for mark in known if isinstance(mark, dict)}


def _emphasis_of(node: Any) -> tuple[str, ...]:
    marks = _marks(node)
    if "code" in marks:
        return ()
    return tuple(sign for name, sign in _EMPHASIS.items() if name in marks)


def _link_of(node: Any) -> str:
    url = _marks(node).get("link", {}).get("href")
    return url if isinstance(url, str) else ""


def _mention(told: Mapping[str, Any], people: People) -> str:
    name = str(told.get("text") or "").strip().lstrip("@") or people.get(str(told.get("id")), "someone")
    return f"@{name}"


def _emoji(told: Mapping[str, Any], people: People) -> str:
    return str(told.get("text") or told.get("shortName") or "")


def _date(told: Mapping[str, Any], people: People) -> str:
    stamp = told.get("timestamp")
    try:
        return datetime.fromtimestamp(int(stamp or "") / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError, TypeError):
        return str(stamp or "")


def _status(told: Mapping[str, Any], people: People) -> str:
    return str(told.get("text") or "").strip()


def _card(told: Mapping[str, Any], people: People) -> str:
    """A link; its name where the card brings its own JSON-LD."""
    data = told.get("data")
    data = data if isinstance(data, dict) else {}
    url = told.get("url") or data.get("url") or ""
    return linked(str(data.get("name") or ""), str(url))


def _media(told: Mapping[str, Any], people: People) -> str:
    """The name of a file; an image from elsewhere is a link."""
    name = next((str(told[key]) for key in ("alt", "__fileName", "title") if told.get(key)), "").strip()
    url = told.get("url") or told.get("src")
    if isinstance(url, str) and url:
        return linked(name or "image", url)
    return f"(attachment: {name})" if name else "(attachment)"


def _break(told: Mapping[str, Any], people: People) -> str:
    return "\n"


_LABELS: dict[str, Callable[[Mapping[str, Any], People], str]] = {
    "hardBreak": _break,
    "mention": _mention,
    "emoji": _emoji,
    "date": _date,
    "status": _status,
    "inlineCard": _card,
    "blockCard": _card,
    "embedCard": _card,
    "media": _media,
    "mediaInline": _media,
    "image": _media,
    "placeholder": _status,
}
