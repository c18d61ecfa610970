"""Plots of marts: small, and legible for one point, for many, and for many series."""

from __future__ import annotations

import base64
import io
import random
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from PIL import Image

from knowledge_pipeline.defs import plots
from knowledge_pipeline.sql_models.model import Plot

LINE = Plot("line", "day", "p95_ms", "type")
BAR = Plot("bar", "source", "cost", None)


def days(points: int, series: int = 1) -> pa.Table:
    """A walk for each series, one point a day."""
    chance, start = random.Random(1), date(2026, 1, 1)
    columns: dict[str, list] = {"x": [], "y": [], "series": []}
    for number in range(series):
        value = 100.0 * (number + 1)
        for day in range(points):
            value = max(0.0, value + chance.uniform(-9, 9))
            columns["x"].append(start + timedelta(days=day))
            columns["y"].append(value)
            columns["series"].append(f"series {number}")
    return pa.table(columns)


def named(count: int) -> pa.Table:
    return pa.table(
        {
            "x": [f"a source with a very long name {n}" for n in range(count)],
            "y": [n + 1.0 for n in range(count)],
            "series": [""] * count,
        }
    )


def colours(encoded: bytes) -> set[tuple[int, ...]]:
    image = Image.open(io.BytesIO(encoded)).convert("RGB")
    return {colour for _, colour in image.getcolors(1 << 24)}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("plot", "rows"),
    [
        (LINE, days(1)),
        (LINE, days(2, 3)),
        (LINE, days(500, 4)),
        (LINE, days(500, 40)),
        (Plot("line", "day", "zero_result_rate", "type"), days(30, 2)),
        (
            Plot("line", "evaluated_at", "ndcg_10", "type"),
            pa.table({"x": [datetime(2026, 1, 1, 5, tzinfo=UTC)], "y": [0.0], "series": [None]}),
        ),
        (BAR, named(1)),
        (BAR, named(2000)),
        (
            Plot("bar", "tokens_to", "chunks", "source_type"),
            pa.table({"x": [64], "y": [3.0], "series": ["a"]}),
        ),
        (
            Plot("bar", "tokens_to", "chunks", "source_type"),
            pa.table({"x": [64, 128] * 2, "y": [3e7] * 4, "series": ["a", "a", "$b$", "$b$"]}),
        ),
    ],
    ids=["one", "few", "many", "series", "shares", "times", "name", "names", "size", "sizes"],
)
def test_a_plot_is_a_small_picture(plot: Plot, rows: pa.Table) -> None:
    encoded = plots.render_png(plot, rows)
    assert len(encoded) <= 40_000
    width, height = Image.open(io.BytesIO(encoded)).size
    assert (width > 500, height > 200) == (True, True)
    assert (0x00, 0x72, 0xB2) in colours(encoded)  # the first series is there


def test_the_same_rows_give_the_same_picture() -> None:
    assert plots.render_png(LINE, days(20, 3)) == plots.render_png(LINE, days(20, 3))


def test_of_many_series_the_largest_are_drawn_and_the_others_together() -> None:
    nine, forty = plots.render_png(LINE, days(10, 9)), plots.render_png(LINE, days(10, 40))
    grey = (0x9A, 0x9A, 0x9A)
    assert grey in colours(forty)
    assert (0xDD, 0xDD, 0xDD) in colours(nine)  # the grid


def test_a_plot_is_an_image_in_markdown() -> None:
    shown = plots.render_plot(LINE, days(3, 2))
    assert shown is not None
    title, _, encoded = str(shown.value).partition("](data:image/png;base64,")
    assert title == "![P95 (ms) by day, by type"
    assert base64.b64decode(encoded.removesuffix(")")).startswith(b"\x89PNG")


def test_nothing_is_drawn_of_no_rows_or_of_bars_without_length() -> None:
    assert plots.render_plot(LINE, days(0)) is None
    assert plots.render_plot(BAR, pa.table({"x": ["docs"], "y": [0.0], "series": [""]})) is None
