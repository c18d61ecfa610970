"""Code within files of another kind: notebooks, of which a line is one of their Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from knowledge_pipeline.code_graph.facts import FileFacts

Read = Callable[[str, str, str], FileFacts]
"""Gives the facts of code in a path, by its text and language."""

_CELL = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[^`\n]*)\n(?P<code>(?:[^\n]*\n)*?)(?P=fence)$", re.MULTILINE
)
_PYTHON = re.compile(r"(?:i?python\d?|sage)$", re.IGNORECASE)
_MAGIC = re.compile(r"^([ \t]*)(?:[%!?].*|[\w.]+\?{1,2})$", re.MULTILINE)
_OTHER_CELL = re.compile(r"%%(?!time|capture|prun|memit|mprun)")  # Bash, HTML, a file that is written


def extract_notebook(path: str, text: str, read: Read) -> FileFacts:
    """The facts of a notebook's Python; IPython's own commands are left out."""
    cells = (match for match in _CELL.finditer(text) if _PYTHON.match(match["language"]))
    code = ((cell.start("code"), cell["code"]) for cell in cells if not _OTHER_CELL.match(cell["code"]))
    python = _MAGIC.sub(r"\1pass", blank_around(text, code))
    return replace(read(path, python, "python"), language="notebook")


def blank_around(text: str, pieces: Iterable[tuple[int, str]]) -> str:
    """Pieces of a text, each with its first character, in their places: spaces and line ends between them."""
    blank, at = list[str](), 0
    for start, piece in pieces:
        blank += ["\n".join(" " * len(line) for line in text[at:start].split("\n")), piece]
        at = start + len(piece)
    return "".join(blank)
