"""`mcp install`: make an agent's program start this knowledge base, and tell the agent to use it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.config.file import list_variables
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.extras import require_modules
from knowledge_pipeline.text import is_object

SERVER_NAME = "knowledge"
_BEGIN, _END = "<!-- knowledge: begin -->", "<!-- knowledge: end -->"
_AGENTS_PARAGRAPH = f"""\
{_BEGIN}
## Search the knowledge base before grep

This project is indexed: its code with callers and callees, its documents and its history. Ask the MCP \
server `{SERVER_NAME}` first, and use grep for exact strings that it does not find.

- A question in words: `knowledge_query`, or `code_search` where it must be code.
- Who calls this, what would a change break: `find_usages`, `get_call_graph`, `analyze_dependencies`.
- Before writing or reviewing code: `build_context` with the task.
- More of a result: `get_document` with its id. Cite results as `path:lines`.
{_END}
"""


class Client(StrEnum):
    """Programs that start MCP servers, and have a file that names them."""

    CLAUDE = "claude"
    CLAUDE_DESKTOP = "claude-desktop"
    CURSOR = "cursor"
    VSCODE = "vscode"
    WINDSURF = "windsurf"
    GEMINI = "gemini"


_CLIENTS_WITHOUT_TYPE = (Client.CLAUDE_DESKTOP, Client.WINDSURF, Client.GEMINI)
"""Their entries do not say that a server speaks over stdin."""


@example("""
    knowledge mcp install --client claude
    knowledge mcp install --client cursor --no-agents-file
""")
def install(
    session: Session,
    client: Annotated[Client, Option(help="The program that shall use this knowledge base.")],
    agents_file: Annotated[
        bool, Option(help="Also tell agents in AGENTS.md to ask it before they use grep.")
    ] = True,
) -> None:
    """Write the settings of an agent's program, in this folder or in your home folder.

    Other settings in the file stay as they are. Restart the program afterwards.
    """
    require_modules("`knowledge mcp`", "mcp")
    file = _locate_settings(client)
    config = session.config_path
    if not config.is_file():
        raise ConfigError(f"there is no {config}: run `knowledge init`, or name another one with --config")
    variables = list_variables(config)
    program = Path(sys.executable).with_name("knowledge")
    start = [str(program)] if program.exists() else [sys.executable, "-m", "knowledge_pipeline.cli"]
    # Clients start programs in their own folders: all paths are absolute.
    entry: dict[str, Any] = {} if client in _CLIENTS_WITHOUT_TYPE else {"type": "stdio"}
    entry |= {"command": start[0], "args": [*start[1:], "--config", str(config.absolute()), "mcp"]}
    _write_entry(file, "servers" if client is Client.VSCODE else "mcpServers", entry)
    written = [file]
    if agents_file:
        written.append(_write_agents_paragraph(Path("AGENTS.md")))
    session.screen.print_json(
        {"client": client.value, "written": list(map(str, written)), "entry": entry, "variables": variables}
    )
    for path in written:
        session.screen.print_text(f"Wrote {path}")
    command = " ".join([entry["command"], *entry["args"]])
    session.screen.print_text(f"Restart {client.value}: it then starts `{command}`.")
    if variables:  # secrets, which no file of a project should hold
        session.screen.print_text(f"Start it where these variables are set: {', '.join(variables)}.")


def _locate_settings(client: Client) -> Path:
    """The file that names a client's servers; that of a project is relative to its folder."""
    match client:
        case Client.CLAUDE:
            return Path(".mcp.json")
        case Client.CLAUDE_DESKTOP:
            folder = Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config"))
            if sys.platform == "darwin":
                folder = Path.home() / "Library/Application Support"
            elif sys.platform == "win32":
                folder = Path(os.environ.get("APPDATA", Path.home() / "AppData/Roaming"))
            return folder / "Claude/claude_desktop_config.json"
        case Client.CURSOR:
            return Path(".cursor/mcp.json")
        case Client.VSCODE:
            return Path(".vscode/mcp.json")
        case Client.WINDSURF:
            return Path.home() / ".codeium/windsurf/mcp_config.json"
        case Client.GEMINI:
            return Path(".gemini/settings.json")


def _write_entry(path: Path, key: str, entry: dict[str, Any]) -> None:
    text = _read_text(path)
    try:
        settings: Any = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError:
        settings = None
    servers = settings.get(key, {}) if is_object(settings) else None
    if not is_object(settings) or not is_object(servers):
        raise ConfigError(
            f"{path} is not a JSON object with `{key}`: add this by hand: {json.dumps({SERVER_NAME: entry})}"
        )
    _write_text(path, json.dumps({**settings, key: {**servers, SERVER_NAME: entry}}, indent=2) + "\n")


def _write_agents_paragraph(path: Path) -> Path:
    text = _read_text(path)
    begin, end = text.find(_BEGIN), text.find(_END)
    if 0 <= begin < end:
        text = text[:begin] + _AGENTS_PARAGRAPH.rstrip("\n") + text[end + len(_END) :]
    else:
        text = (text.rstrip("\n") + "\n\n" if text.strip() else "") + _AGENTS_PARAGRAPH
    _write_text(path, text)
    return path


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        problem = f"{path} cannot be read ({type(error).__name__})"
        raise ConfigError(f"{problem}: correct it, or add the server by hand") from None


def _write_text(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = path.resolve()  # a link stays one
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): check its folder") from None
