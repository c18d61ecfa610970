"""What a model reads of a text: one for English makes a vector of Chinese too, which says nothing.

Its tokenizer tells: it knows no token for such a character, or spells words letter by letter.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding.encoders import PACKAGED_MODELS, find_packaged_folder
from knowledge_pipeline.embedding.ensemble import (
    OUTLINE_SUFFIX,
    is_ensemble,
    is_outline,
    remove_outline_suffix,
    split_member_settings,
)
from knowledge_pipeline.embedding.model_folders import find_model_folder
from knowledge_pipeline.embedding.tokenizer import find_tokenizer_file, open_tokenizer
from knowledge_pipeline.text import replace_surrogates

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MAX_CHARS = 2_000  # of a text that are looked at

_LETTER = re.compile(r"[^\W\d_]")
_NOT_LATIN = re.compile(
    r"(?![\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab6f\uff21-\uff5a])[^\W\d_\x00-\u02ff]"
)
_SYLLABLE = re.compile(r"[\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U000323af]")  # much of a word
_ENGLISH_ONLY = re.compile(r"static-v1|all-(minilm-l\d+|mpnet-base)-v\d|bge-(small|base|large)-en(-v1\.5)?")
_UNKNOWN_TOKENS = frozenset({"[UNK]", "<unk>"})


def reads_only_english(settings: EmbeddingSettings) -> bool:
    """Whether a local model, or each of several, is known to be one of English: the default ones are."""
    if settings.provider != "local":
        return False
    members = split_member_settings(settings) if is_ensemble(settings) else [settings]
    names = (member.model.removesuffix(OUTLINE_SUFFIX).rpartition("/")[2].lower() for member in members)
    return all(map(_ENGLISH_ONLY.fullmatch, names))


def remove_unread(settings: EmbeddingSettings, text: str) -> str:
    """A text without the letters that its model, or each of several, does not read; an endpoint's reads all.

    Those are letters without a token, and of words that are spelled letter by letter. Latin letters are read.

    Raises:
        ModelError: there is no such model on this machine.
    """
    if text.isascii() or settings.provider != "local" or not _NOT_LATIN.search(text):
        return text
    start = replace_surrogates(text[:_MAX_CHARS])
    members = split_member_settings(settings) if is_ensemble(settings) else [settings]
    unread = set[int].intersection(*(_find_unread(member, start) for member in members))
    if not unread:
        return text
    kept = "".join(" " if at in unread else letter for at, letter in enumerate(start))
    return kept + text[_MAX_CHARS:]


def is_mostly_kept(kept: str, text: str) -> bool:
    """Whether at least half of the letters of a text were kept."""
    return 2 * len(_LETTER.findall(kept)) >= len(_LETTER.findall(text))


def _find_unread(settings: EmbeddingSettings, text: str) -> set[int]:
    """Where a model knows no token for a letter, or has to spell its word; Latin letters aside."""
    if is_outline(settings):
        settings = remove_outline_suffix(settings)
    tokenizer = _open_model_tokenizer(settings.model)
    if tokenizer is None:
        return set()
    encoding = tokenizer.encode(text, add_special_tokens=False)
    tokens_at = Counter(at for start, end in encoding.offsets for at in range(start, end))
    read = set[int]()
    for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        is_whole = end - start > 1 or (_SYLLABLE.match(text, start) and tokens_at[start] == 1)
        if is_whole and token not in _UNKNOWN_TOKENS:
            read.update(range(start, end))
    return {match.start() for match in _NOT_LATIN.finditer(text)} - read


@lru_cache(maxsize=8)
def _open_model_tokenizer(model: str) -> Tokenizer | None:
    """The tokenizer of a local model; None of one without a file for it."""
    folder = find_packaged_folder(model) if model in PACKAGED_MODELS else find_model_folder(model)
    path = find_tokenizer_file(folder)
    if path is None:
        return None
    tokenizer = open_tokenizer(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
