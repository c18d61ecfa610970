"""Words of texts, as full text reads them: alike in the index and in queries.

Texts are normalised, runs of scripts without spaces are cut into pairs, compound identifiers are followed by
their parts. (docs/decisions/chunking-and-words.md)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from operator import add
from typing import Any, NamedTuple, cast

import Stemmer

VOWEL_SIGNS = (
    r"\u0900-\u093b\u093e-\u094c\u094e-\u094f\u0955-\u0963\u0981-\u0983\u09be-\u09cc\u09d7-\u09e3"
    r"\u0a01-\u0a03\u0a3e-\u0a4c\u0a51-\u0a75\u0a81-\u0a83\u0abe-\u0acc\u0ae2-\u0ae3\u0afa-\u0afc"
    r"\u0b01-\u0b03\u0b3e-\u0b4c\u0b56-\u0b63\u0b82-\u0bcc\u0bd7\u0c00-\u0c04\u0c3e-\u0c4c\u0c55-\u0c63"
    r"\u0c81-\u0c83\u0cbe-\u0ccc\u0cd5-\u0d03\u0d3e-\u0d4c\u0d57-\u0d63\u0d81-\u0d83\u0dcf-\u0df3"
    r"\u0e31-\u0e3a\u0e4d\u0eb1-\u0eb9\u0ebb-\u0ebc\u0ecd\u0f71-\u0f83\u0f8d-\u0fbc\u102b-\u1036\u1038"
    r"\u103b-\u103e\u1056-\u109d\u17b6-\u17c8"
)
"""Marks, in a character class of a regular expression, that full text reads as letters though Python's `\\w`
leaves them out: vowels from Devanagari to Khmer. The letters between them are there as well."""

_HAN = r"\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_KANA = r"\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b16f"
_HANGUL = r"\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
_EAST_ASIAN = _HAN + _KANA + _HANGUL
_CONSONANTS = (  # with letters of Thai, Lao, Burmese and Khmer that are vowels by themselves
    r"\u0e01-\u0e30\u0e32-\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2-\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf"
    r"\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065-\u1066\u106e-\u1070\u1075-\u1081\u108e"
    r"\u1780-\u17b3\u17d7\u17dc"
)
_THEIR_MARKS = (
    r"\u0e31\u0e34-\u0e3a\u0e4d\u0eb1\u0eb4-\u0eb9\u0ebb-\u0ebc\u0ecd\u102b-\u1036\u1038\u103b-\u103e"
    r"\u1056-\u1059\u105e-\u1060\u1062-\u1064\u1067-\u106d\u1071-\u1074\u1082-\u108d\u108f\u109a-\u109d"
    r"\u17b6-\u17c8"
)
_SOUTH_EAST_ASIAN = _CONSONANTS + _THEIR_MARKS
_LEADING_VOWELS, _TRAILING_VOWELS = r"\u0e40-\u0e44\u0ec0-\u0ec4", r"\u0e30\u0e32\u0e45\u0eb0\u0eb2"

CUT_LETTERS = _EAST_ASIAN + _SOUTH_EAST_ASIAN
"""Of the scripts that `cut` cuts, in a character class of a regular expression."""

_BREAK = r"(?:\u200b|[ \t]*\r?\n[ \t]*)"  # within a sentence, in scripts without spaces
_RUN = re.compile(
    rf"[{_EAST_ASIAN}]+(?:{_BREAK}[{_EAST_ASIAN}]+)*|[{_SOUTH_EAST_ASIAN}]+(?:{_BREAK}[{_SOUTH_EAST_ASIAN}]+)*"
)
_MAY_BE_CUT = re.compile("[\u0e01-\u1fff\u3005-\U0010ffff]")  # quickly asked of Latin text
_BREAKS = re.compile(r"[\s\u200b]+")
_SYLLABLE = re.compile(
    rf"[{_LEADING_VOWELS}]?[{_CONSONANTS}][{_THEIR_MARKS}]*[{_TRAILING_VOWELS}]?|[{_SOUTH_EAST_ASIAN}]"
)
_IS_EAST_ASIAN = re.compile(rf"[{_EAST_ASIAN}]")
_LONE_HAN = re.compile(rf"(?<![{_HAN}])[{_HAN}](?![{_HAN}])")
_SINGLE = re.compile(rf"[{_HAN}]|(?<![{_HANGUL}])[{_HANGUL}]")

_MAY_NEED_MORE = re.compile(
    "[\u00a8\u00ad\u00af\u00b4\u00b8\u02b0-\u1fff\u200b\u200d\u2017\u203e\u2060\u20d0-\u20f0\u2c00-\U0010ffff]"
)  # than NFKC: all but Latin letters, quotation marks, dashes, arrows and the like
_BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")
_JOINERS = re.compile(r"\u00ad(?:[ \t]*\r?\n[ \t]*)?|[\u200d\u2060\ufeff]+")  # what only says how to write it
_SPLIT_WORD = re.compile(r"(?<![^\W\d_])([^\W\d_]{2,}+)[-\u2010]\r?\n[ \t]*([^\W\d_]{2,})")
_HYPHENS = ("-\n", "-\r\n", "\u2010\n", "\u2010\r\n")


def normalize(text: str) -> str:
    """Compatible characters as one (NFKC); without soft hyphens, joiners, and marks that split words.

    ASCII text is never changed.
    Such are accents that belong to no letter, vowel points, tone marks and viramas: they are often left out,
    and full text would split a word there.
    """
    if text.isascii():
        return text
    if not _MAY_NEED_MORE.search(text):
        return unicodedata.normalize("NFKC", text)
    marks = _find_patterns(text)
    text = marks.long_runs.sub(r"\1", text)  # Python sorts them by insertion: thousands would take minutes
    return marks.dropped.sub("", unicodedata.normalize("NFKC", _JOINERS.sub("", text)))


class _MarkPatterns(NamedTuple):
    dropped: re.Pattern[str]  # those that no word keeps
    long_runs: re.Pattern[str]  # more than sixteen in a row
    clusters: re.Pattern[str]  # a character with its marks and joiners; letters that make a Korean syllable


def _find_patterns(text: str) -> _MarkPatterns:
    """With marks beyond 16 bits only where a text has such characters: they take a hundred times as long."""
    return _compile_patterns(0x1F000 if _BEYOND_16_BITS.search(text) else 0xFFFF)


@cache
def _compile_patterns(end: int) -> _MarkPatterns:
    kept = re.compile(f"[{VOWEL_SIGNS}]")
    marks = [chr(at) for at in range(0x300, end) if unicodedata.category(chr(at)).startswith("M")]
    dropped = "".join(mark for mark in marks if not kept.match(mark))
    every, others = "".join(marks), "\U000e0100-\U000e01ef" if end > 0xFFFF else ""
    syllable = r"[\u1100-\u115f][\u1160-\u11a7]*[\u11a8-\u11ff]*"
    return _MarkPatterns(
        re.compile(f"[{dropped}{others}]+"),
        re.compile(f"([{every}{others}]{{16}})[{every}{others}]+"),
        re.compile(rf"(?:{syllable}|.)[{every}{others}\u00ad\u200d\u2060\ufeff]*", re.DOTALL),
    )


def normalize_aligned(text: str) -> tuple[str, list[int], list[int]]:
    """Normalised text, and where each of its characters starts and ends in the text as it is."""
    parts, starts, ends = list[str](), list[int](), list[int]()
    for match in _find_patterns(text).clusters.finditer(text):
        part = normalize(match[0])
        parts.append(part)
        starts += [match.start()] * len(part)
        ends += [match.end()] * len(part)
    return "".join(parts), starts, ends


def needs_cut(text: str) -> bool:
    """Whether `cut` changes normalised text."""
    return not text.isascii() and _MAY_BE_CUT.search(text) is not None and _RUN.search(text) is not None


def cut(text: str) -> str:
    """Normalised text with the runs of scripts without spaces, and of Hangul, as words between spaces.

    Full text splits at everything that is neither a letter nor a digit. So runs of Chinese and Japanese
    characters and of Korean syllables become all pairs of neighbours, those of Thai, Lao, Burmese and Khmer
    all pairs of neighbouring consonants with their vowels: a word is found inside a sentence, and a Korean
    noun without its particle. A run of one character stays; so does, beside the pairs, a Chinese character
    between kana, which is mostly a word.
    """
    return _RUN.sub(lambda match: f" {' '.join(_cut_run(match[0]))} ", text)


def is_cut(word: str) -> bool:
    """Whether all of a word is in scripts that `cut` cuts."""
    return _RUN.fullmatch(word) is not None


def list_single_characters(text: str) -> list[str]:
    """Characters of normalised text that a question may consist of, each once, in their order.

    Chinese characters, first syllables of Korean words, consonants of Thai and its like with their vowels.
    """
    singles: dict[str, None] = {}
    for match in _RUN.finditer(text):
        run = match[0]
        characters = _SINGLE if _IS_EAST_ASIAN.match(run) else _SYLLABLE
        singles.update(dict.fromkeys(characters.findall(run)))
    return list(singles)


def list_plain_forms(text: str) -> list[str]:
    """Latin words of normalised text without their accents, each once, where full text needs them.

    It stems words before it takes their accents away, and by English rules, which know plain vowels alone:
    `réglage` stays as it is, `reglage` becomes reglag.
    """
    if text.isascii() or not _ACCENTED.search(text):
        return []
    words = {word.lower(): None for word in _LETTERS.findall(text) if not word.isascii()}
    plain = {word: remove_accents(word) for word in words}
    return [
        form for word, form in plain.items() if form.isascii() and stem(form) != remove_accents(stem(word))
    ]


def remove_accents(word: str) -> str:
    """A word in lower case with plain letters in place of Latin ones, as full text has them; others stay."""
    return "".join(map(_to_plain_letters, word)) if not word.isascii() else word


@cache
def _to_plain_letters(letter: str) -> str:
    parts = unicodedata.normalize("NFKD", letter)
    plain = "".join(part for part in parts if not unicodedata.combining(part))
    return plain if plain.isascii() else _PLAIN_LETTERS.get(letter, letter)


def join_split_words(text: str) -> str:
    """The text with each word that is hyphenated at the end of a line also as a whole."""
    if not any(hyphen in text for hyphen in _HYPHENS):
        return text
    return _SPLIT_WORD.sub(
        lambda match: f"{match[0]} {match[1]}{match[2]}" if match[2].islower() else match[0], text
    )


def _cut_run(run: str) -> Iterator[str]:
    run = _BREAKS.sub("", run)
    is_east_asian = _IS_EAST_ASIAN.match(run)
    characters = run if is_east_asian else _SYLLABLE.findall(run)
    if len(characters) < 2:
        yield run
        return
    yield from map(add, characters, characters[1:])
    if is_east_asian:
        yield from _LONE_HAN.findall(run)


_ACCENTED = re.compile("[\u00c0-\u024f\u1e00-\u1eff]")
_LETTERS = re.compile(r"[^\W\d_]+")
_PLAIN_LETTERS = {
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "ø": "o",
    "đ": "d",
    "ł": "l",
    "ı": "i",
    "þ": "th",
    "ð": "d",
}

_WORD = re.compile(r"([^\W_]+(?:_+[^\W_]+)*)", re.UNICODE)
_WORD_NOT_CUT = re.compile(rf"((?![{CUT_LETTERS}])[^\W_]+(?:_+[^\W_]+)*)", re.UNICODE)
_LETTER_RUN = re.compile(r"[^\W\d_]+|\d+", re.UNICODE)
_CASE_PART = re.compile(r"u+(?=ul)|ul+|u+|l+")
_ASCII_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_NUMBER_OF_NAME = r"(?<=[A-Za-z_])[0-9]+"
_ASCII_PART_OF_NAME = re.compile(rf"{_ASCII_PART.pattern}|{_NUMBER_OF_NAME}")
_TWO_CHARACTERS = re.compile("..")
_NAME = re.compile(rf"[^\W\d][\w{VOWEL_SIGNS}]+")
_MAX_KEPT_CHARS = 4_000  # of a text that is kept with its parts


def split_identifier(word: str) -> list[str]:
    """Lower-case parts of one identifier: `parseHTML5` gives parse, html, 5."""
    return [part for run in _LETTER_RUN.findall(word) for part in _split_case(run)]


def _split_case(run: str) -> list[str]:
    if run.islower() or run.isdigit():
        return [run]
    cases = "".join("u" if letter.isupper() else "l" for letter in run)
    return [run[match.start() : match.end()].lower() for match in _CASE_PART.finditer(cases)]


@lru_cache(maxsize=1_024)
def split_words(text: str) -> tuple[str, ...]:
    """The lower-case words of a text in their order, those of identifiers apart, without numbers."""
    return _split_words(text)


@lru_cache(maxsize=2_048)
def read_words(text: str) -> frozenset[str]:
    """The words of a text as `split_words` has them, each once."""
    return frozenset(_split_words(text))


def _split_words(text: str) -> tuple[str, ...]:
    if text.isascii():
        return tuple(map(str.lower, _ASCII_PART.findall(text)))
    parts = list[str]()
    for run in _LETTER_RUN.findall(text):
        if run.isascii():
            parts += map(str.lower, _ASCII_PART.findall(run))
        else:
            parts += [part for part in _split_case(run) if not part.isdigit()]
    return tuple(parts)


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """What the forms of an English word have in common."""
    # A stemmer is made for each word, in 2 us, because threads cannot share one.
    return cast("Any", Stemmer).Stemmer("english", 0).stemWord(word)


@lru_cache(maxsize=4_096)
def stem_all(words: frozenset[str]) -> frozenset[str]:
    """The stems of some words."""
    return frozenset(map(stem, words))


@lru_cache(maxsize=16_384)
def split_stems(identifier: str) -> tuple[str, ...]:
    """The stems of an identifier's words, without numbers: `routing_table2` gives rout, tabl."""
    return tuple(map(stem, _split_words(identifier)))


