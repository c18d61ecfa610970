"""Texts made fit for where they go: short enough to show, and valid for every encoder."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def truncate(text: str, max_chars: int) -> str:
    """The text, at most `max_chars` characters long; "…" is the last one of a text that was cut."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def replace_surrogates(text: str) -> str:
    """The text with every lone surrogate, which no encoder takes, as "?"; offsets stay."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name fits one of the patterns, in which `*` stands for anything, slashes too."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
