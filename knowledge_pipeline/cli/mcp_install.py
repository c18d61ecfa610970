"""`mcp install`: make an agent's program start this knowledge base, and tell the agent to use it.

What is written says when to ask what, and nothing that grows old: `knowledge status --brief` says what is
indexed, and a hook runs it when a session starts.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from knowledge_pipeline.cli.agent_settings import (
    UnreadableSettings,
    set_json_entry,
    set_json_items,
    set_toml_entry,
)
from knowledge_pipeline.cli.session import Session, example
from knowledge_pipeline.config.file import list_variables
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.extras import require_modules

SERVER_NAME = "knowledge"
_BEGIN, _END = "<!-- knowledge: begin -->", "<!-- knowledge: end -->"
GUIDE = """\
- A question in words: `knowledge_query`, or `code_search` where it must be code.
- An exact string or a regular expression: `knowledge_query` with `mode` `exact` or `regex`.
- Who calls this, what would a change break: `find_usages`, `get_call_graph`, `analyze_dependencies`.
- Before writing or reviewing code: `build_context` with the task.
- More of a result: `get_document` with its id. Cite results as `path:lines`.
"""
_AGENTS_PARAGRAPH = f"""\
{_BEGIN}
## Search the knowledge base before grep

This project is indexed: its code with callers and callees, its documents and its history. Ask the MCP \
server `{SERVER_NAME}` first, and use grep for what was not indexed yet.

{GUIDE}{_END}
"""
_SKILL_HEAD = f"""\
---
name: {SERVER_NAME}
description: Searches the indexed code, documents, tickets and history of this project, by meaning, exact \
text and code graph. Use it before grep, and before writing or reviewing code.
---

"""


class Client(StrEnum):
    """Programs that start MCP servers, and have a file that names them."""

    CLAUDE = "claude"
    CLAUDE_DESKTOP = "claude-desktop"
    CURSOR = "cursor"
    VSCODE = "vscode"
    WINDSURF = "windsurf"
    GEMINI = "gemini"
    CODEX = "codex"
    ZED = "zed"


_CLIENTS_WITH_TYPE = (Client.CLAUDE, Client.CURSOR, Client.VSCODE)
"""Their entries say that a server speaks over stdin."""
_SECTIONS = {Client.VSCODE: "servers", Client.CODEX: "mcp_servers", Client.ZED: "context_servers"}
"""What their files call the servers; others call them `mcpServers`."""
_SKILL_FOLDERS = {
    **{client: f".{client.value}" for client in (Client.CLAUDE, Client.CURSOR, Client.GEMINI)},
    **{Client.CODEX: ".agents", Client.VSCODE: ".github"},
}
"""Where they look for the `skills` of a project."""
_HOOKS_FILE = Path(".claude/settings.json")
_BRIEF = "status --brief"
_IMPORTS_AGENTS_FILE = re.compile(r"@(?:\.{1,2}/)*AGENTS\.md")


@example("""
    knowledge mcp install --client claude
    knowledge mcp install --client cursor --no-agents-file
""")
def install(
    session: Session,
    client: Annotated[Client, Option(help="The program that shall use this knowledge base.")],
    agents_file: Annotated[
        bool,
        Option(help="Also tell agents in AGENTS.md, and in a CLAUDE.md that exists, to ask it before grep."),
    ] = True,
    skill: Annotated[
        bool, Option(help="Also install a skill, and a hook that says what is indexed when a session starts.")
    ] = True,
) -> None:
    """Write the settings of an agent's program, in this folder or in your home folder.

    Other settings in the file stay as they are. Restart the program afterwards. Skills are for
    Claude Code, Cursor, Gemini, Codex and VS Code, the hook for Claude Code.
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
    entry: dict[str, Any] = {"type": "stdio"} if client in _CLIENTS_WITH_TYPE else {}
    entry |= {"command": start[0], "args": [*start[1:], "--config", str(config.absolute()), "mcp"]}
    written = {file: _edit_settings(file, _SECTIONS.get(client, "mcpServers"), entry)}
    if agents_file:
        written |= {path: _edit_instructions(path, _AGENTS_PARAGRAPH) for path in _list_instruction_files()}
    if skill and (folder := _SKILL_FOLDERS.get(client)):
        brief = shlex.join([*start, "--config", str(config.absolute()), *_BRIEF.split()])
        path = Path(folder, "skills", SERVER_NAME, "SKILL.md")
        written[path] = _edit_skill(path, brief)
        if client == Client.CLAUDE:
            written[_HOOKS_FILE] = _edit_hooks(_HOOKS_FILE, brief)
    for path, text in written.items():  # once all of them could be read
        _write_text(path, text)
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
        case Client.CODEX:
            return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex") / "config.toml"
        case Client.ZED:
            folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "zed"
            if sys.platform == "win32":
                folder = Path(os.environ.get("APPDATA", Path.home() / "AppData/Roaming")) / "Zed"
            return (Path.home() / ".config/zed" if sys.platform == "darwin" else folder) / "settings.json"


