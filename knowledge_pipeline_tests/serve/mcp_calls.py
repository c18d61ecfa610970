"""Clients of the official SDK, as agents use it, and calls that every tool answers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from knowledge_pipeline_tests.serve.world import World

RIGHT: Mapping[str, Mapping[str, Any]] = {
    "knowledge_query": {"query": "how is a payment retried", "limit": 100},
    "code_search": {"query": "sum the payments", "languages": ["python"], "limit": 50},
    "search_code": {"query": "for _ in range(times):\n    if send():", "limit": 50},
    "search_jira_tickets": {"query": "customers are charged twice", "statuses": "To Do", "since": "20y"},
    "search_confluence": {"query": "who wakes up for the pager"},
    "find_usages": {"target": "Store.get_payment"},
    "find_references": {"target": "shop/store.py:Store"},
    "get_call_graph": {"target": "Store.get_payment", "depth": 3, "direction": "both"},
    "get_class_hierarchy": {"target": "Store"},
    "get_dependencies": {"target": "shop/canaryshopcode.py"},
    "analyze_dependencies": {"target": "Store.put_payment"},
    "find_related_code": {"target": "shop/store.py:11"},
    "get_document": {"id": "shop-docs:guides/canaryshopdocs.md"},
    "list_sources": {"languages": ["python"]},
    "build_context": {"task": "retry a payment of a customer", "file": "shop/store.py", "max_tokens": 2000},
}
"""Calls that whoever may see what is public gets an answer to."""


@asynccontextmanager
async def over_http(url: str, token: str | None, *, mode: str = "auto") -> AsyncIterator[Client]:
    """A client of a running server."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=240) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


def process(world: World, *options: str, **environment: str) -> StdioServerParameters:
    """How a client starts `knowledge mcp` for a world."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "knowledge_pipeline.cli", "--config", str(world.config), "mcp", *options],
        env=environment_of(world, **environment),
    )


def environment_of(world: World, **more: str) -> dict[str, str]:
    """This environment, with what a world's knowledge.yaml names, and no token but a given one."""
    own = {name: value for name, value in os.environ.items() if name != "KNOWLEDGE_TOKEN"}
    return {**own, **world.environment, **more}


def text_of(result: CallToolResult) -> str:
    """What a model reads."""
    assert [block.type for block in result.content] == ["text"]
    return result.content[0].text


def all_of(result: CallToolResult) -> str:
    """Everything that came back."""
    return text_of(result) + structured_of(result)


def structured_of(result: CallToolResult) -> str:
    """What a model reads of clients that hand it the structured part alone; empty where there is none."""
    return json.dumps(result.structured_content, ensure_ascii=False) if result.structured_content else ""
