"""Word documents, presentations and spreadsheets as Markdown.

Source: ECMA-376, part 1, sections 17 (WordprocessingML; 17.9 for numbering) and 19 (PresentationML),
https://ecma-international.org/publications-and-standards/standards/ecma-376/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from io import BytesIO
from itertools import islice
from typing import Any

from docx import Document as open_docx
from docx.document import Document as WordDocument
from docx.opc.constants import RELATIONSHIP_TYPE as RELATION
from docx.opc.part import Part
from docx.oxml import parse_xml
from pptx import Presentation
from pptx.enum.shapes import PP_PLACEHOLDER
from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetVisibleEnum, ZipError

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.markdown import (
    MAX_COLUMNS,
    TableCell,
    expand_spans,
    find_first_heading,
    format_link,
    format_table,
    parse_span,
)
from knowledge_pipeline.extraction.row_tables import TABLE_CUT_NOTE, render_rows
from knowledge_pipeline.extraction.text_decoding import (
    ExtractedText,
    describe_broken_archive,
    require_bounded_archive,
)
from knowledge_pipeline.records import Metadata

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_V = "{urn:schemas-microsoft-com:vml}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_R_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_HEADING_STYLE = re.compile(r"^heading (?P<level>[1-9])$", re.IGNORECASE)
_LIST_STYLE = re.compile(r"^list (?P<kind>bullet|number)(?: (?P<level>\d))?$", re.IGNORECASE)
_HYPERLINK = re.compile(r'^\s*HYPERLINK\s+"(?P<url>[^"]+)"', re.IGNORECASE)
_SKIPPED_TAGS = frozenset(
    f"{_W}{name}" for name in ("del", "moveFrom", "pPr", "rPr", "sdtPr", "rubyPr", "rt")
)
_CLOSED_TAGS = _SKIPPED_TAGS | {f"{_W}tc", f"{_W}tr"}
_TEXT_BY_NAME = {"br": "\n", "cr": "\n", "noBreakHyphen": "-", "tab": " ", "ptab": " "}
_TEXT_BY_TAG = {f"{_W}{name}": text for name, text in _TEXT_BY_NAME.items()}
_NOTE_PREFIXES = {f"{_W}footnoteReference": "", f"{_W}endnoteReference": "end"}
_DRAWING_TAGS = frozenset({f"{_W}drawing", f"{_W}pict", f"{_W}object"})


def read_docx(payload: bytes) -> ExtractedText:
    """Paragraphs and tables in order, then notes, as Markdown; headers, footers and comments are left out.

    What tracked changes inserted is there, what they deleted is not, and neither is hidden text.
    """
    require_bounded_archive(payload, "DOCX")
    try:
        document = open_docx(BytesIO(payload))
        text = _to_markdown(document)
        written = document.core_properties.title
    except Exception as error:  # a broken file: zipfile, zlib, lxml and python-docx raise many kinds
        raise DocumentSkipped(describe_broken_archive(payload, "DOCX", error)) from error
    title = " ".join((written or "").split()) or find_first_heading(text)
    return ExtractedText(text, title, {"format": "docx"}, language="markdown")


def _to_markdown(document: WordDocument) -> str:
    styles = {style.style_id: style.name or "" for style in document.styles}
    elements: dict[str, Any] = {style.style_id: style.element for style in document.styles}
    rels = document.part.rels.values()
    parts = (rel.target_part for rel in rels if rel.reltype == RELATION.NUMBERING)
    numbering = ListNumbering(next((parse_xml(part.blob) for part in parts), None), elements)
    writer = DocxRenderer(styles, _links_by_id(document.part), numbering)
    text = writer.render(document.element.body)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # typed as any element
    notes: dict[str, str] = {}
    for relation in rels:
        if relation.reltype in (RELATION.FOOTNOTES, RELATION.ENDNOTES):
            kind = "end" if relation.reltype == RELATION.ENDNOTES else ""
            notes |= {kind + id_: note for id_, note in _iter_notes(relation.target_part, styles)}
    note_lines = (f"[^{name}]: {notes[name]}" for name in dict.fromkeys(writer.note_names) if notes.get(name))
    return "\n\n".join(filter(None, [text, *note_lines]))


def _links_by_id(part: Part) -> dict[str, str]:
    relations = part.rels.items()
    return {id_: relation.target_ref for id_, relation in relations if relation.reltype == RELATION.HYPERLINK}


def _iter_notes(part: Part, styles: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Every note's id and text."""
    writer = DocxRenderer(styles, _links_by_id(part))
    element: Any
    for element in parse_xml(part.blob):
        names = [value for key, value in element.attrib.items() if key.endswith("}id")]
        yield "".join(names), " ".join(" ".join(writer.iter_blocks(element)).split())