def _edit_settings(path: Path, section: str, entry: dict[str, Any]) -> str:
    """The text of a file of settings with the server in it."""
    is_toml = path.suffix == ".toml"
    try:
        set_entry = set_toml_entry if is_toml else set_json_entry
        return set_entry(_read_text(path), section, SERVER_NAME, entry)
    except UnreadableSettings:
        by_hand, kind = json.dumps({SERVER_NAME: entry}), f"a JSON object with `{section}`"
        if is_toml:
            options = ", ".join(f"{name} = {json.dumps(value)}" for name, value in entry.items())
            by_hand, kind = f"{section}.{SERVER_NAME} = {{{options}}}", f"TOML with tables `[{section}.NAME]`"
        raise ConfigError(f"{path} is not {kind}: add this by hand: {by_hand}") from None


def _list_instruction_files() -> Iterator[Path]:
    """AGENTS.md, and what Claude Code reads in its place where that does not include it."""
    agents = Path("AGENTS.md")
    yield agents
    for path in (Path("CLAUDE.md"), Path(".claude/CLAUDE.md")):
        is_separate = path.is_file() and path.resolve() != agents.resolve()
        if is_separate and not _IMPORTS_AGENTS_FILE.search(_read_text(path)):
            yield path


def _edit_skill(path: Path, brief: str) -> str:
    """The text of the skill; what a user wrote around our part of it stays."""
    if _read_text(path).strip() and _BEGIN not in _read_text(path):
        raise ConfigError(f"{path} is another skill of this name: move it, or pass --no-skill")
    what = f"`{brief}` says what is indexed, and how fresh it is. Ask the MCP server `{SERVER_NAME}`:"
    text = _edit_instructions(path, f"{_BEGIN}\n{what}\n\n{GUIDE}{_END}\n")
    return text if text.startswith("---") else _SKILL_HEAD + text


def _edit_hooks(path: Path, brief: str) -> str:
    """The text of the settings with a hook that runs a command when a session starts, once."""
    hook = {"hooks": [{"type": "command", "command": brief, "timeout": 30}]}
    try:
        return set_json_items(_read_text(path), "hooks", "SessionStart", [hook], replaced=_BRIEF)
    except UnreadableSettings:
        problem = f"{path} is not a JSON object with `hooks`: correct it, or pass --no-skill and add by hand"
        raise ConfigError(f"{problem}: {json.dumps({'SessionStart': [hook]})}") from None


def _edit_instructions(path: Path, paragraph: str) -> str:
    """The text of a file for agents with a paragraph in it, once."""
    text = _read_text(path)
    if "\r\n" in text:
        paragraph = paragraph.replace("\n", "\r\n")
    begin, end = text.find(_BEGIN), text.find(_END)
    if 0 <= begin < end:
        return text[:begin] + paragraph.rstrip() + text[end + len(_END) :]
    separator = "\r\n\r\n" if "\r\n" in text else "\n\n"
    return (text.rstrip("\r\n") + separator if text.strip() else "") + paragraph


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8") if path.exists() else ""  # with its line ends
    except (OSError, UnicodeDecodeError) as error:
        problem = f"{path} cannot be read ({type(error).__name__})"
        raise ConfigError(f"{problem}: correct it, or add the server by hand") from None


def _write_text(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = path.resolve()  # a link stays one
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        temporary.write_bytes(text.encode("utf-8"))
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}): check its folder") from None
