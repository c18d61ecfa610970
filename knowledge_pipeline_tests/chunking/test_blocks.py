"""Where blocks and lines begin."""

from __future__ import annotations

import pytest

from knowledge_pipeline.chunking.blocks import find_line_starts


@pytest.mark.parametrize(
    ("text", "starts"),
    [("", [0]), ("a", [0, 1]), ("a\n", [0, 2]), ("a\nbc", [0, 2, 4]), ("a\rb\r\n", [0, 2, 5])],
)
def test_line_starts_end_with_the_end_of_the_text_once(text: str, starts: list[int]) -> None:
    assert find_line_starts(text) == starts
