"""Answers for agents keep to a limit, and are read on in pages."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp_types import CallToolResult

from knowledge_pipeline.context.tokens import estimate_tokens
from knowledge_pipeline.contract.responses import ContextResponse, GraphEdge, GraphResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.mcp.outputs import NO_RESULTS
from knowledge_pipeline.serve.mcp.pages import (
    AnswerLimits,
    page_context,
    page_document,
    page_graph,
    page_search,
)
from knowledge_pipeline.serve.mcp.server import create_server
from knowledge_pipeline.serve.mcp.tools import TOOLS
from knowledge_pipeline.serve.service import Identity, Service
from knowledge_pipeline_tests.serve.mcp_calls import RIGHT, structured_of, text_of
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
@pytest.mark.parametrize("has_structured", [False, True])
def test_pages_keep_to_the_limit_and_together_have_every_result_once(
    page_of, compact, max_tokens, has_structured
):
    seen, offset, limit = [], 0, 11
    while offset is not None:
        limits = AnswerLimits(max_tokens, has_structured=has_structured)
        output = page_of(FOUND, offset=offset, limit=limit, compact=compact, limits=limits)
        assert estimate_tokens(output.text) <= max_tokens
        structured = json.dumps(output.structured_content, ensure_ascii=False)
        assert not has_structured or estimate_tokens(structured) <= max_tokens
        seen += [each.content.partition("\n")[0] for each in output.page.results]
        assert read_on(output.text) == output.page.next_offset
        offset = output.page.next_offset
    assert seen == ["def pay(order):" for _ in FOUND.results]


def test_a_result_that_is_too_long_by_itself_is_cut_at_a_line_and_says_so():
    whole = answer(result(0, LONG * 20))
    for has_structured in (False, True):
        limits = AnswerLimits(600, has_structured=has_structured)
        output = page_search(whole, offset=0, limit=1, compact=False, limits=limits)
        (shown,) = output.page.results
        assert limits.allows(output) and "more lines" in shown.content
        assert shown.content.startswith("def pay(order):\n    charge(order, 0)\n")


def test_compact_results_are_places_and_signatures():
    text = page_search(FOUND, offset=8, limit=2, compact=True, limits=AnswerLimits(8000)).text
    assert text.splitlines()[0] == "[9] src/pay.py:801-842  Shop.pay · def pay(order): · id id8000"
    assert "charge" not in text


def test_the_graph_is_read_in_pages_with_its_targets_on_each():
    users = [node(f"user{n}", "used_by") for n in range(30)]
    edges = tuple(GraphEdge("calls", each.id, "pay", each.path, (3,), 1.0) for each in users)
    whole = GraphResponse("q", 1.0, 1, (), "usages", "pay", (node("pay", "target"), *users), edges)
    seen, offset, limits = [], 0, AnswerLimits(500)
    while offset is not None:
        output = page_graph(whole, offset=offset, limit=50, compact=False, limits=limits)
        target, *users_shown = output.page.nodes
        assert limits.allows(output) and (target.name, target.role) == ("Pay", "target")
        assert all(
            user.uses == (f"calls Pay at {user.location.partition(':')[0]}:3 · by import or scope · 1.0",)
            for user in users_shown
        )
        seen += [user.name for user in users_shown]
        offset = read_on(output.text)
    assert seen == [each.name for each in users]
    compact = page_graph(whole, offset=0, limit=50, compact=True, limits=limits)
    assert [each.uses for each in compact.page.nodes if each.uses] == []


def test_a_target_that_is_too_long_by_itself_is_cut_and_says_so():
    """A folder is all of its files, a class all that is defined in it."""
    files = [node(f"file{n}", "target") for n in range(200)]
    whole = GraphResponse("q", 1.0, 1, (), "usages", "src", tuple(files))
    several = GraphResponse("q", 1.0, 1, (), "usages", "src", candidates=tuple(files))
    for answer_, limits in itertools.product((whole, several), (AnswerLimits(500), AnswerLimits(500, True))):
        output = page_graph(answer_, offset=0, limit=50, compact=False, limits=limits)
        assert limits.allows(output)
        assert "of the target are not shown" in output.text


LENGTHS = ({}, {"compact": True}, {"limit": 50}, {"limit": 50, "compact": True})
"""What a call says of its length; a budget of its own where a tool has one."""


@pytest.mark.parametrize("max_tokens", [500, 8_000])
@pytest.mark.parametrize("output_schemas", [False, True])
def test_both_parts_of_every_tool_s_answer_keep_to_the_limit(
    world: World, max_tokens: int, output_schemas: bool
):
    """A tool that is added is asked as well: every tool has a call in `RIGHT`."""
    assert set(RIGHT) == set(TOOLS)
    settings = world.settings
    mcp = settings.serve.mcp.model_copy(update={"max_tokens": max_tokens, "output_schemas": output_schemas})
    serve = settings.serve.model_copy(update={"mcp": mcp})
    service = Service(settings.model_copy(update={"serve": serve}))
    identity = Identity(Access.operator("mcp"), frozenset({"query"}), "operator", 6_000)

    def iter_calls() -> Iterator[tuple[str, dict[str, Any], int]]:
        for name, arguments in RIGHT.items():
            taken = TOOLS[name].input_model.model_fields
            for length in LENGTHS:
                if length.keys() <= taken.keys():
                    yield name, {**arguments, **length}, arguments.get("max_tokens", max_tokens)
            if "max_tokens" in taken:
                for budget, compact in itertools.product((200, 500, 4_000), (False, True)):
                    yield name, {**arguments, "max_tokens": budget, "compact": compact}, budget

    calls = list(iter_calls())

    async def ask() -> list[CallToolResult]:
        async with Client(create_server(service, lambda _: identity)) as client:
            await client.list_tools()  # from then on it compares structured parts with their schemas
            return [await client.call_tool(name, arguments) for name, arguments, _ in calls]

    try:
        answers = anyio.run(ask)
    finally:
        service.close()
    for (name, arguments, limit), answer_ in zip(calls, answers, strict=True):
        text, structured = text_of(answer_), structured_of(answer_)
        assert not answer_.is_error, text
        assert bool(structured) == output_schemas, name
        assert estimate_tokens(text) <= limit, (name, arguments)
        assert estimate_tokens(structured) <= limit, (name, arguments)
        if structured:
            assert says_the_same(text, answer_.structured_content), (name, arguments)
        if name == "build_context":
            assert text.startswith("[1] " if arguments.get("compact") else ("Quotations", "Passages"))


def says_the_same(text: str, structured: dict[str, Any]) -> bool:
    """Whether a model that reads the structured part alone has the places, notes and way on of the text."""
    listed = ("results", "nodes", "sources", "candidates")
    items = [item for name in listed for item in structured.get(name) or ()]
    assert items and read_on(text) == structured.get("next_offset")
    places = [item.get("location") or item.get("id") or item["name"] for item in items]
    lines = [place.rpartition(":")[2].partition("-")[0] for place in places]
    assert all(note.rstrip(".") in text for note in structured["notes"] if "in the text alone" not in note)
    return all(line in text for line in lines)


def test_nothing_found_is_said_in_both_parts_and_once():
    for has_structured in (False, True):
        limits = AnswerLimits(500, has_structured=has_structured)
        output = page_search(answer(), offset=0, limit=5, compact=False, limits=limits)
        assert output.text == NO_RESULTS and output.structured_content["notes"] == [NO_RESULTS]


@pytest.mark.parametrize(("room", "is_told"), [(300, True), (80, False)])
def test_notes_of_a_context_are_told_where_the_budget_has_room_for_them(room: int, is_told: bool):
    prompt = "pay " * 200
    note = "the embedding model reads English, and this question seems to be in German: " + "ask again " * 60
    context = ContextResponse(
        *("q", 1.0, 1, (), "answer_question", prompt, 200, 200, "o200k", "excerpts", (), (), (), ()),
        notes=(note,),
    )
    limits = AnswerLimits(estimate_tokens(prompt) + room)
    output = page_context(context, limits=limits)
    assert limits.allows(output)
    assert ("seems to be in German" in output.text) == is_told
