"""`mcp install` writes what an agent's program reads, and leaves the rest of the file alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from knowledge_pipeline_tests.cli.conftest import Run

PLACES = {
    "claude": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "gemini": ".gemini/settings.json",
}
SECTIONS = ("mcpServers", "servers", "context_servers", "mcp_servers")


def read_servers(path: Path) -> dict[str, Any]:
    """The servers of a file without comments."""
    text = path.read_text(encoding="utf-8")
    settings = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    return next(settings[name] for name in SECTIONS if name in settings)


SKILLS = {"claude": ".claude", "cursor": ".cursor", "gemini": ".gemini", "vscode": ".github"}


@pytest.mark.sampled
@pytest.mark.parametrize("client", PLACES)
def test_a_client_finds_a_command_that_answers(home: Path, run: Run, client: str) -> None:
    said = run("mcp", "install", "--client", client, "--json").json
    skill = f"{SKILLS[client]}/skills/knowledge/SKILL.md"
    hooks = [".claude/settings.json"] if client == "claude" else []
    assert said["written"] == [PLACES[client], "AGENTS.md", skill, *hooks]
    entry = read_servers(Path(PLACES[client]))["knowledge"]
    assert entry["args"][-3:] == ["--config", str(home / "knowledge.yaml"), "mcp"]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    command = [entry["command"], *entry["args"]]
    answered = subprocess.run(command, input=line + "\n", capture_output=True, text=True, cwd="/", check=True)
    assert "knowledge_query" in json.loads(answered.stdout)["result"]["instructions"]


def test_programs_with_settings_in_the_home_folder(
    home: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "me/.config"))
    monkeypatch.setattr("sys.platform", "linux")
    for client, place in {
        "claude-desktop": ".config/Claude/claude_desktop_config.json",
        "windsurf": ".codeium/windsurf/mcp_config.json",
        "zed": ".config/zed/settings.json",
        "codex": ".codex/config.toml",
    }.items():
        run("mcp", "install", "--client", client, "--no-agents-file")
        assert read_servers(tmp_path / "me" / place)["knowledge"]["args"][-1] == "mcp"
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    run("mcp", "install", "--client", "codex", "--no-agents-file")
    assert read_servers(tmp_path / "codex/config.toml")["knowledge"]["command"]
    assert not Path("AGENTS.md").exists()


def test_other_settings_and_servers_stay(home: Path, run: Run) -> None:
    path = Path(".mcp.json")
    path.write_text(json.dumps({"theme": "dark", "mcpServers": {"other": {"command": "x"}}}))
    Path("AGENTS.md").write_text("# Rules\n\nBe brief.\n")
    for _ in range(2):
        run("mcp", "install", "--client", "claude")
    settings = json.loads(path.read_text())
    assert settings["theme"] == "dark"
    assert list(settings["mcpServers"]) == ["other", "knowledge"]
    agents = Path("AGENTS.md").read_text()
    assert agents.startswith("# Rules\n\nBe brief.\n\n<!-- knowledge: begin -->\n")
    assert agents.count("before grep") == 1


@pytest.mark.parametrize(
    "text", ["{} /* open", "{} /*/", '{"a": 1', "{,}", "[]", '{"mcpServers": []}', "\x00"]
)
def test_a_file_that_is_no_such_object_is_left_alone(home: Path, run: Run, text: str) -> None:
    path = Path(".mcp.json")
    path.write_text(text)
    error = run("mcp", "install", "--client", "claude", code=2).err
    assert ".mcp.json is not a JSON object with `mcpServers`: add this by hand: {" in error
    assert path.read_text() == text
    assert not Path("AGENTS.md").exists()


def test_without_a_configuration_nothing_is_written(nowhere: Path, run: Run) -> None:
    assert "run `knowledge init`" in run("mcp", "install", "--client", "claude", code=2).err
    assert not list(nowhere.iterdir())


def test_variables_that_the_file_needs_are_named_and_not_written(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDING_KEY", "secret-of-the-endpoint")
    with (home / "knowledge.yaml").open("a") as file:
        file.write("# not ${THIS_ONE}\nserve: {cors: ['$${NOR_THIS_ONE}']}\n")
    said = run("mcp", "install", "--client", "claude").out
    assert said.endswith("Start it where these variables are set: EMBEDDING_KEY.\n")
    assert "secret-of-the-endpoint" not in Path(".mcp.json").read_text()


def test_where_the_server_is_not_installed_nothing_is_written(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowledge_pipeline.extras.find_spec", lambda module: None)
    error = run("mcp", "install", "--client", "claude", code=2).err
    assert "pip install 'knowledge-pipeline[serve]'" in error
    assert not Path(".mcp.json").exists()


COMMENTED = """\
// Servers of this workspace.
{
\t"inputs": [], /* none, "yet" */
\t"servers": {
\t\t// The tracker: "https://example.org//a" , }
\t\t"tracker": {
\t\t\t"type": "http",
\t\t\t"url": "https://example.org//a, }", // a comma, and a brace
\t\t}%s // the last one
\t},
}
"""


@pytest.mark.parametrize("comma", [",", ""])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_and_trailing_commas_stay(home: Path, run: Run, comma: str, newline: str) -> None:
    path = Path(".vscode/mcp.json")
    path.parent.mkdir()
    before = (COMMENTED % comma).replace("\n", newline)
    path.write_bytes(before.encode())
    for _ in range(2):
        run("mcp", "install", "--client", "vscode", "--no-agents-file")
    after = path.read_bytes().decode()
    assert re.sub(r'\s*"knowledge": \{.*?\n\t\t\}', "", after, flags=re.DOTALL) == before.replace(
        "}" + comma + " // the", "}, // the"
    )
    assert after.count('"knowledge"') == 1 and after.count("\r\n") == (newline == "\r\n") * after.count("\n")
    json_lines = [re.sub(r"(^|\s)//.*|/\*.*?\*/", "", line) for line in after.splitlines()]
    plain = re.sub(r",(\s*[}\]](?!\"))", r"\1", "\n".join(json_lines))
    servers = json.loads(plain)["servers"]
    assert list(servers) == ["tracker", "knowledge"] and servers["knowledge"]["args"][-1] == "mcp"


def test_a_file_of_comments_alone_keeps_them(home: Path, run: Run) -> None:
    path = Path(".vscode/mcp.json")
    path.parent.mkdir()
    path.write_text("// none yet\n")
    run("mcp", "install", "--client", "vscode", "--no-agents-file")
    first, _, rest = path.read_text().partition("\n\n")
    assert first == "// none yet" and list(json.loads(rest)["servers"]) == ["knowledge"]


def test_what_the_user_added_to_an_entry_stays_and_what_a_remote_server_had_goes(
    home: Path, run: Run
) -> None:
    path = Path(".mcp.json")
    entry = {"type": "http", "url": "https://example.org/mcp", "headers": {}, "env": {"EMBEDDING_KEY": "x"}}
    path.write_text(json.dumps({"mcpServers": {"knowledge": entry, "other": {"command": "y"}}}))
    run("mcp", "install", "--client", "claude", "--no-agents-file")
    servers = read_servers(path)
    assert list(servers) == ["knowledge", "other"]
    assert set(servers["knowledge"]) == {"type", "env", "command", "args"}
    assert servers["knowledge"]["type"] == "stdio"


CODEX = """\
# My settings.
model = "gpt-5"   # the usual one

