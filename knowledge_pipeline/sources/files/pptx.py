"""Presentations as Markdown: a heading for each slide, its texts, tables, and the speaker's notes.

Source: ECMA-376, part 1, section 19 (PresentationML), https://ecma-international.org/publications-and-standards/standards/ecma-376/
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

from pptx import Presentation
from pptx.enum.shapes import PP_PLACEHOLDER

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.sources.files.office_archive import describe_broken_archive, require_bounded_archive
from knowledge_pipeline.sources.files.text_decoding import ExtractedText
from knowledge_pipeline.sources.markdown_writing import TableCell, expand_spans, format_table

_LEFT_OUT = frozenset({PP_PLACEHOLDER.DATE, PP_PLACEHOLDER.FOOTER, PP_PLACEHOLDER.SLIDE_NUMBER})


def read_pptx(payload: bytes) -> ExtractedText:
    """The slides in order, hidden ones too; of pictures their description, if somebody wrote one.

    Raises:
        DocumentSkipped: no presentation, broken, encrypted, or it unpacks to too much.
    """
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
    return ExtractedText(text, title or _find_title(slides), metadata, language="markdown")


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


def _find_title(slides: list[Any]) -> str:
    return next((title for slide in slides if (title := _title_of(slide))), "")


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
        elif described := _describe_picture(shape):
            yield f"Picture: {described}"


def _render_text(frame: Any) -> str:
    """One paragraph as it is; several as a list, by their levels."""
    lines = [(each.level, _join_lines(each.text)) for each in frame.paragraphs if each.text.strip()]
    if len(lines) < 2:
        return "".join(text for _, text in lines)
    return "\n".join(f"{'  ' * level}- {text}" for level, text in lines)


def _render_table(table: Any) -> str:
    def to_cell(cell: Any) -> TableCell:
        return TableCell(_join_lines(cell.text), cell.span_height, cell.span_width)

    rows = ([to_cell(cell) for cell in row.cells if not cell.is_spanned] for row in table.rows)
    return format_table(expand_spans(rows))


def _describe_picture(shape: Any) -> str:
    """The alternative text of a picture, or of a chart."""
    named = shape.element.xpath(".//p:cNvPr")
    return " ".join(str(named[0].get("descr") or "").split()) if named else ""


def _join_lines(text: str) -> str:
    return " ".join(text.replace("\v", "\n").split())
