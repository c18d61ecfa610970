"""Sets of names, written as a text."""

from __future__ import annotations


def split_words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())
