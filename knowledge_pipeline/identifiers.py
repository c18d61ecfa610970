"""How identifiers become words, the same for what is indexed and what is asked.

`HTTPServerConfig`, `http_server_config` and `http-server-config` all give the words
http, server, config; the first two also give the whole, `httpserverconfig`, so that an
exact name outranks its parts. Splitting happens at write time, into a column of its
own, because it then works with every full-text engine and can be stemmed.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:_+[^\W_]+)*", re.UNICODE)
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+", re.UNICODE)


def parts(word: str) -> list[str]:
    """Lower-case parts of one identifier: `parseHTML5` gives parse, html, 5."""
    return [part.lower() for part in _PART.findall(word)]


def _spell(match: re.Match[str]) -> str:
    word = match.group()
    pieces = parts(word)
    if len(pieces) < 2:
        return word
    return f"{word.replace('_', '')} {' '.join(pieces)}"


def searchable(text: str) -> str:
    """`text` with every compound identifier followed by its parts."""
    return _WORD.sub(_spell, text)
