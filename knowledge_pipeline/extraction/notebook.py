"""Jupyter notebooks as Markdown: their cells in order, code in fences, outputs in fences below.

Of outputs only the beginning of their text is kept: pictures and tables in HTML say nothing to a search.

Source: the notebook format, https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from knowledge_pipeline.extraction.markdown import format_code_block
from knowledge_pipeline.extraction.text_decoding import ExtractedText, decode_text
from knowledge_pipeline.text import is_list, is_object

NOTEBOOK_VERSION = "notebook1"
"""Changes whenever the same notebook may give another text."""

_MAX_OUTPUT_CHARS = 300  # of the text of all outputs of a cell
_NOT_TEXT = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\0-\x08\x0b-\x1f]|[\ud800-\udfff]")
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.*)$", re.MULTILINE)
_UNREADABLE = "could not be read as a notebook; cut by lines"


def is_notebook(name: str) -> bool:
    """Whether a file is a notebook by its name."""
    return name.lower().endswith(".ipynb")


def read_notebook(payload: bytes) -> ExtractedText:
    """The cells of a notebook in order, as Markdown; metadata's `format` is then "notebook".

    A file that is not a notebook stays as it is; metadata's `note` says so.
    """
    text = decode_text(payload)
    try:
        notebook: Any = json.loads(text)
    except (ValueError, RecursionError):
        notebook = None
    cells = list(_iter_cells(notebook))
    if not cells:
        return ExtractedText(text, metadata={"note": _UNREADABLE}, language="notebook")
    rendered = "\n\n".join(_render_cell(cell, _find_language(notebook)) for cell in cells)
    prose = (_read_source(cell) for cell in cells if cell.get("cell_type") == "markdown")
    headings = map(_HEADING.search, prose)
    title = next((match[1].strip() for match in headings if match), "")
    return ExtractedText(rendered, title, {"format": "notebook"}, language="notebook")


def _iter_cells(notebook: object) -> Iterator[dict[str, Any]]:
    """The cells that hold text; up to version 3 of the format they lie in worksheets."""
    if not is_object(notebook):
        return
    worksheets = notebook.get("worksheets")
    holders = [notebook, *(worksheets if is_list(worksheets) else [])]
    for holder in holders:
        cells = holder.get("cells") if is_object(holder) else None
        for cell in cells if is_list(cells) else []:
            if is_object(cell) and _read_source(cell).strip():
                yield cell


def _render_cell(cell: dict[str, Any], language: str) -> str:
    source = _read_source(cell)
    if cell.get("cell_type") != "code":
        return source.strip()
    code = format_code_block(source, language)
    shown = _read_outputs(cell.get("outputs"))
    return f"{code}\n{format_code_block(shown, 'output')}" if shown else code


def _read_source(cell: dict[str, Any]) -> str:
    return _join(cell.get("source", cell.get("input")))


def _read_outputs(outputs: object) -> str:
    """The text of a cell's outputs, at most 300 characters."""
    texts: list[str] = []
    for output in outputs if is_list(outputs) else []:
        if not is_object(output):
            continue
        shown = output.get("data")
        error = ": ".join(str(output[key]) for key in ("ename", "evalue") if output.get(key))
        texts.append(error or _join(shown.get("text/plain") if is_object(shown) else output.get("text")))
    text = "\n".join(output.strip("\n") for output in texts if output.strip())
    return text if len(text) <= _MAX_OUTPUT_CHARS else f"{text[:_MAX_OUTPUT_CHARS]}…"


def _join(lines: object) -> str:
    """A text that a notebook holds whole or by lines, without what no text holds."""
    whole = "".join(line for line in lines if isinstance(line, str)) if is_list(lines) else lines
    return _NOT_TEXT.sub("", whole.replace("\r\n", "\n")) if isinstance(whole, str) else ""


def _find_language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    for key, name in (("kernelspec", "language"), ("language_info", "name")):
        about = metadata.get(key) if is_object(metadata) else None
        if is_object(about) and isinstance(about.get(name), str):
            return about[name]
    return "python"
