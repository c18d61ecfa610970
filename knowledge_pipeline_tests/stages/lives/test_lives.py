"""Documents of every source type live one life, over every connection that the type is read over."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from knowledge_pipeline.config.sources import CONNECTIONS_BY_TYPE
from knowledge_pipeline_tests.conftest import embedding_by
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.stages.lives.script import Life, live, live_briefly, require_complete
from knowledge_pipeline_tests.stages.lives.table import ELSEWHERE, KINDS

TESTS = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def logged_in_nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a machine that nobody has logged in on."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


def lead(name: str, script: Callable[[Life], None], folder: Path, server: OpenAIServer) -> None:
    with KINDS[name].open(folder / "origin") as origin:
        require_complete(origin)
        script(Life(origin, folder, embedding_by(server)))


CHEAPEST = [name for name, kind in KINDS.items() if kind.is_cheapest]
OTHERS = [name for name, kind in KINDS.items() if kind.is_whole or not kind.is_cheapest]


@pytest.mark.parametrize("name", CHEAPEST)
def test_documents_live_briefly(name: str, tmp_path: Path, embedding_server: OpenAIServer) -> None:
    lead(name, live_briefly, tmp_path, embedding_server)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_documents_live(name: str, tmp_path: Path, embedding_server: OpenAIServer) -> None:
    lead(name, live if KINDS[name].is_whole else live_briefly, tmp_path, embedding_server)


def test_every_type_lives_over_every_connection() -> None:
    allowed = CONNECTIONS_BY_TYPE
    known = {(source_type, each) for source_type, connections in allowed.items() for each in connections}
    lived = {(kind.source_type, kind.connection) for kind in KINDS.values()}
    assert not lived & ELSEWHERE.keys()
    assert lived | ELSEWHERE.keys() == known
    assert all((TESTS / module).is_file() for module in ELSEWHERE.values())
