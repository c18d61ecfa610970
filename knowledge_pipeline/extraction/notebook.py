"""Jupyter notebooks as Markdown: their cells in order, code in fences, outputs in fences below.

Of long outputs the beginning and the end are kept. Pictures are counted, not read.

Source: the notebook format, https://nbformat.readthedocs.io/en/latest/format_description.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.markdown import format_code_block
from knowledge_pipeline.extraction.text_decoding import ExtractedText, add_note, add_unread, decode_text
from knowledge_pipeline.text import is_list, is_object

NOTEBOOK_VERSION = "notebook2"
"""Changes whenever the same notebook may give another text."""

_KEPT_CHARS = 300  # at the beginning, and again at the end, of what the outputs of a cell say
_KEPT_RICH_CHARS = 2_000  # the same of Markdown and HTML, which were written for readers
_MAX_HTML_CHARS = 100_000  # more is a widget with its data
_OBJECT = re.compile(r"<[^\n]*>")  # what Python says of an object that shows itself in another way
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
    text, decoding_note = decode_text(payload)
    try:
        notebook: Any = json.loads(text)
    except (ValueError, RecursionError):
        notebook = None
    cells = list(_iter_cells(notebook))
    if not cells:
        return ExtractedText(
            text, metadata=add_note({"note": _UNREADABLE}, decoding_note), language="notebook"
        )
    rendered = "\n\n".join(_render_cell(cell, _find_language(notebook)) for cell in cells)
    prose = (_read_source(cell) for cell in cells if cell.get("cell_type") == "markdown")
    headings = map(_HEADING.search, prose)
    title = next((match[1].strip() for match in headings if match), "")
    pictures = sum(_is_picture(output) for cell in cells for output in _list_outputs(cell))
    metadata = add_unread(add_note({"format": "notebook"}, decoding_note), {"picture": pictures})
    return ExtractedText(rendered, title, metadata, language="notebook")


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
    shown = (_keep_both_ends(*_read_output(output)) for output in _list_outputs(cell))
    text = _keep_both_ends("\n".join(filter(None, shown)), _KEPT_RICH_CHARS)
    return f"{code}\n{format_code_block(text, 'output')}" if text else code


def _list_outputs(cell: dict[str, Any]) -> list[dict[str, Any]]:
    outputs = cell.get("outputs") if cell.get("cell_type") == "code" else None
    return [output for output in outputs if is_object(output)] if is_list(outputs) else []


def _read_output(output: dict[str, Any]) -> tuple[str, int]:
    """What a reader sees of an output, and how much of each of its ends is kept."""
    if error := ": ".join(_join(str(output[key])) for key in ("ename", "evalue") if output.get(key)):
        return error, _KEPT_CHARS
    data = _find_data(output)
    if markdown := _join(data.get("text/markdown")).strip():
        return markdown, _KEPT_RICH_CHARS
    plain = _read_terminal(data.get("text/plain"))
    if plain.strip() and not _OBJECT.fullmatch(plain.strip()):
        return plain, _KEPT_CHARS
    rich = _read_html(_join(data.get("text/html"))) or _join(data.get("text/latex")).strip()
    return rich or plain, _KEPT_RICH_CHARS


def _find_data(output: dict[str, Any]) -> dict[str, Any]:
    """An output's forms by their types; streams have text alone, version 3 of the format one key for each."""
    data = output.get("data")
    if is_object(data):
        return data
    return {f"text/{kind}": output.get(key) for kind, key in (("plain", "text"), ("html", "html"))}


def _is_picture(output: dict[str, Any]) -> bool:
    """Whether an output shows a picture, and no text that says the same."""
    text = _read_output(output)[0].strip()
    is_shown = not text or _OBJECT.fullmatch(text) is not None
    return is_shown and any(kind.startswith("image/") for kind in _find_data(output))


def _read_html(page: str) -> str:
    from knowledge_pipeline.extraction.html import read_html  # whose parsers take a while to import

    try:
        return read_html(page.encode()).text if page and len(page) <= _MAX_HTML_CHARS else ""
    except DocumentSkipped:
        return ""


def _read_terminal(lines: object) -> str:
    """The text of a terminal: of a line that was written over, as a bar of progress is, the last."""
    whole = _concatenate(lines).replace("\r\n", "\n")
    if "\r" in whole:
        whole = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in whole.split("\n"))
    return _join(whole)


def _keep_both_ends(text: str, kept_chars: int) -> str:
    text = text.strip("\n") if text.strip() else ""
    return text if len(text) <= 2 * kept_chars else f"{text[:kept_chars]}\n…\n{text[-kept_chars:]}"


def _read_source(cell: dict[str, Any]) -> str:
    return _join(cell.get("source", cell.get("input")))


def _join(lines: object) -> str:
    """A text that a notebook holds whole or by lines, without what no text holds."""
    return _NOT_TEXT.sub("", _concatenate(lines).replace("\r\n", "\n"))


def _concatenate(lines: object) -> str:
    whole = "".join(line for line in lines if isinstance(line, str)) if is_list(lines) else lines
    return whole if isinstance(whole, str) else ""


def _find_language(notebook: dict[str, Any]) -> str:
    metadata = notebook.get("metadata")
    for key, name in (("kernelspec", "language"), ("language_info", "name")):
        about = metadata.get(key) if is_object(metadata) else None
        if is_object(about) and isinstance(about.get(name), str):
            return about[name]
    return "python"
