"""The text of a conversation: a ticket, a pull request, a thread.

Each turn but the first begins with a line that names its author and day. The document's metadata
lists the turns under `segments`; the chunker keeps them whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Turn:
    """One contribution. `kind` is a word or two for people: "description", "comment", "review"."""

    kind: str
    text: str  # clean text, Markdown at most
    author: str | None = None
    at: datetime | None = None  # with time zone
    location: str | None = None  # what it is about: "src/auth.py line 12"
    url: str | None = None  # where a person sees it


def format_conversation(title: str, turns: Iterable[Turn]) -> tuple[str, list[dict[str, Any]]]:
    """The text of a conversation, and its segments: `start_char`, `kind`; where known `author`, `at`, `url`.

    The title is the first line and belongs to the first segment. Turns without text are left out.
    """
    parts = [title.strip() or "(no title)"]
    segments: list[dict[str, Any]] = []
    length = len(parts[0])
    for turn in turns:
        text = turn.text.strip()
        if not text:
            continue
        first = not segments and turn.kind == "description"
        part = text if first else f"{_format_turn_header(turn)}\n{text}"
        start = 0 if not segments else length + 2
        if not segments and not first:  # a title without a description is a segment of its own
            segments.append({"start_char": 0, "kind": "title"})
            start = length + 2
        known = {"author": turn.author, "at": turn.at.isoformat() if turn.at else None, "url": turn.url}
        segment = {name: value for name, value in known.items() if value}
        segments.append({"start_char": start, "kind": turn.kind, **segment})
        parts.append(part)
        length += 2 + len(part)
    return "\n\n".join(parts), segments or [{"start_char": 0, "kind": "title"}]


def _format_turn_header(turn: Turn) -> str:
    """ "Comment by Ada Lovelace on src/auth.py line 12, 2026-03-01:"."""
    by = f" by {turn.author}" if turn.author else ""
    on = f" on {turn.location}" if turn.location else ""
    day = f", {turn.at.date().isoformat()}" if turn.at else ""
    return f"{turn.kind[:1].upper()}{turn.kind[1:]}{by}{on}{day}:"
