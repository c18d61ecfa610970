"""The process that a server starts before it knows what to refresh."""

from __future__ import annotations

import json
import subprocess
import sys

COMMAND = (sys.executable, "-m", "knowledge_pipeline.cli.prepared")


def run(told: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(COMMAND, input=told, capture_output=True, text=True, timeout=120)


def test_it_is_the_command_line_with_the_arguments_of_a_line(tmp_path):
    config = tmp_path / "knowledge.yaml"
    config.write_text("sources: [{id: docs, type: markdown, connection: {type: local, path: docs}}]")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Keys\n\nThe session signing key is rotated every week.\n")
    done = run(json.dumps(["refresh", "--source", "docs", "--config", str(config), "--json"]) + "\n")
    assert json.loads(done.stdout)["release"]["release"] == 1
    assert done.returncode == 0
    failed = run(json.dumps(["refresh", "--source", "code", "--config", str(config), "--json"]) + "\n")
    assert "there is no source 'code'" in json.loads(failed.stderr)["error"]
    assert failed.returncode == 3


def test_without_a_line_it_does_nothing():
    done = run("")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
