"""`mcp install`: make an agent's program start this knowledge base, and tell the agent to use it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class _SettingsFile:
    path: Path  # of a project: relative to its folder
    key: str = "mcpServers"
    with_type: bool = True  # whether an entry says that it is "stdio"


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
    settings_file = _locate_settings(client)
    config = session.config_path
    if not config.is_file():
        raise ConfigError(f"there is no {config}: run `knowledge init`, or name another one with --config")
    variables = list_variables(config)
    entry = _build_entry(config, settings_file)
    _write_entry(settings_file, entry)
    written = [settings_file.path]
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


def _locate_settings(client: Client) -> _SettingsFile:
    match client:
        case Client.CLAUDE:
            return _SettingsFile(Path(".mcp.json"))
        case Client.CLAUDE_DESKTOP:
            return _SettingsFile(_locate_claude_desktop() / "claude_desktop_config.json", with_type=False)
        case Client.CURSOR:
            return _SettingsFile(Path(".cursor/mcp.json"))
        case Client.VSCODE:
            return _SettingsFile(Path(".vscode/mcp.json"), key="servers")
        case Client.WINDSURF:
            return _SettingsFile(Path.home() / ".codeium/windsurf/mcp_config.json", with_type=False)
        case Client.GEMINI:
            return _SettingsFile(Path(".gemini/settings.json"), with_type=False)


def _locate_claude_desktop() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/Claude"
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", Path.home() / "AppData/Roaming")) / "Claude"
    return Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config")) / "Claude"


def _build_entry(config: Path, settings_file: _SettingsFile) -> dict[str, Any]:
    """Clients start programs in their own folders: all paths are absolute."""
    program = Path(sys.executable).with_name("knowledge")
    command = [str(program)] if program.exists() else [sys.executable, "-m", "knowledge_pipeline.cli"]
    entry = {"command": command[0], "args": [*command[1:], "--config", str(config.absolute()), "mcp"]}
    return {"type": "stdio", **entry} if settings_file.with_type else entry


def _write_entry(settings_file: _SettingsFile, entry: dict[str, Any]) -> None:
    path, key = settings_file.path, settings_file.key
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
    """Add the paragraph, or replace the one of an earlier version."""
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
