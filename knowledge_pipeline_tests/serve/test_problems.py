"""Every error of ours as a response."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable

import httpx2
import pytest

from knowledge_pipeline import errors
from knowledge_pipeline.serve.http.problems import build_error_problem
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import World


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (errors.TooManyRequests("slower", retry_after_s=7.4), 429, "7"),
        (errors.TooManyRequests("slower", retry_after_s=0.1), 429, "1"),
        (errors.Busy("others write"), 503, "1"),
        (errors.ResponseTimeout("too long"), 504, "1"),
        (errors.StoreError("broken"), 503, None),
        (errors.NotFound("nowhere"), 404, None),
    ],
)
def test_what_a_retry_may_help_says_when(error: errors.KnowledgeError, status: int, retry_after: str | None):
    problem = build_error_problem(error, request_id="r")
    assert (problem.status_code, problem.headers.get("Retry-After")) == (status, retry_after)


@pytest.mark.parametrize("name", ["releases", "tokens"])
def test_a_damaged_list_of_releases_or_tokens_is_told_until_it_is_restored(own_world: World, name: str):
    """One sentence with what to do, by a running server and by one that starts."""
    root = own_world.root / "store" / f"{name}.lance"
    kept = shutil.copytree(root, own_world.root / "backup")
    newest = min((root / "_versions").glob("*.manifest"))  # Lance counts down

    def ask(server: Running) -> httpx2.Response:
        client = server.client(own_world.tokens["ann"])
        return client.post("/api/v1/knowledge/search", json={"query": "payments"})

    with Running(own_world.settings, config=own_world.config) as server:
        assert ask(server).status_code == 200
        newest.write_bytes(newest.read_bytes()[:40])
        wait_until(lambda: ask(server).status_code != 200)
        with Running(own_world.settings, config=own_world.config) as started:
            for asked in (server, started):
                answer = ask(asked)
                assert answer.status_code == 503
                assert f"{name}.lance of the store, cannot be read" in answer.json()["detail"]
                assert "restore that folder from a backup" in answer.json()["detail"]
        shutil.rmtree(root)
        kept.rename(root)
        wait_until(lambda: ask(server).status_code == 200)


def wait_until(is_so: Callable[[], bool]) -> None:
    """A server looks at the tokens again every second or so."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.2)
