"""Text from documents, made safe for a terminal.

An indexed file may hold escape sequences that move the cursor, rename the window or hide
text. They are shown spelled out, and never sent.
"""

from __future__ import annotations

import re
from datetime import datetime

_CONTROL_CHARS = (  # controls but tab and line feed; marks that turn the direction of text; lone surrogates
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
)
_CONTROLS = re.compile(f"[{_CONTROL_CHARS}]")
_UNSAFE_IN_JSON = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def escape_controls(text: str) -> str:
    """The text with every control character spelled out, lines and tabs kept.

    >>> escape_controls("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return _CONTROLS.sub(_escape_match, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The text on one line, with controls spelled out."""
    return escape_controls(" ".join(text.split()))


def escape_json(json_text: str) -> str:
    r"""JSON text in which no character can drive a terminal: `\u009b` instead of the character."""
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text)


def truncate(text: str, limit: int) -> str:
    """At most `limit` characters, with an ellipsis if the text was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def format_count(count: int, noun: str) -> str:
    """`1 document`, `1,200 documents`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_time(stamp: str | None) -> str | None:
    """An ISO time as a person reads it, in the local time zone: `2025-01-31 14:05`."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M") if stamp else None


def format_size(count: float) -> str:
    """A number of bytes with a unit: `512 B`, `1.5 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _escape_match(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
