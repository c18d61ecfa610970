"""What an agent reads of the tools before it asks anything."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import get_args

import anyio
from mcp.client.client import Client

from knowledge_pipeline.contract.filters import DocumentType
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.mcp.server import create_server
from knowledge_pipeline.serve.mcp.tools import CORE_TOOLS, TOOLS, build_instructions, select_tools
from knowledge_pipeline.serve.service import Identity, Service
from knowledge_pipeline_tests.serve.mcp_calls import over_http, text_of
from knowledge_pipeline_tests.serve.world import World

OPERATOR = Access.operator("mcp")
SEARCH_TOOL = "/api/v1/knowledge/tools/search_knowledge_base"


def listed_by(world: World, access: Access = OPERATOR, **mcp):
    """The tools of a server with these keys of `serve.mcp`, and its instructions."""
    settings = world.settings
    serve = settings.serve.model_copy(update={"mcp": settings.serve.mcp.model_copy(update=mcp)})
    service = Service(settings.model_copy(update={"serve": serve}), config=world.config)

    async def ask():
        identity = Identity(access, frozenset({"query"}), "somebody", 600)
        async with Client(create_server(service, lambda _: identity, access=access)) as client:
            return (await client.list_tools()).tools, client.instructions

    try:
        return anyio.run(ask)
    finally:
        service.close()


def tokens_of(tools) -> float:
    """Names, descriptions and inputs as JSON, four characters to a token."""
    told = [
        {"name": each.name, "description": each.description, "inputs": each.input_schema} for each in tools
    ]
    return sum(len(json.dumps(each, separators=(",", ":"))) for each in told) / 4


def test_all_tools_cost_an_agent_less_than_2500_tokens(world):
    tools, _ = listed_by(world)
    assert len(tools) == len(TOOLS) == 15
    assert tokens_of(tools) < 2500


def test_tools_of_sources_that_a_caller_may_not_see_are_not_there(server, world):
    """That there is a wiki is for those who may see it."""

    async def ask(caller: str | None) -> tuple[set[str], str]:
        async with over_http(server.url, caller and world.tokens[caller]) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            return listed, str(await client.call_tool("search_confluence", {"query": "payments"}))

    for caller, sees in (
        ("gil", True),
        ("operator", True),
        ("globex", False),
        ("acme", False),
        (None, False),
    ):
        listed, answer = anyio.run(ask, caller)
        assert ("search_confluence" in listed, "there is no tool" in answer) == (sees, not sees), caller
        assert "search_jira_tickets" in listed  # of the public ones
    assert "search_confluence" not in listed_by(world, Access.public())[1]


def test_the_core_tools_are_five_and_cost_less_than_1000_tokens(world):
    tools, instructions = listed_by(world, tools="core")
    assert [tool.name for tool in tools] == list(CORE_TOOLS)
    assert len(tools) == 5
    assert tokens_of(tools) < 1000
    assert [name for name in TOOLS if f"`{name}`" in instructions and name not in CORE_TOOLS] == []


def test_schemas_of_responses_are_listed_where_they_are_asked_for(world):
    tools, _ = listed_by(world, output_schemas=True)
    for tool in tools:
        assert {"notes", "next_offset"} <= set(tool.output_schema["properties"]), tool.name
    assert [tool.name for tool in listed_by(world)[0] if tool.output_schema] == []


def test_schemas_of_arguments_say_what_each_list_holds_without_references(world):
    """Many clients resolve no reference, and then know nothing of what it stands for."""
    tools, _ = listed_by(world)
    for tool in tools:
        assert "$" not in json.dumps(tool.input_schema), tool.name
        for name, schema in tool.input_schema["properties"].items():
            assert schema["type"] != "array" or schema["items"]["type"], (tool.name, name)
    (build_context,) = (tool for tool in tools if tool.name == "build_context")
    turn = build_context.input_schema["properties"]["history"]["items"]
    assert turn["properties"] == {
        "role": {"type": "string", "enum": ["user", "assistant"]},
        "content": {"type": "string"},
    }


def test_tools_of_what_is_not_indexed_are_absent():
    assert set(TOOLS) - set(select_tools("all", {"code", "jira"})) == {"search_confluence"}
    without = select_tools("all", {"code"})
    assert set(TOOLS) - set(without) == {"search_jira_tickets", "search_confluence"}
    assert "search_jira_tickets" not in build_instructions(without)


def test_an_agent_is_told_what_there_is_that_it_may_see_and_no_more(server, world):
    async def ask(caller: str, **arguments) -> str:
        async with over_http(server.url, world.tokens[caller]) as client:
            return text_of(await client.call_tool("list_sources", arguments))

    for caller in ("operator", "acme", "public"):
        told = anyio.run(ask, caller)
        listed = {line.split()[1] for line in told.splitlines() if line.startswith("- ")}
        assert listed == {source.id for source in world.sources_of(caller)}
        assert f"({len(listed)} sources, " in told
    assert "- shop-code  code · " in told and "python" in told
    only = anyio.run(partial(ask, "operator", languages="python", compact=True))
    assert {line for line in only.splitlines() if line.startswith("- ")} == {
        f"- {source.id}" for source in world.sources_of("operator") if source.type == "code"
    }
    assert anyio.run(partial(ask, "public", languages="cobol")).startswith("(There is no such source")
    assert anyio.run(partial(ask, "public", offset=99)).startswith("Error: found offset 99; there are ")


def test_documentation_alone_is_searched_where_an_agent_asks_for_docs(server, world):
    async def ask(**arguments) -> str:
        async with over_http(server.url, world.tokens["operator"]) as client:
            found = await client.call_tool("knowledge_query", {"query": "payment", "limit": 100, **arguments})
            return text_of(found)

    def sources_in(told: str) -> set[str]:
        return set(re.findall(r"source (\S+) · score", told))

    types = {source.id: source.type for source in world.sources_of("operator")}
    assert {types[id_] for id_ in sources_in(anyio.run(ask))} > {"markdown", "code"}
    docs = sources_in(anyio.run(partial(ask, type="docs")))
    assert {"markdown", "confluence"} <= {types[id_] for id_ in docs} <= set(get_args(DocumentType))
    wiki = sources_in(anyio.run(partial(ask, type="docs", source_types=["confluence", "code"])))
    assert {types[id_] for id_ in wiki} == {"confluence"}
    assert anyio.run(partial(ask, type="docs", source_types=["code"])).startswith(
        "Error: found docs of source_types code; documents are of markdown, "
    )
    asker = server.client(world.tokens["operator"])
    results = asker.post(SEARCH_TOOL, json={"query": "payment", "type": "docs"}).json()["results"]
    assert results and {types[it["citation"]["source"]] for it in results} <= set(get_args(DocumentType))
