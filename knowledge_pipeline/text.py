"""Pure functions of any text: shortened, counted in estimated tokens, shown; types of parsed JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeIs

_WORD_CHARS = 4  # English prose and code average about 4 characters a token
_TOKEN = re.compile(rf"[A-Za-z]{{1,{_WORD_CHARS}}}|\d{{1,3}}|\S")


def truncate(text: str, max_chars: int) -> str:
    """The text, at most `max_chars` characters long; "…" is the last one of a text that was cut."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def replace_surrogates(text: str) -> str:
    """The text with every lone surrogate, which no encoder takes, as "?"; offsets stay."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name fits one of the patterns, in which `*` stands for anything, slashes too."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def is_object(value: object) -> TypeIs[dict[str, Any]]:
    """Whether a value of parsed JSON is an object; its keys are text."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeIs[list[Any]]:
    """Whether a value of parsed JSON is a list."""
    return isinstance(value, list)


def descend(value: Any, *names: str) -> dict[str, Any]:
    """The object within objects of parsed JSON at these names; an empty one where there is none."""
    for name in names:
        value = value.get(name) if is_object(value) else None
    return value if is_object(value) else {}


def list_objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list of parsed JSON; none where there is no list."""
    return [item for item in value if is_object(item)] if is_list(value) else []


def estimate_token_starts(text: str) -> list[int]:
    """Starts of estimated tokens, for endpoints that do not reveal their tokenizer.

    They are word pieces, marks and non-Latin characters: somewhat more than a byte-pair encoding has.
    """
    return [match.start() for match in _TOKEN.finditer(text)]


def truncate_to_tokens(text: str, max_tokens: int) -> str:
    """The beginning of a text, at most `max_tokens` estimated tokens long."""
    starts = estimate_token_starts(text)
    return text[: starts[max_tokens]] if len(starts) > max_tokens else text


def format_share(share: float) -> str:
    """A share in [0, 1], rounded down: `99 %` where one of a thousand is missing."""
    return f"{int(100 * share)} %"
