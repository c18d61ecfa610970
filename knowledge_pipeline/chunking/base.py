"""The interface of chunkers, pure functions from a document to spans of it, and the headings that name spans.

All offsets are characters; a parser that counts bytes converts them itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any

from knowledge_pipeline.chunking.blocks import Block, Section, TableSpan, parse_front_matter, split_sections
from knowledge_pipeline.config.sources import ChunkingSettings
from knowledge_pipeline.records import Chunk, Document, Metadata, Tokenize

_MAX_WHITESPACE_CHARS = 200  # characters of white space between two chunks


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """Token limits of one chunk's text; the room for its header is already subtracted."""

    max_tokens: int
    min_tokens: int = 0  # smaller siblings are merged
    overlap_tokens: int = 0


@dataclass(frozen=True)
class ChunkSpan:
    """A part of a document that a chunker proposes, half-open, in characters."""

    start_char: int
    end_char: int
    anchor: str = ""
    header: str = ""
    metadata: Metadata = field(default_factory=dict[str, Any])


class MeasuredDocument:
    """A document with its tokens and lines counted once, so that any span is measured in O(log n)."""

    def __init__(self, document: Document, tokenize: Tokenize) -> None:
        self.document = document
        self._token_starts = list(tokenize(document.text))
        lines = document.text.split("\n")
        self._line_starts = [0, *accumulate(len(line) + 1 for line in lines[:-1])]

    def count_tokens(self, start_char: int, end_char: int) -> int:
        """Tokens that start within the span."""
        return bisect_left(self._token_starts, end_char) - bisect_left(self._token_starts, start_char)

    def line_of(self, char: int) -> int:
        """Line of a character, counted from 1."""
        return bisect_right(self._line_starts, char)

    def find_token_limit(self, start_char: int, limit: int) -> int:
        """The furthest offset such that the span from `start_char` holds at most `limit` tokens."""
        index = bisect_left(self._token_starts, start_char) + limit
        return self._token_starts[index] if index < len(self._token_starts) else len(self.document.text)

    def build_chunk(self, span: ChunkSpan) -> Chunk:
        """Cut a span out, without white space at both ends unless the span has nothing else."""
        text = self.document.text[span.start_char : span.end_char]
        start_char = span.start_char + len(text) - len(text.lstrip())
        end_char = span.end_char - (len(text) - len(text.rstrip()))
        if start_char >= end_char:
            start_char, end_char = span.start_char, span.end_char
        return Chunk(
            uri=self.document.uri,
            anchor=span.anchor,
            start_char=start_char,
            end_char=end_char,
            start_line=self.line_of(start_char),
            end_line=self.line_of(max(start_char, end_char - 1)),
            text=self.document.text[start_char:end_char],
            header=span.header,
            tokens=self.count_tokens(start_char, end_char),
            metadata=span.metadata,
            space_before=self._whitespace_before(start_char),
        )

    def _whitespace_before(self, char: int) -> str:
        """The white space before a character; "" where it is too long to keep."""
        text, start = self.document.text, char
        while start > 0 and text[start - 1].isspace():
            start -= 1
            if char - start > _MAX_WHITESPACE_CHARS:
                return ""
        return text[start:char]


Chunker = Callable[[MeasuredDocument, ChunkingSettings, TokenLimits], Iterator[ChunkSpan]]
"""Every character that is not white space lies in at least one span of a non-empty document."""

_MARKUP_LANGUAGES = frozenset({"markdown", "rst", "html"})
_MARKUP_SUFFIXES = (".md", ".markdown", ".mdx", ".rst", ".rest", ".html", ".htm", ".xhtml", ".docx")
_TRAIL_CHARS = 200


def has_headings(document: Document) -> bool:
    """Whether headings are marked: Markdown, reStructuredText, what was HTML, DOCX or a notebook."""
    is_markup = document.language in _MARKUP_LANGUAGES or document.path.lower().endswith(_MARKUP_SUFFIXES)
    return is_markup or is_rendered_notebook(document)


def is_rendered_notebook(document: Document) -> bool:
    """Whether the text is Markdown made from the cells of a notebook, rather than its JSON."""
    return document.language == "notebook" and document.metadata.get("format") == "notebook"


def parse_blocks(document: Document) -> tuple[Block, ...]:
    """The blocks of a document, which together hold all its text; Markdown unless it says otherwise."""
    is_rst = document.language == "rst" or document.path.lower().endswith((".rst", ".rest"))
    return _parse_markup(document.text, is_rst)


@lru_cache(maxsize=4)
def _parse_markup(text: str, is_rst: bool) -> tuple[Block, ...]:
    """Cached, because the chunker and the metadata extractor read the same document in turn."""
    from knowledge_pipeline.chunking.markup import parse_markdown, parse_rst

    return tuple(parse_rst(text) if is_rst else parse_markdown(text))


class HeadingOutline:
    """The sections of a document, found by character; none where the document has no markup."""

    def __init__(self, document: Document, max_depth: int = 6) -> None:
        sections = split_sections(parse_blocks(document), max_depth) if has_headings(document) else ()
        self.sections = [section for section in sections if section.trail]
        self._starts = [section.start_char for section in self.sections]

    def section_at(self, char: int) -> Section | None:
        """The section that a character lies in; None before the first heading."""
        index = bisect_right(self._starts, char) - 1
        return self.sections[index] if index >= 0 else None

    def sections_within(self, start_char: int, end_char: int) -> list[Section]:
        """The sections that begin within a span."""
        first = bisect_left(self._starts, start_char)
        return self.sections[first : bisect_left(self._starts, end_char, first)]

    def trail_at(self, char: int) -> tuple[str, ...]:
        """Titles from the top down to the section of a character."""
        section = self.section_at(char)
        return section.trail if section else ()


class TableOutline:
    """The tables that begin in some blocks: a chunk that begins within one needs the names of its columns."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._tables = [table for block in blocks for table in block.tables]
        self._starts = [table.start_char for table in self._tables]

    def table_at(self, char: int) -> TableSpan | None:
        """The table that begins before a character and goes on there."""
        index = bisect_left(self._starts, char) - 1
        table = self._tables[index] if index >= 0 else None
        return table if table and char < table.end_char else None

    def header_at(self, char: int) -> str:
        """The names of the columns of the table at a character; "" where there is none."""
        table = self.table_at(char)
        return table.header if table else ""


def find_title(document: Document) -> str:
    """The title given by the source, else by front matter, else by the first heading; "" if none is.

    The bare file name, which a source gives for want of anything better, is the last choice.
    """
    is_better = document.title not in {"", document.path.rpartition("/")[2]}
    if is_better or not has_headings(document):
        return document.title
    title = parse_front_matter(document.text).get("title")
    if isinstance(title, str) and title.strip():
        return title.strip()
    outline = HeadingOutline(document).sections
    return outline[0].trail[0] if outline else document.title


def build_heading_header(document: Document, trail: Sequence[str], columns: str = "") -> str:
    """Path, then the title where it says more than path and trail, then "Guide > Install > Linux".

    `columns` are those of the table in which a chunk begins.
    """
    above = {document.path, document.path.rpartition("/")[2], *trail[:1]}
    title = document.title if document.title not in above else ""
    while len(trail) > 1 and sum(map(len, trail)) + 3 * len(trail) > _TRAIL_CHARS:
        trail = trail[1:]  # a long one loses its top, because the rest says more
    return "\n".join(line for line in (document.path, title, " > ".join(trail), columns) if line)
