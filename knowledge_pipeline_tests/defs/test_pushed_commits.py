"""A push that a code host reports is a recorded run, beside the daemon, without its sensor and queue."""

import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import httpx2
import pytest

from knowledge_pipeline.defs.commit_sensors import parse_cursor
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.defs.conftest import Workplace
from knowledge_pipeline_tests.defs.daemon import Daemon, running

pytestmark = pytest.mark.slow

URL = "https://code.example.com/team/shop.git"
SECRET = "only-a-test-signs-with-this"


@pytest.fixture
def repository(workplace: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """One whose address on a code host git leads to a folder; a source reads it by that address."""
    repository = Repository(tmp_path / "shop")
    repository.write({"a.py": "def f():\n    return 1\n"}).commit()
    (tmp_path / "gitconfig").write_text(f'[url "{repository.root.as_uri()}"]\n\tinsteadOf = {URL}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("TEST_WEBHOOK_SECRET", SECRET)
    workplace.path.write_text(
        f"version: 1\nstore: store\n{workplace.embedding}"
        'serve: {webhooks: {github_secret: "${TEST_WEBHOOK_SECRET}"}}\n'
        f"sources: [{{id: shop, type: code, connection: {{type: git, url: '{URL}', branch: main}}}}]\n"
    )
    return repository


@contextmanager
def serving(workplace: Workplace) -> Iterator[str]:
    """`knowledge serve` of the project, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "knowledge_pipeline.cli", "serve", "--port", str(port)]
    with (workplace.root / "serve.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=workplace.root, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 300
        while not is_up(url):
            assert time.monotonic() < deadline and server.poll() is None, (
                workplace.root / "serve.log"
            ).read_text()
            time.sleep(0.2)
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


def is_up(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/healthz").status_code < 500
    except httpx2.TransportError:
        return False


def push(url: str, commit: str) -> httpx2.Response:
    """Report a commit of the main branch as GitHub does."""
    pushed = {"clone_url": URL, "default_branch": "main", "pushed_at": int(time.time())}
    body = json.dumps({"ref": "refs/heads/main", "after": commit, "repository": pushed}).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "X-Hub-Signature-256": f"sha256={signature}",
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": commit,
        "Content-Type": "application/json",
    }
    return httpx2.post(f"{url}/webhooks/github", content=body, headers=headers)


def has_looked(daemon: Daemon) -> bool:
    """Whether the source has its first refresh, and the sensor knows where the repository stands."""
    stood = parse_cursor(daemon.cursor("changed_sources"))[0].stood
    return bool(daemon.runs(trigger="added")) and any(stood.values()) and daemon.idle()


def test_a_push_is_a_run_of_its_own_beside_the_daemon(
    workplace: Workplace, repository: Repository, dagster_home: Path
) -> None:
    with running(dagster_home, workplace.path, code_stays=True) as daemon:
        assert os.environ["DAGSTER_HOME"] == str(daemon.home), "the server records where the daemon does"
        daemon.until(lambda: has_looked(daemon), "the first look")
        with serving(workplace) as url:
            repository.write({"b.py": "def freshly_pushed():\n    return 2\n"})
            assert push(url, repository.commit()).json()["refreshes"]
            daemon.until(lambda: daemon.runs(trigger="command") and daemon.idle(), "the run of the push")
        (run,) = daemon.runs(trigger="command")
        assert run.status == dg.DagsterRunStatus.SUCCESS
        assert run.tags["source/shop"] == "yes"
        records = daemon.instance.get_records_for_run(run.run_id).records
        events = {record.event_log_entry.dagster_event_type for record in records}
        assert dg.DagsterEventType.PIPELINE_ENQUEUED not in events
        daemon.until(lambda: daemon.runs(trigger="commit") and daemon.idle(), "the sensor's own run")
        assert [run.status for run in daemon.runs(trigger="commit")] == [dg.DagsterRunStatus.SUCCESS]
    with KnowledgeBase.open(workplace.root) as knowledge:
        (first, *_) = knowledge.search("freshly pushed", limit=1).results
        assert first.citation.path == "b.py"
