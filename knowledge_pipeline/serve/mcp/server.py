"""The protocol: lists the tools, calls them as whoever asks, and tells errors as one sentence."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool

from knowledge_pipeline.errors import InvalidQuery, KnowledgeError
from knowledge_pipeline.serve.mcp.descriptions import INSTRUCTIONS
from knowledge_pipeline.serve.mcp.tools import TOOLS, Tool, ToolOutput
from knowledge_pipeline.serve.service import Identity, Service
from knowledge_pipeline.serve.tool_inputs import parse_input, schema_of

SERVER_NAME = "knowledge"

IdentityResolver = Callable[[ServerRequestContext[Any]], Identity]
"""Who asks a request; raises `Unauthenticated`."""

_READ_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_log = logging.getLogger(__name__)


def create_server(service: Service, resolve_identity: IdentityResolver) -> Server[Any]:
    """A server that asks `service` as `who` says; transports are run by `over_stdio` and `over_http`."""
    listed = [_to_listed_tool(tool) for tool in TOOLS.values()]
    schemas = {tool.name: tool.input_schema for tool in listed}

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        try:
            return _to_result(await _run_tool(service, resolve_identity(context), params))
        except KnowledgeError as error:
            return _to_error_result(str(error))
        except Exception as error:  # noqa: BLE001 - the last door: a bug is told, and the server goes on
            _log.exception("the tool %r failed", params.name)
            return _to_error_result(f"an unexpected {type(error).__name__}: the server's log has more")

    return Server(
        SERVER_NAME,
        version=version("knowledge-pipeline"),
        title="Knowledge base",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _run_tool(service: Service, identity: Identity, params: CallToolRequestParams) -> ToolOutput:
    tool = TOOLS.get(params.name)
    if tool is None:
        raise InvalidQuery(f"there is no tool {params.name[:200]!r}; there are {', '.join(TOOLS)}")
    asked = parse_input(tool.inputs, params.arguments)
    return await service.execute(identity, lambda: tool.handler(service.base, identity.access, asked))


def _to_listed_tool(tool: Tool) -> ListedTool:
    return ListedTool(
        name=tool.name,
        title=tool.title,
        description=tool.descriptions,
        input_schema={**schema_of(tool.inputs), "description": f"Arguments of {tool.name}."},
        output_schema=schema_of(tool.output_model, output=True),
        annotations=_READ_ONLY,
    )


def _to_result(output: ToolOutput) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=output.text)], structured_content=output.structured
    )


def _to_error_result(detail: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=f"Error: {detail}")], is_error=True)
