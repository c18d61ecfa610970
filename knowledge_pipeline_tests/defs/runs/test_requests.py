"""The requests for runs of many sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.defs.runs import build_refresh_requests


@pytest.mark.parametrize(
    ("run_key", "keys"), [(None, [None, None]), ("commit a", ["commit a", "commit a 2"])]
)
def test_runs_of_one_look_have_keys_of_their_own_and_none_where_it_has_none(
    run_key: str | None, keys: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster starts no run with a key that it has seen: one made of nothing would end them all."""
    monkeypatch.setenv("KNOWLEDGE_SOURCES_PER_RUN", "2")
    connection = {"type": "local", "path": tmp_path}
    declared = [{"id": id_, "type": "code", "connection": connection} for id_ in ("a", "b", "c")]
    sources = Settings.model_validate({"store": tmp_path, "sources": declared}).sources
    requests = list(build_refresh_requests(sources, trigger="commit", run_key=run_key))
    assert [each.run_key for each in requests] == keys
