"""Tables, lists and small pictures for the metadata of a materialization, made in memory."""

# The **kwargs of matplotlib have no types.
# pyright: reportUnknownMemberType=false

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow as pa

from knowledge_pipeline.sql_models.model import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MAX_CELL_CHARS = 80

_TYPES: Mapping[type[object], str] = {bool: "bool", int: "int", float: "float"}

_MAX_LISTED, _MAX_NAMES = 200, 10


def build_table(
    rows: Sequence[Mapping[str, object]], types: Sequence[str] = (), *, max_chars: int = MAX_CELL_CHARS
) -> dg.TableMetadataValue:
    """A table of at least one row, all with the keys of the first one, which also gives missing types."""
    types = types or [_TYPES.get(type(value), "string") for value in rows[0].values()]
    columns = [dg.TableColumn(name, type_) for name, type_ in zip(rows[0], types, strict=True)]

    def to_cell(value: Any) -> str | int | float | bool | None:
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float) and isfinite(value):  # JSON has no other numbers
            return round(value, 6)
        return truncate(str(value), max_chars)

    records = [dg.TableRecord({name: to_cell(value) for name, value in row.items()}) for row in rows]
    return dg.MetadataValue.table(records, dg.TableSchema(columns))


def build_arrow_table(rows: pa.Table, *, max_chars: int = MAX_CELL_CHARS) -> dg.TableMetadataValue:
    """The same of at least one Arrow row, typed by its schema."""
    tests = {"bool": pa.types.is_boolean, "int": pa.types.is_integer, "float": pa.types.is_floating}
    types = [
        next((name for name, is_type in tests.items() if is_type(type_)), "string")
        for type_ in rows.schema.types
    ]
    return build_table(rows.to_pylist(), types, max_chars=max_chars)


def build_list(lines: Sequence[str]) -> dg.MarkdownMetadataValue:
    """A Markdown list that ends with the number of lines left out."""
    rest = [f"and {len(lines) - _MAX_LISTED} more"] if len(lines) > _MAX_LISTED else []
    return dg.MetadataValue.md("\n".join(f"- {line}" for line in [*lines[:_MAX_LISTED], *rest]))


def truncate(text: str, max_chars: int = MAX_CELL_CHARS) -> str:
    """Text on one line, cut where it is longer."""
    text = " ".join(text.split())
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def list_names(names: Iterable[str]) -> str:
    """`a, b, c and 4 more`."""
    names = list(names)
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


MAX_SERIES = 8
MAX_BARS = 20

_INCHES = (7.2, 3.2)
_DPIS = (144, 100, 72)  # the first at which the file is small enough
_MAX_BYTES = 40_000  # Dagster's database stores the pictures of every materialization
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C6D31", "#9A9A9A")
"""Of the series in their order; the last one is that of all others."""
_MAX_LABELLED_DAYS = 3  # of which the axis names each
_MAX_MARKED_POINTS = 60  # of a line, with a dot each
_MAX_LABEL_CHARS = 28

_SCORES = {"ndcg_10": "nDCG@10", "recall_10": "recall@10", "mrr_10": "MRR@10"}

_Points = dict[Any, float]


def render_plot(plot: Plot, rows: pa.Table) -> dg.MarkdownMetadataValue | None:
    """A mart's plot as an image in Markdown; None where there is nothing to see.

    The rows have the columns `x`, `y` (float) and `series`, in the order of `x` for a line.
    """
    if not rows.num_rows or (plot.kind == "bar" and not any(rows["y"].to_pylist())):
        return None
    encoded = base64.b64encode(render_png(plot, rows)).decode("ascii")
    return dg.MetadataValue.md(f"![{_format_title(plot)}](data:image/png;base64,{encoded})")


