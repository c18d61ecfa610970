"""Word documents as Markdown.

Source: ECMA-376, part 1, section 17 (WordprocessingML),
https://ecma-international.org/publications-and-standards/standards/ecma-376/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from email import message_from_bytes, policy

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.docx_numbering import (
    ListNumbering,
    Style,
    Styles,
    W,
    find_child,
    get_value,
    is_set,
    parse_level,
    read_font,
)
from knowledge_pipeline.extraction.html import read_html
from knowledge_pipeline.extraction.markdown import (
    MAX_COLUMNS,
    find_first_heading,
    format_link,
    format_table,
    parse_span,
)
from knowledge_pipeline.extraction.office_graphics import read_paragraphs, render_graphics
from knowledge_pipeline.extraction.office_math import RAISED, M, format_formula, write_raised
from knowledge_pipeline.extraction.office_package import A, Element, OfficePackage, R, iter_elements
from knowledge_pipeline.extraction.office_symbols import decode_symbols, has_symbols
from knowledge_pipeline.extraction.text_decoding import ExtractedText, add_unread, decode_text

_MAIN = "word/document.xml"
_WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_V = "{urn:schemas-microsoft-com:vml}"
_O = "{urn:schemas-microsoft-com:office:office}"
_LIST_STYLE = re.compile(r"^list (?P<kind>bullet|number)(?: (?P<level>\d))?$", re.IGNORECASE)
_HYPERLINK = re.compile(
    r'^\s*HYPERLINK\s+(?:"(?P<quoted>[^"]+)"|(?P<bare>[^\s"\\]+))(?:[^"]*\\l\s*"(?P<anchor>[^"]+)")?',
    re.IGNORECASE,
)
_TYPED_ITEM = re.compile(r"^ *(?:-|1\.) ")
_NUMBERED_ITEM = re.compile(r"^\d{1,9}[.)]$")
_SKIPPED_NAMES = (
    *("del", "moveFrom", "pPr", "rPr", "sdtPr", "rubyPr", "rt"),
    *("tblPr", "tblGrid", "trPr", "tcPr", "sectPr"),
)
_SKIPPED_TAGS = frozenset(f"{W}{name}" for name in _SKIPPED_NAMES)
_CLOSED_TAGS = _SKIPPED_TAGS | {f"{W}tc", f"{W}tr"}
_TEXT_BY_NAME = {"br": "\n", "cr": "\n", "noBreakHyphen": "-", "tab": " ", "ptab": " "}
_TEXT_BY_TAG = {f"{W}{name}": text for name, text in _TEXT_BY_NAME.items()}
_NOTE_PREFIXES = {f"{W}footnoteReference": "", f"{W}endnoteReference": "end"}
_DRAWING_TAGS = frozenset({f"{W}drawing", f"{W}pict", f"{W}object"})
_MAX_OUTLINE_CHARS = 200  # of a heading by its outline level: a longer one is a clause with a level


class ListItem(str):
    """A block that is an item of a list: it stands on the line after the one before it."""

    __slots__ = ()


def read_docx(payload: bytes) -> ExtractedText:
    """Paragraphs and tables in order, then notes, as Markdown; headers and footers are left out.

    What tracked changes inserted is there, what they deleted is not, and neither is hidden text. Metadata's
    `note` counts comments, embedded objects, and what could not be read.
    """
    package = OfficePackage(payload, "DOCX", _MAIN)
    try:
        text = _to_markdown(package)
        title = package.title
    except DocumentSkipped:
        raise
    except Exception as error:  # what nobody thought of in a file that somebody broke
        raise package.build_broken_error() from error
    title = "" if title == "Word Document" else title  # as python-docx calls all that it makes
    metadata = add_unread({"format": "docx"}, package.unread)
    return ExtractedText(text, title or find_first_heading(text), metadata, language="markdown")


def _to_markdown(package: OfficePackage) -> str:
    body = package.require_main(f"{W}document")
    main = package.main
    styles = Styles(next((root for _, root in package.load_related(main, "styles")), None))
    numbering = next((root for _, root in package.load_related(main, "numbering")), None)
    writer = DocxRenderer(package, main, styles, ListNumbering(numbering))
    text = writer.render(body)
    notes: dict[str, str] = {}
    for kind, prefix in (("footnotes", ""), ("endnotes", "end")):
        for part, root in package.load_related(main, kind):
            notes |= {prefix + id_: note for id_, note in _iter_notes(package, part, root, styles)}
    for _, root in package.load_related(main, "comments"):
        package.unread["comment"] += sum(1 for _ in root.iter(f"{W}comment"))
    note_lines = (f"[^{name}]: {notes[name]}" for name in dict.fromkeys(writer.note_names) if notes.get(name))
    return "\n\n".join(filter(None, [text, *note_lines]))


def _iter_notes(
    package: OfficePackage, part: str, root: Element, styles: Styles
) -> Iterator[tuple[str, str]]:
    writer = DocxRenderer(package, part, styles, ListNumbering(None))
    for element in iter_elements(root):
        names = [value for key, value in element.attrib.items() if key.endswith("}id")]
        yield "".join(names), " ".join(" ".join(writer.iter_blocks(element)).split())


class DocxRenderer:
    """Writes one part of a document."""

    def __init__(self, package: OfficePackage, part: str, styles: Styles, numbering: ListNumbering) -> None:
        self.package, self.part, self.styles = package, part, styles
        self._numbering = numbering
        self.note_names: list[str] = []  # "1", "end1", in the order of their mention

    def render(self, container: Element) -> str:
        """All blocks of an element, the items of a list on lines without others between."""
        text: list[str] = []
        was_item = False
        for block in self.iter_blocks(container):
            is_item = isinstance(block, ListItem) or _TYPED_ITEM.match(block) is not None
            text += ["\n" if was_item and is_item else "\n\n", block]
            was_item = is_item and "\n" not in block
        return "".join(text[1:])

    def iter_blocks(self, container: Element, *, in_cell: bool = False) -> Iterator[str]:
        """Paragraphs and tables, also those within content controls; in a cell nothing is a heading."""
        for element in iter_elements(container):
            if element.tag == f"{W}p":
                line = _ParagraphText(self)
                line.add(element)
                text = line.join().strip()
                if block := self._apply_style(text, element, in_cell=in_cell):
                    yield block
                for hanging in line.hanging:
                    if isinstance(hanging, str):
                        yield hanging
                    else:
                        yield from self.iter_blocks(hanging, in_cell=in_cell)
            elif element.tag == f"{W}tbl":
                yield from self._iter_table(element)
            elif element.tag == f"{W}altChunk":
                yield from filter(None, [self._read_chunk(element)])
            elif element.tag not in _SKIPPED_TAGS:
                yield from self.iter_blocks(element, in_cell=in_cell)

    def _apply_style(self, text: str, paragraph: Element, *, in_cell: bool) -> str:
        """A paragraph after its mark; also one without text takes a number, which nobody sees alone."""
        properties = find_child(paragraph, "pPr")
        style_id = get_value(properties, "pStyle") or ""
        style = self.styles[style_id]
        gone = find_child(properties, "rPr", "del") is not None
        numbered = None if gone else self._numbering.next_label(properties, style_id, style)
        if not text:
            return ""
        at, label = numbered or (0, "")
        level = _heading_level(text, properties, style)
        if level and not in_cell:
            number = "" if label == "-" else label
            return f"{'#' * level} {' '.join([number, *text.split()]).strip()}"
        if listed := _LIST_STYLE.match(style.name):
            at = int(listed["level"] or 1) - 1
            label = label or ("-" if listed["kind"].lower() == "bullet" else "1.")
        if label == "-" or _NUMBERED_ITEM.match(label):
            return ListItem(f"{'  ' * at}{label} {text}")
        return f"{label} {text}" if label else text

    def _iter_table(self, element: Element) -> Iterator[str]:
        """A table; one of one cell a row, or with tables in it, is laid out."""
        kept = (
            row for row in _iter_nested(element, "tr", _CLOSED_TAGS) if find_child(row, "trPr", "del") is None
        )
        rows = [list(_iter_nested(row, "tc", _CLOSED_TAGS)) for row in kept]
        nested = any(next(cell.iter(f"{W}tbl"), None) is not None for row in rows for cell in row)
        if nested or all(len(row) < 2 for row in rows):
            for row in rows:
                for cell in row:
                    yield from self.iter_blocks(cell)
        elif written := format_table(list(self._iter_rows(rows))):
            yield written

    def _iter_rows(self, rows: list[list[Element]]) -> Iterator[list[str]]:
        """Texts of cells; a cell that spans rows is repeated in each, one that spans columns is not."""
        above: dict[int, str] = {}
        for row in rows:
            written: list[str] = []
            for cell in row:
                column = len(written)
                merged = find_child(cell, "tcPr", "vMerge")
                goes_on = merged is not None and merged.get(f"{W}val", "continue") == "continue"
                text = above.get(column, "") if goes_on else " ".join(self.iter_blocks(cell, in_cell=True))
                columns = parse_span(get_value(cell, "tcPr", "gridSpan") or "1", MAX_COLUMNS)
                written += [text, *[""] * (columns - 1)]
                above[column] = text
            yield written

    def _read_chunk(self, element: Element) -> str:
        """A page or a text that the document takes in as it is; other formats are counted."""
        relation = self.package.relations(self.part).get(element.get(f"{R}id", ""))
        name = "" if relation is None or relation.external else relation.target
        if name in self.package.rendered:
            return ""
        self.package.rendered.add(name)
        content = self.package.read(name)
        with suppress(DocumentSkipped, LookupError, ValueError, RecursionError):
            if text := self._read_foreign(name.rpartition(".")[2].lower(), content or b""):
                return text
        self.package.unread["included file"] += 1
        return ""

    def _read_foreign(self, extension: str, content: bytes) -> str:
        if extension in ("mht", "mhtml"):
            page = message_from_bytes(content, policy=policy.default).get_body(("html",))
            packed = None if page is None else page.get_payload(decode=True)
            content = packed if isinstance(packed, bytes) else b""
            extension = "html"
        if extension in ("htm", "html", "xhtml"):
            return read_html(content).text.strip()
        if extension == "docx" and not self.package.included:  # one may contain itself
            return _to_markdown(OfficePackage(content, "DOCX", _MAIN, included=True))
        return decode_text(content).text.strip() if extension == "txt" else ""


def _heading_level(text: str, properties: Element | None, style: Style) -> int:
    """From 1 to 6; 0 for what is no heading."""
    if style.named_level:
        return min(style.named_level, 6)
    own = parse_level(get_value(properties, "outlineLvl"), 9)
    outline = style.outline if own is None else own
    if outline is None or outline > 8 or len(text) > _MAX_OUTLINE_CHARS:
        return 0
    return min(outline + 1, 6)


class _ParagraphText:
    """Collects the text of one paragraph; a field's text is held back until its end."""

    def __init__(self, writer: DocxRenderer) -> None:
        self._writer = writer
        self._fields: list[tuple[list[str], list[str]]] = [([], [])]  # instruction and text of each open one
        self.hanging: list[Element | str] = []  # text boxes and graphics

    def join(self) -> str:
        while len(self._fields) > 1:  # it goes on in the next paragraph
            self._close_field()
        return write_raised("".join(self._fields[0][1]))

    def add(self, container: Element) -> None:
        for element in iter_elements(container):
            tag = element.tag
            if tag == f"{W}r":
                self._add_run(element)
            elif tag in (f"{W}t", f"{M}t"):
                self._write(element.text or "")
            elif tag in _TEXT_BY_TAG:
                self._write(_TEXT_BY_TAG[tag])
            elif tag == f"{W}sym":
                self._add_symbol(element)
            elif tag == f"{M}oMath":
                self._write(format_formula(element))
            elif tag in _NOTE_PREFIXES:
                name = _NOTE_PREFIXES[tag] + element.get(f"{W}id", "")
                self._writer.note_names.append(name)
                self._write(f"[^{name}]")
            elif tag in (f"{W}hyperlink", f"{W}fldSimple"):
                self._add_link(element)
            elif tag == f"{W}fldChar":
                self._add_field_mark(element)
            elif tag == f"{W}instrText":
                self._fields[-1][0].append(element.text or "")
            elif tag in _DRAWING_TAGS:
                self._add_drawing(element)
            elif tag not in _SKIPPED_TAGS:
                self.add(element)

    def _write(self, text: str) -> None:
        self._fields[-1][1].append(text)

    def _add_run(self, run: Element) -> None:
        """A run's text, between marks where it is raised, and without the code points of symbols' fonts."""
        properties = find_child(run, "rPr")
        if properties is None:
            return self.add(run)
        if is_set(properties, "vanish"):
            return None
        style = self._writer.styles[get_value(properties, "rStyle") or ""]
        raised = get_value(properties, "vertAlign")
        is_raised = style.raised if raised is None else raised == "superscript"
        texts, depth = self._fields[-1][1], len(self._fields)
        start = len(texts)
        self.add(run)
        if len(self._fields) != depth or len(texts) == start:
            return None
        text = "".join(texts[start:])
        if has_symbols(text):
            text = decode_symbols(text, read_font(properties) or style.font)
        texts[start:] = [RAISED.format(text) if is_raised and "[^" not in text else text]
        return None

    def _add_symbol(self, element: Element) -> None:
        code = element.get(f"{W}char", "")
        with suppress(ValueError, OverflowError):
            character = chr(int(code[:6], 16))
            text = decode_symbols(character, element.get(f"{W}font", ""))
            if text == character and 0xE000 <= ord(character) <= 0xF8FF:
                self._writer.package.unread["symbol"] += 1
            elif text.isprintable():
                self._write(text)

    def _add_field_mark(self, element: Element) -> None:
        kind = element.get(f"{W}fldCharType")
        if kind == "begin":
            self._fields.append(([], []))
            self._write(_read_form_field(element))
        elif kind == "end" and len(self._fields) > 1:
            self._close_field()

    def _add_drawing(self, element: Element) -> None:
        boxes = list(_iter_nested(element, "txbxContent"))
        package = self._writer.package
        graphics = list(render_graphics(package, self._writer.part, element))
        self.hanging += [*boxes, *graphics]
        if next(element.iter(f"{_O}OLEObject"), None) is not None:
            package.unread["embedded object"] += 1
        if not boxes and not graphics and (shown := self._describe_picture(element)):
            self._write(shown)

    def _describe_picture(self, drawing: Element) -> str:
        """The words in a picture, or the alternative text, if somebody wrote one; its link."""
        words = (shape.get("string", "") for shape in drawing.iter(f"{_V}textpath"))
        if text := " ".join(filter(None, [read_paragraphs(drawing), *words])):
            return text
        described, url = "", ""
        for element in drawing.iter(f"{_WP}docPr", f"{_V}shape", f"{A}hlinkClick"):
            if element.tag == f"{A}hlinkClick":
                url = url or self._writer.package.find_link(self._writer.part, element.get(f"{R}id", ""))
            else:
                url = url or element.get("href", "")
                described = described or str(element.get("descr") or element.get("alt") or "")
        label = f"image: {' '.join(described.split())}" if described.strip() else "image" if url else ""
        return format_link(label, url) if url else f"[{label}]" if label else ""

    def _add_link(self, element: Element) -> None:
        url = self._writer.package.find_link(self._writer.part, element.get(f"{R}id", ""))
        if url and (anchor := element.get(f"{W}anchor")) and "#" not in url:
            url = f"{url}#{anchor}"
        instruction = f'HYPERLINK "{url}"' if url else element.get(f"{W}instr", "")
        depth = len(self._fields)
        self._fields.append(([instruction], []))
        self.add(element)
        while len(self._fields) > depth:
            self._close_field()

    def _close_field(self) -> None:
        instruction, texts = self._fields.pop()
        text, target = "".join(texts), _HYPERLINK.match("".join(instruction))
        if target and (words := text.strip()):  # the white space around it is no part of the link
            url = (target["quoted"] or target["bare"]).strip().replace(" ", "%20")
            url = f"{url}#{target['anchor']}" if target["anchor"] and "#" not in url else url
            text = text.replace(words, format_link(words, url), 1)
        self._write(text)


def _read_form_field(mark: Element) -> str:
    """What the state of a box or of a list of an old form says; texts of others follow in their runs."""
    box = find_child(mark, "ffData", "checkBox")
    if box is not None:
        state = "checked" if find_child(box, "checked") is not None else "default"
        return "\N{BALLOT BOX WITH X}" if is_set(box, state) else "\N{BALLOT BOX}"
    choice = find_child(mark, "ffData", "ddList")
    if choice is None:
        return ""
    entries = [entry.get(f"{W}val", "") for entry in choice.iterchildren(f"{W}listEntry")]
    at = parse_level(get_value(choice, "result") or get_value(choice, "default") or "0", len(entries)) or 0
    return next(iter(entries[at : at + 1]), "")


def _iter_nested(container: Element, name: str, closed: Iterable[str] = frozenset()) -> Iterator[Element]:
    """Elements of a name, also those within others, such as content controls, but for closed ones."""
    for element in iter_elements(container):
        if element.tag == f"{W}{name}":
            yield element
        elif element.tag not in closed:
            yield from _iter_nested(element, name, closed)
