"""What a command prints: results to stdout, everything else to stderr.

On a terminal, results are tables and highlighted code; in a pipe, plain text in columns;
with `--json`, stdout holds one JSON value and nothing else. An indexed file may hold escape
sequences that move the cursor, rename the window or hide text: they are shown spelled out.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

from knowledge_pipeline.highlighting import iter_highlighted

if TYPE_CHECKING:
    from rich.console import Console


_CONTROL_CHARS = (  # controls but tab and line feed; marks that turn the direction of text; lone surrogates
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
)
_CONTROLS = re.compile(f"[{_CONTROL_CHARS}]")
_UNSAFE_IN_JSON = re.compile(
    "[\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def escape_controls(text: str) -> str:
    """The text with every control character spelled out, lines and tabs kept.

    >>> escape_controls("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """

    def escape(match: re.Match[str]) -> str:
        code = ord(match[0])
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"

    return _CONTROLS.sub(escape, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """The text on one line, with controls spelled out."""
    return escape_controls(" ".join(text.split()))


def escape_json(json_text: str) -> str:
    r"""JSON text in which no character can drive a terminal: `\u009b` instead of the character."""
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text)


def format_count(count: int, noun: str) -> str:
    """`1 document`, `1,200 documents`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_time(stamp: str | None) -> str | None:
    """An ISO time as a person reads it, in the local time zone: `2025-01-31 14:05`."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M") if stamp else None


def format_size(count: float) -> str:
    """A number of bytes with a unit: `512 B`, `1.5 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


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

    def print_json(self, value: Any, *, indent: int | None = 2) -> None:
        """With `--json`, write the one JSON value of a command; all other results are then silent.

        A command that keeps running writes each of its values on one line, with `indent` None.
        """
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
            from rich.table import Table

            table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
            for heading in headings:
                if heading in right_aligned:
                    table.add_column(heading, justify="right", no_wrap=True)
                else:
                    table.add_column(heading, overflow="fold")
            for row in cells:
                table.add_row(*row)
            build_console().print(table)
            return
        lines = [[heading.upper() for heading in headings], *cells]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            padded = [
                text.rjust(width) if heading in right_aligned else text.ljust(width)
                for heading, text, width in zip(headings, line, widths, strict=True)
            ]
            sys.stdout.write(f"{'  '.join(padded).rstrip()}\n")
        sys.stdout.flush()

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


_STYLES = {
    **{
        "comment": "bright_black",
        "doc": "green",
        "string": "green",
        "number": "cyan",
        "keyword": "bright_blue",
    },
    **{"function": "yellow", "type": "yellow", "attribute": "magenta", "builtin": "cyan", "deleted": "red"},
}


def _print_rich_code(text: str, language: str | None, first_line: int) -> None:
    from rich.table import Table
    from rich.text import Text

    code = Text()
    for kind, piece in iter_highlighted(text, language):
        code.append(piece, _STYLES.get(kind or ""))
    lines = Table.grid(padding=(0, 1))
    lines.add_column(justify="right", no_wrap=True)
    lines.add_column(overflow="fold")
    for number, line in enumerate(code.split("\n", allow_blank=True), first_line):
        lines.add_row(Text(f"  {number}", "dim"), line)
    build_console().print(lines)


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()
