"""What a result on the page is called."""

from __future__ import annotations

import pytest

from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.serve.page.markdown_html import TermMatcher
from knowledge_pipeline.serve.page.results import build_result_views
from knowledge_pipeline_tests.query.agent_context.cited import result


@pytest.mark.parametrize(
    ("metadata", "heading"),
    [
        ({"symbol": "Store.get"}, "Store.get"),
        ({"symbol": "Store.get", "section": "Storage"}, "Store.get"),
        ({"section": "Storage  of\nrows"}, "Storage of rows"),
        ({"section": "Storage", "page": 7}, "Storage (page 7)"),
        ({}, None),
    ],
)
def test_a_result_is_headed_by_its_symbol_or_else_its_section(metadata: dict, heading: str | None):
    found = result("some text", 0, 9, **metadata)
    (view,) = build_result_views(SearchResponse("id", 1.0, 1, (), (found,), {}), TermMatcher(""), "")
    assert view.symbol == heading
