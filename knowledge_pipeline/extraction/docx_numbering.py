"""The styles of a Word document and its automatic numbers: "2.1", "(b)", "Article 8".

Source: ECMA-376, part 1, sections 17.7 (styles), 17.9 (numbering) and 17.18.59 (formats of numbers)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from knowledge_pipeline.extraction.office_package import Element, parse_int

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_HEADING_STYLE = re.compile(r"^heading (?P<level>[1-9])$", re.IGNORECASE)
_LEVEL_NUMBER = re.compile(r"%([1-9])")
_MAX_LEVEL = 8
_MAX_LABEL_CHARS = 100
_BODY_TEXT = 9  # the outline level of what is no heading


def find_child(element: Element | None, *names: str) -> Any:
    """The first child, or the child of a child, with these names."""
    for name in names:
        element = None if element is None else next(element.iterchildren(W + name), None)
    return element


def get_value(element: Element | None, *names: str) -> str | None:
    """The value of a property; None where it is not set."""
    child = find_child(element, *names)
    return None if child is None else child.get(f"{W}val")


def is_set(element: Element, *names: str) -> bool:
    """Whether a property is there that is on or off, and on."""
    child = find_child(element, *names)
    return child is not None and child.get(f"{W}val", "true") not in ("0", "false", "off")


@dataclass(frozen=True, slots=True)
class Style:
    """What a style says about its paragraphs or runs, with what it takes over from others."""

    name: str = ""
    named_level: int | None = None  # of "heading 3" and "Title"
    outline: int | None = None  # counted from 0
    number: str | None = None  # of its list
    level: str | None = None  # in that list
    numbered_by: str = ""  # the id of the style that names the list
    raised: bool = False
    font: str = ""


class Styles:
    """The styles of one document by their ids, each with what it inherits."""

    def __init__(self, root: Element | None) -> None:
        elements = () if root is None else root.iter(f"{W}style")
        self._elements = {element.get(f"{W}styleId", ""): element for element in elements}
        self._elements.pop("", None)
        self._resolved: dict[str, Style] = {}

    def __getitem__(self, id_: str) -> Style:
        waiting: list[str] = []
        at = id_
        while at in self._elements and at not in self._resolved:
            waiting.append(at)
            self._resolved[at] = Style()  # for those that are based on themselves
            at = get_value(self._elements[at], "basedOn") or ""
        style = self._resolved.get(at, Style())
        for name in reversed(waiting):
            style = self._resolved[name] = _derive(style, name, self._elements[name])
        return style


def _derive(base: Style, id_: str, element: Element) -> Style:
    name = get_value(element, "name") or ""
    heading = _HEADING_STYLE.match(name)
    titled = int(heading["level"]) if heading else 1 if name == "Title" else None
    outline = parse_level(get_value(element, "pPr", "outlineLvl"), _BODY_TEXT)
    number, level = read_number(find_child(element, "pPr"))
    raised = get_value(element, "rPr", "vertAlign")
    return replace(
        base,
        name=name,
        named_level=titled,
        outline=titled - 1 if titled else base.outline if outline is None else outline,
        number=number or base.number,
        level=level or base.level,
        numbered_by=id_ if number else base.numbered_by,
        raised=base.raised if raised is None else raised == "superscript",
        font=read_font(find_child(element, "rPr")) or base.font,
    )


def read_font(properties: Element | None) -> str:
    """The font that the properties of a run or of a style name; "" for none."""
    fonts = find_child(properties, "rFonts")
    return "" if fonts is None else fonts.get(f"{W}ascii") or fonts.get(f"{W}hAnsi") or ""


def read_number(properties: Element | None) -> tuple[str | None, str | None]:
    """The list and the level that the properties of a paragraph or of a style name."""
    holder = find_child(properties, "numPr")
    return get_value(holder, "numId"), get_value(holder, "ilvl")


def parse_level(text: str | None, maximum: int) -> int | None:
    """A level, at most that; None for what is no number."""
    return min(int(text[:9]), maximum) if text and text.isascii() and text.isdecimal() else None


@dataclass(frozen=True, slots=True)
class _Level:
    kind: str  # "bullet", "decimal", "none" and so on
    text: str  # "%1.%2", its numbers after "%"
    start: int
    restart: int  # after a number of a level above this one
    decimal: bool  # all its numbers
    style: str


@dataclass(frozen=True, slots=True)
class _List:
    counted_as: str  # lists of one definition go on counting
    levels: Mapping[int, _Level]
    starts: Mapping[int, int]  # where it starts anew


class ListNumbering:
    """Labels of the paragraphs of one document, which it must be asked for in their order.

    Args:
        numbering: the root of its numbering part; None where it has no lists.
    """

    def __init__(self, numbering: Element | None) -> None:
        self._lists = {} if numbering is None else dict(_iter_lists(numbering))
        self._counts: dict[str, dict[int, int]] = {}
        self._started = set[tuple[str, int]]()

    def next_label(self, properties: Element | None, style_id: str, style: Style) -> tuple[int, str] | None:
        """Level and label of a list's item, by a paragraph's properties or its style's; "-" for bullets.

        None for what is in no list, or shows no label.
        """
        number, level = read_number(properties)
        numbered = self._lists.get(number or style.number or "0")
        if numbered is None:
            return None
        linked = (
            at for at, it in numbered.levels.items() if it.style in (style_id, style.numbered_by) and it.style
        )
        at = parse_level(level, _MAX_LEVEL)
        if at is None and number is None:
            at = next(linked, None)
        at = parse_level(style.level, _MAX_LEVEL) or 0 if at is None else at
        shown = numbered.levels.get(at)
        if shown is None:
            return None
        counts = self._count(number or style.number or "0", numbered, at)
        label = "-" if shown.kind == "bullet" else _format_label(shown, numbered.levels, counts)
        return (at, label) if label else None

    def _count(self, number: str, numbered: _List, at: int) -> dict[int, int]:
        counts = self._counts.setdefault(numbered.counted_as, {})
        if at in numbered.starts and (number, at) not in self._started:
            counts[at] = numbered.starts[at]
        elif at in counts:
            counts[at] += 1
        else:
            counts[at] = numbered.starts.get(at, numbered.levels[at].start)
        self._started.add((number, at))
        for below in [below for below in counts if below > at]:
            restart = numbered.levels[below].restart if below in numbered.levels else below
            if at < restart:
                del counts[below]
        return counts


def _format_label(shown: _Level, levels: Mapping[int, _Level], counts: Mapping[int, int]) -> str:
    def write(match: re.Match[str]) -> str:
        at = int(match[1]) - 1
        level = levels.get(at, shown)
        return format_number(counts.get(at, level.start), "decimal" if shown.decimal else level.kind)

    return " ".join(_LEVEL_NUMBER.sub(write, shown.text).split())


def _iter_lists(numbering: Element) -> Iterator[tuple[str, _List]]:
    abstract = {node.get(f"{W}abstractNumId", ""): node for node in numbering.iter(f"{W}abstractNum")}
    by_style = {link: id_ for id_, node in abstract.items() if (link := get_value(node, "styleLink"))}
    read: dict[str, dict[int, _Level]] = {}
    for number in numbering.iter(f"{W}num"):
        id_ = get_value(number, "abstractNumId") or ""
        definition = abstract.get(id_)
        if definition is not None and (link := get_value(definition, "numStyleLink")):
            id_ = by_style.get(link, id_)
        if id_ not in abstract:
            continue
        if id_ not in read:
            read[id_] = dict(_iter_levels(abstract[id_]))
        levels = read[id_]
        starts: dict[int, int] = {}
        for override in number.iter(f"{W}lvlOverride"):
            at = parse_level(override.get(f"{W}ilvl"), _MAX_LEVEL) or 0
            levels = {**levels, **dict(_iter_levels(override))}
            start = get_value(override, "startOverride")
            if start is not None:
                starts[at] = parse_int(start, 1)
        yield number.get(f"{W}numId", ""), _List(id_, levels, starts)


def _iter_levels(definition: Element) -> Iterator[tuple[int, _Level]]:
    for level in definition.iter(f"{W}lvl"):
        at = parse_level(level.get(f"{W}ilvl", "0"), 99)
        if at is not None and at <= _MAX_LEVEL:
            yield (
                at,
                _Level(
                    kind=get_value(level, "numFmt") or "decimal",
                    text=(get_value(level, "lvlText") or "")[:_MAX_LABEL_CHARS],
                    start=parse_int(get_value(level, "start"), 0),
                    restart=parse_int(get_value(level, "lvlRestart"), at),
                    decimal=is_set(level, "isLgl"),
                    style=get_value(level, "pStyle") or "",
                ),
            )


def format_number(number: int, kind: str) -> str:
    """A number in one of the formats of Word; in digits where it has none for it, or none is known here."""
    if kind in ("none", "bullet"):
        return ""
    if kind == "decimalZero":
        return f"{number:02}"
    if kind in ("upperRoman", "lowerRoman") and 0 < number < 4000:
        roman = _to_roman(number)
        return roman if kind == "upperRoman" else roman.lower()
    if kind in _ALPHABETS and 0 < number <= 30 * len(_ALPHABETS[kind]):
        turns, at = divmod(number - 1, len(_ALPHABETS[kind]))
        return _ALPHABETS[kind][at] * (turns + 1)
    if kind == "ordinal":
        teen = number // 10 % 10 == 1
        return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
    if kind in _WORDS and 0 < number <= len(_WORDS[kind]):
        return _WORDS[kind][number - 1]
    if kind in _CHINESE and 0 < number < 100:
        tens, ones = divmod(number, 10)
        leading = f"{_CHINESE_DIGITS[tens] if tens > 1 else ''}\u5341" if tens else ""
        return leading + _CHINESE_DIGITS[ones]
    return str(number)


_ROMAN = ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
          (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))  # fmt: skip


def _to_roman(number: int) -> str:
    letters = ""
    for value, letter in _ROMAN:
        times, number = divmod(number, value)
        letters += letter * times
    return letters


_LATIN = "abcdefghijklmnopqrstuvwxyz"
_RUSSIAN = "абвгдежзиклмнопрстуфхцчшщыэюя"
_ALPHABETS = {
    "lowerLetter": _LATIN,
    "upperLetter": _LATIN.upper(),
    "russianLower": _RUSSIAN,
    "russianUpper": _RUSSIAN.upper(),
}
_WORDS = {
    "decimalEnclosedCircle": tuple(map(chr, range(0x2460, 0x2474))),
    "cardinalText": ("One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten"),
    "ordinalText": (
        *("First", "Second", "Third", "Fourth", "Fifth", "Sixth", "Seventh", "Eighth", "Ninth", "Tenth"),
    ),
}
_CHINESE_DIGITS = ("", *"\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d")
_CHINESE = frozenset(
    ("chineseCounting", "chineseCountingThousand", "japaneseCounting", "taiwaneseCounting",
     "taiwaneseCountingThousand")
)  # fmt: skip
