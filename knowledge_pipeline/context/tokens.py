"""Counts a text's tokens for its reader, a language model whose tokenizer is rarely available.

docs/decisions/contexts.md has the figures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.extras import describe_missing

CountTokens = Callable[[str], int]
"""Tokens of a text, without special ones. Of two joined texts: about the sum."""

ESTIMATE = "estimate"

_PIECES = re.compile(
    r"[A-Z]?[a-z]{1,6}|[A-Z]{1,3}|[0-9]"  # parts of words; digits one by one, as some readers take them
    r"|[!-/:-@\[-`{-~]"  # punctuation
    r"|[^\S\n]*\n\s*|[^\S\n]{2,}"  # a line's end with the indentation after it; a run of blanks
    r"|[^\x00-\x7f]"
)
_EAST_ASIAN = re.compile("[\u2e80-\ua4cf\uac00-\ud7a3]")  # between one and two tokens each
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")  # emoji and the like: several tokens each


def estimate_tokens(text: str) -> int:
    """About a fifth more tokens than the byte-pair encodings of today's models produce."""
    pieces = len(_PIECES.findall(text))
    if text.isascii():
        return pieces
    return pieces + 2 * len(_ASTRAL.findall(text)) + len(_EAST_ASIAN.findall(text)) // 2


def open_token_counter(tokenizer: str) -> CountTokens:
    """The counter that a setting names: `estimate`, a folder with a `tokenizer.json`, or such a file.

    Another name is that of a tokenizer of the Hugging Face hub, from its cache or downloaded.

    Raises:
        ModelError: it does not exist, or is not a tokenizer.
    """
    return estimate_tokens if tokenizer == ESTIMATE else _build_exact_counter(tokenizer)


@lru_cache(maxsize=8)
def _build_exact_counter(tokenizer: str) -> CountTokens:
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError as error:
        raise ModelError(describe_missing(f"context.tokenizer {tokenizer!r}", "models")) from error

    path = Path(tokenizer).expanduser()
    try:
        if path.is_dir() or path.suffix == ".json" or path.is_absolute() or tokenizer.startswith("."):
            loaded = Tokenizer.from_file(str(path / "tokenizer.json" if path.is_dir() else path))
        else:
            loaded = Tokenizer.from_pretrained(tokenizer)
    except Exception as error:  # whatever tokenizers, the hub and the network raise
        raise ModelError(
            f"the tokenizer {tokenizer!r} cannot be loaded ({type(error).__name__}): set context.tokenizer "
            f"to {ESTIMATE}, to a folder with a tokenizer.json, or to a name that the Hugging Face hub has"
        ) from error
    loaded.no_truncation()
    loaded.no_padding()

    def count(text: str) -> int:
        encodable = text if text.isascii() else text.encode("utf-8", "replace").decode()  # lone surrogates
        return len(loaded.encode(encodable, add_special_tokens=False).ids)

    return count
