"""Where the tokens of a text start, counted in characters, without loading any weights."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from knowledge_pipeline.endpoints.token_estimates import estimate_token_starts
from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.strings import replace_surrogates

SPECIAL_TOKENS = 2  # of every text that a model reads: one before it and one after it

_MAX_TOKEN_CHARS = 32  # a longer token counts as several: WordPiece makes one of 1 MB of hex digits


def load_model_tokenizer(folder: Path) -> Tokenize:
    """The tokenizer of a model's folder, special tokens left out; estimated where there is none.

    Offsets ascend, and repeat where one character takes several tokens.
    """
    path = next(
        (p for p in (folder / "tokenizer.json", *folder.glob("*/tokenizer.json")) if p.is_file()), None
    )
    if path is None:
        return estimate_token_starts
    stat = path.stat()
    return _load_tokenizer(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4)
def _load_tokenizer(path: Path, *_stamp: int) -> Tokenize:
    """Loaded once, and again when the file changes."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def token_starts(text: str) -> list[int]:
        offsets = tokenizer.encode(replace_surrogates(text), add_special_tokens=False).offsets
        return [at for start, end in offsets for at in range(start, max(end, start + 1), _MAX_TOKEN_CHARS)]

    return token_starts
