"""A project in the current folder, a repository in it, and the command line run as a user would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from knowledge_pipeline.cli.app import app
from knowledge_pipeline_tests.fakes.bucket.s3_server import s3, s3_server  # noqa: F401 - fixtures
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

GUIDE = "# Guide\n\nHow sessions are signed with a key.\n\n## Retries\n\nA failed request is tried again.\n"
CODE = '''"""Sessions."""


def sign_session(key, payload):
    """Sign the payload of a session."""
    return key + payload


def retry_request(send, times):
    """Send again until it works."""
    for _ in range(times):
        if send():
            return True
    return False
'''


@dataclass(frozen=True)
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout, which must be one JSON value and nothing else."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error as JSON, which must be all of stderr, with nothing on stdout."""
        assert self.out == ""
        return json.loads(self.err)


Run = Callable[..., Ran]


def list_imports(importtime: str) -> set[str]:
    """The modules that `python -X importtime` wrote of."""
    return {line.rpartition("|")[2].strip() for line in importtime.splitlines() if "|" in line}


def git(folder: Path, *arguments: str) -> None:
    """Run git as a fixed person."""
    person = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *person, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, message: str) -> None:
    """Commit everything that lies there."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)


def _make_repository(folder: Path) -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "docs").mkdir()
    (folder / "src" / "sessions.py").write_text(CODE)
    (folder / "docs" / "guide.md").write_text(GUIDE)
    git(folder, "init", "--quiet")
    commit(folder, "Sign sessions")
    return folder


def copy_indexed(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a folder with `home` and `shop`, and the copied `home` as the current folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    _alone(tmp_path / "home", tmp_path, monkeypatch)
    return tmp_path / "home"


def index_files(folder: Path, server: OpenAIServer, **files: str) -> Path:
    """A folder with `home` and `shop`, which may have more files, indexed in this process."""
    home, shop = _make_home(folder / "home", server), _make_repository(folder / "shop")
    for name, text in files.items():
        (shop / name).parent.mkdir(exist_ok=True)
        (shop / name).write_text(text)
    if files:
        commit(shop, "More files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMBEDDING_KEY", server.key)
        _alone(home, folder, patch)
        run_here("index", "--repo", str(shop))
    return folder


def _make_home(folder: Path, server: OpenAIServer) -> Path:
    folder.mkdir()
    (folder / "knowledge.yaml").write_text(
        "# made for a test\nversion: 1\nstore: .knowledge\nembedding:\n"
        f"  provider: openai\n  model: hashed-words\n  base_url: {server.url}\n"
        f"  api_key: ${{EMBEDDING_KEY}}\n  dimensions: {server.dimensions}\nsources: []\n"
    )
    return folder


@pytest.fixture(scope="session")
def indexed_once(tmp_path_factory: pytest.TempPathFactory, embedding_server: OpenAIServer) -> Path:
    """A folder with `home` and `shop`, indexed; tests get copies."""
    return index_files(tmp_path_factory.mktemp("indexed"), embedding_server)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with code, a document and one commit."""
    return _make_repository(tmp_path / "shop")


@pytest.fixture
def home(tmp_path: Path, embedding_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a `knowledge.yaml` without sources, embedding by the test's endpoint."""
    folder = _make_home(tmp_path / "home", embedding_server)
    monkeypatch.setenv("EMBEDDING_KEY", embedding_server.key)
    _alone(folder, tmp_path, monkeypatch)
    return folder


@pytest.fixture
def indexed(
    indexed_once: Path, tmp_path: Path, embedding_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The current folder, with `../shop` indexed as `shop-code`, `shop-docs`, `shop-history`."""
    monkeypatch.setenv("EMBEDDING_KEY", embedding_server.key)
    return copy_indexed(indexed_once, tmp_path, monkeypatch)


@pytest.fixture
def shop(indexed: Path) -> Path:
    """The repository that is indexed."""
    return indexed.parent / "shop"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: nothing in it, nor above it."""
    folder = tmp_path / "nowhere"
    folder.mkdir()
    _alone(folder, tmp_path, monkeypatch)
    return folder


def _alone(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KNOWLEDGE_CONFIG", "KNOWLEDGE_STORE", "KNOWLEDGE_EMBEDDING_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(folder)


def run_here(*arguments: str, code: int = 0, stdin: str | None = None) -> Ran:
    """Run a command inside this process and require its exit code."""
    result = CliRunner().invoke(app, list(arguments), input=stdin, prog_name="knowledge")
    assert "Traceback" not in result.stderr
    assert result.exit_code == code, result.output
    return Ran(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def run() -> Run:
    """What runs a command."""
    return run_here


@pytest.fixture
def run_program() -> Run:
    """Run the command as a program of its own."""

    def runs(*arguments: str, code: int = 0, stdin: str = "", **environment: str) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "knowledge_pipeline.cli", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            timeout=120,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return runs