[mcp_servers.tracker]  # tickets
command = "tracker"
args = ["a#b"]

{ours}[profiles.fast]
model = "small"
"""
OURS = """\
[mcp_servers.knowledge]
startup_timeout_sec = 60  # it is slow here
command = "old"
args = [
  "one",  # of several lines
]
# Set by hand:
enabled = true

[mcp_servers.knowledge.env]
EMBEDDING_KEY = "x"

"""


@pytest.fixture
def codex(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Codex has its settings."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    (tmp_path / "codex").mkdir()
    return tmp_path / "codex/config.toml"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_codex_gets_a_table_and_all_else_in_its_file_stays(codex: Path, run: Run, newline: str) -> None:
    before = CODEX.format(ours="").replace("\n", newline)
    codex.write_bytes(before.encode())
    for _ in range(2):
        run("mcp", "install", "--client", "codex", "--no-agents-file")
    after = codex.read_bytes().decode()
    assert after.startswith(f"{before}{newline}[mcp_servers.knowledge]{newline}command = ")
    assert after.count("[mcp_servers.knowledge]") == 1
    assert list(read_servers(codex)) == ["tracker", "knowledge"]


def test_a_table_of_codex_is_brought_up_to_date(codex: Path, run: Run) -> None:
    codex.write_text(CODEX.format(ours=OURS))
    for _ in range(2):
        run("mcp", "install", "--client", "codex", "--no-agents-file")
    entry = read_servers(codex)["knowledge"]
    command, args = entry.pop("command"), entry.pop("args")
    assert entry == {"startup_timeout_sec": 60, "enabled": True, "env": {"EMBEDDING_KEY": "x"}}
    head, old = "[mcp_servers.knowledge]\n", OURS[OURS.index("command") : OURS.index("# Set")]
    new = f"{head}command = {json.dumps(command)}\nargs = {json.dumps(args)}\n"
    assert codex.read_text() == CODEX.format(ours=OURS.replace(old, "").replace(head, new))


@pytest.mark.parametrize(
    "text",
    [
        "model = ",
        "mcp_servers = 3\n",
        "[mcp_servers]\nknowledge = 3\n",
        'mcp_servers = {knowledge = {command = "x"}}\n',
        "mcp_servers.knowledge.command = 'x'\n",
        "\x00",
    ],
)
def test_settings_of_codex_that_have_no_such_tables_are_left_alone(codex: Path, run: Run, text: str) -> None:
    codex.write_text(text)
    error = run("mcp", "install", "--client", "codex", code=2).err
    assert "config.toml is not TOML with tables `[mcp_servers.NAME]`: add this by hand: mcp_servers." in error
    assert codex.read_text() == text
    assert not Path("AGENTS.md").exists()
    by_hand = error[error.index("mcp_servers.knowledge = ") :]
    assert tomllib.loads(" ".join(by_hand.split()))["mcp_servers"]["knowledge"]["args"][-1] == "mcp"


@pytest.mark.parametrize("place", ["CLAUDE.md", ".claude/CLAUDE.md"])
def test_a_claude_file_that_exists_gets_the_paragraph_once(home: Path, run: Run, place: str) -> None:
    path = Path(place)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"# Rules\r\n\r\nBe brief.\r\n")
    for _ in range(2):
        said = run("mcp", "install", "--client", "claude", "--no-skill", "--json").json
    assert said["written"] == [".mcp.json", "AGENTS.md", place]
    text = path.read_bytes().decode()
    assert text.startswith("# Rules\r\n\r\nBe brief.\r\n\r\n<!-- knowledge: begin -->\r\n")
    assert text.count("before grep") == 1 and text.count("\n") == text.count("\r\n")


@pytest.mark.parametrize("text", [None, "See @AGENTS.md for the rules.\n", "@./AGENTS.md\n"])
def test_a_claude_file_that_is_or_includes_the_agents_file_is_left_alone(
    home: Path, run: Run, text: str | None
) -> None:
    Path("AGENTS.md").write_text("# Rules\n")
    if text is None:
        os.symlink("AGENTS.md", "CLAUDE.md")
    else:
        Path("CLAUDE.md").write_text(text)
    said = run("mcp", "install", "--client", "claude", "--no-skill", "--json").json
    assert said["written"] == [".mcp.json", "AGENTS.md"]
    assert Path("CLAUDE.md").read_text() == text or Path("AGENTS.md").read_text().count("before grep") == 1


def test_a_claude_file_that_cannot_be_read_leaves_every_file_alone(home: Path, run: Run) -> None:
    Path("CLAUDE.md").write_bytes(b"\xff\xfe")
    assert "CLAUDE.md cannot be read" in run("mcp", "install", "--client", "claude", code=2).err
    assert not Path(".mcp.json").exists() and not Path("AGENTS.md").exists()


SKILL = Path(".claude/skills/knowledge/SKILL.md")
HOOKS = Path(".claude/settings.json")


def test_a_skill_says_when_to_ask_what_and_nothing_that_grows_old(home: Path, run: Run) -> None:
    run("mcp", "install", "--client", "claude")
    _, head, body = SKILL.read_text().split("---\n", 2)
    about = yaml.safe_load(head)
    assert about.keys() == {"name", "description"} and about["name"] == SKILL.parent.name
    assert len(about["description"]) < 1024 and len(SKILL.read_text()) < 2_000
    assert "status --brief` says what is indexed" in body and "`exact` or `regex`" in body
    first = SKILL.read_text(), HOOKS.read_text()
    run("mcp", "install", "--client", "claude")
    assert (SKILL.read_text(), HOOKS.read_text()) == first


def test_what_the_user_has_beside_the_skill_and_the_hook_stays(home: Path, run: Run) -> None:
    other = {"hooks": [{"type": "command", "command": "date"}]}
    old = {"hooks": [{"type": "command", "command": "/gone/knowledge status --brief"}]}
    HOOKS.parent.mkdir()
    HOOKS.write_text(json.dumps({"model": "opus", "hooks": {"Stop": [other], "SessionStart": [other, old]}}))
    run("mcp", "install", "--client", "claude")
    settings = json.loads(HOOKS.read_text())
    assert settings["model"] == "opus" and settings["hooks"]["Stop"] == [other]
    first, ours = settings["hooks"]["SessionStart"]
    assert first == other and ours["hooks"][0]["command"].endswith("status --brief")
    SKILL.write_text(
        SKILL.read_text().replace("name: knowledge", "name: knowledge\nlicense: MIT") + "Mine.\n"
    )
    run("mcp", "install", "--client", "claude")
    assert "license: MIT" in SKILL.read_text() and SKILL.read_text().endswith("Mine.\n")


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        (SKILL, "---\nname: knowledge\n---\nMine.\n", "is another skill of this name"),
        (HOOKS, '{"hooks": []}', "is not a JSON object with `hooks`"),
        (HOOKS, '{"hooks": {"SessionStart": {}}}', "is not a JSON object with `hooks`"),
    ],
)
def test_a_file_of_the_user_that_is_in_the_way_leaves_every_file_alone(
    home: Path, run: Run, path: Path, text: str, told: str
) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert told in run("mcp", "install", "--client", "claude", code=2).err
    assert path.read_text() == text and not Path(".mcp.json").exists()
    run("mcp", "install", "--client", "claude", "--no-skill")
    assert path.read_text() == text and Path(".mcp.json").exists()


def test_the_hook_says_what_is_indexed_now_in_few_words(indexed: Path, run: Run) -> None:
    run("mcp", "install", "--client", "claude")
    (hook,) = json.loads(HOOKS.read_text())["hooks"]["SessionStart"]
    command = hook["hooks"][0]["command"]
    said = subprocess.run(command, shell=True, capture_output=True, text=True, cwd="/", check=True).stdout
    assert "- shop-docs: markdown, 1 document, changed 20" in said and "`mode` `exact` or `regex`" in said
    assert len(said) < 1_500
