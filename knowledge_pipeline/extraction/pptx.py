"""Presentations as Markdown.

Source: ECMA-376, part 1, sections 19 (PresentationML) and 21.1 (DrawingML),
https://ecma-international.org/publications-and-standards/standards/ecma-376/
"""

from __future__ import annotations

from collections.abc import Iterator

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.markdown import (
    TableCell,
    expand_spans,
    format_link,
    format_table,
    parse_span,
)
from knowledge_pipeline.extraction.office_graphics import render_graphics
from knowledge_pipeline.extraction.office_math import RAISED, M, format_formula, write_raised
from knowledge_pipeline.extraction.office_package import (
    A,
    Element,
    OfficePackage,
    R,
    iter_elements,
    local_name,
)
from knowledge_pipeline.extraction.office_symbols import decode_symbols
from knowledge_pipeline.extraction.text_decoding import ExtractedText, add_unread

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_LEFT_OUT = frozenset({"dt", "ftr", "sldNum"})  # placeholders of a date, a footer, a number
_BREAKS = {f"{A}br": " ", f"{A}tab": " "}


def read_pptx(payload: bytes) -> ExtractedText:
    """The slides in order, hidden ones too: texts, tables, charts, notes, descriptions of pictures.

    Metadata's `note` counts comments, embedded objects, slides that show pictures alone, and what could not
    be read.
    """
    package = OfficePackage(payload, "PPTX", "ppt/presentation.xml")
    try:
        root = package.require_main(f"{_P}presentation")
        slides = [_Slide(package, part) for part in _iter_slides(package, root)]
        parts = [slide.render(number) for number, slide in enumerate(slides, 1)]
        title = package.title
    except DocumentSkipped:
        raise
    except Exception as error:  # what nobody thought of in a file that somebody broke
        raise package.build_broken_error() from error
    text = "\n\n".join(filter(None, parts))
    if not text:
        raise DocumentSkipped("PPTX without text")
    title = "" if title == "PowerPoint Presentation" else title
    title = title or next((slide.title for slide in slides if slide.title), "")
    metadata = add_unread({"format": "pptx", "slides": len(slides)}, package.unread)
    return ExtractedText(text, title, metadata, language="markdown")


def _iter_slides(package: OfficePackage, root: Element) -> Iterator[str]:
    """The parts of the slides, each once, in the order in which they are shown."""
    relations = package.relations(package.main)
    ids = (element.get(f"{R}id", "") for element in root.iterfind(f"{_P}sldIdLst/{_P}sldId"))
    yield from dict.fromkeys(relations[id_].target for id_ in ids if id_ in relations)