def render_png(plot: Plot, rows: pa.Table) -> bytes:
    """The picture: at most eight series and one for the others, in colours for all kinds of colour vision.

    Source of the colours: Okabe & Ito 2008, https://jfly.uni-koeln.de/color/
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    series: dict[str, _Points] = {}  # values at the same x are summed
    for x, y, name in zip(*(rows[c].to_pylist() for c in ("x", "y", "series")), strict=True):
        points = series.setdefault(name or "", {})
        points[x] = points.get(x, 0.0) + y
    # The values of several series may have no meaningful sum.
    kinds = ("_ms", "_10", "_1", "_5", "per_second", "_hours")
    series = _limit_series(series, averaged=_is_share(plot.y) or plot.y.endswith(kinds))
    if plot.kind == "line":
        _draw_lines(axes, series)
        _label_axes(axes, plot)
    elif isinstance(rows["x"][0].as_py(), int | float):
        _draw_columns(axes, series)
        _label_axes(axes, plot)
    else:
        _label_axes(axes, plot, horizontal=True, note=_draw_bars(axes, series))
    if plot.by:
        title = _format_column(plot.by)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8, title=title)
    return _encode_png(figure)


def _limit_series(series: Mapping[str, _Points], *, averaged: bool) -> dict[str, _Points]:
    """The largest series, by name, and one of all others: their sum, or their mean."""
    if len(series) <= MAX_SERIES + 1:
        return dict(sorted(series.items()))
    ranked = sorted(series, key=lambda name: (-sum(map(abs, series[name].values())), name))
    others: dict[Any, list[float]] = {}
    for name in ranked[MAX_SERIES:]:
        for x, y in series[name].items():
            others.setdefault(x, []).append(y)
    joined = {x: sum(ys) / (len(ys) if averaged else 1) for x, ys in sorted(others.items())}
    label = f"{len(ranked) - MAX_SERIES} others, {'mean' if averaged else 'sum'}"
    return {**{name: series[name] for name in sorted(ranked[:MAX_SERIES])}, label: joined}


def _draw_lines(axes: "Axes", series: Mapping[str, _Points]) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    for number, (name, points) in enumerate(series.items()):
        (line,) = axes.plot(list(points), list(points.values()), color=_COLOURS[number], linewidth=1.6)
        line.set_linestyle(("-", "--")[number % 2])  # a second difference between neighbours
        line.set_marker("o" if len(points) <= _MAX_MARKED_POINTS else "")
        line.set_markersize(3.5)
        line.set_label(_truncate(name))
    days = sorted({x for points in series.values() for x in points})
    if not isinstance(days[0], date):  # a datetime is one, too
        return
    if len(days) <= _MAX_LABELLED_DAYS:
        axes.set_xticks(days, [f"{x:%Y-%m-%d}" for x in days])
        axes.set_xlim(days[0] - timedelta(days=1), days[-1] + timedelta(days=1))  # pyright: ignore[reportArgumentType]  # dates, too
        return
    locator = AutoDateLocator(minticks=3, maxticks=8)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.xaxis.get_offset_text().set_fontsize(8)


def _draw_columns(axes: "Axes", series: Mapping[str, _Points]) -> None:
    places = sorted({x for points in series.values() for x in points})
    steps = [after - before for before, after in pairwise(places)]
    width, bottoms = 0.9 * min(steps, default=1), dict.fromkeys(places, 0.0)
    for number, (name, points) in enumerate(series.items()):
        heights, bottom = [points.get(x, 0.0) for x in places], list(bottoms.values())
        axes.bar(places, heights, width, bottom=bottom, color=_COLOURS[number], label=_truncate(name))
        bottoms = {x: bottoms[x] + height for x, height in zip(places, heights, strict=True)}
    if len(places) == 1:
        axes.set_xlim(places[0] - 1, places[0] + 1)


def _draw_bars(axes: "Axes", series: Mapping[str, _Points]) -> str:
    """Stacked bars for names, the longest at the top; returns a note on what is not shown."""
    totals: _Points = {}
    for points in series.values():
        for x, y in points.items():
            totals[x] = totals.get(x, 0.0) + y
    ranked = sorted(totals, key=lambda x: (-totals[x], str(x)))
    shown, rest = ranked[:MAX_BARS], ranked[MAX_BARS:]
    names, places, lefts = [_truncate(str(x)) for x in shown], range(len(shown)), [0.0] * len(shown)
    for number, (name, points) in enumerate(series.items()):
        widths = [points.get(x, 0.0) for x in shown]
        axes.barh(places, widths, left=lefts, color=_COLOURS[number], label=_truncate(name))
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_ylim(max(len(names) - 0.5, 2.5), -0.5)
    if not rest:
        return ""
    return f"; {len(rest)} more have {_format_number(sum(totals[x] for x in rest), None)} together"


def _label_axes(axes: "Axes", plot: Plot, *, horizontal: bool = False, note: str = "") -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

    axes.set_title(_format_title(plot), loc="left", fontsize=10, fontweight="bold")
    x, y = (plot.y, plot.x) if horizontal else (plot.x, plot.y)
    axes.set_xlabel(f"{_format_column(x)}{note}", fontsize=8)
    axes.set_ylabel(_format_column(y), fontsize=8)
    axes.tick_params(labelsize=6 if horizontal else 8)
    axes.spines[["top", "right"]].set_visible(False)
    axis = axes.xaxis if horizontal else axes.yaxis
    axis.grid(visible=True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axis.set_major_locator(MaxNLocator(6))
    percent = _is_share(plot.y)
    axis.set_major_formatter(PercentFormatter(1) if percent else FuncFormatter(_format_number))
    limit = 1.05 * axis.get_data_interval()[1]
    (axes.set_xlim if horizontal else axes.set_ylim)(0, max(limit, 0.05 if percent else 0) or 1)


def _format_number(value: float, _: object) -> str:
    """`1,500`, `0.25`, `2.5 M`."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:,.4g} M"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"


