"""What docs/agents.md and docs/agent-tools.md say is true of settings, commands and tools."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import typer

from knowledge_pipeline.cli.app import app
from knowledge_pipeline.serve.mcp.tools import TOOLS

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "agents.md").read_text(encoding="utf-8")
TOOL_PAGE = (DOCS / "agent-tools.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_settings_are_json_and_name_one_server():
    read = [json.loads(block) for block in blocks("json")]
    assert len(read) == 6
    for settings in read:
        (server,) = (settings.get("mcpServers") or settings["servers"]).values()
        assert server.get("args", [])[-1:] == ["mcp"] or "https://knowledge.example.org/mcp" in str(server)


def test_every_tool_is_in_the_table():
    rows = "\n".join(line for line in TOOL_PAGE.splitlines() if line.startswith(("| `", "| **`")))
    assert [name for name in TOOLS if f"`{name}`" not in rows] == []


def test_its_commands_and_options_exist():
    commands = typer.main.get_command(app).commands
    create = commands["token"].commands["create"]
    options = {option for parameter in create.params for option in parameter.opts}
    assert {"--tenant", "--principal", "--expires"} <= options
    assert {"--token-env", "--config"} <= {option for each in commands["mcp"].params for option in each.opts}


def test_its_programs_are_python():
    assert len([ast.parse(block) for block in blocks("python")]) == 4
