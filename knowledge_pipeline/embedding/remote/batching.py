"""Splits texts into requests that fit an endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def split_batches(sizes: Sequence[int], *, max_texts: int, max_tokens: int) -> Iterator[range]:
    """Cut consecutive texts into batches of at most `max_texts` texts and `max_tokens` tokens.

    Only a text larger than `max_tokens` by itself, alone in its batch, exceeds the limit.

    Args:
        sizes: tokens of each text, in order.

    Yields:
        Ranges of positions in `sizes`, in order, none empty, none left out.
    """
    start, tokens = 0, 0
    for position, size in enumerate(sizes):
        full = position - start == max_texts or tokens + size > max_tokens
        if full and position > start:
            yield range(start, position)
            start, tokens = position, 0
        tokens += size
    if start < len(sizes):
        yield range(start, len(sizes))
