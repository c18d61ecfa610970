"""`mcp install` writes what an agent's program reads, and leaves the rest of the file alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline_tests.cli.conftest import Run

PLACES = {
    "claude": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "gemini": ".gemini/settings.json",
}


def read_servers(path: Path) -> dict[str, Any]:
    settings = json.loads(path.read_text())
    return settings.get("mcpServers") or settings["servers"]


@pytest.mark.sampled
@pytest.mark.parametrize("client", PLACES)
def test_a_client_finds_a_command_that_answers(home: Path, run: Run, client: str) -> None:
    said = run("mcp", "install", "--client", client, "--json").json
    assert said["written"] == [PLACES[client], "AGENTS.md"]
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
    }.items():
        run("mcp", "install", "--client", client, "--no-agents-file")
        assert read_servers(tmp_path / "me" / place)["knowledge"]["args"][-1] == "mcp"
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


@pytest.mark.parametrize("text", ["// a comment\n{}", "[]", '{"mcpServers": []}', "\x00"])
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
