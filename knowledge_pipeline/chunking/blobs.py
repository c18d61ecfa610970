"""Tells minified code and encoded data from text, by content."""

from __future__ import annotations

import re
from collections.abc import Sequence

from knowledge_pipeline.records import Chunk

_MIN_CHARS = 500
_MAX_SPACE_SHARE = 0.08  # prose has about 0.16, code more
_MAX_REST_SHARE = 0.1
_ADDRESS = re.compile(r"https?://[!-~]{30,}")
_ENCODED = re.compile(r"[\w+/=%&?.:~-]{500,}|(?:[A-Za-z0-9+/]{60,}+[^A-Za-z0-9+/]{1,8}+){4,}+", re.ASCII)


def drop_blobs(chunks: Sequence[Chunk], text: str, *, may_be_compact: bool = False) -> list[Chunk]:
    """The chunks of a text without those of minified code or encoded data; the first if all are such.

    Args:
        may_be_compact: keep what has no spaces, such as JSON, but for encoded data in it.
    """
    judge = is_encoded if may_be_compact else is_blob
    kept = [chunk for chunk in chunks if not judge(_widen(chunk, text))]
    return kept or list(chunks[:1])


def _widen(chunk: Chunk, text: str) -> str:
    """A chunk that is too short to be judged, with what its first and last line have more."""
    if len(chunk.text) >= _MIN_CHARS or _count_spaces(chunk.text) > len(chunk.text) * _MAX_SPACE_SHARE + 2:
        return chunk.text
    start, end = max(0, chunk.start_char - _MIN_CHARS), chunk.end_char + _MIN_CHARS
    line_end = text.find("\n", chunk.end_char, end)
    return text[
        max(start, text.rfind("\n", start, chunk.start_char) + 1) : end if line_end == -1 else line_end
    ]


def is_blob(text: str) -> bool:
    """Whether a text of some length is no text: lines without end and hardly a space, or base64.

    Words around a long address keep it. Scripts without spaces between words are outside of ASCII, so
    that only ASCII counts.
    """
    if len(text) < _MIN_CHARS or _count_spaces(text) > len(text) * _MAX_REST_SHARE:
        return False
    if is_encoded(text):
        return True
    if text.count("\n") >= len(text) // _MIN_CHARS or len(text.encode("utf-8", "replace")) > len(text) * 1.1:
        return False
    rest = _ADDRESS.sub("", text)
    return _count_spaces(rest) < len(rest) * _MAX_SPACE_SHARE


def is_encoded(text: str) -> bool:
    """Whether a text is base64, in one line or many, or an address without end."""
    return len(_ENCODED.sub("", text)) < len(text) * _MAX_REST_SHARE


def _count_spaces(text: str) -> int:
    return text.count(" ") + text.count("\n") + text.count("\t")