def _format_title(plot: Plot) -> str:
    by = f", by {_format_column(plot.by)}" if plot.by else ""
    name = _format_column(plot.y)
    name = name if plot.y in _SCORES else f"{name[0].upper()}{name[1:]}"
    return f"{name} by {_format_column(plot.x)}{by}"


def _format_column(column: str) -> str:
    """`p95_ms` as `p95 (ms)`, `done_at` as `done at (UTC)`."""
    if column in _SCORES:
        return _SCORES[column]
    units = {"ms": "ms", "seconds": "s", "mb": "MB", "at": "UTC"}
    stem, _, unit = column.rpartition("_")
    if stem and unit in units:
        return f"{stem.replace('_', ' ')}{' at' if unit == 'at' else ''} ({units[unit]})"
    return column.replace("_", " ")


def _is_share(column: str) -> bool:
    return column.endswith(("_rate", "_share")) or column in ("rate", "share", "coverage")


def _truncate(name: str) -> str:
    return truncate(name or "none", _MAX_LABEL_CHARS)


def _encode_png(figure: "Figure") -> bytes:
    """The figure as a PNG of few colours: each in four steps to white, for smooth edges."""
    from matplotlib.colors import to_rgb
    from PIL import Image

    palette = Image.new("P", (1, 1))
    shades = [
        round(255 * (share * part + 1 - share))
        for colour in (*_COLOURS, "#DDDDDD")
        for share in (1, 0.75, 0.5, 0.25)
        for part in to_rgb(colour)
    ]
    palette.putpalette([*shades, 255, 255, 255])
    png = b""
    for dpi in _DPIS:
        drawn, written = io.BytesIO(), io.BytesIO()
        figure.savefig(drawn, format="png", dpi=dpi)
        with Image.open(drawn) as image:
            few = image.convert("RGB").quantize(palette=palette, dither=Image.Dither.NONE)
            few.save(written, "PNG", optimize=True)
        png = written.getvalue()
        if len(png) <= _MAX_BYTES:
            break
    return png
