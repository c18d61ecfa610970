"""Colours of source code, in time proportional to the text.

Texts of documents are hostile at times, and general highlighters take minutes for some of them. Here one
pattern a family of languages finds comments, strings, numbers and words; no part of it reads a character
twice. What a word means is looked up. That is enough for colours; it is no parser.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import chain
from typing import Literal

TokenKind = Literal[
    "comment", "doc", "string", "number", "keyword", "function", "type", "attribute", "builtin", "deleted"
]


def iter_highlighted(text: str, language: str | None) -> Iterator[tuple[TokenKind | None, str]]:
    """The pieces of a text in order, which together are the text, with the kind of each.

    Args:
        text: source code, or a part of it.
        language: as `file_languages` or the fence of Markdown names it; an unknown one has no colours.
    """
    syntax, done = _find_syntax(language), 0
    for start, end, kind in _iter_tokens(text, syntax) if syntax else ():
        if start > done:
            yield None, text[done:start]
        yield kind, text[start:end]
        done = end
    if done < len(text):
        yield None, text[done:]


def find_pattern(language: str) -> str:
    """The regular expression that finds the tokens of a language; "" where nothing has a colour."""
    syntax = _find_syntax(language)
    return syntax.pattern.pattern if syntax else ""


def _find_syntax(language: str | None) -> _LanguageSyntax | None:
    name = _load_names().get((language or "").lower())
    return _load_syntax(name) if name else None


@dataclass(frozen=True)
class _LanguageSyntax:
    pattern: re.Pattern[str]
    kinds: tuple[TokenKind | None, ...]  # of the pattern's groups; None: a word, whose kind is looked up
    keywords: frozenset[str]
    builtin_names: frozenset[str]
    is_caseless: bool

    def kind_of(self, word: str, word_before: str) -> TokenKind | None:
        if word in self.keywords:
            return "keyword"
        for kind, words in _load_tables()["names"].items():
            if word_before in words:
                return "function" if kind == "function" else "type"
        return "builtin" if word in self.builtin_names else None


def _iter_tokens(text: str, syntax: _LanguageSyntax) -> Iterator[tuple[int, int, TokenKind]]:
    word, word_end = "", 0
    for match in syntax.pattern.finditer(text):
        kind, start, end = syntax.kinds[(match.lastindex or 1) - 1], match.start(), match.end()
        if kind is None:
            before = word if start == word_end + 1 else ""
            word, word_end = match[0].lower() if syntax.is_caseless else match[0], end
            kind = syntax.kind_of(word, before)
        if kind is not None:
            yield start, end, kind


@cache
def _load_tables() -> dict[str, dict[str, frozenset[str]]]:
    text = (resources.files("knowledge_pipeline") / "highlighting.toml").read_text("utf-8")
    return {
        name: {key: frozenset(words.split()) for key, words in table.items()}
        for name, table in tomllib.loads(text).items()
    }


def _has_trait(language: str, trait: str) -> bool:
    return language in _load_tables()["traits"][trait]


@cache
def _load_names() -> dict[str, str]:
    """The languages that have colours, by each of their names."""
    tables = _load_tables()
    comments = chain(tables["line_comments"].values(), tables["block_comments"].values())
    languages = {"diff", *tables["keywords"], *chain.from_iterable(comments)} - {"c_like", "other"}
    aliases = {alias: language for language, names in tables["aliases"].items() for alias in names}
    return aliases | {language: language for language in languages}


@cache
def _load_syntax(language: str) -> _LanguageSyntax:
    """How a language is read, by its own name."""
    tables, parts = _load_tables(), list(_list_parts(language))
    keywords = tables["keywords"]
    group = language if language in keywords else "" if _has_trait(language, "prose") else "other"
    words: list[str] = [
        *keywords.get(group, ()),
        *(keywords["c_like"] if _has_trait(group, "c_like") else ()),
    ]
    return _LanguageSyntax(
        re.compile("|".join(f"({pattern})" for _, pattern in parts), re.MULTILINE),
        tuple(kind for kind, _ in parts),
        frozenset(words),
        tables["builtins"].get(language, frozenset()),
        _has_trait(language, "caseless"),
    )


def _list_parts(language: str) -> Iterator[tuple[TokenKind | None, str]]:
    """The alternatives of a pattern: each reads on to the end of what has begun there, or fails at once."""
    if language == "diff":
        yield from _DIFF_PARTS
        return
    yield from _list_comment_parts(language)
    if not _has_trait(language, "plain_text"):
        yield from _list_string_parts(language)
    if language == "markdown":
        yield "keyword", r"^\#{1,6}[ ].*+"
    if _has_trait(language, "markup"):
        yield "keyword", r"</?+[A-Za-z][\w:.-]*+|/?>"
        yield "attribute", r"(?<![\w:@.-])[\w:@.-]++(?=\s?=)"
    if _has_trait(language, "keyed") and language != "json":
        yield "keyword", r"^[ \t]*+(?:-[ \t]++)*+[\w.$/-]++(?=[ ]?[:=])|^[ \t]*+\[[^\]\n]*+\]"
    if language in ("c", "cpp", "objective_c", "c_sharp"):
        yield "attribute", r"^[ \t]*+\#[ \t]*+\w++"
    if language == "rust":
        yield "attribute", r"\#!?\[[^\]\n]*+\]?"
    if _has_trait(language, "decorators"):
        yield "attribute", r"(?<![\w)\]])@\w[\w.]*+"
    if not _has_trait(language, "plain_text"):
        yield "number", r"(?<![\w.])\d(?:[\w.]|(?<=[eE])[+-])*+"
    yield None, r"[^\W\d]\w*+"


def _list_comment_parts(language: str) -> Iterator[tuple[TokenKind | None, str]]:
    for ends, languages in _load_tables()["block_comments"].items():
        if language in languages:
            begin, end = map(re.escape, ends.split())
            yield "comment", rf"{begin}(?s:.*?)(?:{end}|\Z)"
    for mark, languages in _load_tables()["line_comments"].items():
        if language in languages:
            before = r"(?<![\w$\\{])" if mark == "#" else ""  # bash has $# and ${#a}
            yield "comment", rf"{before}{re.escape(mark)}.*+"


def _list_string_parts(language: str) -> Iterator[tuple[TokenKind | None, str]]:
    if _has_trait(language, "triple_quotes"):
        yield "doc", r'[A-Za-z]{0,2}"""(?s:.*?)(?:"""|\Z)' + r"|[A-Za-z]{0,2}'''(?s:.*?)(?:'''|\Z)"
    if _has_trait(language, "keyed"):
        yield "keyword", r'"(?:[^"\\\n]|\\.)*+"(?=[ ]?:)'
    quotes = [
        '"',
        *("" if _has_trait(language, "no_apostrophes") else "'"),
        *("`" if _has_trait(language, "backticks") else ""),
    ]
    for quote in quotes:
        is_long = quote == "`" or _has_trait(language, "long_strings") or _has_trait(language, "markup")
        line_end, end = ("", rf"(?:{quote}|\Z)") if is_long else (r"\n", f"{quote}?")
        yield "string", rf"{quote}(?:[^{quote}\\{line_end}]|\\(?s:.?))*+{end}"
    if language == "rust":
        yield "string", r"'(?:[^'\\\n]|\\[^\n]{1,9}?)'"


_DIFF_PARTS: tuple[tuple[TokenKind | None, str], ...] = (
    ("keyword", r"^(?:diff|index|\+\+\+|---)[ ].*+"),
    ("string", r"^\+.*+"),
    ("deleted", r"^-.*+"),
    ("function", r"^@@.*+"),
)
