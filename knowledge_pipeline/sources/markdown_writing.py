"""Markdown written for readers and for search: nothing is escaped that a word search would then miss."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NOT_IN_LANGUAGE = re.compile(r"[^\w+#.-]")
_BACKTICKS = re.compile(r"`+")
MAX_COLUMNS = 200
"""A wider table is not believed; its cells go on in the last column."""


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
    lines = [[_format_cell(text) for text in row] for row in rows if row]
    if not any(any(row) for row in lines):
        return ""
    width = max(len(row) for row in lines)
    header, *body = ([*row, *[""] * (width - len(row))] for row in lines)
    return "\n".join([_format_row(header), _format_row(["---"] * width), *(_format_row(row) for row in body)])


def _format_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _format_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _longest_backtick_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
