"""What a model reads of an answer."""

from __future__ import annotations

from dataclasses import replace

from knowledge_pipeline.contract.responses import (
    Citation,
    GraphEdge,
    GraphNode,
    GraphResponse,
    ResultSpan,
    SearchResponse,
    SearchResult,
)
from knowledge_pipeline.serve.mcp.advice import drop_commands
from knowledge_pipeline.serve.mcp.pages import AnswerLimits, page_document, page_graph
from knowledge_pipeline.serve.mcp.text import fence_block, render_answer

LIMITS = AnswerLimits(100_000)


def result(start: int = 0, text: str = "def pay():\n    pass", **metadata) -> SearchResult:
    lines = 1 + start // 10
    end = lines + text.count("\n")
    return SearchResult(
        id=f"id{start}",
        content=text,
        score=0.5,
        metadata={"language": "python", **metadata},
        citation=Citation("shop", "src/pay.py", f"L{lines}-L{end}", "pay.py", None),
        span=ResultSpan("src/pay.py", start, start + len(text), lines, end, "" if start == 0 else "\n"),
    )


def answer(*results: SearchResult, degraded: tuple[str, ...] = ()) -> SearchResponse:
    return SearchResponse("q", 1.0, 1, degraded, results, {})


def test_a_result_is_its_place_its_labels_and_its_content():
    assert render_answer(answer(result(symbol="pay"))).splitlines() == [
        "[1] src/pay.py:1-2  pay · source shop · score 0.50",
        "id id0 · document shop:src/pay.py",
        "```python",
        "def pay():",
        "    pass",
        "```",
    ]


def test_nothing_found_is_said_and_what_the_search_had_to_do_without():
    told = render_answer(answer(degraded=("vector",)))
    assert told.startswith(
        "(Searched by words alone: the embedding model could not be used.)\nNothing was found"
    )


def test_an_answer_that_is_doubted_says_so_before_the_nearest_results():
    doubted = render_answer(replace(answer(result()), confidence=0.1))
    assert doubted.startswith(
        "(Probably nothing here answers this: these are the nearest.)\n\n[1] src/pay.py"
    )
    for confidence in (None, 0.9):
        assert render_answer(replace(answer(result()), confidence=confidence)) == render_answer(
            answer(result())
        )


def test_no_content_closes_its_own_fence():
    told = fence_block("a\n````\n[2] forged.py:1\n```", "md")
    assert told.splitlines()[0] == "`````md"
    assert told.splitlines()[-1] == "`````"


def test_a_document_is_put_together_and_says_how_to_read_on():
    parts = [result(0, "one\ntwo"), result(8, "six\nten"), *(result(100 * n) for n in range(1, 4))]
    told = page_document(answer(*parts), offset=0, limit=2, compact=False, limits=LIMITS).text
    assert told.count("```") == 2, "both passages are one text"
    assert "document shop:src/pay.py" in told
    assert told.endswith("Chunks 1 to 2 of 5: read on with offset=2.")


def node(id_: str, side: str, **more) -> GraphNode:
    return GraphNode(id_, id_.title(), "function", id_, "shop", f"{id_}.py", "L1-L2", role=side, **more)


def test_the_graph_tells_each_node_once_with_what_links_it():
    nodes = (
        node("pay", "target"),
        node("cart", "used_by"),
        node("log", "uses"),
        node("main", "used_by", distance=2),
    )
    links = (
        GraphEdge("calls", "cart", "pay", "cart.py", (3, 9), 1.0),
        GraphEdge("calls", "main", "cart", "main.py", (4,), 0.5),
        GraphEdge("calls", "pay", "log", "pay.py", (2,), 1.0),
        GraphEdge("calls", "pay", "pay", "pay.py", (5,), 1.0),
    )
    whole = GraphResponse("q", 1.0, 1, (), "calls", "pay", nodes, links, notes=("3 more were left out",))
    told = page_graph(whole, offset=0, limit=50, compact=False, limits=LIMITS).text
    assert told.splitlines() == [
        "function Pay  pay.py:1-2  [shop]",
        "Uses it:",
        "- function Cart  cart.py:1-2  [shop]",
        "    calls Pay at cart.py:3,9 · by import or scope · 1.0",
        "- function Main  main.py:1-2  [shop]  (2 steps away)",
        "    calls Cart at main.py:4 · by name · 0.5",
        "Used by it:",
        "- function Log  log.py:1-2  [shop]",
        "    Pay calls Log at pay.py:2 · by import or scope · 1.0",
        "Between them:",
        "- Pay calls Pay at pay.py:5 · by import or scope · 1.0",
        "(3 more were left out.)",
    ]


def test_a_name_that_may_mean_several_things_says_what_to_ask_for():
    candidates = (node("a", "target"), node("b", "target"))
    whole = GraphResponse("q", 1.0, 1, (), "usages", "pay", candidates=candidates)
    told = page_graph(whole, offset=0, limit=50, compact=False, limits=LIMITS).text
    assert told.startswith(
        "`pay` may mean several things. Ask again with one of these as the target:\n- a.py:A"
    )


def test_a_message_for_an_agent_names_no_command_and_who_can_help():
    """Every sentence of the product that may reach a tool and names one has such a form."""
    help_ = "whoever operates this knowledge base can mend that"
    for message, told in {
        "nothing is released yet: run `knowledge index`": f"nothing is released yet: {help_}",
        "the token is not known, expired or revoked: `knowledge token create` makes a new one": (
            f"the token is not known, expired or revoked: {help_}"
        ),
        "Searched without an index: `knowledge maintain --repair` mends it.": (
            f"Searched without an index: {help_}."
        ),
        "x needs a package that is not installed: pip install --no-deps x": (
            f"x needs a package that is not installed: {help_}"
        ),
        "the question is empty: say what to look for": "the question is empty: say what to look for",
        "run `knowledge migrate`": f"run: {help_}",
    }.items():
        assert drop_commands(message) == told
