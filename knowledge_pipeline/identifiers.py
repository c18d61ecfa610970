"""How identifiers become words, the same for what is indexed and what is asked.

`HTTPServerConfig`, `http_server_config` and `http-server-config` all give the words
http, server, config; the first two also give the whole, `httpserverconfig`, so that an
exact name outranks its parts. Splitting happens at write time, into a column of its
own, because it then works with every full-text engine and can be stemmed.
"""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+(?:_+[^\W_]+)*", re.UNICODE)
_LETTER_RUN = re.compile(r"[^\W\d_]+|\d+", re.UNICODE)
_CASE_PART = re.compile(r"u+(?=ul)|ul+|u+|l+")


def split_identifier(word: str) -> list[str]:
    """Lower-case parts of one identifier: `parseHTML5` gives parse, html, 5."""
    return [hump for run in _LETTER_RUN.findall(word) for hump in _split_case(run)]


def _split_case(run: str) -> list[str]:
    """Parts of a run of letters, cut where the case says so, in any alphabet."""
    if run.islower() or run.isdigit():
        return [run]
    cases = "".join("u" if letter.isupper() else "l" for letter in run)
    return [run[match.start() : match.end()].lower() for match in _CASE_PART.finditer(cases)]


@lru_cache(maxsize=16_384)
def _expand_identifier(word: str) -> str:
    pieces = split_identifier(word)
    if len(pieces) < 2:
        return word
    return f"{word.replace('_', '')} {' '.join(pieces)}"


def expand_identifiers(text: str) -> str:
    """`text` with every compound identifier followed by its parts."""
    return _WORD.sub(lambda match: _expand_identifier(match.group()), text)
