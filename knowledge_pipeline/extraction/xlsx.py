"""Workbooks of Excel since 2007 (XLSX, XLSM), sheet by sheet, as a reader sees them.

A part that is broken costs itself alone.

Source: ECMA-376, part 1, section 18 (SpreadsheetML) and 20.5 (drawings in it),
https://ecma-international.org/publications-and-standards/standards/ecma-376/
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from lxml import etree

from knowledge_pipeline.extraction.markdown import format_link
from knowledge_pipeline.extraction.number_formats import BUILT_IN_FORMATS, format_number
from knowledge_pipeline.extraction.office_graphics import render_graphics
from knowledge_pipeline.extraction.office_package import Element, OfficePackage, local_name
from knowledge_pipeline.extraction.sheets import (
    BROKEN,
    SAFELY,
    Sheet,
    SheetCells,
    Workbook,
    forget,
    parse_column,
    parse_reference,
)

_LAST_ROW = 1_048_576
_ESCAPE = re.compile(r"_x(?P<code>[0-9A-Fa-f]{4})_")
_HYPERLINK = re.compile(r'\s*HYPERLINK\(\s*"(?P<url>[^"]+)"', re.IGNORECASE)
_MIDNIGHT = re.compile(r"[ T]00:00(?::00(?:\.0+)?)?Z?$")
_SHEET_TAGS = ("cols", "row", "mergeCell", "hyperlink")
_MAX_SHOWN = 20_000
_OLD_THREAD = "[Threaded comment]"  # what programs that know no threads show instead


def read_xlsx(package: OfficePackage) -> Workbook:
    """Everything that a workbook shows.

    Raises:
        DocumentSkipped: it is of another format.
        BROKEN: the file is broken.
    """
    root = _load(package, package.main)
    if local_name(root) != "workbook":
        raise package.build_broken_error("it holds something else")
    return _WorkbookReader(package, root).read()


def _load(package: OfficePackage, part: str) -> Element:
    """The root of a part. Raises LookupError, which is one of BROKEN: it is missing or damaged."""
    root = package.load(part)
    if root is None:
        raise LookupError(part)
    return root


class _WorkbookReader:
    """Reads the sheets of one workbook, which share their texts and styles."""

    def __init__(self, package: OfficePackage, root: Element) -> None:
        self._package, self._root = package, root
        self._relations = package.relations(package.main)
        self._result = Workbook(not_read=package.unread)
        self._is_1904 = any(_is_true(about.get("date1904")) for about in root.iter("{*}workbookPr"))
        self._texts = list(self._iter_texts())
        self._formats = self._read_formats()
        self._shown: dict[tuple[str, str | None], str] = {}  # of numbers and styles that came already
        self._people = self._read_people()

    def read(self) -> Workbook:
        for about in self._root.iter("{*}sheet"):
            if about.get("state", "visible") != "visible":
                self._result.hidden["sheet"] += 1
                continue
            sheet = Sheet(about.get("name", ""))
            try:
                self._read_sheet(sheet, self._relations[_relation_id(about)].target)
            except BROKEN:  # it costs itself alone
                self._result.not_read["sheet"] += 1
            else:
                self._result.sheets.append(sheet)
        return self._result

    def _parts(self, kind: str) -> list[str]:
        return [relation.target for relation in self._relations.values() if relation.kind == kind]

    def _iter_texts(self) -> Iterator[str]:
        for path in self._parts("sharedStrings"):
            with self._package.open(path) as part:
                for _, item in etree.iterparse(part, tag="{*}si", **SAFELY):
                    yield _read_rich_text(item)
                    forget(item)

    def _read_formats(self) -> dict[str, str]:
        """The code of each style of a cell, by the style's number."""
        try:
            root = _load(self._package, self._parts("styles")[0])
        except BROKEN:  # numbers are then shown as they are stored
            return {}
        own = {format.get("numFmtId"): format.get("formatCode", "") for format in root.iter("{*}numFmt")}
        styles = next(root.iter("{*}cellXfs"), ())
        ids = enumerate(style.get("numFmtId", "0") for style in styles)
        return {str(at): own.get(id_) or BUILT_IN_FORMATS.get(_to_int(id_), "General") for at, id_ in ids}

    def _read_people(self) -> dict[str, str]:
        people: dict[str, str] = {}
        for path in self._parts("person"):
            try:
                root = _load(self._package, path)
            except BROKEN:  # who wrote a comment is then not told
                return {}
            people |= {
                person.get("id", ""): person.get("displayName", "") for person in root.iter("{*}person")
            }
        return people

    def _read_sheet(self, sheet: Sheet, path: str) -> None:
        relations = self._package.relations(path)
        cells = SheetCells()
        with self._package.open(path) as part:
            tags = [f"{{*}}{tag}" for tag in _SHEET_TAGS]
            for _, element in etree.iterparse(part, tag=tags, **SAFELY):
                kind = local_name(element)
                if kind == "row":
                    self._read_row(element, cells)
                    forget(element)
                elif kind == "cols":
                    for column in element:
                        if _is_true(column.get("hidden")):
                            first = _to_int(column.get("min")) - 1
                            cells.hide_columns(first, _to_int(column.get("max")) - first)
                elif start := parse_reference((ends := element.get("ref", "").partition(":"))[0]):
                    link = relations.get(_relation_id(element))
                    if kind == "hyperlink" and link and link.target:
                        cells.links[start] = link.target
                    elif kind == "mergeCell" and (end := parse_reference(ends[2])):
                        cells.merges.append((start, end))
        cells.finish(sheet, self._result)
        for kind, target in sorted((relation.kind, relation.target) for relation in relations.values()):
            try:
                if kind in ("comments", "threadedComment"):
                    self._read_comments(sheet, target, cells)
                elif kind == "drawing":
                    self._read_drawing(sheet, target)
                elif kind in ("oleObject", "package"):
                    self._result.not_read["embedded object"] += 1
            except BROKEN:  # as above
                self._result.not_read["drawing" if kind == "drawing" else "list of comments"] += 1

    def _read_row(self, row: Any, cells: SheetCells) -> None:
        number = min(_to_int(row.get("r")) or cells.last_row + 1, _LAST_ROW)
        cells.last_row = number
        if cells.is_full:
            return
        if _is_true(row.get("hidden")):
            cells.hidden_rows.add(number)
        column, texts = -1, dict[int, str]()
        for cell in row:
            position = parse_column(cell.get("r", "").rstrip("0123456789"))
            column = column + 1 if position is None else position
            if len(cell) and (text := self._read_cell(cell, cells)):
                texts[column] = text
        cells.write_row(number, texts)

    def _read_cell(self, cell: Any, cells: SheetCells) -> str:
        kind, value, formula = cell.get("t", "n"), "", None
        for child in cell:
            tag: str = child.tag
            if tag.endswith("}v"):
                value = child.text or ""
            elif tag.endswith("}f"):
                formula = child.text or ""
            elif tag.endswith("}is"):
                value = _read_rich_text(child)
        if not value:
            if formula is None or kind == "str":
                return ""
            cells.formulas += 1
            return f"={formula}" if formula else ""
        text = self._format_number(value, cell.get("s")) if kind == "n" else self._format_value(kind, value)
        link = _HYPERLINK.match(formula) if formula else None
        return format_link(text, link["url"]) if link else text

    def _format_value(self, kind: str, value: str) -> str:
        if kind == "s":
            try:
                return self._texts[int(value)]
            except (LookupError, ValueError):
                return ""
        if kind == "b":
            return str(_is_true(value))
        if kind == "d":
            return _MIDNIGHT.sub("", value).replace("T", " ")
        return _unescape(value) if kind == "str" else value  # errors, and texts that are here

    def _format_number(self, value: str, style: str | None) -> str:
        shown = self._shown.get((value, style))
        if shown is None:
            shown = self._show_number(value, self._formats.get(style or "0", "General"))
            if len(self._shown) < _MAX_SHOWN:
                self._shown[value, style] = shown
        return shown

    def _show_number(self, value: str, code: str) -> str:
        if code == "General" and len(value) < 16 and value.isdecimal():
            return value
        try:
            number = float(value)
        except ValueError:
            return value
        return format_number(number, code, is_1904=self._is_1904) if math.isfinite(number) else value

    def _read_comments(self, sheet: Sheet, path: str, cells: SheetCells) -> None:
        root = _load(self._package, path)
        authors = [author.text or "" for author in root.iter("{*}author")]
        for comment in root.iter("{*}comment", "{*}threadedComment"):
            position, text = comment.get("ref", ""), " ".join(_read_rich_text(comment).split())
            if local_name(comment) == "threadedComment":
                author = self._people.get(comment.get("personId", ""), "")
            else:
                at = _to_int(comment.get("authorId"))
                author = authors[at] if at < len(authors) else ""
                if text.startswith(_OLD_THREAD) or author.startswith("tc="):  # its thread is read
                    continue
            if text and not cells.is_hidden(parse_reference(position)):
                comment_text = text if not author or text.startswith(f"{author}:") else f"{author}: {text}"
                sheet.comments.append(f"{position}: {comment_text}")

    def _read_drawing(self, sheet: Sheet, path: str) -> None:
        root = _load(self._package, path)
        for fallback in list(root.iter("{*}Fallback")):  # the same once more, for old programs
            fallback.getparent().remove(fallback)
        for shape in root.iter("{*}sp", "{*}pic", "{*}graphicFrame"):
            about = next(shape.iter("{*}cNvPr"), None)
            described = " ".join((about.get("descr") or "").split()) if about is not None else ""
            if local_name(shape) == "sp":
                paragraphs = (
                    "".join(text.text or "" for text in it.iter("{*}t")) for it in shape.iter("{*}p")
                )
                text = "\n".join(" ".join(words) for paragraph in paragraphs if (words := paragraph.split()))
                sheet.texts.extend(filter(None, [text]))
            elif local_name(shape) == "pic":
                if described:
                    sheet.texts.append(f"Picture: {described}")
                else:
                    self._result.not_read["picture"] += 1
            else:
                sheet.texts += [f"Chart: {described}"] if described else []
                sheet.texts += render_graphics(self._package, path, shape)
                if next(shape.iter("{*}chart", "{*}relIds"), None) is None:
                    self._result.not_read["drawing"] += 1


def _read_rich_text(element: Any) -> str:
    """The text of an element's runs, without its readings in kana."""
    if len(element) == 1 and element[0].tag.endswith("}t"):  # as most are
        return _unescape(element[0].text or "")
    runs = (text for text in element.iter("{*}t", "{*}text") if local_name(text.getparent()) != "rPh")
    return _unescape("".join(run.text or "" for run in runs))


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match["code"], 16)), text) if "_x" in text else text


def _relation_id(element: Any) -> str:
    return next((value for name, value in element.attrib.items() if name.endswith("}id")), "")


def _is_true(value: str | None) -> bool:
    return value in ("1", "true", "on")


def _to_int(value: str | None) -> int:
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 10 else 0
