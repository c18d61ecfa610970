"""From a file's bytes to a document's text, and the notes on what is not in it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from knowledge_pipeline.encodings import WINDOWS_CONTROLS, find_codec, find_marked_codec
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Metadata

_DECLARED_ENCODING = re.compile(
    rb"^(?:[^\n]*\n)?[ \t\f]*(?:#|//|/\*|;|%|--)[^\n]*?coding[:=][ \t]*(?P<encoding>[-\w.]+)"
)
_MARKUP_ENCODING = re.compile(
    rb"""\b(?:encoding|charset)\s{0,9}=\s{0,9}["']?(?P<encoding>[-\w.:]+)""", re.IGNORECASE
)
_HEAD_BYTES = 1024  # of markup, which declares its encoding in them

_SEVEN_BIT = ("iso2022", "hz", "utf-7")  # which look like ASCII
_WIDE = ("utf-16", "utf-32")
BYTES_PER_ERROR = 1000
BYTES_PER_ERROR_IN_CODE = 10  # whose names and comments may be in another encoding than all else
_NO_TEXT = re.compile(r"[\0-\x07\x0e-\x1a\x1c-\x1f]")  # control characters of binary files

MAX_CHARS = 20_000_000  # of one document's text
_MIN_CHARS_LIMIT = 1_000_000
_CHARS_PER_BYTE = 20  # prose is packed to a fifth

DECODING_VERSION = "2"
"""Changes whenever the same bytes may give another text."""


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """The text of one file, and what the file says about itself."""

    text: str
    title: str = ""
    metadata: Metadata = field(default_factory=dict[str, Any])
    language: str | None = None  # of the text: "markdown" for what was converted to it
    author: str | None = None  # None: what the tree says
    last_modified: datetime | None = None  # None: what the tree says


def limit_chars(size_bytes: int) -> int:
    """How many characters of a file's text are kept: a few kB can hold the same page a thousand times."""
    return min(MAX_CHARS, max(_MIN_CHARS_LIMIT, _CHARS_PER_BYTE * size_bytes))


class DecodedText(NamedTuple):
    """A text, and a note on bytes that are not valid; "" where all are."""

    text: str
    note: str = ""


def decode_text(
    payload: bytes,
    encoding: str | None = None,
    declared: str | None = None,
    bytes_per_error: int = BYTES_PER_ERROR,
) -> DecodedText:
    r"""The text of a file in UTF-8, or in the encoding that it declares.

    The byte order mark is dropped and "\r\n" becomes "\n". A few bytes that are not valid become U+FFFD, and
    are counted in the note; nothing else is changed.

    Args:
        payload: the file.
        encoding: a label of `find_codec`, for what declares none and is not UTF-8.
        declared: the label that the file's format, or what it came with, gives it.
        bytes_per_error: how many bytes there are at least for each place that is not valid.

    Raises:
        DocumentSkipped: it is binary, empty, or in an unknown encoding.
    """
    text, note = _decode(payload, encoding, declared, bytes_per_error)
    text = text.replace("\r\n", "\n")
    if "\0" in text:
        raise DocumentSkipped("binary file")
    if not text or text.isspace():
        raise DocumentSkipped("empty")
    return DecodedText(text, note)


def decode_bytes(payload: bytes, label: str | None = None) -> DecodedText:
    """The text of a part that cannot be left out: every byte that is not valid is replaced, and counted.

    It may be empty. A label that is not known means UTF-8.
    """
    codec = (find_codec(label) if label else None) or "utf-8"
    for candidate in [codec] if codec.startswith(_SEVEN_BIT) else ["utf-8", codec]:
        with suppress(UnicodeError):
            return DecodedText(_decode_strictly(payload, candidate).replace("\r\n", "\n"))
    replaced = _replace_errors(payload, codec)
    return DecodedText(replaced.text.replace("\r\n", "\n"), replaced.note)


def fingerprint_encoding(encoding: str | None) -> str:
    """What an `encoding` adds to versions of what it decodes."""
    return f"+{find_codec(encoding)}" if encoding else ""


def add_note(metadata: Metadata, note: str) -> Metadata:
    """The metadata with one more note; as it is for none."""
    return {**metadata, "note": "; ".join(filter(None, (metadata.get("note"), note)))} if note else metadata


_NOUN = re.compile(r"^(.*?)(?= of | with |$)")  # of which there are several: "slides with pictures only"


def add_unread(metadata: Metadata, counts: Mapping[str, int]) -> Metadata:
    """The metadata with a note that counts parts of a file that its text lacks, by kind, in the singular."""
    parts = count_parts(counts)
    return add_note(metadata, f"parts not read: {parts}" if parts else "")


