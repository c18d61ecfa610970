"""Markdown written for readers and for search: nothing is escaped that a word search would then miss."""

from __future__ import annotations

import re
from collections.abc import Sequence

_LANGUAGE = re.compile(r"[^\w+#.-]")
_BACKTICKS = re.compile(r"`+")
MOST_COLUMNS = 200
"""A wider table is not believed; its cells go on in the last column."""


def fenced(code: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of backticks in the code."""
    fence = "`" * max(3, _longest_run(code) + 1)
    return f"{fence}{_LANGUAGE.sub('', language)}\n{code.strip(chr(10))}\n{fence}"


def coded(text: str) -> str:
    """Code within a line; white space alone stays as it is."""
    text = " ".join(text.split("\n"))
    if not text.strip():
        return text
    fence = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def linked(text: str, url: str) -> str:
    """`[text](url)`, or the address alone where the text says no more."""
    text, url = " ".join(text.split()), "".join(url.split())
    if not url or not text or text == url or f"mailto:{text}" == url:
        return text or url
    return f"[{text}](<{url}>)" if re.search(r"[()<>]", url) else f"[{text}]({url})"


def quoted(text: str) -> str:
    """Every line after a `>`."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def hanging(marker: str, text: str) -> str:
    """A list item: the first line after its marker, the others as far in as that."""
    first, *rest = text.split("\n")
    indent = " " * len(marker)
    return "\n".join([f"{marker}{first}".rstrip(), *(f"{indent}{line}".rstrip() for line in rest)])


def table(rows: Sequence[Sequence[str]]) -> str:
    """A pipe table, its first row the header; every cell becomes one line."""
    lines = [[_cell(text) for text in row] for row in rows if row]
    if not any(any(row) for row in lines):
        return ""
    width = max(len(row) for row in lines)
    header, *body = ([*row, *[""] * (width - len(row))] for row in lines)
    return "\n".join([_row(header), _row(["---"] * width), *(_row(row) for row in body)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)
