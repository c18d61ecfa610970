"""Which paragraphs of a Word document are items of a list, by its numbering definitions.

Source: ECMA-376, part 1, section 17.9 (Numbering), https://ecma-international.org/publications-and-standards/standards/ecma-376/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_MAX_LEVEL = 8


@dataclass(frozen=True, slots=True)
class ListItem:
    """How an item is written: "-" or "1.", and how far in, counted from 0."""

    marker: str
    level: int


class ListNumbering:
    """The lists of one document.

    Args:
        numbering: the root of its numbering part; None where it has no lists.
        styles: the elements of its styles, by their ids.
    """

    def __init__(self, numbering: Any, styles: Mapping[str, Any]) -> None:
        """Read the definitions."""
        self._markers = {} if numbering is None else dict(_iter_markers(numbering))
        self._styles = styles

    def find_item(self, paragraph: Any, style_id: str) -> ListItem | None:
        """The item that a paragraph is, by its own properties or those of its style; None: of no list."""
        number, level = _read_number(paragraph)
        styled, styled_level = _read_number(self._styles.get(style_id))
        number, level = number or styled, level or styled_level or "0"
        if number in (None, "0") or not level.isdigit():
            return None
        at = min(int(level), _MAX_LEVEL)
        marker = self._markers.get((number, at))
        return ListItem(marker, at) if marker else None


def _read_number(element: Any) -> tuple[str | None, str | None]:
    """The list and the level that the properties of a paragraph or of a style name."""
    properties = None if element is None else element.find(f"{_W}pPr/{_W}numPr")
    if properties is None:
        return None, None
    number, level = (properties.find(f"{_W}{name}") for name in ("numId", "ilvl"))
    return (
        None if number is None else number.get(f"{_W}val"),
        None if level is None else level.get(f"{_W}val"),
    )


def _iter_markers(numbering: Any) -> Iterator[tuple[tuple[str, int], str]]:
    """The marker of each level of each list; none for levels that show no sign."""
    abstract = {each.get(f"{_W}abstractNumId"): each for each in numbering.iter(f"{_W}abstractNum")}
    for number in numbering.iter(f"{_W}num"):
        reference = number.find(f"{_W}abstractNumId")
        definition = abstract.get(None if reference is None else reference.get(f"{_W}val"))
        if definition is None:
            continue
        for level in definition.iter(f"{_W}lvl"):
            kind, at = level.find(f"{_W}numFmt"), level.get(f"{_W}ilvl", "0")
            written = "decimal" if kind is None else kind.get(f"{_W}val", "decimal")
            if written != "none" and at.isdigit():
                yield (number.get(f"{_W}numId", ""), int(at)), "-" if written == "bullet" else "1."
