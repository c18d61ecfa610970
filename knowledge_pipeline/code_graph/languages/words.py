"""Names as tables and code write them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_GENERICS = re.compile(r"(?:::)?<[^<>]*>")


def split_words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def map_words(texts: Mapping[str, str]) -> dict[str, str]:
    """The words of several texts, each with the key of its text; the last text that has a word counts."""
    return {word: key for key, text in texts.items() for word in text.split()}


def split_scoped_name(text: str) -> list[str]:
    """The segments of `a::b::<T>::c`; none of what is not a plain path."""
    for _ in range(6):
        shorter = _GENERICS.sub("", text)
        if shorter == text:
            break
        text = shorter
    parts = ["".join(part.split()) for part in text.split("::")]
    parts = parts[1:] if parts and not parts[0] else parts
    return parts if all(part.isidentifier() for part in parts) else []