class _Slide:
    """One slide, as far as it can be read."""

    def __init__(self, package: OfficePackage, part: str) -> None:
        self._package, self._part = package, part
        root = package.load(part)
        if root is None:
            package.unread["slide"] += 1
        tree = None if root is None else root.find(f"{_P}cSld/{_P}spTree")
        self._shapes = [] if tree is None else list(iter_elements(tree))
        self._title_shape = next(filter(_is_title, self._shapes), None)
        shape = self._title_shape
        self._heading = "" if shape is None else " ".join(self._read_words(shape).split())
        lines = () if shape is None else shape.iter(f"{A}p")
        self.title = " ".join(" ".join(self._read_line(line, None) for line in lines).split())

    def render(self, number: int) -> str:
        """The slide as a section; "" for one that says nothing."""
        blocks = list(self._iter_blocks(self._shapes))
        blocks += (f"Notes: {notes}" for notes in self._iter_notes())
        for _, comments in self._package.load_related(self._part, "comments"):
            self._package.unread["comment"] += sum(1 for comment in comments if local_name(comment) == "cm")
        if not self.title and not blocks:
            if any(shape.tag == f"{_P}pic" for shape in self._shapes):
                self._package.unread["slide with pictures only"] += 1
            return ""
        heading = f"## Slide {number}{': ' if self.title else ''}{self._heading}"
        return "\n\n".join([heading, *blocks])

    def _iter_notes(self) -> Iterator[str]:
        for part, root in self._package.load_related(self._part, "notesSlide"):
            shapes = (shape for shape in root.iter(f"{_P}sp") if _placeholder(shape, "type") == "body")
            if (shape := next(shapes, None)) is not None:
                yield from filter(None, [" ".join(self._read_words(shape, part).split())])

    def _iter_blocks(self, shapes: list[Element]) -> Iterator[str]:
        """The texts of shapes in their order, those of groups too, without the slide's title."""
        for shape in shapes:
            if shape is self._title_shape or _placeholder(shape, "type") in _LEFT_OUT:
                continue
            if shape.tag == f"{_P}grpSp":
                yield from self._iter_blocks(list(iter_elements(shape)))
            elif shape.tag == f"{_P}graphicFrame":
                yield from self._iter_frame(shape)
            elif shape.tag == f"{_P}sp":
                yield from filter(None, [self._render_text(shape)])
            elif shape.tag == f"{_P}pic":
                yield from filter(None, [self._describe(shape)])

    def _iter_frame(self, shape: Element) -> Iterator[str]:
        blocks = [self._render_table(table) for table in shape.iter(f"{A}tbl")]
        blocks += render_graphics(self._package, self._part, shape)
        if next(shape.iter(f"{_P}oleObj"), None) is not None:
            self._package.unread["embedded object"] += 1
        blocks = blocks or [self._describe(shape)]
        yield from filter(None, blocks)

    def _render_text(self, shape: Element) -> str:
        body = shape.find(f"{_P}txBody")
        lines = [] if body is None else list(body.iter(f"{A}p"))
        filled = [(line, text) for line in lines if (text := self._read_line(line, self._part))]
        url = self._find_link(shape, self._part)
        if len(filled) == 1:
            return format_link(filled[0][1], url) if url else filled[0][1]
        items = [f"{'  ' * _level(line)}- {text}" for line, text in filled]  # a list, by their levels
        return "\n".join([*items, *([f"- {url}"] if url and items else [])])

    def _render_table(self, table: Element) -> str:
        def to_cell(cell: Element) -> TableCell:
            text = " ".join(self._read_words(cell).split())
            return TableCell(
                text, parse_span(cell.get("rowSpan", "1")), parse_span(cell.get("gridSpan", "1"))
            )

        rows = (
            [to_cell(cell) for cell in row.iterchildren(f"{A}tc") if not _is_spanned(cell)]
            for row in table.iterchildren(f"{A}tr")
        )
        return format_table(expand_spans(rows))

    def _describe(self, shape: Element) -> str:
        properties = next(shape.iter(f"{_P}cNvPr"), None)
        described = "" if properties is None else " ".join(properties.get("descr", "").split())
        url = self._find_link(shape, self._part)
        return format_link(f"Picture: {described}" if described else "Picture" if url else "", url)

    def _read_words(self, holder: Element, part: str = "") -> str:
        return "\n".join(self._read_line(line, part or self._part) for line in holder.iter(f"{A}p"))

    def _read_line(self, line: Element, part: str | None) -> str:
        """A paragraph: its runs, breaks and formulas; runs of one link are one link, without `part` none."""
        pieces: list[tuple[str, str]] = []  # address and text
        for element in iter_elements(line):
            text, url = "", ""
            if element.tag in (f"{A}r", f"{A}fld"):
                text, url = _read_run(element), self._find_link(element, part)
            elif element.tag in _BREAKS:
                text = _BREAKS[element.tag]
            else:
                text = "".join(map(format_formula, element.iter(f"{M}oMath")))
            if pieces and pieces[-1][0] == url:
                text = pieces.pop()[1] + text
            pieces.append((url, text))
        return " ".join("".join(_write_link(write_raised(text), url) for url, text in pieces).split())

    def _find_link(self, holder: Element, part: str | None) -> str:
        """The address that a run, or a shape as a whole, leads to."""
        own = holder.find(f"{A}rPr/{A}hlinkClick")
        click = own if own is not None else holder.find(f"*/{_P}cNvPr/{A}hlinkClick")
        if click is None or part is None:
            return ""
        return self._package.find_link(part, click.get(f"{R}id", "")).strip().replace(" ", "%20")


def _read_run(run: Element) -> str:
    text = run.findtext(f"{A}t") or ""
    properties = run.find(f"{A}rPr")
    if properties is None:
        return text
    sign = properties.find(f"{A}sym")
    text = text if sign is None else decode_symbols(text, sign.get("typeface", ""))
    raised = properties.get("baseline", "0")
    return RAISED.format(text) if raised.rstrip("%").rstrip("0.") and not raised.startswith("-") else text


def _write_link(text: str, url: str) -> str:
    words = text.strip()  # the white space around it is no part of the link
    if not words or url.rstrip("/") in ("", words):
        return text
    return text.replace(words, format_link(words, url), 1)


def _is_title(shape: Element) -> bool:
    return (
        shape.tag == f"{_P}sp" and shape.find(f"{_P}txBody") is not None and _placeholder(shape, "idx") == "0"
    )


def _placeholder(shape: Element, name: str) -> str:
    """The type or the index of the placeholder that a shape fills; "" for one that fills none."""
    holder = shape.find(f"*/{_P}nvPr/{_P}ph")
    return "" if holder is None else holder.get(name, "0" if name == "idx" else "obj")


def _is_spanned(cell: Element) -> bool:
    return any(cell.get(name, "0") in ("1", "true") for name in ("hMerge", "vMerge"))


def _level(line: Element) -> int:
    properties = line.find(f"{A}pPr")
    level = "0" if properties is None else properties.get("lvl", "0")
    return int(level) if level in tuple("012345678") else 0
