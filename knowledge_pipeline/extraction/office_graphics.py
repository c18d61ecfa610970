"""Charts and SmartArt of office files as Markdown: what they are called, and the words and values in them.

Source: ECMA-376, part 1, sections 21.2 (charts) and 21.4 (diagrams)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import zip_longest

from knowledge_pipeline.extraction.markdown import format_table
from knowledge_pipeline.extraction.office_package import A, Element, OfficePackage, R, local_name, parse_int

_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_CX = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
_DGM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_MAX_POINTS = 1_000  # of a chart: more is data, which no reader reads in a picture
_MAX_SERIES = 50
_QUOTED = re.compile(r'"[^"]*"|\[[^\[\]]*\]|\\.')
_PERCENT = re.compile(r"(?:\.(0+))?%")
_DATE = re.compile(r"[ymd]", re.IGNORECASE)


def render_graphics(package: OfficePackage, part: str, drawing: Element) -> Iterator[str]:
    """Blocks for the charts and the SmartArt of a drawing; those that cannot be read are counted.

    Each is told once, however often the file shows it.
    """
    relations = package.relations(part)
    for element in drawing.iter(*_KINDS):
        kind, id_name, render = _KINDS[element.tag]
        relation = relations.get(element.get(f"{R}{id_name}", ""))
        if relation and relation.target in package.rendered:
            continue
        root = None if relation is None or relation.external else package.load(relation.target)
        if relation:
            package.rendered.add(relation.target)
        if text := "" if root is None else render(root):
            yield text
        else:
            package.unread[kind] += 1


def _render_diagram(root: Element) -> str:
    """The texts of a diagram as a list, by what belongs to what."""
    points = {point.get("modelId"): point for point in root.iter(f"{_DGM}pt")}
    children: dict[str | None, list[tuple[int, str | None]]] = {}
    inner = set[str | None]()
    for link in root.iter(f"{_DGM}cxn"):
        if link.get("type", "parOf") == "parOf":
            children.setdefault(link.get("srcId"), []).append(
                (parse_int(link.get("srcOrd")), link.get("destId"))
            )
            inner.add(link.get("destId"))
    lines: list[str] = []
    waiting = [(0, id_) for id_ in reversed(points) if id_ not in inner]
    seen = set[str | None]()
    while waiting:
        level, id_ = waiting.pop()
        if id_ in seen or id_ not in points:
            continue
        seen.add(id_)
        text = read_paragraphs(points[id_])
        if text:
            lines.append(f"{'  ' * min(level, 10)}- {text}")
        below = sorted(children.get(id_, ()), key=lambda child: child[0], reverse=True)
        waiting += ((level + bool(text), child) for _, child in below)
    return "\n".join(lines)


def _render_chart(root: Element) -> str:
    """A chart's title, and its categories and values as a table."""
    chart = root.find(f"{_C}chart")
    plot = None if chart is None else chart.find(f"{_C}plotArea")
    if chart is None or plot is None:
        return ""
    epoch = (
        datetime(1904, 1, 1) if root.find(f"{_C}date1904[@val='1']") is not None else datetime(1899, 12, 30)
    )
    axes = [(local_name(axis), _title(axis)) for axis in plot if local_name(axis).endswith("Ax")]
    category = next((title for name, title in axes if name in ("catAx", "dateAx")), "")
    values = [title for name, title in axes if name in ("valAx", "serAx") and title]
    if not category and len(values) > 1:  # of points: the first axis is that of x
        category, *values = values
    groups: dict[tuple[str, ...], list[tuple[str, list[str]]]] = {}
    for at, series in enumerate(list(plot.iter(f"{_C}ser"))[:_MAX_SERIES], 1):
        labels = _read_points(series, ("cat", "xVal"), epoch)
        column = _read_points(series, ("val", "yVal"), epoch)
        name = _words(series.iterfind(f"{_C}tx//{_C}v")) or f"Series {at}"
        groups.setdefault(tuple(labels), []).append((name, column))
    tables = (_format_series(category, labels, series) for labels, series in groups.items())
    heading = f"Chart: {_title(chart)}".removesuffix(": ")
    about = [f"Values: {', '.join(dict.fromkeys(values))}"] if values else []
    blocks = ["\n".join([heading, *about]), *filter(None, tables)]
    return "\n\n".join(blocks) if len(blocks) > 1 or _title(chart) else ""


