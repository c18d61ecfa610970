"""Where the tokens of a text start, counted in characters, without loading any weights."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.text import estimate_token_starts, replace_surrogates

SPECIAL_TOKENS = 2  # of every text that a model reads: one before it and one after it

CASE_BOUNDARY = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"
"""Where the tokenizer of our static model puts a space into a word: `parse|JSON|Value`."""

_CASE_SPLITTER = {"type": "Replace", "pattern": {"Regex": CASE_BOUNDARY}, "content": " "}

_MAX_TOKEN_CHARS = 32  # a longer token counts as several: WordPiece makes one of 1 MB of hex digits
_KEPT_WORDS, _KEPT_WORD_CHARS = 65_536, 64  # of which the tokens are remembered: 10 MB
_KEPT_LINES, _KEPT_LINE_CHARS = 32_768, 160  # the same of lines, as an edited file has most of its own: 10 MB

# A word or a punctuation mark of ASCII, or else all until the next space: an accent may belong to the letter
# before it, and a control character vanishes.
_UNIT = re.compile(r"[A-Za-z0-9]++(?![^\t\n\r -~])|[!-/:-@\[-`{-~](?![^\t\n\r -~])|[^\t\n\r ]++")

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WORD_PIECES = b'"model":{"type":"WordPiece"'
_vocabularies: LRUCache[str, Any] = LRUCache(4)  # models of tokenizers, by a hash of what they are written as
_vocabularies_lock = threading.Lock()

_Json = dict[str, Any]
_TokenStarts = Callable[[str], list[int]]


def load_model_tokenizer(folder: Path) -> Tokenize:
    """The tokenizer of a model's folder, special tokens left out; estimated where there is none.

    Offsets ascend, and repeat where one character takes several tokens.
    """
    path = find_tokenizer_file(folder)
    if path is None:
        return estimate_token_starts
    stat = path.stat()
    return _load_tokenizer(path, stat.st_size, stat.st_mtime_ns)


def find_tokenizer_file(folder: Path) -> Path | None:
    """The file of the tokenizer in a model's folder, if there is one."""
    paths = (folder / "tokenizer.json", *folder.glob("*/tokenizer.json"))
    return next((path for path in paths if path.is_file()), None)


def open_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a file; files with one vocabulary share it.

    Parsing a vocabulary takes longer than embedding a question, and models of the BERT family have the same.
    """
    from tokenizers import Tokenizer

    text = path.read_bytes()
    vocabulary = text.find(b'"vocab"')
    written = text[text.rfind(b'"model"', 0, max(vocabulary, 0)) :].translate(None, b" \t\r\n")
    if not written.startswith(_WORD_PIECES) or not written.endswith(b"}}}"):  # nothing follows the vocabulary
        return Tokenizer.from_file(str(path))
    key = hashlib.sha256(written).hexdigest()
    with _vocabularies_lock:
        if (cached := _vocabularies.get(key)) is None:
            tokenizer = Tokenizer.from_file(str(path))
            _vocabularies[key] = tokenizer.model
            return tokenizer
    before = text[: text.index(b"{", vocabulary)].decode()
    added: list[_Json] = json.loads(before + "{}}}")["added_tokens"]
    ids = {token["content"]: token["id"] for token in added}
    tokenizer = Tokenizer.from_str(before + json.dumps(ids) + "}}")
    tokenizer.model = cached
    return tokenizer


@lru_cache(maxsize=4)
def _load_tokenizer(path: Path, *_stamp: int) -> Tokenize:
    """Loaded once, and again when the file changes."""
    tokenizer = open_tokenizer(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def token_starts(text: str) -> list[int]:
        offsets = tokenizer.encode(replace_surrogates(text), add_special_tokens=False).offsets
        return [at for start, end in offsets for at in range(start, max(end, start + 1), _MAX_TOKEN_CHARS)]

    declared = json.loads(path.read_text("utf-8"))
    return _remember_words(token_starts, declared) if _reads_words_alone(declared) else token_starts


def _reads_words_alone(declared: _Json) -> bool:
    """Whether a tokenizer reads each word alike in any text, as those of the BERT family do."""
    normalizer: _Json = declared["normalizer"] or {"type": None}
    cutter: _Json = declared["pre_tokenizer"] or {"type": None}
    steps: list[_Json] = normalizer.get("normalizers", [normalizer])
    added: list[_Json] = declared["added_tokens"]
    if declared["model"]["type"] != "WordPiece" or cutter["type"] != "BertPreTokenizer":
        return False
    is_local = all(step["type"] == "BertNormalizer" or step == _CASE_SPLITTER for step in steps)
    return is_local and not any(token["normalized"] for token in added)


class _TokensOfWords(dict[str, list[int]]):
    """Where tokens start in a word, or in what stands between two spaces."""

    def __init__(self, token_starts: _TokenStarts) -> None:
        super().__init__()
        self._token_starts = token_starts

    def __missing__(self, word: str) -> list[int]:
        if len(self) >= _KEPT_WORDS:
            self.clear()
        starts = self._token_starts(word)
        if len(word) <= _KEPT_WORD_CHARS:
            self[word] = starts
        return starts


def _remember_words(token_starts: _TokenStarts, declared: _Json) -> _TokenStarts:
    """The same as `token_starts`, in a quarter of the time: most words of a text were met before.

    No word goes on after the end of a line.
    """
    added: list[_Json] = declared["added_tokens"]
    marks: list[str] = [token["content"] for token in added]  # "[MASK]" is one token
    cached_words, cached_lines = _TokensOfWords(token_starts), dict[str, list[int]]()

    def read_line(line: str) -> list[int]:
        starts = list[int]()
        for match in _UNIT.finditer(line):
            start = match.start()
            starts += [start + at for at in cached_words[match[0]]]
        if len(line) <= _KEPT_LINE_CHARS:
            if len(cached_lines) >= _KEPT_LINES:
                cached_lines.clear()
            cached_lines[line] = starts
        return starts

    def token_starts_by_word(text: str) -> list[int]:
        if any(mark in text for mark in marks):
            return token_starts(text)
        starts, start = list[int](), 0
        for line in text.split("\n"):
            within = cached_lines.get(line)
            if within is None:
                within = read_line(line)
            starts += [start + at for at in within]
            start += len(line) + 1
        return starts

    return token_starts_by_word