@dataclass(slots=True)
class DocxRenderer:
    """Writes the parts of one document.

    Args:
        styles: names of paragraph styles by their ids.
        links: addresses of the part's hyperlinks by the ids of their relations.
        numbering: the lists of the document.
    """

    styles: Mapping[str, str]
    links: Mapping[str, str]
    numbering: ListNumbering = field(default_factory=lambda: ListNumbering(None, {}))
    note_names: list[str] = field(default_factory=list[str])  # "1", "end1", in the order of their mention

    def render(self, container: Any) -> str:
        """All blocks of an element, the items of a list on lines without others between."""
        joined = "\n\n".join(self.iter_blocks(container))
        return re.sub(r"(?m)^( *(?:-|1\.) .*)\n\n(?= *(?:-|1\.) )", r"\1\n", joined)

    def iter_blocks(self, container: Any) -> Iterator[str]:
        """Paragraphs and tables, also those within content controls."""
        for element in _iter_elements(container):
            if element.tag == f"{_W}p":
                yield from self._iter_paragraph(element)
            elif element.tag == f"{_W}tbl":
                yield from self._iter_table(element)
            elif element.tag not in _SKIPPED_TAGS:
                yield from self.iter_blocks(element)

    def _iter_paragraph(self, paragraph: Any) -> Iterator[str]:
        line = _ParagraphText(self)
        line.add(paragraph)
        if text := line.join().strip():
            yield self._apply_style(text, paragraph)
        for box in line.boxes:
            yield from self.iter_blocks(box)

    def _apply_style(self, text: str, paragraph: Any) -> str:
        style_id = _get_value(paragraph, "pPr", "pStyle") or ""
        style = self.styles.get(style_id, "")
        heading, listed = _HEADING_STYLE.match(style), _LIST_STYLE.match(style)
        if heading or style == "Title":
            level = min(int(heading["level"]), 6) if heading else 1
            return f"{'#' * level} {' '.join(text.split())}"
        if listed:
            indent = "  " * (int(listed["level"] or 1) - 1)
            return f"{indent}{'-' if listed['kind'].lower() == 'bullet' else '1.'} {text}"
        marker = self.numbering.find_marker(paragraph, style_id)
        return f"{marker} {text}" if marker else text

    def _iter_table(self, element: Any) -> Iterator[str]:
        """A table; one of one cell a row, or with tables in it, is laid out."""
        kept = (
            row
            for row in _iter_nested(element, "tr", _CLOSED_TAGS)
            if _find_child(row, "trPr", "del") is None
        )
        rows = [list(_iter_nested(row, "tc", _CLOSED_TAGS)) for row in kept]
        nested = any(next(cell.iter(f"{_W}tbl"), None) is not None for row in rows for cell in row)
        if nested or all(len(row) < 2 for row in rows):
            for row in rows:
                for cell in row:
                    yield from self.iter_blocks(cell)
        elif written := format_table(list(self._iter_rows(rows))):
            yield written

    def _iter_rows(self, rows: list[list[Any]]) -> Iterator[list[str]]:
        """Texts of cells; a cell that spans rows is repeated in each, one that spans columns is not."""
        above: dict[int, str] = {}
        for row in rows:
            written: list[str] = []
            for cell in row:
                column = len(written)
                merged = _find_child(cell, "tcPr", "vMerge")
                goes_on = merged is not None and merged.get(f"{_W}val", "continue") == "continue"
                text = above.get(column, "") if goes_on else " ".join(self.iter_blocks(cell))
                columns = parse_span(_get_value(cell, "tcPr", "gridSpan") or "1", MAX_COLUMNS)
                written += [text, *[""] * (columns - 1)]
                above[column] = text
            yield written


