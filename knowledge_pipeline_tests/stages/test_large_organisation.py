"""An organisation of 2,000 repositories: what listing, loading and an unchanged pass cost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.file import load_settings, read_stamp
from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.git.remote_heads import build_queries, group_by_watched_branch
from knowledge_pipeline.defs.sensors import RemovalCursor, plan_additions, plan_removals
from knowledge_pipeline.stages.context import list_scheduled_sources
from knowledge_pipeline.stages.organisations import discover, select_organisations
from knowledge_pipeline_tests.fakes.github.server import GithubServer

REPOSITORIES = 2_000


@pytest.mark.slow
def test_two_thousand_repositories_are_listed_and_loaded_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, Any], None]
) -> None:
    with GithubServer() as server:
        monkeypatch.setenv("TOKEN", server.token)
        server.answerer.own("acme", *(f"r{number}" for number in range(REPOSITORIES)), topics=("pay",))
        connection = {"type": "github_organisation", "organisation": "acme", "url": server.url}
        entry = {"id": "acme", "connection": {**connection, "token": "${TOKEN}"}}
        sources = [{"type": "code"}, {"type": "github_pr"}]
        path = tmp_path / "knowledge.yaml"
        path.write_text(json.dumps({"organisations": [{**entry, "sources": sources}]}))
        server.limit(after=12, reset_s=30)  # the quota ends in the middle of the listing
        waits: list[float] = []

        def wait(wait_s: float) -> None:
            waits.append(wait_s)
            server.limit(after=5000, reset_s=3600)

        settings = load_settings(path)
        seconds: dict[str, float] = {}  # of the processor, the server's included

        def timed(name: str, call: Callable[[], Any]) -> Any:
            started = time.process_time()
            found = call()
            seconds[name] = round(time.process_time() - started, 3)
            return found

        [organisation] = select_organisations(settings)
        with pausing_by(wait):
            found = timed("list", lambda: discover(settings, organisation))
        assert (found.problem, found.selected, len(found.added)) == ("", REPOSITORIES, REPOSITORIES)
        assert len(server.requests) == server.points == 20 and len(waits) == 1
        with pausing_by(wait):
            again = timed("list without a change", lambda: discover(settings, organisation))
        assert (again.added, again.removed, len(server.requests)) == ((), (), 40)

    settings = timed("load", lambda: load_settings(path))
    assert len({source.id for source in settings.sources}) == 2 * REPOSITORIES
    assert timed("is it current", lambda: read_stamp(path, settings)) == settings.stamp
    keys = [f"{source.type}/{source.id}" for source in settings.sources]

    def plan() -> tuple[int, int, int]:
        """What ticks of Dagster compute where nothing changed."""
        additions = plan_additions(keys, keys, keys, keys, [])
        removals = plan_removals(keys, keys, keys, RemovalCursor(), now_s=0.0, grace_s=0.0)
        queries = build_queries(group_by_watched_branch(settings.sources))
        due = list_scheduled_sources(settings, "daily")
        return len(additions.refresh) + len(removals.purge), len(queries), len(due)

    assert timed("plan an unchanged pass", plan) == (0, REPOSITORIES, 2 * REPOSITORIES)
    record_property("seconds", seconds)
    print(seconds)
    assert seconds["load"] < 1 and seconds["plan an unchanged pass"] < 1  # 0.05 and 0.13 as measured