def count_parts(counts: Mapping[str, int]) -> str:
    """Such as "3 charts, 1 list of comments"; empty for none."""
    plurals = {kind: _NOUN.sub(r"\1s", kind, count=1) for kind in sorted(counts)}
    return ", ".join(
        f"{counts[kind]:,} {kind if counts[kind] == 1 else several}"
        for kind, several in plurals.items()
        if counts[kind]
    )


def _decode(payload: bytes, encoding: str | None, declared: str | None, bytes_per_error: int) -> DecodedText:
    """Decode as declared or configured; charset-normalizer took French and Polish for other alphabets."""
    if marked := find_marked_codec(payload):
        return _decode_leniently(payload, [marked], bytes_per_error, ", though its byte order mark says so")
    codec = find_codec(declared) if declared else None
    configured = find_codec(encoding) if encoding else None
    is_binary, is_plain = b"\0" in payload, b"\x1b$" not in payload
    if not is_binary and is_plain and not (codec or configured or "").startswith(_SEVEN_BIT):
        with suppress(UnicodeDecodeError):
            return DecodedText(payload.decode())
    codec = codec or _find_declared_codec(payload) or configured or "utf-8"
    if is_binary and not codec.startswith(_WIDE):
        raise DocumentSkipped("binary file")
    return _decode_leniently(payload, [codec] if is_binary else [codec, "utf-8"], bytes_per_error)


def _find_declared_codec(payload: bytes) -> str | None:
    """What one of the first two lines declares, as Python, Ruby and Emacs write it; or the head of markup.

    Source: https://peps.python.org/pep-0263/
    """
    declared = _DECLARED_ENCODING.match(payload)
    if declared is None and (head := payload[:_HEAD_BYTES].lstrip()).startswith((b"<", b"@charset")):
        declared = _MARKUP_ENCODING.search(head.replace(b"@charset", b"charset=", 1))
    codec = find_codec(declared["encoding"].decode("ascii", "replace")) if declared else None
    return None if codec and codec.startswith(_WIDE) else codec  # which could not be read before it is known


def _decode_strictly(payload: bytes, codec: str) -> str:
    if codec == "cp1252":  # Python's leaves five bytes out
        return payload.decode("latin-1").translate(WINDOWS_CONTROLS)
    text = payload.decode(codec)
    if codec != "utf-8":
        text.encode()  # UTF-7 can give lone surrogates, which cannot be stored
    return text


def _decode_leniently(
    payload: bytes, candidates: Sequence[str], bytes_per_error: int, hint: str = ""
) -> DecodedText:
    """Decode in the first encoding that fits, else in that with the fewest errors.

    Raises DocumentSkipped: they are more than the other characters beyond ASCII, and than these bytes allow.
    """
    for codec in candidates:
        with suppress(UnicodeError):
            return DecodedText(_decode_strictly(payload, codec).removeprefix("\ufeff"))
    best = min((_replace_errors(payload, codec) for codec in candidates), key=lambda decoded: decoded.errors)
    allowed = max(best.others, -(-len(payload) // bytes_per_error))
    if best.errors > allowed or _NO_TEXT.search(best.text) or not best.text.strip("\ufffd \r\n"):
        codec, error_at = candidates[0], _find_error(payload, candidates[0])
        raise DocumentSkipped(f"not valid {codec.upper()} at byte {error_at}{hint}")
    return DecodedText(best.text.removeprefix("\ufeff"), best.note)


class _Replaced(NamedTuple):
    codec: str
    text: str  # with U+FFFD for what is not valid
    errors: int  # places where it is not
    others: int  # characters that are not ASCII

    @property
    def note(self) -> str:
        places = "1 place, which reads" if self.errors == 1 else f"{self.errors:,} places, which read"
        return f"not valid {self.codec.upper()} at {places} \ufffd"


def _replace_errors(payload: bytes, codec: str) -> _Replaced:
    text, valid = payload.decode(codec, "replace"), payload.decode(codec, "ignore")
    text, valid = (text.encode(errors="replace").decode() for text in (text, valid))  # no lone surrogates
    others = len(valid) - len(valid.encode("ascii", "ignore"))
    return _Replaced(codec, text, max(1, text.count("\ufffd") - valid.count("\ufffd")), others)


def _find_error(payload: bytes, codec: str) -> int:
    try:
        _decode_strictly(payload, codec)
    except UnicodeError as error:
        return error.start if isinstance(error, UnicodeDecodeError) else 0
    return 0
