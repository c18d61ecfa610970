"""`mcp`: tools for agents, over stdin and stdout."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from knowledge_pipeline.cli.commands.mcp_install import install
from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.extras import require_modules

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import Settings

Tools = Literal["all", "core"]
TOKEN_ENV = "KNOWLEDGE_TOKEN"  # noqa: S105 - the name of a variable


@example("""
    knowledge mcp
    knowledge mcp --tools core
    knowledge mcp --config /srv/knowledge/knowledge.yaml
    knowledge mcp --token-env TEAM_TOKEN
""")
def mcp(
    session: Session,
    token_env: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Answer with the access of the token in this environment variable.  "
            f"[default: {TOKEN_ENV}, if it is set]",
        ),
    ] = None,
    tools: Annotated[
        Tools | None,
        Option(help="all, or core: the five that most tasks need.  [default: serve.mcp.tools]"),
    ] = None,
) -> None:
    """Serve an agent over stdin and stdout, by the Model Context Protocol.

    Clients such as Claude Desktop, Cursor and VS Code start this command themselves: docs/agents.md
    has their settings. Without a token, the whole store is visible. To share one server, run
    `knowledge serve`, which speaks the same protocol at /mcp.
    """
    require_modules("`knowledge mcp`", "mcp")
    from knowledge_pipeline.serve.mcp.stdio_transport import run
    from knowledge_pipeline.serve.service import Service

    token = _read_token(token_env)
    service = Service(_choose_tools(session.settings, tools), config=session.config_path)
    try:
        run(service, token=token, labels=session.labels)
    finally:
        service.close()


COMMANDS = (install,)


def _choose_tools(settings: Settings, tools: Tools | None) -> Settings:
    """The settings with the tools of this run."""
    if tools is None:
        return settings
    mcp_settings = settings.serve.mcp.model_copy(update={"tools": tools})
    return settings.model_copy(update={"serve": settings.serve.model_copy(update={"mcp": mcp_settings})})


def _read_token(variable: str | None) -> str | None:
    """The token in a variable; an empty one is an error, never the operator's access."""
    name = variable or TOKEN_ENV
    token = os.environ.get(name)
    if token == "" or (token is None and variable):
        state = "is empty" if token == "" else "is not set"
        raise ConfigError(f"the environment variable {name} {state}: set it to a token, or leave it out")
    return token
