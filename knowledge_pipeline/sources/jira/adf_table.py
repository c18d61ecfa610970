"""Tables of the Atlassian Document Format as a grid: merged cells take the places that they cover."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from knowledge_pipeline.sources.jira.adf_inline import attributes_of, children_of, type_of
from knowledge_pipeline.sources.markdown_writing import MAX_COLUMNS


def build_grid(table: Mapping[str, Any], render_cell: Callable[[Mapping[str, Any]], str]) -> list[list[str]]:
    """The text of every place, row by row.

    A cell that goes over several rows is repeated in each, so that a row can be read alone; one
    that goes over several columns leaves the further ones empty.
    """
    rows = [row if _is_row(row) else {"content": [row]} for row in children_of(table)]
    covered: dict[tuple[int, int], str] = {}
    laid: list[list[str]] = []
    for number, row in enumerate(rows):
        texts: list[str] = []
        for cell in children_of(row):
            _fill_covered(covered, number, texts)
            if not isinstance(cell, dict):
                cell = {"content": [cell]}
            if type_of(cell) not in {"tableCell", "tableHeader", ""}:
                cell = {"content": [cell]}
            wide, high = (
                _parse_span(cell, "colspan", MAX_COLUMNS),
                _parse_span(cell, "rowspan", len(rows) - number),
            )
            text = render_cell(cell)
            for below in range(1, high):
                for across in range(wide):
                    covered[number + below, len(texts) + across] = "" if across else text
            texts.extend([text, *[""] * (wide - 1)])
        _fill_covered(covered, number, texts)
        laid.append(_fold_columns(texts))
    return laid


def _is_row(node: Any) -> bool:
    return isinstance(node, dict) and type_of(node) in {"tableRow", ""}


def _fill_covered(covered: dict[tuple[int, int], str], row: int, texts: list[str]) -> None:
    while (row, len(texts)) in covered:
        texts.append(covered.pop((row, len(texts))))


def _parse_span(cell: Mapping[str, Any], name: str, maximum: int) -> int:
    value = attributes_of(cell).get(name)
    return min(maximum, max(1, value)) if isinstance(value, int) else 1


def _fold_columns(texts: list[str]) -> list[str]:
    if len(texts) <= MAX_COLUMNS:
        return texts
    return [*texts[: MAX_COLUMNS - 1], " ".join(texts[MAX_COLUMNS - 1 :])]
