"""Word documents as Markdown: headings, lists, tables, links, notes; insertions, but no deletions.

Source: ECMA-376, part 1, section 17 (WordprocessingML), https://ecma-international.org/publications-and-standards/standards/ecma-376/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from docx import Document as open_docx
from docx.document import Document as WordDocument
from docx.opc.constants import RELATIONSHIP_TYPE as RELATION
from docx.opc.part import Part
from docx.oxml import parse_xml

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.sources.files.docx_lists import ListNumbering
from knowledge_pipeline.sources.files.office_archive import describe_broken_archive, require_bounded_archive
from knowledge_pipeline.sources.files.text_decoding import ExtractedText
from knowledge_pipeline.sources.markdown_writing import MAX_COLUMNS, format_link, format_table, parse_span

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
_TEXT_BY_NAME = {"br": "\n", "cr": "\n", "noBreakHyphen": "-", "tab": " ", "ptab": " "}
_TEXT_BY_TAG = {f"{_W}{name}": text for name, text in _TEXT_BY_NAME.items()}
_NOTE_PREFIXES = {f"{_W}footnoteReference": "", f"{_W}endnoteReference": "end"}
_DRAWING_TAGS = frozenset({f"{_W}drawing", f"{_W}pict", f"{_W}object"})


def read_docx(payload: bytes) -> ExtractedText:
    """Paragraphs and tables in order, then notes, as Markdown; headers, footers and comments are left out.

    What tracked changes inserted is there, what they deleted is not, and neither is hidden text.

    Raises:
        DocumentSkipped: no Word document, broken, encrypted, or it unpacks to too much.
    """
    require_bounded_archive(payload, "DOCX")
    try:
        document = open_docx(BytesIO(payload))
        text = _to_markdown(document)
        written = document.core_properties.title
    except Exception as error:  # a broken file: zipfile, zlib, lxml and python-docx raise many kinds
        raise DocumentSkipped(describe_broken_archive(payload, "DOCX", error)) from error
    first = re.search(r"^#+ (.+)$", text, re.MULTILINE)
    title = " ".join((written or "").split()) or (first[1] if first else "")
    return ExtractedText(text, title, {"format": "docx"}, language="markdown")


def _to_markdown(document: WordDocument) -> str:
    styles = {style.style_id: style.name or "" for style in document.styles}
    writer = DocxRenderer(styles, _links_by_id(document.part), _load_numbering(document))
    text = writer.render(document.element.body)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # typed as any element
    notes: dict[str, str] = {}
    for relation in document.part.rels.values():
        if relation.reltype in (RELATION.FOOTNOTES, RELATION.ENDNOTES):
            kind = "end" if relation.reltype == RELATION.ENDNOTES else ""
            notes |= {kind + id_: note for id_, note in _iter_notes(relation.target_part, styles)}
    note_lines = (f"[^{name}]: {notes[name]}" for name in dict.fromkeys(writer.note_names) if notes.get(name))
    return "\n\n".join(filter(None, [text, *note_lines]))


def _load_numbering(document: WordDocument) -> ListNumbering:
    rels = document.part.rels.values()
    found = (each.target_part for each in rels if each.reltype == RELATION.NUMBERING)
    styles: dict[str, Any] = {style.style_id: style.element for style in document.styles}
    return ListNumbering(next((parse_xml(each.blob) for each in found), None), styles)


def _links_by_id(part: Part) -> dict[str, str]:
    relations = part.rels.items()
    return {id_: each.target_ref for id_, each in relations if each.reltype == RELATION.HYPERLINK}


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
        if item := self.numbering.find_item(paragraph, style_id):
            return f"{'  ' * item.level}{item.marker} {text}"
        return text

    def _iter_table(self, element: Any) -> Iterator[str]:
        """A table; one of one cell a row, or with tables in it, is laid out."""
        kept = (row for row in _iter_nested(element, "tr") if _find_child(row, "trPr", "del") is None)
        rows = [list(_iter_nested(row, "tc")) for row in kept]
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
                boxes = list(_iter_text_boxes(element))
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
            yield from (each for choice in element[:1] for each in _iter_elements(choice))
        elif isinstance(element.tag, str):
            yield element


def _iter_text_boxes(drawing: Any) -> Iterator[Any]:
    for element in _iter_elements(drawing):
        if element.tag == f"{_W}txbxContent":
            yield element
        else:
            yield from _iter_text_boxes(element)


def _describe_picture(drawing: Any) -> str:
    """The alternative text of a picture, if somebody wrote one."""
    for element in drawing.iter(f"{_WP}docPr", f"{_V}shape"):
        if written := element.get("descr") or element.get("alt"):
            return " ".join(str(written).split())
    return ""


def _iter_nested(container: Any, name: str) -> Iterator[Any]:
    """Rows of a table or cells of a row, also those within content controls."""
    for element in _iter_elements(container):
        if element.tag == f"{_W}{name}":
            yield element
        elif element.tag not in _SKIPPED_TAGS and element.tag not in (f"{_W}tc", f"{_W}tr"):
            yield from _iter_nested(element, name)


def _find_child(element: Any, *names: str) -> Any:
    return element.find("/".join(f"{_W}{name}" for name in names))


def _get_value(element: Any, *names: str) -> str | None:
    found = _find_child(element, *names)
    return None if found is None else found.get(f"{_W}val")


def _is_hidden(element: Any) -> bool:
    vanished = _find_child(element, "rPr", "vanish") if element.tag == f"{_W}r" else None
    return vanished is not None and vanished.get(f"{_W}val", "true") not in ("0", "false", "off")
