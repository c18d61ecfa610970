"""Blocks and sections: the structure of a prose document in any markup."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

_HEADING_CHARS = 120
_LINE_BREAK = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True)
class Block:
    """One block at the top level of a document; it extends to the next one.

    `split_offsets` are where it is cut first: at the items of a list.
    """

    start_char: int
    end_char: int
    kind: Literal["heading", "prose", "verbatim"]  # verbatim: code, a table, front matter
    level: int = 0  # of a heading: 1 to 6
    title: str = ""  # of a heading: its text without markup
    split_offsets: tuple[int, ...] = ()


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


def find_line_starts(text: str) -> list[int]:
    """Where each line begins, and the text's end; as in Markdown, a lone carriage return ends a line."""
    starts = [0, *(match.end() for match in _LINE_BREAK.finditer(text))]
    return starts if starts[-1] == len(text) else [*starts, len(text)]


def normalize_title(text: str) -> str:
    """A heading's text on one line, at most 120 characters."""
    title = " ".join(text.split())
    return title if len(title) <= _HEADING_CHARS else title[: _HEADING_CHARS - 1].rstrip() + "…"