def _format_series(category: str, labels: Iterable[str], series: list[tuple[str, list[str]]]) -> str:
    rows = list(zip_longest(labels, *(values for _, values in series), fillvalue=""))
    return format_table([[category or "Category", *(name for name, _ in series)], *rows]) if rows else ""


def _read_points(series: Element, names: tuple[str, str], epoch: datetime) -> list[str]:
    """The stored points of a series, in their places; of several levels joined, the outer first."""
    holders = (series.find(f"{_C}{name}") for name in names)
    holder = next((element for element in holders if element is not None), None)
    if holder is None:
        return []
    levels = list(holder.iter(f"{_C}lvl"))
    columns = [_read_level(level, epoch) for level in reversed(levels or [holder])]
    above = [""] * len(columns)
    joined: list[str] = []
    for row in zip_longest(*columns, fillvalue=""):  # an outer label stands once, for all below it
        above = [text or outer for text, outer in zip(row, above, strict=True)]
        joined.append(" / ".join(filter(None, above)) if len(columns) > 1 else row[0])
    return joined


def _read_level(level: Element, epoch: datetime) -> list[str]:
    code = next((element.text or "" for element in level.iter(f"{_C}formatCode")), "")
    texts: dict[int, str] = {}
    for point in level.iter(f"{_C}pt"):
        at = parse_int(point.get("idx"))
        if at < _MAX_POINTS:
            texts[at] = _format_value(_words(point.iterfind(f"{_C}v")), code, epoch)
    return [texts.get(at, "") for at in range(max(texts, default=-1) + 1)]


def _render_newer_chart(root: Element) -> str:
    """A chart of the kinds that came in 2016, such as a waterfall or a tree map."""
    title = " ".join(map(read_paragraphs, root.iterfind(f"{_CX}chart/{_CX}title")))
    tables: list[str] = []
    for data in root.iter(f"{_CX}data"):
        columns: list[list[str]] = []
        for level in data.iter(f"{_CX}lvl"):
            points = {parse_int(point.get("idx")): _words([point]) for point in level.iter(f"{_CX}pt")}
            height = min(max(points, default=-1) + 1, _MAX_POINTS)
            columns.append(
                [_format_value(points.get(at, ""), "", datetime(1900, 1, 1)) for at in range(height)]
            )
        names = [_words(series.iterfind(f"{_CX}tx//{_CX}v")) for series in root.iter(f"{_CX}series")]
        *labels, values = columns[:_MAX_SERIES] or [[]]
        joined = [" / ".join(filter(None, row)) for row in zip_longest(*reversed(labels), fillvalue="")]
        tables.append(_format_series("", joined, [(next(filter(None, names), "Value"), values)]))
    blocks = [f"Chart: {title}".removesuffix(": "), *filter(None, tables)]
    return "\n\n".join(blocks) if len(blocks) > 1 or title else ""


def _title(holder: Element) -> str:
    """The words of the title of a chart or of an axis, typed or taken from a cell."""
    title = holder.find(f"{_C}title")
    return "" if title is None else read_paragraphs(title) or _words(title.iter(f"{_C}v"))


def read_paragraphs(element: Element) -> str:
    """The words of all paragraphs of a drawing's text."""
    return " ".join(filter(None, (_words(line.iter(f"{A}t")) for line in element.iter(f"{A}p"))))


def _words(elements: Iterable[Element]) -> str:
    return " ".join("".join(element.text or "" for element in elements).split())


def _format_value(text: str, code: str, epoch: datetime) -> str:
    """A stored number as its format shows it: dates as in ISO 8601, shares in percent."""
    with suppress(ValueError, ArithmeticError):
        number = float(text)
        code = _QUOTED.sub("", code)
        if percent := _PERCENT.search(code):
            return f"{number * 100:.{len(percent[1] or '')}f}%"
        if _DATE.search(code):
            return (epoch + timedelta(days=number)).isoformat(" ", "seconds").removesuffix(" 00:00:00")
        return f"{Decimal(f'{number:.15g}'):f}"
    return text


_KINDS: dict[str, tuple[str, str, Callable[[Element], str]]] = {
    f"{_C}chart": ("chart", "id", _render_chart),
    f"{_CX}chart": ("chart", "id", _render_newer_chart),
    f"{_DGM}relIds": ("diagram", "dm", _render_diagram),
}
"""What a drawing refers to: its name, the attribute that holds the relation, and what renders its part."""
