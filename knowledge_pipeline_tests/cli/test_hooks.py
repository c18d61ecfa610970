"""A commit starts a refresh of what reads the repository, beside whatever the hooks did before."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from knowledge_pipeline.cli.hooks import HOOKS, build_script, remove_command, write_script
from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.locks import acquire_lock
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.cli.conftest import Run
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer


@pytest.fixture
def repository(tmp_path: Path, embedding_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """One that two sources read, by its folder and by its address; a third reads another folder."""
    monkeypatch.setenv("TEST_EMBEDDING_KEY", embedding_server.key)
    repository = Repository(tmp_path / "shop's code")
    # A module of Python's own name: a refresh that imported it would fail.
    repository.write(
        {"a.py": "def f():\n    return 1\n", "asyncio/__init__.py": "raise SystemExit(3)\n"}
    ).commit()
    (tmp_path / "loose").mkdir()
    (tmp_path / "knowledge.yaml").write_text(
        f"""version: 1
store: store
embedding: {{provider: openai, model: hashed-words, base_url: "{embedding_server.url}",
  api_key: "${{TEST_EMBEDDING_KEY}}", dimensions: {embedding_server.dimensions}}}
sources:
  - {{id: folder, type: code, connection: {{type: local, path: "shop's code"}}}}
  - {{id: address, type: code, connection: {{type: git, url: "{repository.root.as_uri()}", branch: main}}}}
  - {{id: loose, type: code, connection: {{type: local, path: loose}}}}
"""
    )
    monkeypatch.chdir(tmp_path)
    return repository


def hooks_of(repository: Repository) -> dict[str, str]:
    folder = repository.root / ".git" / "hooks"
    return {name: (folder / name).read_text() for name in HOOKS if (folder / name).exists()}


def test_install_and_remove_leave_the_hooks_that_were_there(repository: Repository, run: Run) -> None:
    own = repository.root / ".git" / "hooks" / "post-commit"
    own.write_text("#!/bin/bash\necho own > told\n")
    before = hooks_of(repository)
    for _ in range(2):
        assert "4 hooks" in run("hooks", "install").out
    installed = hooks_of(repository)
    assert installed.keys() == set(HOOKS)
    assert installed["post-commit"].startswith("#!/bin/bash\necho own > told\n")
    assert installed["post-commit"].count("hooks run") == 1
    assert "4 hooks removed" in run("hooks", "remove").out
    assert hooks_of(repository) == before
    assert run("hooks", "remove", "--json").json == {"removed": {str(repository.root): 0}}


def test_hooks_are_installed_where_git_looks_for_them(repository: Repository, run: Run) -> None:
    repository.git("config", "core.hooksPath", ".githooks")
    run("hooks", "install", str(repository.root))
    assert (repository.root / ".githooks" / "post-merge").stat().st_mode & 0o111


def test_a_hook_of_another_language_is_refused_in_a_sentence(repository: Repository, run: Run) -> None:
    (repository.root / ".git" / "hooks" / "post-merge").write_text("#!/usr/bin/env python3\n")
    refused = run("hooks", "install", code=2).err
    assert "post-merge is not a shell script: let it start `env PYTHONSAFEPATH=1" in refused
    assert hooks_of(repository).keys() == {"post-merge"}, "none is written unless all can be"


def test_a_folder_that_no_source_reads_is_refused_in_a_sentence(
    repository: Repository, tmp_path: Path, run: Run
) -> None:
    assert "loose is in no git repository" in run("hooks", "install", "loose", code=3).err
    other = Repository(tmp_path / "other")
    assert "no source reads" in run("hooks", "run", str(other.root), code=3).err


def test_the_lines_are_added_after_and_taken_out_of_any_script(tmp_path: Path) -> None:
    script = "#!/usr/bin/env bash\n\nset -e\nmake lint\n"
    hook = tmp_path / "post-commit"
    hook.write_text(script)
    write_script(hook, build_script(hook, ["true"], tmp_path / "log"))
    assert hook.read_text() != script
    assert remove_command(hook)
    assert hook.read_text() == script


def test_run_refreshes_what_reads_the_repository_and_nothing_else(repository: Repository, run: Run) -> None:
    done = run("hooks", "run", str(repository.root / "asyncio"), "--json").json
    assert sorted(source["source"] for source in done["sources"] if source["added"]) == ["address", "folder"]


def test_one_refresh_waits_and_takes_in_what_others_would(repository: Repository, run: Run) -> None:
    run("hooks", "run", str(repository.root))
    locks = repository.root / ".git" / "knowledge-hook"
    (name,) = {path.name.removesuffix("-waiting.lock") for path in locks.glob("*-waiting.lock")} or {""}
    if not name:  # the file of a lock that nobody holds may be gone
        (name,) = {path.name.removesuffix("-running.lock") for path in locks.iterdir()}
    repository.write({"b.py": "def g():\n    return 2\n"}).commit()
    with acquire_lock(locks, f"{name}-waiting", timeout_s=0):
        assert "takes this commit in" in run("hooks", "run", str(repository.root)).err
    assert run("hooks", "run", str(repository.root), "--json").json["sources"][0]["added"] == 1


@pytest.mark.slow
def test_a_commit_is_released_without_anyone_asking(repository: Repository, run_program: Run) -> None:
    run_program("refresh")
    run_program("hooks", "install")
    lake = Lake(load_settings(Path("knowledge.yaml")).store)
    for number in range(2):
        live = find_live_release(lake)
        assert live is not None
        repository.write({f"new{number}.py": f"def brand_new_{number}():\n    return {number}\n"})
        subprocess.run(["git", "add", "-A"], cwd=repository.root, check=True)
        repository.commit()
        deadline = time.monotonic() + 120
        while (newest := find_live_release(lake)) is None or newest.release == live.release:
            log = repository.root / ".git" / "knowledge-hook.log"
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
    log = repository.root / ".git" / "knowledge-hook.log"
    while "elease" not in log.read_text():
        time.sleep(0.2)
