"""Estimated tokens of a text, for endpoints that do not reveal their tokenizer."""

from __future__ import annotations

import re

_WORD_CHARS = 4  # English prose and code average about 4 characters a token
_TOKEN = re.compile(rf"[A-Za-z]{{1,{_WORD_CHARS}}}|\d{{1,3}}|\S")


def estimate_token_starts(text: str) -> list[int]:
    """Starts of word pieces, marks and non-Latin characters: somewhat more than a byte-pair encoding has."""
    return [match.start() for match in _TOKEN.finditer(text)]


def truncate_to_tokens(text: str, max_tokens: int) -> str:
    """The beginning of a text, at most `max_tokens` estimated tokens long."""
    starts = estimate_token_starts(text)
    return text[: starts[max_tokens]] if len(starts) > max_tokens else text
