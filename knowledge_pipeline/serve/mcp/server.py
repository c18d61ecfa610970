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

from knowledge_pipeline.errors import KnowledgeError, QuestionRefused
from knowledge_pipeline.serve.mcp.descriptions import INSTRUCTIONS
from knowledge_pipeline.serve.mcp.tools import TOOLS, Reply, Tool
from knowledge_pipeline.serve.service import Asker, Service
from knowledge_pipeline.serve.tool_inputs import read, schema_of

NAME = "knowledge"

Who = Callable[[ServerRequestContext[Any]], Asker]
"""Who asks a request; raises `Unauthenticated`."""

_READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_log = logging.getLogger(__name__)


def make_server(service: Service, who: Who) -> Server[Any]:
    """A server that asks `service` as `who` says; transports are run by `over_stdio` and `over_http`."""
    listed = [_listed(tool) for tool in TOOLS.values()]
    schemas = {tool.name: tool.input_schema for tool in listed}

    async def list_tools(_: ServerRequestContext[Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        try:
            return _answered(await _ask(service, who(context), params))
        except KnowledgeError as error:
            return _refused(str(error))
        except Exception as error:  # noqa: BLE001 - the last door: a bug is told, and the server goes on
            _log.exception("the tool %r failed", params.name)
            return _refused(f"an unexpected {type(error).__name__}: the server's log has more")

    return Server(
        NAME,
        version=version("knowledge-pipeline"),
        title="Knowledge base",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=schemas.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def _ask(service: Service, asker: Asker, params: CallToolRequestParams) -> Reply:
    tool = TOOLS.get(params.name)
    if tool is None:
        raise QuestionRefused(f"there is no tool {params.name[:200]!r}; there are {', '.join(TOOLS)}")
    asked = read(tool.inputs, params.arguments)
    return await service.ask(asker, lambda: tool.ask(service.base, asker.access, asked))


def _listed(tool: Tool) -> ListedTool:
    return ListedTool(
        name=tool.name,
        title=tool.title,
        description=tool.instructions,
        input_schema={**schema_of(tool.inputs), "description": f"Arguments of {tool.name}."},
        output_schema=schema_of(tool.gives, output=True),
        annotations=_READS,
    )


def _answered(reply: Reply) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=reply.text)], structured_content=reply.told)


def _refused(sentence: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=f"Error: {sentence}")], is_error=True)
