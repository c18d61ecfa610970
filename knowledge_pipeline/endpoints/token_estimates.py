"""Tokens of a text for a model whose tokenizer is not known, because an endpoint does not tell it."""

from __future__ import annotations

import re

_WORD_CHARS = 4  # English prose and code average about 4 characters a token
_TOKEN = re.compile(rf"[A-Za-z]{{1,{_WORD_CHARS}}}|\d{{1,3}}|\S")


def estimate_token_starts(text: str) -> list[int]:
    """Starts of word pieces, marks and non-Latin characters: rather more than a byte-pair encoding has."""
    return [match.start() for match in _TOKEN.finditer(text)]


def truncate_to_tokens(text: str, max_tokens: int) -> str:
    """The beginning of a text, at most `max_tokens` estimated tokens long."""
    starts = estimate_token_starts(text)
    return text[: starts[max_tokens]] if len(starts) > max_tokens else text


def replace_surrogates(text: str) -> str:
    """The text with every lone surrogate, which no encoder takes, as "?"; offsets stay."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