class _ParagraphText:
    """Collects the text of one paragraph; a field's text is held back until its end."""

    def __init__(self, writer: DocxRenderer) -> None:
        self._writer = writer
        self._fields: list[tuple[list[str], list[str]]] = [([], [])]  # instruction and text of each open one
        self.boxes: list[Any] = []  # text boxes that hang on the paragraph

    def join(self) -> str:
        while len(self._fields) > 1:  # it goes on in the next paragraph
            self._close_field()
        return "".join(self._fields[0][1])

    def add(self, container: Any) -> None:
        for element in _iter_elements(container):
            tag = element.tag
            if tag in (f"{_W}t", f"{_M}t"):
                self._write(element.text or "")
            elif tag in _TEXT_BY_TAG:
                self._write(_TEXT_BY_TAG[tag])
            elif tag in _NOTE_PREFIXES:
                name = _NOTE_PREFIXES[tag] + element.get(f"{_W}id", "")
                self._writer.note_names.append(name)
                self._write(f"[^{name}]")
            elif tag in (f"{_W}hyperlink", f"{_W}fldSimple"):
                self._add_link(element)
            elif tag == f"{_W}fldChar":
                kind = element.get(f"{_W}fldCharType")
                if kind == "begin":
                    self._fields.append(([], []))
                elif kind == "end" and len(self._fields) > 1:
                    self._close_field()
            elif tag == f"{_W}instrText":
                self._fields[-1][0].append(element.text or "")
            elif tag in _DRAWING_TAGS:
                boxes = list(_iter_nested(element, "txbxContent"))
                self.boxes += boxes
                if not boxes and (described := _describe_picture(element)):
                    self._write(f"[image: {described}]")
            elif tag not in _SKIPPED_TAGS and not _is_hidden(element):
                self.add(element)

    def _write(self, text: str) -> None:
        self._fields[-1][1].append(text)

    def _add_link(self, element: Any) -> None:
        url = self._writer.links.get(element.get(_R_ID, ""), "")
        instruction = f'HYPERLINK "{url}"' if url else element.get(f"{_W}instr", "")
        depth = len(self._fields)
        self._fields.append(([instruction], []))
        self.add(element)
        while len(self._fields) > depth:
            self._close_field()

    def _close_field(self) -> None:
        instruction, texts = self._fields.pop()
        text, target = "".join(texts), _HYPERLINK.match("".join(instruction))
        if target and (words := text.strip()):  # the white space around it is no part of the link
            text = text.replace(words, format_link(words, target["url"].strip().replace(" ", "%20")), 1)
        self._write(text)


def _iter_elements(container: Any) -> Iterator[Any]:
    """Its elements, without comments; of alternatives the first, which newer programs show."""
    for element in container:
        if element.tag == f"{_MC}AlternateContent":
            yield from (inner for choice in element[:1] for inner in _iter_elements(choice))
        elif isinstance(element.tag, str):
            yield element


def _describe_picture(drawing: Any) -> str:
    """The alternative text of a picture, if somebody wrote one."""
    for element in drawing.iter(f"{_WP}docPr", f"{_V}shape"):
        if written := element.get("descr") or element.get("alt"):
            return " ".join(str(written).split())
    return ""


def _iter_nested(container: Any, name: str, closed: frozenset[str] = frozenset()) -> Iterator[Any]:
    """Elements of a name, also those within others, such as content controls, but for closed ones."""
    for element in _iter_elements(container):
        if element.tag == f"{_W}{name}":
            yield element
        elif element.tag not in closed:
            yield from _iter_nested(element, name, closed)


