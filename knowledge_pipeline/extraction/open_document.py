"""Texts and presentations of OpenDocument as Markdown: headings, lists, tables, links, notes and charts.

Source: OASIS OpenDocument 1.3, part 3, https://docs.oasis-open.org/office/OpenDocument/v1.3/
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import islice
from typing import Any
from zipfile import ZipFile

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.archives import describe_broken_archive, require_bounded_archive
from knowledge_pipeline.extraction.markdown import (
    MAX_COLUMNS,
    TableCell,
    expand_spans,
    find_first_heading,
    format_link,
    format_list_item,
    format_table,
    parse_span,
)
from knowledge_pipeline.extraction.office_package import parse_part
from knowledge_pipeline.extraction.text_decoding import ExtractedText, add_unread
from knowledge_pipeline.records import Metadata

_OASIS = "urn:oasis:names:tc:opendocument:xmlns:"
_TEXT, _TABLE = f"{{{_OASIS}text:1.0}}", f"{{{_OASIS}table:1.0}}"
_OFFICE, _STYLE = f"{{{_OASIS}office:1.0}}", f"{{{_OASIS}style:1.0}}"
_DRAW, _SVG = f"{{{_OASIS}drawing:1.0}}", f"{{{_OASIS}svg-compatible:1.0}}"
_CHART, _PRESENTATION = f"{{{_OASIS}chart:1.0}}", f"{{{_OASIS}presentation:1.0}}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_DC_TITLE = "{http://purl.org/dc/elements/1.1/}title"
_SKIPPED = frozenset(
    (
        *(
            f"{_TEXT}{name}"
            for name in ("tracked-changes", "table-of-content", "sequence-decls", "ruby-text")
        ),
        *(f"{_OFFICE}{name}" for name in ("annotation", "annotation-end", "forms")),
        *(f"{_SVG}{name}" for name in ("title", "desc")),
        f"{_PRESENTATION}notes",
    )
)
_HELD_BACK = frozenset(
    (f"{_DRAW}text-box", f"{_TABLE}table", f"{_DRAW}object", f"{_DRAW}object-ole")
)  # until the paragraph ends that they are in
_NOT_OF_SLIDES = frozenset(("header", "footer", "date-time", "page-number"))
_MAX_SPACES = 100
_MAX_REPEATED = 20  # cells; more are the rest of an empty sheet


def read_odt(payload: bytes) -> ExtractedText:
    """Paragraphs, lists, tables and charts in order, then notes; comments and deleted text are left out."""
    return _read(payload, "ODT", "text", _render_body)


def read_odp(payload: bytes) -> ExtractedText:
    """The slides in order, hidden ones too: texts, tables, charts, notes, descriptions of pictures.

    Metadata's `note` counts comments, embedded objects, and slides that show pictures alone.
    """
    return _read(payload, "ODP", "presentation", _render_slides)


def render_object(archive: ZipFile, href: str) -> str:
    """A chart that a document contains, with its title and its values; "" for anything else."""
    part = posixpath.normpath(posixpath.join(href, "content.xml"))
    try:
        content = parse_part(archive, part)
    except Exception:  # noqa: BLE001 - a broken file: zipfile, zlib and lxml raise many kinds
        return ""
    chart = content.find(f"{_OFFICE}body/{_OFFICE}chart/{_CHART}chart")
    return "" if chart is None else _DocumentRenderer(None, content).render_chart(chart)


def _read(
    payload: bytes,
    kind: str,
    body: str,
    render: Callable[[_DocumentRenderer, Any], tuple[str, str, Metadata]],
) -> ExtractedText:
    """One document; `body` is the element that holds what it is, and `render` makes text, title, metadata."""
    require_bounded_archive(payload, kind)
    try:
        with ZipFile(BytesIO(payload)) as archive:
            content = parse_part(archive, "content.xml")
            styles = [parse_part(archive, "styles.xml")] if "styles.xml" in archive.NameToInfo else []
            about = parse_part(archive, "meta.xml") if "meta.xml" in archive.NameToInfo else None
            holder = content.find(f"{_OFFICE}body/{_OFFICE}{body}")
            renderer = _DocumentRenderer(archive, *styles, content)
            rendered = None if holder is None else render(renderer, holder)
    except Exception as error:  # a broken file: zipfile, zlib and lxml raise many kinds
        raise DocumentSkipped(describe_broken_archive(payload, kind, "its parts cannot be read")) from error
    if rendered is None:
        raise DocumentSkipped(describe_broken_archive(payload, kind, "it holds something else"))
    text, title, metadata = rendered
    if not text:
        raise DocumentSkipped(f"{kind} without text")
    own_title = "" if about is None else " ".join((about.findtext(f".//{_DC_TITLE}") or "").split())
    metadata = add_unread({"format": kind.lower(), **metadata}, renderer.unread)
    return ExtractedText(text, own_title or title, metadata, language="markdown")


def _render_body(renderer: _DocumentRenderer, body: Any) -> tuple[str, str, Metadata]:
    text = renderer.render(body)
    return text, find_first_heading(text), {}


def _render_slides(renderer: _DocumentRenderer, body: Any) -> tuple[str, str, Metadata]:
    slides = [
        renderer.render_slide(page, number)
        for number, page in enumerate(body.iterchildren(f"{_DRAW}page"), 1)
    ]
    title = next((title for title, _ in slides if title), "")
    return "\n\n".join(text for _, text in slides if text), title, {"slides": len(slides)}


class _DocumentRenderer:
    def __init__(self, archive: ZipFile | None, *roots: Any) -> None:
        """`archive`: that has its objects; None for one of these. `roots`: parts that define styles."""
        self.unread = Counter[str]()
        """How many parts of a kind were not read."""
        self._archive = archive
        self._numbered = {
            style.get(f"{_STYLE}name")
            for root in roots
            for style in root.iter(f"{_TEXT}list-style")
            if len(style)
            and style[0].tag == f"{_TEXT}list-level-style-number"
            and style[0].get(f"{_STYLE}num-format") != ""  # which shows no number
        }
        styles = (style for root in roots for style in root.iter(f"{_STYLE}style"))
        self._parents = {it.get(f"{_STYLE}name"): it.get(f"{_STYLE}parent-style-name") for it in styles}
        self._notes: list[str] = []
        self._objects = set[str]()  # that were read already
        self._held_back: list[Any] = []  # of the paragraph that is being written

    def render(self, body: Any) -> str:
        self.unread["comment"] += sum(1 for _ in body.iter(f"{_OFFICE}annotation"))
        blocks = list(self._iter_blocks(body))
        notes = (f"[^{number}]: {note}" for number, note in enumerate(self._notes, 1))
        return "\n\n".join([*blocks, *notes])

    def render_slide(self, page: Any, number: int) -> tuple[str, str]:
        """The title of a slide, and the slide as a section; "" for one that says nothing."""
        self.unread["comment"] += sum(1 for _ in page.iter(f"{_OFFICE}annotation"))
        kinds = [(shape.get(f"{_PRESENTATION}class"), shape) for shape in page.iterchildren("*")]
        title_shape = next((shape for kind, shape in kinds if kind == "title"), None)
        lines = () if title_shape is None else title_shape.iter(f"{_TEXT}p")
        title = " ".join(" ".join(map(self._render_line, lines)).split())  # also of a list, without its marks
        shapes = (shape for kind, shape in kinds if kind not in _NOT_OF_SLIDES and shape is not title_shape)
        blocks = list(self._iter_blocks(shapes))
        for shape in page.iterfind(f"{_PRESENTATION}notes/*[@{_PRESENTATION}class='notes']"):
            blocks += [f"Notes: {notes}"] if (notes := self._render_words([shape])) else []
        if not title and not blocks:
            has_picture = page.find(f"{_DRAW}frame/{_DRAW}image") is not None
            self.unread["slide with pictures only"] += has_picture
            return "", ""
        return title, "\n\n".join([f"## Slide {number}{': ' if title else ''}{title}", *blocks])

    def render_chart(self, chart: Any) -> str:
        """The title of a chart, and its categories and values as a table."""
        title = self._render_words(chart.iterchildren(f"{_CHART}title"))
        tables = [
            table for element in chart.iterchildren(f"{_TABLE}table") for table in self._iter_table(element)
        ]
        return "\n\n".join([f"Chart: {title}".removesuffix(": "), *tables]) if title or tables else ""

    def _render_words(self, elements: Iterable[Any]) -> str:
        return " ".join(" ".join(self._iter_blocks(elements)).split())

    def _iter_blocks(self, container: Iterable[Any]) -> Iterator[str]:
        for element in container:
            if element.tag in (f"{_TEXT}p", f"{_TEXT}h", f"{_DRAW}frame"):
                is_frame = element.tag == f"{_DRAW}frame"
                outer, self._held_back = self._held_back, []
                text = (self._render_frame(element) if is_frame else self._render_line(element)).strip()
                held_back, self._held_back = self._held_back, outer
                if text:
                    yield self._mark_heading(element, text)
                yield from self._iter_blocks(held_back)
            elif element.tag == f"{_TEXT}list":
                if written := self._render_list(element, element.get(f"{_TEXT}style-name")):
                    yield written
            elif element.tag == f"{_TABLE}table":
                yield from self._iter_table(element)
            elif element.tag in (f"{_DRAW}object", f"{_DRAW}object-ole"):
                yield from self._iter_object(element.get(_HREF) or "")
            elif isinstance(element.tag, str) and element.tag not in _SKIPPED:
                yield from self._iter_blocks(element)

    def _mark_heading(self, element: Any, text: str) -> str:
        style = element.get(f"{_TEXT}style-name")
        is_title = "Title" in (style, self._parents.get(style))
        if element.tag != f"{_TEXT}h" and not is_title:
            return text
        level = parse_span(element.get(f"{_TEXT}outline-level") or "1", 6)
        return f"{'#' * level} {' '.join(text.split())}"

    def _render_list(self, element: Any, style: str | None) -> str:
        style = element.get(f"{_TEXT}style-name") or style
        marker = "1. " if style in self._numbered else "- "
        items: list[str] = []
        for item in element:
            nested = [inner for inner in item if inner.tag == f"{_TEXT}list"]
            own = "\n".join(self._iter_blocks([inner for inner in item if inner.tag != f"{_TEXT}list"]))
            below = "\n".join(filter(None, (self._render_list(inner, style) for inner in nested)))
            if own:
                items.append(format_list_item(marker, "\n".join(filter(None, (own, below)))))
            elif below:  # a list within an item that has no text is only indented
                items.append(format_list_item("  ", below))
        return "\n".join(items)

    def _iter_table(self, element: Any) -> Iterator[str]:
        """A table; one of one column, or with tables in its cells, is laid out."""
        rows = [list(row.iterchildren(f"{_TABLE}table-cell")) for row in _iter_rows(element)]
        nested = any(cell.find(f".//{_TABLE}table") is not None for row in rows for cell in row)
        if nested or all(len(row) < 2 for row in rows):
            for row in rows:
                for cell in row:
                    yield from self._iter_blocks(cell)
        elif written := format_table(expand_spans([self._to_cell(cell) for cell in row] for row in rows)):
            yield written

    def _to_cell(self, cell: Any) -> TableCell:
        rows = parse_span(cell.get(f"{_TABLE}number-rows-spanned") or "1")
        columns = parse_span(cell.get(f"{_TABLE}number-columns-spanned") or "1", MAX_COLUMNS)
        repeated = parse_span(cell.get(f"{_TABLE}number-columns-repeated") or "1", _MAX_REPEATED)
        text = " ".join(self._iter_blocks(cell))
        items: Iterator[Any] = cell.iter(f"{_TEXT}list-item")
        if sum(1 for _ in islice(items, 2)) == 1:  # which programs write without a list
            text = text.removeprefix("- ").removeprefix("1. ")
        return TableCell(text, rows, max(columns, repeated))

    def _render_line(self, element: Any) -> str:
        """The text of a paragraph or of a part of one."""
        parts = [element.text or ""]
        for inner in element:
            tag = inner.tag
            if tag == f"{_TEXT}s":
                parts.append(" " * parse_span(inner.get(f"{_TEXT}c") or "1", _MAX_SPACES))
            elif tag in (f"{_TEXT}tab", f"{_TEXT}line-break"):
                parts.append(" " if tag == f"{_TEXT}tab" else "\n")
            elif tag == f"{_TEXT}a":
                parts.append(format_link(self._render_line(inner), inner.get(_HREF) or ""))
            elif tag == f"{_TEXT}note":
                parts.append(self._render_note(inner))
            elif tag == f"{_DRAW}frame":
                parts.append(self._render_frame(inner))
            elif isinstance(tag, str) and tag not in _SKIPPED:
                parts.append(self._render_line(inner))
            parts.append(inner.tail or "")
        return "".join(parts)

    def _render_note(self, note: Any) -> str:
        self._notes.append("")
        number = len(self._notes)
        body = note.find(f"{_TEXT}note-body")
        written = self._iter_blocks(body) if body is not None else ()
        self._notes[number - 1] = " ".join(" ".join(written).split())
        return f"[^{number}]"

    def _render_frame(self, frame: Any) -> str:
        """The description of a picture; boxes of text, tables and objects follow their paragraph."""
        self._held_back += (contents := [inner for inner in frame if inner.tag in _HELD_BACK])
        if any(inner.tag in (f"{_DRAW}text-box", f"{_TABLE}table") for inner in contents):
            return ""
        described = frame.findtext(f"{_SVG}desc") or frame.findtext(f"{_SVG}title") or ""
        return f"[image: {' '.join(described.split())}]" if described.strip() else ""

    def _iter_object(self, href: str) -> Iterator[str]:
        """A chart, told once however often it is shown; anything else is counted."""
        if self._archive is None or href in self._objects:
            return
        self._objects.add(href)
        if chart := render_object(self._archive, href):
            yield chart
        else:
            self.unread["embedded object"] += 1


def _iter_rows(table: Any) -> Iterator[Any]:
    """The rows of a table, those of groups and of its header too, but none of tables in its cells."""
    for element in table:
        if element.tag == f"{_TABLE}table-row":
            yield element
        elif element.tag in (f"{_TABLE}table-rows", f"{_TABLE}table-header-rows", f"{_TABLE}table-row-group"):
            yield from _iter_rows(element)
