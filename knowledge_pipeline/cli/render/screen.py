"""What a command prints: results to stdout, everything else to stderr.

On a terminal, results are tables and highlighted code; in a pipe, plain text in columns;
with `--json`, stdout holds one JSON value and nothing else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from knowledge_pipeline.cli.render.terminal_text import escape_controls, escape_json, one_line

if TYPE_CHECKING:
    from rich.console import Console

_MAX_CELL_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Screen:
    """How much to print, and in which form."""

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False

    @property
    def is_terminal(self) -> bool:
        """Whether stdout is a terminal, for a person."""
        return not self.as_json and sys.stdout.isatty()

    @property
    def is_interactive(self) -> bool:
        """Whether a person can answer a question."""
        return not self.as_json and sys.stdin.isatty() and sys.stderr.isatty()

    def print_json(self, value: Any) -> None:
        """With `--json`, write the one JSON value of a command; all other results are then silent."""
        self._write_json(value, indent=2)

    def print_json_line(self, value: Any) -> None:
        """Write one JSON value of many, each on its own line, for a command that keeps running."""
        self._write_json(value, indent=None)

    def _write_json(self, value: Any, *, indent: int | None) -> None:
        if not self.as_json:
            return
        ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
        text = json.dumps(value, indent=indent, ensure_ascii=ascii_only, default=str)
        _write(sys.stdout, escape_json(text) + "\n")

    def print_text(self, text: str = "", *, style: str | None = None) -> None:
        """Write text of a result; `style` applies on a terminal only."""
        if self.as_json:
            return
        if style and self.is_terminal:
            build_console().print(escape_controls(text), style=style, soft_wrap=True)
        else:
            _write(sys.stdout, escape_controls(text) + "\n")

    def print_note(self, text: str) -> None:
        """Tell a person on stderr what is going on."""
        if not self.as_json and not self.quiet:
            _write(sys.stderr, escape_controls(text) + "\n")

    def print_table(self, rows: Sequence[Mapping[str, Any]], *, right_aligned: Sequence[str] = ()) -> None:
        """Write rows under their keys as headings."""
        if self.as_json or not rows:
            return
        headings = list(rows[0])
        cells = [[format_cell(row[heading]) for heading in headings] for row in rows]
        if self.is_terminal:
            _print_rich_table(headings, cells, right_aligned)
        else:
            rows_shown = [[heading.upper() for heading in headings], *cells]
            _write(sys.stdout, _format_aligned(rows_shown, headings, right_aligned))

    def print_code(self, text: str, *, language: str | None, first_line: int) -> None:
        """Write lines of a document with their numbers, highlighted on a terminal."""
        if self.as_json:
            return
        if self.is_terminal:
            _print_rich_code(escape_controls(text), language, first_line)
            return
        lines = escape_controls(text).split("\n")
        width = len(str(first_line + len(lines) - 1))
        numbered = (f"  {number:>{width}}  {line}".rstrip() for number, line in enumerate(lines, first_line))
        _write(sys.stdout, "\n".join(numbered) + "\n")


def format_cell(value: Any) -> str:
    """One table cell: numbers with separators, nothing as `-`, text on one line."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    return one_line(str(value))[:_MAX_CELL_CHARS]


def build_console() -> Console:
    """Rich on stdout, without markup, emoji codes or highlights in other people's text."""
    from rich.console import Console

    return Console(file=sys.stdout, markup=False, emoji=False, highlight=False)


def _print_rich_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right_aligned: Sequence[str]
) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in headings:
        if heading in right_aligned:
            table.add_column(heading, justify="right", no_wrap=True)
        else:
            table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*row)
    build_console().print(table)


def _format_aligned(
    rows: Sequence[Sequence[str]], headings: Sequence[str], right_aligned: Sequence[str]
) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(headings))]
    sides = [">" if heading in right_aligned else "<" for heading in headings]
    lines = (
        "  ".join(f"{text:{side}{width}}" for text, side, width in zip(row, sides, widths, strict=True))
        for row in rows
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _print_rich_code(text: str, language: str | None, first_line: int) -> None:
    from rich.padding import Padding
    from rich.syntax import Syntax

    lexer = {"c_sharp": "csharp", "openapi": "yaml"}.get(language or "", language or "text")
    syntax = Syntax(
        text, lexer, theme="ansi_dark", line_numbers=True, start_line=first_line, background_color="default"
    )
    build_console().print(Padding(syntax, (0, 0, 0, 1)))


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()