def _find_child(element: Any, *names: str) -> Any:
    return element.find("/".join(f"{_W}{name}" for name in names))


def _get_value(element: Any, *names: str) -> str | None:
    child = _find_child(element, *names)
    return None if child is None else child.get(f"{_W}val")


def _is_hidden(element: Any) -> bool:
    vanished = _find_child(element, "rPr", "vanish") if element.tag == f"{_W}r" else None
    return vanished is not None and vanished.get(f"{_W}val", "true") not in ("0", "false", "off")


_MAX_LEVEL = 8


class ListNumbering:
    """Which paragraphs of one document are items of a list.

    Args:
        numbering: the root of its numbering part; None where it has no lists.
        styles: the elements of its styles, by their ids.
    """

    def __init__(self, numbering: Any, styles: Mapping[str, Any]) -> None:
        self._markers = {} if numbering is None else dict(_iter_markers(numbering))
        self._styles = styles

    def find_marker(self, paragraph: Any, style_id: str) -> str | None:
        """The marker of a list's item, by a paragraph's own properties or its style's; None: of no list.

        "-" or "1.", indented by its level.
        """
        number, level = _read_number(paragraph)
        styled, styled_level = _read_number(self._styles.get(style_id))
        number, level = number or styled, level or styled_level or "0"
        if number in (None, "0") or not level.isdigit():
            return None
        at = min(int(level), _MAX_LEVEL)
        marker = self._markers.get((number, at))
        return f"{'  ' * at}{marker}" if marker else None


def _read_number(element: Any) -> tuple[str | None, str | None]:
    """The list and the level that the properties of a paragraph or of a style name."""
    if element is None:
        return None, None
    return _get_value(element, "pPr", "numPr", "numId"), _get_value(element, "pPr", "numPr", "ilvl")


def _iter_markers(numbering: Any) -> Iterator[tuple[tuple[str, int], str]]:
    """The marker of each level of each list; none for levels that show no sign."""
    abstract = {node.get(f"{_W}abstractNumId"): node for node in numbering.iter(f"{_W}abstractNum")}
    for number in numbering.iter(f"{_W}num"):
        definition = abstract.get(_get_value(number, "abstractNumId"))
        for level in () if definition is None else definition.iter(f"{_W}lvl"):
            kind, at = _get_value(level, "numFmt"), level.get(f"{_W}ilvl", "0")
            if kind != "none" and at.isdigit():
                yield (number.get(f"{_W}numId", ""), int(at)), "-" if kind == "bullet" else "1."


_LEFT_OUT = frozenset({PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.SLIDE_NUMBER})


def read_pptx(payload: bytes) -> ExtractedText:
    """The slides in order, hidden ones too: texts, tables, the speaker's notes, descriptions of pictures."""
    require_bounded_archive(payload, "PPTX")
    try:
        presentation = Presentation(BytesIO(payload))
        slides = list(presentation.slides)
        parts = [_render_slide(slide, number) for number, slide in enumerate(slides, 1)]
        title = " ".join((presentation.core_properties.title or "").split())
    except Exception as error:  # a broken file: zipfile, zlib, lxml and python-pptx raise many kinds
        raise DocumentSkipped(describe_broken_archive(payload, "PPTX", error)) from error
    title = "" if title == "PowerPoint Presentation" else title
    if not any(has_text for has_text, _ in parts):
        raise DocumentSkipped("PPTX without text")
    text = "\n\n".join(rendered for has_text, rendered in parts if has_text)
    metadata = {"format": "pptx", "slides": len(slides)}
    title = title or next((words for slide in slides if (words := _title_of(slide))), "")
    return ExtractedText(text, title, metadata, language="markdown")


def _render_slide(slide: Any, number: int) -> tuple[bool, str]:
    """Whether a slide says anything, and what."""
    title = _title_of(slide)
    blocks = list(_iter_blocks(slide.shapes))
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) and frame.text.strip():
        blocks.append(f"Notes: {_join_lines(frame.text)}")
    heading = f"## Slide {number}{': ' if title else ''}{title}"
    return bool(title or blocks), "\n\n".join([heading, *blocks])


