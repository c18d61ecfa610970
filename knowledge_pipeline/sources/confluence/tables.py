"""Tables of a Confluence page as Markdown.

A table with code or tables in its cells, or with one cell a row, becomes a sequence of blocks instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from knowledge_pipeline.sources.confluence.tree import Element, PageWriter, get_attribute, name_of
from knowledge_pipeline.sources.markdown_writing import TableCell, expand_spans, format_table, parse_span

_SECTION_ELEMENTS = frozenset({"thead", "tbody", "tfoot"})
_SKIPPED_ELEMENTS = frozenset({"col", "colgroup"})


def render_table_blocks(writer: PageWriter, table: Element) -> Iterator[str]:
    """A table, and before it what it holds outside of its rows: a caption."""
    elements: list[Element] = []
    for element in table:
        elements += element if name_of(element) in _SECTION_ELEMENTS else (element,)
    rows: list[list[tuple[Element, list[str]]]] = []  # each cell with its blocks
    for element in elements:
        if name_of(element) == "tr":
            cells = (cell for cell in element if name_of(cell) in ("td", "th"))
            rows.append([(cell, list(writer.render_blocks(cell))) for cell in cells])
        elif name_of(element) not in _SKIPPED_ELEMENTS:
            yield from writer.render_blocks(element)
    rows = [row for row in rows if any(blocks for _, blocks in row)]
    laid_out = [block for row in rows for _, blocks in row for block in blocks]
    has_structure = any(block.startswith(("```", "|")) or "\n```" in block for block in laid_out)
    if has_structure or all(len(row) == 1 for row in rows):
        yield from laid_out
    else:
        yield format_table(expand_spans([_build_cell(*cell) for cell in row] for row in rows))


def _build_cell(element: Element, blocks: list[str]) -> TableCell:
    lines = (line.strip() for block in blocks for line in block.splitlines())
    text = " / ".join(line for line in lines if line)
    rowspan, colspan = (parse_span(get_attribute(element, name)) for name in ("rowspan", "colspan"))
    return TableCell(text, rowspan, colspan)
