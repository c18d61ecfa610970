"""Tables of other formats as Markdown."""

from __future__ import annotations

from knowledge_pipeline.extraction.markdown import TableCell, expand_spans


def test_a_cell_that_spans_rows_is_repeated_in_each_of_them():
    rows = [[TableCell("a", 3, 1), TableCell("b", 1, 1)], [TableCell("c", 1, 1)], [TableCell("d", 1, 1)]]
    assert expand_spans(rows) == [["a", "b"], ["a", "c"], ["a", "d"]]
