"""The structure of a prose document in any markup: blocks, sections, front matter; and blobs in it."""

from __future__ import annotations

import math
import re
import tomllib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Literal, TypeVar, cast

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.file_languages import PARSED_LANGUAGES, is_code
from knowledge_pipeline.records import Chunk, FrontMatter, Metadata, locate_front_matter
from knowledge_pipeline.text import replace_surrogates, truncate
from knowledge_pipeline.untrusted_yaml import parse_yaml

_HEADING_CHARS = 120
_LINE_BREAK = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True)
class TableSpan:
    """A table with the names of its columns, which its rows are not understood without."""

    start_char: int
    end_char: int
    header: str  # "Name | Age"
    header_spans: tuple[tuple[int, int], ...]  # where the names are


@dataclass(frozen=True, slots=True)
class Block:
    """One block at the top level of a document; it extends to the next one.

    `split_offsets` are where it is cut first: at the items of a list. `tables` begin in it; a table of HTML
    may end in a later one.
    """

    start_char: int
    end_char: int
    kind: Literal["heading", "prose", "verbatim"]  # verbatim: code, a table, front matter
    level: int = 0  # of a heading: 1 to 6
    title: str = ""  # of a heading: its text without markup
    split_offsets: tuple[int, ...] = ()
    tables: tuple[TableSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what follows it up to the next; `trail` is empty before the first heading."""

    trail: tuple[str, ...]  # titles from the top down to this section's own
    level: int
    blocks: tuple[Block, ...]

    @property
    def start_char(self) -> int:
        """First character."""
        return self.blocks[0].start_char

    @property
    def end_char(self) -> int:
        """The end, exclusive."""
        return self.blocks[-1].end_char

    @property
    def has_body(self) -> bool:
        """Whether anything but headings is in it."""
        return any(block.kind != "heading" for block in self.blocks)


def split_sections(blocks: Sequence[Block], max_depth: int = 6) -> Iterator[Section]:
    """Sections in the order of the document; a heading deeper than `max_depth` opens none."""
    open_titles: list[tuple[int, str]] = []
    level, current = 0, list[Block]()
    for block in blocks:
        if block.kind == "heading" and block.level <= max_depth:
            if current:
                yield Section(tuple(title for _, title in open_titles), level, tuple(current))
            open_titles = [(above, title) for above, title in open_titles if above < block.level]
            open_titles.append((block.level, block.title))
            level, current = block.level, []
        current.append(block)
    if current:
        yield Section(tuple(title for _, title in open_titles), level, tuple(current))


def close_gaps(blocks: Sequence[Block], start_char: int, end_char: int) -> Iterator[Block]:
    """The blocks with every gap closed: the first begins at `start_char`, each ends where the next begins."""
    kept = [block for block in blocks if start_char <= block.start_char < end_char]
    if not kept:
        kept = [Block(start_char, end_char, "prose")]
    starts = [start_char, *(block.start_char for block in kept[1:]), end_char]
    for block, start, end in zip(kept, starts, starts[1:], strict=False):
        if start < end:
            yield replace(block, start_char=start, end_char=end)


def attach_tables(blocks: Iterable[Block], tables: Iterable[TableSpan]) -> Iterator[Block]:
    """The blocks with the tables that begin in each; both ascend."""
    waiting = deque(tables)
    for block in blocks:
        own: list[TableSpan] = []
        while waiting and waiting[0].start_char < block.end_char:
            own.append(waiting.popleft())
        yield replace(block, tables=tuple(own)) if own else block


def find_line_starts(text: str) -> list[int]:
    """Where each line begins, and the text's end; as in Markdown, a lone carriage return ends a line."""
    starts = [0, *(match.end() for match in _LINE_BREAK.finditer(text))]
    return starts if starts[-1] == len(text) else [*starts, len(text)]


def normalize_title(text: str) -> str:
    """A heading's text on one line, at most 120 characters."""
    title = " ".join(text.split())
    return title if len(title) <= _HEADING_CHARS else title[: _HEADING_CHARS - 1].rstrip() + "…"


_Value = TypeVar("_Value")

_MAX_DEPTH = 8
_MAX_STRING_CHARS = 500


def to_bounded_json(value: Any, *, max_values: int) -> Any:
    """JSON values with at most so many leaves and containers; long strings are cut, the rest is left out.

    A value that JSON does not have becomes its `str`. The depth is at most 8.
    """
    return _BoundedConverter(max_values).convert(value, 0)


class _BoundedConverter:
    def __init__(self, max_values: int) -> None:
        self.remaining = max_values

    def convert(self, value: Any, depth: int) -> Any:
        self.remaining -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if value.bit_length() < 64 else "…"
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
        if not is_list and not isinstance(value, Mapping):
            return _truncate(str(cast("object", value)))
        if depth == _MAX_DEPTH:
            return "…"
        if isinstance(value, Mapping):
            entries = cast("Mapping[Any, Any]", value).items()
            return {_truncate(str(key)): self.convert(inner, depth + 1) for key, inner in self._take(entries)}
        return [self.convert(inner, depth + 1) for inner in self._take(cast("Sequence[Any]", value))]

    def _take(self, values: Iterable[_Value]) -> Iterator[_Value]:
        return takewhile(lambda _: self.remaining > 0, values)


def _truncate(text: str) -> str:
    return truncate(replace_surrogates(text), _MAX_STRING_CHARS)  # JSON escapes can make lone surrogates


_MAX_VALUES = 200


def find_front_matter_end(text: str) -> int:
    """Where the text after the front matter begins; 0 where there is none."""
    front_matter = locate_front_matter(text)
    return (front_matter.end or 0) if front_matter and not _is_between_rulers(front_matter) else 0


def parse_front_matter(text: str) -> Metadata:
    """The front matter as at most 200 JSON values; empty where there is none, or it cannot be read."""
    front_matter = locate_front_matter(text)
    if front_matter is None or front_matter.end is None or _is_between_rulers(front_matter):
        return {}
    try:
        value: Any = (
            tomllib.loads(front_matter.inner.replace("\r\n", "\n"))
            if front_matter.delimiter == "+++"
            else parse_yaml(front_matter.inner).value
        )
    except (DocumentSkipped, ValueError, RecursionError):
        return {}
    return cast("Metadata", to_bounded_json(value, max_values=_MAX_VALUES)) if isinstance(value, dict) else {}


def _is_between_rulers(front_matter: FrontMatter) -> bool:
    return front_matter.delimiter == "---" and ":" not in front_matter.inner


_MIN_CHARS = 500
_MAX_SPACE_SHARE = 0.08  # prose has about 0.16, code more
_MAX_REST_SHARE = 0.1
_ADDRESS = re.compile(r"https?://[!-~]{30,}")
_TWO_WORDS = re.compile(r"\w\s+\w")
_ENCODED_LINE_CHARS = 60
_ENCODED = re.compile(
    r"[\w+/=%&?.:~-]{500,}|(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{60,}+[^A-Za-z0-9+/]{1,40}+){4,}+", re.ASCII
)
_NUMBER = re.compile(r"\b(?:\d\w*|[0-9A-Fa-f]{4,8}\b)")
_LETTERS = re.compile(r"(?<![^\W_])(?![0-9A-Fa-f]{4,8}\b)[^\W\d_]{3}")  # the beginning of a word
_MIN_NUMBER_CHARS, _MIN_NUMBER_SHARE = 150, 0.4  # of a table without a word
_CHECKSUM = re.compile(r"\b[0-9A-Fa-f]{32,}+|(?<=[-:])[A-Za-z0-9+/]{43,}+")
_MIN_LOCK_CHARS, _MIN_CHECKSUM_SHARE = 5_000, 0.25  # a test with hashes has other text
_BUNDLED_LANGUAGES = frozenset({"javascript", "css"})
_LONG_LINE = re.compile(r"[^\n]{1000,}+")
_MIN_BUNDLE_CHARS, _MIN_BUNDLE_SHARE = 10_000, 0.9


def drop_blobs(
    chunks: Sequence[Chunk], text: str, language: str | None = None, *, may_be_compact: bool = False
) -> list[Chunk]:
    """The chunks of a text without those of minified code or encoded data; the first if all are such.

    Of code, a lock file and a bundle keep their first chunk alone, and tables of numbers are left out.

    Args:
        may_be_compact: keep what has no spaces, such as JSON, but for encoded data in it.
    """
    is_program = is_code(language)
    may_be_lock = may_be_compact or (is_program and language not in PARSED_LANGUAGES)
    if (may_be_lock and _is_lock(text)) or (language in _BUNDLED_LANGUAGES and _is_bundle(text)):
        return list(chunks[:1])
    judge = is_encoded if may_be_compact else is_blob
    kept = [
        chunk
        for chunk in chunks
        if not (is_program and is_number_table(chunk.text))
        and (not judge(_widen(chunk, text)) or _has_words_beside(chunk, text))
    ]
    return kept or list(chunks[:1])


def is_number_table(text: str) -> bool:
    """Whether a text of some length is numbers without a word, as the middle of an array of constants is."""
    if len(text) < _MIN_NUMBER_CHARS or _LETTERS.search(text):
        return False
    return _count_chars(_NUMBER, text) > len(text) * _MIN_NUMBER_SHARE


def _is_lock(text: str) -> bool:
    """Whether a good part of a text is checksums, as in a lock file of any name."""
    return len(text) >= _MIN_LOCK_CHARS and _count_chars(_CHECKSUM, text) > len(text) * _MIN_CHECKSUM_SHARE


def _is_bundle(text: str) -> bool:
    """Whether nearly all of a text stands in lines without end, as a bundler writes them."""
    return len(text) >= _MIN_BUNDLE_CHARS and _count_chars(_LONG_LINE, text) > len(text) * _MIN_BUNDLE_SHARE


def _count_chars(pattern: re.Pattern[str], text: str) -> int:
    return sum(match.end() - match.start() for match in pattern.finditer(text))


def _has_words_beside(chunk: Chunk, text: str) -> bool:
    """Whether short lines that say something, such as the next code block, share its chunk."""
    lines = _complete_lines(chunk, text).split("\n")
    short_lines = [line for line in lines if len(line) < _MIN_CHARS]
    rest = "\n".join(short_lines)
    return len(short_lines) < len(lines) and _TWO_WORDS.search(rest) is not None and not is_encoded(rest)


def _widen(chunk: Chunk, text: str) -> str:
    """A chunk that is too short to be judged, with what its first and last line have more."""
    if len(chunk.text) >= _MIN_CHARS or _count_spaces(chunk.text) > len(chunk.text) * _MAX_SPACE_SHARE + 2:
        return chunk.text
    return _complete_lines(chunk, text)


def _complete_lines(chunk: Chunk, text: str) -> str:
    start, end = max(0, chunk.start_char - _MIN_CHARS), chunk.end_char + _MIN_CHARS
    line_end = text.find("\n", chunk.end_char, end)
    return text[
        max(start, text.rfind("\n", start, chunk.start_char) + 1) : end if line_end == -1 else line_end
    ]


def is_blob(text: str) -> bool:
    """Whether a text of some length is no text: lines without end and hardly a space, or base64.

    Words around a long address keep it. Scripts without spaces between words are outside of ASCII, so
    that only ASCII counts.
    """
    if len(text) < _MIN_CHARS:
        return False
    if _count_spaces(text) > len(text) * _MAX_REST_SHARE:
        return max(map(len, text.split()), default=0) >= _ENCODED_LINE_CHARS and is_encoded(text)
    if is_encoded(text):
        return True
    if text.count("\n") >= len(text) // _MIN_CHARS or len(text.encode("utf-8", "replace")) > len(text) * 1.1:
        return False
    rest = _ADDRESS.sub("", text)
    return _count_spaces(rest) < len(rest) * _MAX_SPACE_SHARE


def is_encoded(text: str) -> bool:
    """Whether a text is base64, in one line or many, or an address without end."""
    return len(_ENCODED.sub("", text)) < len(text) * _MAX_REST_SHARE


def _count_spaces(text: str) -> int:
    return text.count(" ") + text.count("\n") + text.count("\t")
