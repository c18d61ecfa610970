"""How texts become the words of full text, alike in the index and in queries.

`HTTPServerConfig`, `http_server_config` and `http-server-config` all give the words
http, server, config; the first two also give the whole, `httpserverconfig`, so that an
exact name outranks its parts. Rows are split when they are written, into a column of its
own: this works with every full-text engine and can be stemmed.

Text that is not ASCII is normalised before, and cut where its script has no spaces: see `writing_systems`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from knowledge_pipeline import writing_systems

_WORD = re.compile(r"([^\W_]+(?:_+[^\W_]+)*)", re.UNICODE)
_WORD_NOT_CUT = re.compile(rf"((?![{writing_systems.CUT_LETTERS}])[^\W_]+(?:_+[^\W_]+)*)", re.UNICODE)
_LETTER_RUN = re.compile(r"[^\W\d_]+|\d+", re.UNICODE)
_CASE_PART = re.compile(r"u+(?=ul)|ul+|u+|l+")
_MAX_KEPT_CHARS = 4_000  # of a text that is kept with its parts


def split_identifier(word: str) -> list[str]:
    """Lower-case parts of one identifier: `parseHTML5` gives parse, html, 5."""
    return [part for run in _LETTER_RUN.findall(word) for part in _split_case(run)]


def _split_case(run: str) -> list[str]:
    """Parts of a run of letters, cut where the case says so, in any alphabet."""
    if run.islower() or run.isdigit():
        return [run]
    cases = "".join("u" if letter.isupper() else "l" for letter in run)
    return [run[match.start() : match.end()].lower() for match in _CASE_PART.finditer(cases)]


@lru_cache(maxsize=65_536)
def _expand_identifier(word: str) -> str:
    parts = split_identifier(word)
    if len(parts) < 2:
        return word
    return f"{word.replace('_', '')} {' '.join(parts)}"


def expand_identifiers(text: str) -> str:
    """The words of a question: every compound identifier followed by its parts, all scripts cut."""
    return _expand_normalized(writing_systems.normalize(text))


def expand_indexed_text(text: str, *, is_prose: bool) -> str:
    """The words of a text that is indexed: those of a question, and what a question may have beside them.

    Args:
        text: of a chunk, or its header.
        is_prose: a word that is hyphenated at the end of a line is also one.
    """
    if is_prose:
        text = writing_systems.join_split_words(text)
    plain = writing_systems.normalize(text)
    words = _expand_normalized(plain)
    if not writing_systems.needs_cut(plain):
        return words
    singles = writing_systems.list_single_characters(plain)
    return f"{words}\n{' '.join(singles)}" if singles else words


def _expand_normalized(text: str) -> str:
    return _recall_expanded(text) if len(text) <= _MAX_KEPT_CHARS else _expand(text)


def _expand(text: str) -> str:
    word_form = _WORD
    if writing_systems.needs_cut(text):
        text, word_form = writing_systems.cut(text), _WORD_NOT_CUT
    parts: list[str] = word_form.split(text)  # every other one is a word
    parts[1::2] = map(_expand_identifier, parts[1::2])
    return "".join(parts)


_recall_expanded = lru_cache(2_048)(_expand)  # most chunks of a file that is edited are as they were
