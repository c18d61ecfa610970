"""What an agent reads of the tools before it asks anything."""

from __future__ import annotations

import json

import anyio
import pytest
from mcp.client.client import Client

from knowledge_pipeline.serve.mcp.server import create_server
from knowledge_pipeline.serve.mcp.tools import CORE_TOOLS, TOOLS, build_instructions, select_tools
from knowledge_pipeline.serve.service import Service
from knowledge_pipeline_tests.serve.world import World


def listed_by(world: World, **mcp):
    """The tools of a server with these keys of `serve.mcp`, and its instructions."""
    settings = world.settings
    serve = settings.serve.model_copy(update={"mcp": settings.serve.mcp.model_copy(update=mcp)})
    service = Service(settings.model_copy(update={"serve": serve}))

    async def ask():
        async with Client(
            create_server(service, lambda _: pytest.fail("a listing needs no access"))
        ) as client:
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
    assert len(tools) == len(TOOLS) == 14
    assert tokens_of(tools) < 2500


def test_the_core_tools_are_five_and_cost_less_than_1000_tokens(world):
    tools, instructions = listed_by(world, tools="core")
    assert [tool.name for tool in tools] == list(CORE_TOOLS)
    assert len(tools) == 5
    assert tokens_of(tools) < 1000
    assert [name for name in TOOLS if f"`{name}`" in instructions and name not in CORE_TOOLS] == []


def test_schemas_of_responses_are_listed_where_they_are_asked_for(world):
    tools, _ = listed_by(world, output_schemas=True)
    assert all("query_id" in tool.output_schema["required"] for tool in tools)


def test_tools_of_what_is_not_indexed_are_absent():
    assert set(TOOLS) - set(select_tools("all", {"code", "jira"})) == {"search_confluence"}
    without = select_tools("all", {"code"})
    assert set(TOOLS) - set(without) == {"search_jira_tickets", "search_confluence"}
    assert "search_jira_tickets" not in build_instructions(without)
