"""The programs of `examples/`, run as their docstrings say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline_tests.cli.conftest import Run
from knowledge_pipeline_tests.serve.running import Running

EXAMPLES = Path(__file__).parents[2] / "examples"
MAX_LINES = 60


def run_example(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "KNOWLEDGE_TOKEN"}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)


@pytest.fixture
def server(indexed: Path) -> Iterator[Running]:
    config = indexed / "knowledge.yaml"
    with Running(load_settings(config), config=config) as running:
        yield running


def test_they_are_short():
    programs = sorted(EXAMPLES.glob("*.py"))
    assert programs and all(len(path.read_text().splitlines()) <= MAX_LINES for path in programs)


def test_a_search_prints_places(indexed: Path):
    ran = run_example("search.py", "sign a session", "--language", "python", "--folder", str(indexed))
    assert ran.returncode == 0 and "src/sessions.py:" in ran.stdout, ran.stderr
    assert "docs/" not in ran.stdout


def test_a_folder_without_a_store_is_one_sentence(tmp_path: Path):
    ran = run_example("search.py", "sign a session", "--folder", str(tmp_path))
    assert ran.returncode == 1 and "Traceback" not in ran.stderr and len(ran.stderr.splitlines()) == 1


def test_a_context_is_printed_with_what_it_cites(server: Running):
    ran = run_example("ask_server.py", server.url, "sign a session again")
    assert ran.returncode == 0, ran.stderr
    assert "src/sessions.py" in ran.stdout and "[1] src/sessions.py:" in ran.stderr


def test_a_server_that_is_down_is_one_sentence():
    ran = run_example("ask_server.py", "http://127.0.0.1:9", "sign a session again")
    assert ran.returncode == 1 and "Traceback" not in ran.stderr and len(ran.stderr.splitlines()) == 1


def test_events_are_followed_from_a_position(server: Running, run: Run):
    secret = run("token", "create", "listener", "--everything", "--scope", "events", "--json").json["token"]
    command = [sys.executable, str(EXAMPLES / "follow_events.py"), server.url, "0"]
    environment = {**os.environ, "KNOWLEDGE_TOKEN": secret}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as following:
        try:
            assert following.stdout is not None
            lines = [following.stdout.readline() for _ in range(2)]
        finally:
            following.kill()  # a worker of the tests ignores SIGTERM, and its children with it
    assert any("index.refreshed" in line or "release.published" in line for line in lines), lines
