"""Markdown written for readers and for search: nothing is escaped that a word search would then miss."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_NOT_IN_LANGUAGE = re.compile(r"[^\w+#.-]")
_BACKTICKS = re.compile(r"`+")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_RAISED_FOR_LOOKS = frozenset({"st", "nd", "rd", "th", "tm", "sm", "®", "™", "©", "¶", "#"})
_ONE_TERM = re.compile(r"[+\u2212-]?[\w.*†‡′]+|\([^()]*\)|\[[^\[\]]*\]")
PANEL_LABELS = {name: name.title() for name in ("info", "note", "tip", "success", "warning", "error")}
"""What the kinds of panels of Jira and Confluence are called."""

FORMULA_PARAMETERS = ("body", "equation", "formula", "latex")
"""The parameters in which macros of apps hold the LaTeX that they show."""

_TAG_NAMES = (
    "a|abbr|b|bdi|bdo|big|br|center|cite|code|del|dfn|div|em|figure|font|h[1-6]|i|img|ins|kbd|label|mark|p|picture"
    "|q|s|samp|small|source|span|strike|strong|sub|sup|tt|u|var|video|wbr"
)
HTML_TAG = re.compile(
    rf"<(?:{_TAG_NAMES})(?=[\s/>])[^<>]*>|<(?i:{_TAG_NAMES})\s[^<>]*>|</(?i:{_TAG_NAMES})\s*>|<!--[^<>]*-->"
)
"""A tag of HTML within a line; `<T>` of `List<T>` is none."""
_ANY_TAG = re.compile(r"<[^<>]*>")
_ALTERNATIVE_TEXT = re.compile(r"""\balt\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)

MAX_COLUMNS = 200
"""A wider table is not believed; its cells go on in the last column."""

_MAX_SPAN = 100  # rows or columns; a larger number is a mistake in the page


@dataclass(frozen=True, slots=True)
class TableCell:
    """A cell of a table, and how many rows and columns it spans."""

    text: str
    rows: int = 1
    columns: int = 1


def find_first_heading(text: str) -> str:
    """Its words; nothing for a text without one."""
    heading = _HEADING.search(text)
    return heading[1] if heading else ""


def format_code_block(code: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of backticks in the code."""
    fence = "`" * max(3, _longest_backtick_run(code) + 1)
    return f"{fence}{_NOT_IN_LANGUAGE.sub('', language)}\n{code.strip(chr(10))}\n{fence}"


def format_inline_code(text: str) -> str:
    """Code within a line; white space alone stays as it is."""
    text = " ".join(text.split("\n"))
    if not text.strip():
        return text
    fence = "`" * (_longest_backtick_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def html_to_line(source: str) -> str:
    """The words of a heading in HTML, on one line; without any, the alternative texts of its pictures."""
    line = " ".join(html.unescape(_ANY_TAG.sub(" ", source)).split())
    if line:
        return line
    texts = (match[1] or match[2] or "" for match in _ALTERNATIVE_TEXT.finditer(source))
    return " ".join(html.unescape(" ".join(texts)).split())


def format_superscript(text: str, before: str) -> str:
    """What stands raised after some text: `2^32`, `x^(n+1)`; as it is where only its looks are meant: 1st."""
    raised = text.strip()
    ends_word = before[-1:].isalnum() or before[-1:] in (")", "]")
    if not raised or not ends_word or raised.lower() in _RAISED_FOR_LOOKS:
        return text
    return f"^{raised}" if _ONE_TERM.fullmatch(raised) else f"^({raised})"


def format_link(text: str, url: str) -> str:
    """`[text](url)`, or the address alone where the text says no more."""
    text, url = " ".join(text.split()), "".join(url.split())
    if not url or not text or text == url or f"mailto:{text}" == url:
        return text or url
    return f"[{text}](<{url}>)" if re.search(r"[()<>]", url) else f"[{text}]({url})"


def format_quote(text: str) -> str:
    """Every line after a `>`."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def format_list_item(marker: str, text: str) -> str:
    """A list item: the first line after its marker, the others as far in as that."""
    first, *rest = text.split("\n")
    indent = " " * len(marker)
    return "\n".join([f"{marker}{first}".rstrip(), *(f"{indent}{line}".rstrip() for line in rest)])


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """A pipe table, its first row the header; every cell becomes one line."""
    lines = [[" ".join(text.split()).replace("|", "\\|") for text in row] for row in rows if row]
    if not any(any(row) for row in lines):
        return ""
    width = max(len(row) for row in lines)
    header, *body = ([*row, *[""] * (width - len(row))] for row in lines)
    return "\n".join([_format_row(header), _format_row(["---"] * width), *(_format_row(row) for row in body)])


def expand_spans(rows: Iterable[Iterable[TableCell]]) -> list[list[str]]:
    """The texts of each row, column by column.

    A cell that spans rows is repeated in each of them, so that a row can be read by itself. One that
    spans columns is followed by empty ones.
    """
    grid: list[list[str]] = []
    from_above: dict[int, tuple[str, int]] = {}  # column -> its text, and for how many rows more
    for row in rows:
        texts: list[str] = []
        cells = iter(row)
        while True:
            column = len(texts)
            if column in from_above:
                text, more = from_above.pop(column)
                texts.append(text)
                if more > 1:
                    from_above[column] = (text, more - 1)
            elif (cell := next(cells, None)) is not None:
                for text in (cell.text, *[""] * (cell.columns - 1)):
                    if cell.rows > 1:
                        from_above[len(texts)] = (text, cell.rows - 1)
                    texts.append(text)
            else:
                break
        grid.append(texts)
    return grid


def parse_span(attribute: str, maximum: int = _MAX_SPAN) -> int:
    """A `rowspan` or `colspan` as a page writes it; 1 for what is not a number."""
    is_number = attribute.isascii() and attribute.isdigit()
    return max(1, min(int(attribute[:9]), maximum)) if is_number else 1


def _format_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _longest_backtick_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
