"""Answers for agents keep to a limit, and are read on in pages."""

from __future__ import annotations

import re

import anyio
import pytest
from mcp.client.client import Client
from mcp_types import CallToolResult

from knowledge_pipeline.context.tokens import estimate_tokens
from knowledge_pipeline.contract.responses import GraphEdge, GraphResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.mcp.server import create_server
from knowledge_pipeline.serve.mcp.tools import page_document, page_graph, page_search
from knowledge_pipeline.serve.service import Identity, Service
from knowledge_pipeline_tests.serve.mcp_calls import RIGHT
from knowledge_pipeline_tests.serve.test_texts import answer, node, result
from knowledge_pipeline_tests.serve.world import World

LONG = "def pay(order):\n" + "".join(f"    charge(order, {n})\n" for n in range(40))
FOUND = answer(*(result(1000 * n, LONG, symbol="Shop.pay") for n in range(10)))


def read_on(text: str) -> int | None:
    found = re.search(r"[Rr]ead on with offset=(\d+)", text)
    return int(found[1]) if found else None


@pytest.mark.parametrize("page_of", [page_search, page_document])
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("max_tokens", [500, 1500, 100_000])
def test_pages_keep_to_the_limit_and_together_have_every_result_once(page_of, compact, max_tokens):
    seen, offset, limit = [], 0, 11
    while offset is not None:
        page, text = page_of(FOUND, offset=offset, limit=limit, compact=compact, max_tokens=max_tokens)
        assert estimate_tokens(text) <= max_tokens
        seen += [each.id for each in page.results]
        offset = read_on(text)
    assert seen == [each.id for each in FOUND.results]


def test_a_result_that_is_too_long_by_itself_is_cut_at_a_line_and_says_so():
    whole = answer(result(0, LONG * 20))
    page, text = page_search(whole, offset=0, limit=1, compact=False, max_tokens=600)
    (shown,) = page.results
    assert estimate_tokens(text) <= 600 and "more lines" in shown.content
    assert shown.content.startswith("def pay(order):\n    charge(order, 0)\n")


def test_compact_results_are_places_and_signatures():
    _, text = page_search(FOUND, offset=8, limit=2, compact=True, max_tokens=8000)
    assert text.splitlines()[0] == "[9] src/pay.py:801-842  Shop.pay · def pay(order): · id id8000"
    assert "charge" not in text


def test_the_graph_is_read_in_pages_with_its_targets_on_each():
    users = [node(f"user{n}", "used_by") for n in range(30)]
    edges = tuple(GraphEdge("calls", each.id, "pay", each.path, (3,), 1.0) for each in users)
    whole = GraphResponse("q", 1.0, 1, (), "usages", "pay", (node("pay", "target"), *users), edges)
    seen, offset = [], 0
    while offset is not None:
        page, text = page_graph(whole, offset=offset, limit=50, compact=False, max_tokens=500)
        assert estimate_tokens(text) <= 500 and [each.id for each in page.targets] == ["pay"]
        assert {edge.source for edge in page.edges} == {each.id for each in page.matches}
        seen += [each.id for each in page.matches]
        offset = read_on(text)
    assert seen == [each.id for each in users]
    assert page_graph(whole, offset=0, limit=50, compact=True, max_tokens=500)[0].edges == ()


@pytest.mark.parametrize("compact", [False, True])
def test_every_tool_keeps_to_the_limit(world: World, compact: bool):
    settings = world.settings
    mcp = settings.serve.mcp.model_copy(update={"max_tokens": 500})
    serve = settings.serve.model_copy(update={"mcp": mcp})
    service = Service(settings.model_copy(update={"serve": serve}))
    identity = Identity(Access.operator("mcp"), frozenset({"query"}), "operator", 600)

    async def ask() -> dict[str, CallToolResult]:
        async with Client(create_server(service, lambda _: identity)) as client:
            return {
                name: await client.call_tool(name, {**arguments, "compact": compact})
                for name, arguments in RIGHT.items()
            }

    try:
        answers = anyio.run(ask)
    finally:
        service.close()
    for name, answer_ in answers.items():
        text = answer_.content[0].text
        assert not answer_.is_error, text
        limit = RIGHT[name].get("max_tokens", 500)
        assert estimate_tokens(text) <= limit, name
    assert answers["build_context"].content[0].text.startswith("[1] " if compact else "Quotations")
