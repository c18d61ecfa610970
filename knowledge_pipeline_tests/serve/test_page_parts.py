"""What the page makes of results, addresses and graphs, without a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from starlette.datastructures import QueryParams

from knowledge_pipeline.contract.responses import Citation, CodeNeighbour, GraphEdge, GraphNode, GraphResponse
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.serve.page import results as links
from knowledge_pipeline.serve.page.graph import MAX_BOXES, draw_graph, group_edges
from knowledge_pipeline.serve.page.markdown_html import TermMatcher, render_markdown
from knowledge_pipeline.serve.page.rendering import format_age
from knowledge_pipeline.serve.page.results import PageQuery

WEB = "https://forge.example/o/r/blob/main/a.py"


def test_the_address_of_a_question_is_read_as_the_question_again() -> None:
    asked = PageQuery("a & b", "code", ("code",), ("x", "y&z"), ("c++",), ("src/**",), "30d", 50)
    assert PageQuery.from_params(QueryParams(asked.url().partition("?")[2])) == asked
    assert PageQuery().url() == "/?"


def test_a_facet_adds_its_value_and_takes_it_away_again() -> None:
    asked = PageQuery("q", source=("a",), limit=50)
    assert asked.toggle_url("source", "b") == "/?q=q&source=a&source=b"
    assert asked.toggle_url("source", "a") == "/?q=q"


def test_chosen_filters_are_named_with_the_query_without_each() -> None:
    asked = PageQuery("q", source_type=("jira",), source=("a",), since="30d")
    assert asked.list_chosen() == [
        ("type ticket", "/?q=q&source=a&since=30d"),
        ("source a", "/?q=q&source_type=jira&since=30d"),
        ("since 30d", "/?q=q&source_type=jira&source=a"),
    ]


def test_a_date_is_understood_as_in_a_question() -> None:
    assert PageQuery("q", since="2024-02").to_filters().since == datetime(2024, 2, 1, tzinfo=UTC)
    with pytest.raises(InvalidQuery, match="since"):
        PageQuery("q", since="soon").to_filters()


@pytest.mark.parametrize(
    ("url", "lines", "expected"),
    [
        (f"{WEB}#L3-L9", "L3-L9", f"{WEB}#L5"),
        (f"{WEB}#readme", "L3-L9", None),
        ("file:///srv/a.py", "L3-L9", None),
        ("javascript:alert(1)#L3-L9", "L3-L9", None),
        (None, "L3", None),
    ],
)
def test_a_line_has_an_address_where_its_source_has_those(
    url: str | None, lines: str, expected: str | None
) -> None:
    assert links.line_url(Citation("s", "a.py", lines, None, url), 5) == expected


@pytest.mark.parametrize(
    ("told", "span"), [("L3-L9", (3, 9)), ("L3", (3, 3)), ("3", None), ("L3-", None), ("", None)]
)
def test_lines_are_read_from_an_address(told: str, span: tuple[int, int] | None) -> None:
    assert links.parse_line_range(told) == span


def answer(users: int, used: int) -> GraphResponse:
    """A function `f` with callers and callees."""
    target = GraphNode("f", "f", "function", "m.f", "s", "m.py", "L1-L2")
    callers = [
        GraphNode(f"a{n}", f"a{n}", "function", "", "s", "a.py", "L1", role="used_by", distance=1)
        for n in range(users)
    ]
    callees = [GraphNode(f"b{n}", f"b{n}", "outside", "", role="uses", distance=1) for n in range(used)]
    calls = [GraphEdge("calls", node.id, "f", "a.py", (1,), 1.0) for node in callers]
    calls += [GraphEdge("calls", "f", node.id, "m.py", (2,), 1.0) for node in callees]
    return GraphResponse("q", 1.0, 1, (), "calls", "f", (target, *callers, *callees), tuple(calls))


def test_each_node_of_the_graph_has_the_edges_by_which_it_was_found() -> None:
    edges = group_edges(answer(2, 1))
    assert {
        node: [(each.path, each.lines, each.certainty) for each in found] for node, found in edges.items()
    } == {
        "a0": [("a.py", (1,), "by import or scope · 1.0")],
        "a1": [("a.py", (1,), "by import or scope · 1.0")],
        "b0": [("m.py", (2,), "by import or scope · 1.0")],
    }


@pytest.mark.parametrize(
    ("confidence", "certainty"),
    [
        (1.0, "by import or scope · 1.0"),
        (0.9, "by declared type · 0.9"),
        (0.8, "by value · 0.8"),
        (0.7, "by subclass · 0.7"),
        (0.707, "one of several · 0.71"),
        (0.5, "by name · 0.5"),
        (0.3, "one of several · 0.3"),
        (0.0, "not resolved · 0.0"),
    ],
)
def test_an_edge_says_how_it_was_resolved(confidence: float, certainty: str) -> None:
    edge = GraphEdge("calls", "a", "b", "a.py", (1,), confidence)
    assert edge.certainty == certainty and edge.resolution == certainty.partition(" · ")[0]
    assert CodeNeighbour("b", edge_line=1, confidence=confidence).certainty == certainty
    assert CodeNeighbour("b").certainty == ""


@pytest.mark.parametrize(("users", "used"), [(1, 0), (3, 2), (MAX_BOXES + 1, 1), (30, 40)])
def test_a_drawing_has_a_column_of_boxes_for_each_side_and_none_overlaps(users: int, used: int) -> None:
    drawn = draw_graph(answer(users, used))
    assert drawn
    columns = sorted({box.x for box in drawn.boxes})
    for x in columns:
        column = [box for box in drawn.boxes if box.x == x]
        assert all(above.y + drawn.box_height < below.y for above, below in pairwise(column))
        assert all(0 <= box.y <= drawn.height - drawn.box_height for box in column)
    shown = sum(box.node is not None for box in drawn.boxes)
    left_out = sum(int(box.name.removesuffix(" more")) for box in drawn.boxes if box.node is None)
    assert shown + left_out == 1 + users + used
    assert len(drawn.curves) == shown - 1


def test_a_target_alone_is_not_drawn() -> None:
    assert draw_graph(answer(0, 0)) is None


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (1, "1 second ago"),
        (59, "59 seconds ago"),
        (60, "1 minute ago"),
        (7200, "2 hours ago"),
        (86400 * 3, "3 days ago"),
    ],
)
def test_how_long_ago_something_was_is_told_in_one_unit(seconds: int, told: str) -> None:
    assert format_age(datetime.now(UTC) - timedelta(seconds=seconds + 0.5)) == told


@pytest.mark.parametrize("quote", ["", "> "])
def test_tables_that_would_fill_gigabytes_are_shown_as_they_are_written(quote: str) -> None:
    wide = "".join(f"{quote}{row}\n" for row in ("|a" * 2_000, "|-" * 2_000, *["|-", "|", "|x"] * 200))
    shown = render_markdown(f"# Title\n\n{wide}\n" * 3, TermMatcher(""), first_line=7)
    assert shown.startswith('<pre id="L7"># Title') and len(shown) < 50_000


def test_an_ordinary_table_is_rendered() -> None:
    rows = "".join(f"| {number} | b | c |\n" for number in range(1_000))
    shown = render_markdown(f"| a | b | c |\n| --- | :-: | --- |\n{rows}", TermMatcher(""))
    assert shown.count("<td") == 3_000
