"""Names of encodings, as people, pages, mails and files write them: one table for all that is decoded."""

from __future__ import annotations

import codecs
from functools import lru_cache

WINDOWS_CONTROLS = {code: bytes([code]).decode("cp1252", "ignore") or chr(code) for code in range(0x80, 0xA0)}
"""What Windows writes in place of the controls of Latin-1. Python's own cp1252 leaves five bytes out."""

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNFIT_CODECS = frozenset(
    {"idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}
)  # slow, or of one system alone, or no encodings of people's text


def find_marked_codec(payload: bytes) -> str | None:
    """Python's name for the encoding that a byte order mark says; None where there is no mark."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if payload.startswith(mark)), None)


@lru_cache(maxsize=256)
def find_codec(label: str) -> str | None:
    """Python's name for the encoding that a label means to browsers, else to Python; None for an unknown one.

    Source: https://encoding.spec.whatwg.org/#names-and-labels
    """
    import webencodings

    label = label.strip()
    if not label.isascii() or not 0 < len(label) <= 40:
        return None
    encoding = webencodings.lookup(label)
    if encoding is None or encoding.name == "replacement":  # what no browser reads may stand in a mail
        try:
            name = codecs.lookup(label).name
            "".encode(name)  # LookupError for what is no encoding of text, such as hex
        except (LookupError, ValueError):
            return None
        encoding = webencodings.lookup(name)
        if encoding is None or encoding.name == "replacement":
            return None if name in _UNFIT_CODECS else name
    names = {"gbk": "gb18030", "x-user-defined": "cp1252"}
    return names.get(encoding.name, encoding.codec_info.name)


def require_known_encoding(label: str) -> str:
    """The label. Raises ValueError: it is not known."""
    if find_codec(label) is None:
        raise ValueError("found an unknown encoding; allowed: a label such as windows-1252 or gb18030")
    return label
