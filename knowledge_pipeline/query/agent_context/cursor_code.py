"""The code before and after a cursor, as much as fits: what is nearest to the cursor. Pure."""

from __future__ import annotations

from collections.abc import Callable

from knowledge_pipeline.query.agent_context.tokens import CountTokens

_SUFFIX_SHARE = 3  # a third of the room belongs to what follows the cursor, if it needs as much


def fit_code_around_cursor(prefix: str, suffix: str, max_tokens: int, count: CountTokens) -> tuple[str, str]:
    """The end of the prefix and the beginning of the suffix, of at most `max_tokens` tokens together.

    What one does not need is left to the other. Whole lines are kept, unless the nearest one is too long.
    """
    suffix_room = max(max_tokens // _SUFFIX_SHARE, max_tokens - count(prefix))
    suffix = _keep_beginning(suffix, suffix_room, count)
    return _keep_end(prefix, max_tokens - count(suffix), count), suffix


def _keep_beginning(text: str, max_tokens: int, count: CountTokens) -> str:
    kept = text[: _find_length(len(text), lambda length: count(text[:length]) <= max_tokens)]
    lines, line_break, _ = kept.rpartition("\n")
    return kept if kept == text or not line_break else lines + line_break


def _keep_end(text: str, max_tokens: int, count: CountTokens) -> str:
    start = len(text) - _find_length(len(text), lambda n: count(text[len(text) - n :]) <= max_tokens)
    next_line = text.find("\n", max(start - 1, 0)) + 1
    return text[start:] if start == 0 or next_line in (0, len(text)) else text[next_line:]


def _find_length(longest: int, fits: Callable[[int], bool]) -> int:
    """The most characters that fit, at most `longest`."""
    low, high = 0, longest
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low
