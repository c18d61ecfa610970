"""What a spreadsheet shows, whichever format it has: the cells of its sheets, and what is not read of them.

Cells are kept where they are: a sheet with two cells in opposite corners takes no more than one with two
neighbours.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any
from zipfile import BadZipFile

from lxml import etree

from knowledge_pipeline.extraction.markdown import MAX_COLUMNS, format_link

BROKEN = (
    *(BadZipFile, zlib.error, etree.LxmlError, OSError, EOFError, RuntimeError),
    *(LookupError, ValueError, TypeError, AttributeError, ArithmeticError),
)
"""What reading a part raises that is not as it should be."""

MAX_SHEET_CHARS = 1_200_000
"""Of the cells of a sheet: a little more than what is kept of a table."""

MAX_COLUMN = 16_384
"""More columns than this no sheet has."""

SAFELY: dict[str, Any] = {
    **dict.fromkeys(("resolve_entities", "load_dtd"), False),
    **dict.fromkeys(("no_network", "remove_comments", "remove_pis"), True),
}
"""How XML is parsed: what a file declares is not followed."""

Position = tuple[int, int]
"""Row and column of a cell, the row from 1 and the column from 0."""

_REFERENCE = re.compile(r"\$?(?P<letters>[A-Za-z]{1,3})\$?(?P<row>\d{1,7})")


@dataclass(slots=True)
class Sheet:
    """What is visible of one sheet."""

    name: str
    rows: Iterable[tuple[int, list[str]]] = ()  # with their numbers
    comments: list[str] = field(default_factory=list[str])
    texts: list[str] = field(default_factory=list[str])  # of text boxes and pictures
    is_cut: bool = False


@dataclass(slots=True)
class Workbook:
    """The visible sheets, and counts of what is not in them, by what it is in the singular."""

    sheets: list[Sheet] = field(default_factory=list[Sheet])
    hidden: Counter[str] = field(default_factory=Counter[str])
    not_read: Counter[str] = field(default_factory=Counter[str])
    formulas: int = 0  # without the value that they have


class SheetCells:
    """The cells of a sheet that say something, by row and column."""

    def __init__(self) -> None:
        self.last_row = 0
        self.hidden_rows: set[int] = set()
        self.merges: list[tuple[Position, Position]] = []  # first and last cell
        self.links: dict[Position, str] = {}
        self.formulas = 0  # without a value
        self._rows: dict[int, dict[int, str]] = {}
        self._hiding_steps = [0] * (MAX_COLUMN + 1)  # how many ranges begin at a column, less those that end
        self._hidden_columns: list[int] = []  # by how many ranges, after `finish`
        self._chars = 0
        self._columns: dict[int, int] = {}

    @property
    def is_full(self) -> bool:
        """Whether more than is kept of a sheet was put in."""
        return self._chars > MAX_SHEET_CHARS

    def write_cell(self, row: int, column: int, text: str) -> None:
        """What a cell says; nothing once the sheet is full."""
        if column < MAX_COLUMN and not self.is_full:
            self._rows.setdefault(row, {})[column] = text
            self._chars += len(text)

    def write_row(self, row: int, texts: dict[int, str]) -> None:
        """What the cells of a row say, by their columns, as `write_cell` does."""
        chars = sum(map(len, texts.values()))
        if (
            texts
            and row not in self._rows
            and max(texts) < MAX_COLUMN
            and self._chars + chars <= MAX_SHEET_CHARS
        ):
            self._rows[row] = texts
            self._chars += chars
            return
        for column, text in texts.items():
            self.write_cell(row, column, text)

    def hide_columns(self, first: int, count: int) -> None:
        """Leave out columns, the first one counted from 0."""
        if 0 <= first < MAX_COLUMN and count > 0:
            self._hiding_steps[first] += 1
            self._hiding_steps[min(first + count, MAX_COLUMN)] -= 1

    def is_hidden(self, position: Position | None) -> bool:
        """Whether a cell's row or column is, after `finish`."""
        if position is None:
            return False
        row, column = position
        return row in self.hidden_rows or self._hidden_columns[column] > 0

    def finish(self, sheet: Sheet, workbook: Workbook) -> None:
        """Give a sheet its rows, and a workbook its counts.

        Links get their addresses, merged cells their text in each row, and what is hidden is taken out.
        """
        self._hidden_columns = list(accumulate(self._hiding_steps[:-1]))
        for (row, column), url in self.links.items():
            if text := self._rows.get(row, {}).get(column):
                self._rows[row][column] = format_link(text, url)
        self._repeat_merged()
        used = {column for row in self._rows.values() for column in row}
        visible = [column for column in used if not self._hidden_columns[column]]
        self._columns = self._number_columns(sorted(visible))
        sheet.rows, sheet.is_cut = self._iter_rows(), self.is_full
        workbook.formulas += self.formulas
        workbook.hidden["column"] += len(used) - len(visible)
        workbook.hidden["row"] += sum(number in self.hidden_rows for number in self._rows)

    def _iter_rows(self) -> Iterator[tuple[int, list[str]]]:
        """The visible rows with their numbers; cells beyond 200 columns are one."""
        for number in sorted(self._rows.keys() - self.hidden_rows):
            cells, rest = list[str](), list[str]()
            row = self._rows[number]
            for column in sorted(row):
                at = self._columns.get(column)
                if at is None:
                    continue
                if at < MAX_COLUMNS - 1:
                    if at > len(cells):
                        cells.extend([""] * (at - len(cells)))
                    cells.append(row[column])
                else:
                    rest.append(row[column])
            if rest:
                cells.extend([""] * (MAX_COLUMNS - 1 - len(cells)))
                cells.append(" ".join(rest))
            yield number, cells

    def _number_columns(self, visible: list[int]) -> dict[int, int]:
        """Where each column is shown: a gap is one, too, unless they are too many to be a table's."""
        shown: Iterable[int] = visible
        if visible and visible[-1] - visible[0] < MAX_COLUMNS:
            shown = (at for at in range(visible[0], visible[-1] + 1) if not self._hidden_columns[at])
        return {column: at for at, column in enumerate(shown)}

    def _repeat_merged(self) -> None:
        """A merged cell says the same in each of its rows, in the first of its columns that is visible."""
        next_visible, following = [0] * MAX_COLUMN, MAX_COLUMN
        for at in range(MAX_COLUMN - 1, -1, -1):
            following = following if self._hidden_columns[at] else at
            next_visible[at] = following
        numbers, steps = sorted(self._rows), 0
        for start, end in self.merges:
            text = self._rows.get(start[0], {}).get(start[1])
            if text is None:
                continue
            column = next_visible[start[1]]
            column = start[1] if column > end[1] else column
            for at in range(bisect_left(numbers, start[0]), bisect_right(numbers, end[0])):
                number = numbers[at]
                steps += 1
                if steps > MAX_SHEET_CHARS:  # more overlap than a sheet has
                    return
                if column not in self._rows[number]:
                    self.write_cell(number, column, text)


def parse_reference(reference: str) -> Position | None:
    """The position of a cell like B2."""
    match = _REFERENCE.fullmatch(reference)
    if match is None:
        return None
    column = parse_column(match["letters"])
    return None if column is None else (int(match["row"]), column)


def format_position(position: Position) -> str:
    """The name of a cell, like B2."""
    row, column = position
    letters = ""
    while column >= 0:
        column, letter = divmod(column, 26)
        letters = chr(65 + letter) + letters
        column -= 1
    return f"{letters}{row}"


@lru_cache(maxsize=20_000)
def parse_column(letters: str) -> int | None:
    """From 0; None for what names no column."""
    column = 0
    for letter in letters.upper():
        column = column * 26 + ord(letter) - 64
    return column - 1 if 0 < column <= MAX_COLUMN else None


def forget(element: Any) -> None:
    """Free what was read: a sheet is larger in memory than its file."""
    element.clear()
    while element.getprevious() is not None:
        del element.getparent()[0]
