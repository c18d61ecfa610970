"""What is printed is harmless, whatever it was made of; progress is told in bounds."""

from __future__ import annotations

import json
import unicodedata
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.cli.progress import ProgressLines
from knowledge_pipeline.cli.screen import (
    escape_controls,
    escape_json,
    format_cell,
    format_count,
    one_line,
)
from knowledge_pipeline.text import truncate
from knowledge_pipeline.times import format_duration, format_rate
from knowledge_pipeline_tests.thoroughness import examples

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@settings(deadline=None, max_examples=examples(200))
@given(ANY_TEXT)
def test_no_control_character_is_left(text: str):
    left = [
        char
        for char in escape_controls(text)
        if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"
    ]
    assert left == []
    assert escape_controls(escape_controls(text)) == escape_controls(text)


@settings(deadline=None, max_examples=examples(200))
@given(ANY_TEXT)
def test_json_stays_the_same_value_without_a_control_character(text: str):
    printed = escape_json(json.dumps({"text": text}, ensure_ascii=False, indent=2))
    assert json.loads(printed) == {"text": text}
    assert not [char for char in printed if unicodedata.category(char) in ("Cc", "Cs") and char != "\n"]


@settings(deadline=None, max_examples=examples(100))
@given(ANY_TEXT)
def test_one_line_is_one_line(text: str):
    assert len(one_line(text).splitlines()) <= 1


def test_ordinary_text_stays_as_it_is():
    text = "naïve Ω 語 🎉\n\tif a < b: return 'x'\n"
    assert escape_controls(text) == text


def test_cells_and_numbers_are_readable():
    assert [format_cell(value) for value in (None, "", True, 1234567, 0.5, "a\nb")] == [
        *("-", "-", "yes", "1,234,567", "0.50", "a b")
    ]
    assert (format_count(1, "row"), format_count(1200, "row")) == ("1 row", "1,200 rows")
    assert (truncate("abcdef", 4), truncate("abcd", 4)) == ("abc…", "abcd")
    assert (format_rate(0.25), format_rate(1234.4)) == ("0.25/s", "1,234/s")
    assert (format_duration(21), format_duration(725), format_duration(7200)) == ("0:21", "12:05", "2:00:00")


def test_lines_of_progress_come_at_most_every_ten_seconds_with_rate_and_time_left():
    clock = SimpleNamespace(now=0.0)
    told: list[str] = []
    lines = ProgressLines(told.append, lambda: clock.now)
    for second in range(0, 31):
        clock.now = float(second)
        lines.report("docs", "embeddings", second * 20, 1200)
    assert told == [
        "docs: embeddings 200 of 1,200 (16 %), 20/s, 0:50 left",
        "docs: embeddings 400 of 1,200 (33 %), 20/s, 0:40 left",
        "docs: embeddings 600 of 1,200 (50 %), 20/s, 0:30 left",
    ]


def test_the_rate_counts_from_the_start_of_the_stage():
    clock = SimpleNamespace(now=0.0)
    told: list[str] = []
    lines = ProgressLines(told.append, lambda: clock.now)
    lines.report("docs", "snapshot", 5000, 5000)
    clock.now = 100.0
    lines.report("docs", "listing", 1000, None)
    clock.now = 105.0
    lines.report("docs", "chunks", 10, 100)
    clock.now = 115.0
    lines.report("docs", "chunks", 20, 100)
    assert told == ["docs: listing 1,000", "docs: chunks 20 of 100 (20 %), 1/s, 1:20 left"]


def test_the_time_left_follows_the_share_of_the_work_where_some_take_longer():
    clock = SimpleNamespace(now=0.0)
    told: list[str] = []
    lines = ProgressLines(told.append, lambda: clock.now)
    lines.report("docs", "embeddings", 0, 100, 0.0)
    clock.now = 10.0
    lines.report("docs", "embeddings", 20, 100, 0.5)  # the long ones came first
    assert told == ["docs: embeddings 20 of 100 (20 %), 2/s, 0:10 left"]
