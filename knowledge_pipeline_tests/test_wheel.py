"""The wheel is the product: built, unpacked elsewhere, and used in an empty folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest

import knowledge_pipeline
from knowledge_pipeline_tests.cli.conftest import commit, git
from knowledge_pipeline_tests.fakes.tiny_model import build_tiny_model

pytestmark = pytest.mark.slow
ROOT = Path(knowledge_pipeline.__file__).parent.parent


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """What the wheel holds, beside the libraries of this environment."""
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("knowledge_pipeline", "dbt_like_sql"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path]
    build = [sys.executable, "-m", "pip", "wheel", *options, source]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "unpacked")
    return tmp_path / "unpacked"


def test_what_the_wheel_holds_indexes_searches_and_answers_agents(unpacked: Path, tmp_path: Path):
    home, shop = tmp_path / "home", tmp_path / "shop"
    home.mkdir()
    shop.mkdir()
    git(shop, "init", "--quiet")
    (shop / "pay.py").write_text(
        'def retry(payment):\n    """Retry a failed payment."""\n    return payment\n'
    )
    (shop / "pay.md").write_text("# Payments\n\nFailed payments are tried again.\n")
    commit(shop, "Retry")
    model = build_tiny_model(tmp_path / "model")
    (home / "knowledge.yaml").write_text(f"version: 1\nembedding: {{model: {model}}}\nsources: []\n")
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}

    def run(*command: str, stdin: str = "") -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=home, env=environment, input=stdin, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    knowledge = ("-m", "knowledge_pipeline.cli")
    where = "import knowledge_pipeline; print(knowledge_pipeline.__file__)"
    assert run("-c", where).startswith(str(unpacked))
    assert run(*knowledge, "--version").startswith(f"knowledge {knowledge_pipeline.__version__}, Python 3.")
    run(*knowledge, "index", "--repo", str(shop))
    assert "pay.py:1-3" in run(*knowledge, "search", "retry a failed payment", "--type", "code")
    assert "shop-docs" in run(*knowledge, "sql", "chunks_by_source")
    initialize = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        '"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
    )
    assert '"serverInfo"' in run(*knowledge, "mcp", stdin=initialize)
    run("-m", "dagster", "definitions", "validate", "-m", "knowledge_pipeline.definitions")

    serve = [sys.executable, *knowledge, "serve", "--port", "0"]
    with subprocess.Popen(serve, cwd=home, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr
            address = server.stderr.readline().split()[-1]
            question = json.dumps({"query": "retry"}).encode()
            asked = urllib.request.Request(
                f"{address}/api/v1/knowledge/search", question, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(asked, timeout=120) as response:
                assert json.load(response)["results"]
        finally:
            server.terminate()
