"""A server that embeds by an endpoint, installed from nothing by the documented command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import knowledge_pipeline
from knowledge_pipeline_tests.cli.conftest import commit, git
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

pytestmark = pytest.mark.slow
ROOT = Path(knowledge_pipeline.__file__).parent.parent
MAX_MB = 700
DOCUMENTED = "pip install 'knowledge-pipeline[serve]'"


@pytest.fixture
def server_python(tmp_path: Path) -> Path:
    """Python of an environment with the base and the extra `serve`, in the pinned versions."""
    assert DOCUMENTED in (ROOT / "deploy/serve/README.md").read_text()
    source, environment = tmp_path / "source", tmp_path / "environment"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("knowledge_pipeline", "dbt_like_sql"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin/python"
    options = ["--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", *options, f"{source}[serve]"],
        capture_output=True,
        text=True,
    )
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"no package registry can be reached: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return python


def test_a_server_of_700_MB_answers_from_a_store_that_another_environment_indexed(
    server_python: Path, tmp_path: Path
):
    files = (path for path in server_python.parent.parent.rglob("*") if "__pycache__" not in path.parts)
    assert sum(path.lstat().st_blocks * 512 for path in files) < MAX_MB << 20

    home, shop = tmp_path / "home", tmp_path / "shop"
    home.mkdir()
    shop.mkdir()
    git(shop, "init", "--quiet")
    (shop / "pay.py").write_text(
        'def retry(payment):\n    """Retry a failed payment."""\n    return payment\n'
    )
    commit(shop, "Retry")
    with OpenAIServer() as endpoint:
        (home / "knowledge.yaml").write_text(
            f"version: 1\nembedding: {{provider: openai, base_url: '{endpoint.url}', model: fake, "
            f"dimensions: {endpoint.dimensions}, api_key: '${{EMBEDDING_KEY}}'}}\nsources: []\n"
        )
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment = {**inherited, "EMBEDDING_KEY": endpoint.key}

        def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                command, cwd=home, env={**environment, **variables}, capture_output=True, text=True
            )

        program = ("-m", "knowledge_pipeline.cli")
        indexed = run(sys.executable, *program, "index", "--repo", str(shop), PYTHONPATH=str(ROOT))
        assert indexed.returncode == 0, indexed.stderr

        refused = run(server_python, *program, "index")
        assert refused.returncode == 2
        assert refused.stderr == (
            "error: this command needs a package that is not installed: "
            "pip install 'knowledge-pipeline[index]'\n"
        )

        serve = [server_python, *program, "serve", "--port", "0"]
        before = len(endpoint.requests)
        with subprocess.Popen(serve, cwd=home, env=environment, stderr=subprocess.PIPE, text=True) as server:
            try:
                assert server.stderr
                address = server.stderr.readline().split()[-1]
                question = json.dumps({"query": "retry a payment", "type": "code"}).encode()
                asked = urllib.request.Request(
                    f"{address}/api/v1/knowledge/search", question, {"Content-Type": "application/json"}
                )
                with urllib.request.urlopen(asked, timeout=120) as response:
                    answer = json.load(response)
            finally:
                server.terminate()
        assert answer["results"][0]["citation"]["path"] == "pay.py"
        assert answer["degraded"] == []
        assert len(endpoint.requests) > before
