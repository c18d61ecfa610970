"""File paths as bytes, as text, and as uris that are always valid UTF-8.

Inside `sources` a path is text in which bytes that are not UTF-8 are lone surrogates
("surrogateescape"), whatever the locale. It leaves this folder as a uri or as shown text.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from knowledge_pipeline.records import VARIANT_MARK, strip_variant

_TO_ESCAPE = re.compile("[%\udc80-\udcff]")


def decode_path(raw: bytes) -> str:
    """A path that the system or git gave."""
    return raw.decode("utf-8", "surrogateescape")


def encode_path(path: str) -> bytes:
    """The bytes that the system and git know the path by."""
    return path.encode("utf-8", "surrogateescape")


def path_to_uri(path: str) -> str:
    """A unique uri: the path itself, `%` and bytes that are not UTF-8 written as `%XX`."""
    return _TO_ESCAPE.sub(lambda match: f"%{encode_path(match[0])[0]:02X}", path)


def build_variant_uri(path: str, blob: str) -> str:
    """The uri of a file that only further branches of a repository have with this content."""
    return f"{path_to_uri(path)}{VARIANT_MARK}{blob}"


def uri_to_path(uri: str) -> str:
    """The path that `path_to_uri` or `build_variant_uri` was given."""
    return decode_path(unquote_to_bytes(strip_variant(uri)))


def format_path(path: str) -> str:
    """The path as a person may read it: bytes that are not UTF-8 become U+FFFD."""
    return encode_path(path).decode("utf-8", "replace")
