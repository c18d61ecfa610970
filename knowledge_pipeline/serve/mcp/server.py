"""The protocol: lists the tools, calls them with the caller's access, and reports errors as a sentence.

`create_server` serves any transport; `run` is the one over stdin and stdout, for a client that starts it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ListedTool

from knowledge_pipeline.contract.usage_labels import META_NAMES, UsageLabels, read_labels
from knowledge_pipeline.errors import InvalidQuery, KnowledgeError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.logs import configure_logging
from knowledge_pipeline.serve.mcp.advice import drop_commands
from knowledge_pipeline.serve.mcp.inputs import brief_schema_of, output_schema_of, parse_input
from knowledge_pipeline.serve.mcp.tools import TOOLS, Tool, build_instructions, select_tools
from knowledge_pipeline.serve.service import Identity, Origin, Service

SERVER_NAME = "knowledge"
QUERY_ID_NAME = "knowledge/query_id"
"""Of `_meta` in an answer: names it in the log and in feedback. Programs see it, models do not."""

IdentityResolver = Callable[[ServerRequestContext[Any] | None], Identity]
"""Who sends a request; raises `Unauthenticated`."""

_READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_NO_LABELS = UsageLabels()
_log = logging.getLogger(__name__)


def create_server(
    service: Service, resolve_identity: IdentityResolver, *, access: Access | None = None
) -> Server[Any]:
    """A server for one of the transports; `resolve_identity` finds out who sends a request.

    Its instructions are the same for all who send a request: they name tools of what `access` may see, by
    default what is public.
    """
    settings = service.settings.serve.mcp

    def select(access: Access) -> dict[str, Tool]:
        """Those of sources that a caller may see; looked at for each request, as sources come and go."""
        return select_tools(settings.tools, service.base.list_visible_types(access))

    def get_input_schema(name: str) -> dict[str, Any] | None:
        tool = TOOLS.get(name)
        return brief_schema_of(tool.input_model) if tool else None

    async def list_tools(
        context: ServerRequestContext[Any], _: PaginatedRequestParams | None
    ) -> ListToolsResult:
        tools = [
            ListedTool(
                name=name,
                title=tool.title,
                description=tool.description,
                input_schema=brief_schema_of(tool.input_model),
                output_schema=output_schema_of(tool.page) if settings.output_schemas else None,
                annotations=_READ_ONLY,
            )
            for name, tool in select(resolve_identity(context).access).items()
        ]
        return ListToolsResult(tools=tools)

    async def call_tool(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        try:
            identity = resolve_identity(context).with_labels(read_labels(params.meta, META_NAMES))
            tools = select(identity.access)
            tool = tools.get(params.name)
            if tool is None:
                raise InvalidQuery(f"there is no tool {params.name[:200]!r}; there are {', '.join(tools)}")
            arguments = parse_input(tool.input_model, params.arguments)
            output = await service.execute(
                identity, lambda: tool.handler(service.base, identity.access, arguments)
            )
            # many clients hand a model nothing but the structured part, where there is one
            structured = output.structured_content if settings.output_schemas else None
            query_id = output.page.query_id
            return CallToolResult(
                content=[TextContent(type="text", text=output.text)],
                structured_content=structured,
                _meta={QUERY_ID_NAME: query_id} if query_id else None,
            )
        except KnowledgeError as error:
            return _to_error_result(str(error))
        except Exception as error:  # noqa: BLE001 - a bug is reported, and the server goes on
            _log.exception("the tool %r failed", params.name)
            return _to_error_result(f"an unexpected {type(error).__name__}: the server's log has the details")

    return Server(
        SERVER_NAME,
        version=version("knowledge-pipeline"),
        title="Knowledge base",
        instructions=build_instructions(select(access or Access.public())),
        get_tool_input_schema=get_input_schema,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _to_error_result(detail: str) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=f"Error: {drop_commands(detail)}")], is_error=True
    )


def run(service: Service, *, token: str | None = None, labels: UsageLabels = _NO_LABELS) -> None:
    """Answer until stdin ends, with the access of a token, or as the operator; labels are for the logs."""
    per_minute = service.settings.serve.requests_per_minute
    operator = Identity(Access.operator("mcp"), frozenset({"query"}), "operator", per_minute)

    def resolve_identity(_: ServerRequestContext[Any] | None) -> Identity:
        """Look a token up for every request: it may expire. The operator could read the files anyway."""
        identity = operator if token is None else service.identify(token, Origin("mcp", None))
        return identity.with_labels(labels)

    resolve_identity(None)
    with configure_logging(service.settings.serve):
        anyio.run(_serve, service, resolve_identity)


async def _serve(service: Service, resolve_identity: IdentityResolver) -> None:
    server = create_server(service, resolve_identity, access=resolve_identity(None).access)
    async with stdio_server() as (reader, writer), anyio.create_task_group() as tasks:
        tasks.start_soon(service.warm)
        await server.run(reader, writer, server.create_initialization_options())
        tasks.cancel_scope.cancel()
