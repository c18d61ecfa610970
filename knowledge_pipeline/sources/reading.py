"""From a file's bytes to a document's text."""

from __future__ import annotations

import codecs
import re
from functools import cache
from importlib.metadata import version as installed_version

from knowledge_pipeline.errors import DocumentSkipped

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MULTIBYTE_UTF8 = re.compile(rb"[\xc3-\xdf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}|[\xf1-\xf4][\x80-\xbf]{3}")
_SAMPLE_BYTES = 262_144
_MOST_CHAOS = 0.02  # of charset-normalizer: the share of a text that looks like noise
_LEAST_COHERENCE = 0.2  # how much the frequency of letters resembles a known language


@cache
def reading_version() -> str:
    """Changes whenever the same bytes may give another text."""
    return f"1+{installed_version('charset-normalizer')}"


def text_of(payload: bytes) -> str:
    r"""The text of a file: UTF-8, or what its byte order mark says, or a well-founded guess.

    The byte order mark is dropped and "\r\n" becomes "\n"; nothing else is changed.

    Raises:
        DocumentSkipped: it is binary, empty, or in no encoding that can be told.
    """
    text = _decoded(payload).replace("\r\n", "\n")
    if "\0" in text:
        raise DocumentSkipped("binary file")
    if not text or text.isspace():
        raise DocumentSkipped("empty")
    return text


def _decoded(payload: bytes) -> str:
    for mark, encoding in _BOMS:
        if payload.startswith(mark):
            return _strictly(payload, encoding).removeprefix("\ufeff")
    if b"\0" in payload:
        raise DocumentSkipped("binary file")
    try:
        return payload.decode("utf-8")
    except UnicodeDecodeError as error:
        return _guessed(payload, error)


def _strictly(payload: bytes, encoding: str) -> str:
    try:
        return payload.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.upper()
        raise DocumentSkipped(f"not valid {name} at byte {error.start}, though its mark says so") from error


def _guessed(payload: bytes, error: UnicodeDecodeError) -> str:
    """Text in an older encoding; a file with some real UTF-8 in it is broken UTF-8, not that."""
    reason = f"not valid UTF-8 at byte {error.start}"
    if _MULTIBYTE_UTF8.search(payload):
        raise DocumentSkipped(reason) from error
    from charset_normalizer import from_bytes

    guess = from_bytes(payload[:_SAMPLE_BYTES], preemptive_behaviour=False).best()
    if guess is None or guess.chaos > _MOST_CHAOS or guess.coherence < _LEAST_COHERENCE:
        raise DocumentSkipped(reason) from error
    try:
        return payload.decode(guess.encoding)
    except (UnicodeDecodeError, LookupError):
        raise DocumentSkipped(reason) from error
