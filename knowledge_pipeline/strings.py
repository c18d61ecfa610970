"""Texts made fit for where they go: short enough to show, and valid for every encoder."""

from __future__ import annotations


def truncate(text: str, max_chars: int) -> str:
    """The text, at most `max_chars` characters long; "…" is the last one of a text that was cut."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def replace_surrogates(text: str) -> str:
    """The text with every lone surrogate, which no encoder takes, as "?"; offsets stay."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
