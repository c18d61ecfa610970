"""Tables of the Atlassian Document Format as a grid: merged cells take the places that they cover."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from knowledge_pipeline.sources.jira.adf_inline import attributes, nodes_of, type_of
from knowledge_pipeline.sources.markdown_writing import MOST_COLUMNS


def grid(table: Mapping[str, Any], text_of: Callable[[Mapping[str, Any]], str]) -> list[list[str]]:
    """The text of every place, row by row.

    A cell that goes over several rows is repeated in each, so that a row can be read alone; one
    that goes over several columns leaves the further ones empty.
    """
    rows = [row if _is_row(row) else {"content": [row]} for row in nodes_of(table)]
    covered: dict[tuple[int, int], str] = {}
    laid: list[list[str]] = []
    for number, row in enumerate(rows):
        texts: list[str] = []
        for cell in nodes_of(row):
            _take_covered(covered, number, texts)
            if not isinstance(cell, dict):
                cell = {"content": [cell]}
            if type_of(cell) not in {"tableCell", "tableHeader", ""}:
                cell = {"content": [cell]}
            wide, high = _span(cell, "colspan", MOST_COLUMNS), _span(cell, "rowspan", len(rows) - number)
            text = text_of(cell)
            for below in range(1, high):
                for across in range(wide):
                    covered[number + below, len(texts) + across] = "" if across else text
            texts.extend([text, *[""] * (wide - 1)])
        _take_covered(covered, number, texts)
        laid.append(_folded(texts))
    return laid


def _is_row(node: Any) -> bool:
    return isinstance(node, dict) and type_of(node) in {"tableRow", ""}


def _take_covered(covered: dict[tuple[int, int], str], row: int, texts: list[str]) -> None:
    while (row, len(texts)) in covered:
        texts.append(covered.pop((row, len(texts))))


def _span(cell: Mapping[str, Any], name: str, most: int) -> int:
    value = attributes(cell).get(name)
    return min(most, max(1, value)) if isinstance(value, int) else 1


def _folded(texts: list[str]) -> list[str]:
    if len(texts) <= MOST_COLUMNS:
        return texts
    return [*texts[: MOST_COLUMNS - 1], " ".join(texts[MOST_COLUMNS - 1 :])]