def _title_of(slide: Any) -> str:
    shape = slide.shapes.title
    return "" if shape is None else " ".join(shape.text_frame.text.split())


def _iter_blocks(shapes: Any) -> Iterator[str]:
    """The texts of shapes in their order, those of groups too, without the slide's title."""
    title = getattr(shapes, "title", None)
    for shape in shapes:
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if shape.is_placeholder and shape.placeholder_format.type in _LEFT_OUT:
            continue
        if hasattr(shape, "shapes"):
            yield from _iter_blocks(shape.shapes)
        elif getattr(shape, "has_table", False):
            yield from filter(None, [_render_table(shape.table)])
        elif shape.has_text_frame:
            yield from filter(None, [_render_text(shape.text_frame)])
        elif described := _describe_shape(shape):
            yield f"Picture: {described}"


def _render_text(frame: Any) -> str:
    """One paragraph as it is; several as a list, by their levels."""
    filled = [paragraph for paragraph in frame.paragraphs if paragraph.text.strip()]
    lines = [f"{'  ' * paragraph.level}- {_join_lines(paragraph.text)}" for paragraph in filled]
    return _join_lines(filled[0].text) if len(filled) == 1 else "\n".join(lines)


def _render_table(table: Any) -> str:
    def to_cell(cell: Any) -> TableCell:
        return TableCell(_join_lines(cell.text), cell.span_height, cell.span_width)

    rows = ([to_cell(cell) for cell in row.cells if not cell.is_spanned] for row in table.rows)
    return format_table(expand_spans(rows))


def _describe_shape(shape: Any) -> str:
    """The alternative text of a picture, or of a chart."""
    properties = shape.element.xpath(".//p:cNvPr")
    return " ".join(str(properties[0].get("descr") or "").split()) if properties else ""


def _join_lines(text: str) -> str:
    return " ".join(text.replace("\v", "\n").split())


_MAX_CELLS = 5_000_000  # of a sheet that are looked at: those between its corners are there, though empty


def read_spreadsheet(payload: bytes) -> ExtractedText:
    """All visible sheets in order, XLSX, XLSB, XLS and ODS; dates as in ISO 8601.

    Read by calamine, https://docs.rs/calamine: the values that formulas had when the file was saved.
    """
    if payload.startswith(b"PK"):
        require_bounded_archive(payload, "spreadsheet")
    try:
        with CalamineWorkbook.from_filelike(BytesIO(payload)) as workbook:
            sheets = list(_iter_sheets(workbook))
    except PasswordError as error:
        raise DocumentSkipped("encrypted spreadsheet") from error
    except ZipError as error:
        raise DocumentSkipped("not a spreadsheet, though its name says so") from error
    except (CalamineError, ValueError, OSError) as error:
        raise DocumentSkipped(f"broken spreadsheet ({str(error)[:200]})") from error
    metadata: Metadata = {"format": "spreadsheet", "sheets": len(sheets)}
    if any(is_cut for _, is_cut in sheets):
        metadata["note"] = TABLE_CUT_NOTE
    return ExtractedText("\n\n".join(filter(None, (text for text, _ in sheets))), "", metadata, "markdown")


def _iter_sheets(workbook: CalamineWorkbook) -> Iterator[tuple[str, bool]]:
    """The text of each visible sheet, and whether it was cut."""
    for about in workbook.sheets_metadata:
        if about.visible != SheetVisibleEnum.Visible:
            continue
        sheet = workbook.get_sheet_by_name(about.name)
        max_rows = _MAX_CELLS // max(1, sheet.total_width)
        rows = ([_format_cell(value) for value in row] for row in islice(sheet.iter_rows(), max_rows))
        text, is_cut = render_rows(rows, about.name)
        yield (f"# {about.name}\n\n{text}" if text else ""), is_cut or sheet.total_height > max_rows


def _format_cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    return value.isoformat() if isinstance(value, date | time) else str(value)