def list_stems(texts: Iterable[str]) -> list[set[str]]:
    """Of each text the stems of its words of two characters or more, and of the numbers in identifiers.

    Scripts without spaces are cut.
    """
    stems = list[set[str]]()
    for text in texts:
        if text.isascii():
            parts = map(str.lower, _ASCII_PART_OF_NAME.findall(text))
        else:
            names = _NAME.findall(cut(normalize(text)))
            parts = (part for name in names for part in split_identifier(name))
        stems.append(set(map(stem, filter(_TWO_CHARACTERS.match, parts))))
    return stems


@lru_cache(maxsize=65_536)
def _expand_identifier(word: str) -> str:
    parts = split_identifier(word)
    return word if len(parts) < 2 else f"{word.replace('_', '')} {' '.join(parts)}"


def expand_identifiers(text: str) -> str:
    """The words of a question: every compound identifier followed by its parts, all scripts cut.

    `HTTPServerConfig`, `http_server_config` and `http-server-config` all give the words http, server, config;
    the first two also give the whole, `httpserverconfig`, so that an exact name outranks its parts. Rows are
    split when they are written, into a column of its own: this works with every full-text engine and can be
    stemmed.
    """
    return _expand_normalized(normalize(text))


def expand_indexed_text(text: str, *, is_prose: bool) -> str:
    """The words of a text that is indexed: those of a question, single characters, and words without accents.

    Args:
        text: of a chunk, or its header.
        is_prose: a word that is hyphenated at the end of a line is also one.
    """
    if is_prose:
        text = join_split_words(text)
    plain = normalize(text)
    words = _expand_normalized(plain)
    more = list_single_characters(plain) if needs_cut(plain) else []
    more += list_plain_forms(plain)
    return f"{words}\n{' '.join(more)}" if more else words


def _expand_normalized(text: str) -> str:
    return _recall_expanded(text) if len(text) <= _MAX_KEPT_CHARS else _expand(text)


def _expand(text: str) -> str:
    word_form = _WORD
    if needs_cut(text):
        text, word_form = cut(text), _WORD_NOT_CUT
    parts: list[str] = word_form.split(text)  # every other one is a word
    parts[1::2] = map(_expand_identifier, parts[1::2])
    return "".join(parts)


_recall_expanded = lru_cache(2_048)(_expand)  # most chunks of a file that is edited are as they were
