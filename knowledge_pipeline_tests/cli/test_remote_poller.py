"""What `knowledge watch` hears of remote repositories."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from knowledge_pipeline.cli.watch import RemoteChanges, RemotePoller
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.connectors.repositories import Repository, over_git
from knowledge_pipeline_tests.fakes.git_server import GitFault, GitServer


def wait_for_changes(poller: RemotePoller) -> RemoteChanges:
    while not (found := poller.drain_changes()):
        time.sleep(0.01)
    return found


@pytest.mark.timeout(120)
def test_a_commit_is_a_change_once_and_what_was_there_before_is_none(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "shop")
    repository.write({"a.py": "1\n"}).commit()
    with GitServer(tmp_path) as server:
        source = over_git("code", f"{server.url}/shop/.git", branch="main")
        poller = RemotePoller([source], interval_s=0.02, lake=Lake(tmp_path / "store"))
        repository.write({"a.py": "2\n"}).commit()
        assert wait_for_changes(poller) == {"source": None}
        before = len(server.requests)
        while len(server.requests) < before + 6:  # it has looked again, more than once
            time.sleep(0.01)
        assert poller.drain_changes() == {}
        server.git_fault = GitFault(404)
        assert "not found" in str(wait_for_changes(poller)["source"]).lower()
        poller.set_sources([])
