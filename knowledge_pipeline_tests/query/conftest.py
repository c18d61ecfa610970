"""A store, an embedding endpoint and an engine for every test that needs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.query.search.rows import DIMENSIONS


@pytest.fixture(scope="session")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(dimensions=DIMENSIONS, ends_within_s=0.5) as running:
        yield running


@pytest.fixture
def settings(server: OpenAIServer, tmp_path: Path) -> Settings:
    return Settings(store=tmp_path / "store", embedding=endpoint(server))


@pytest.fixture
def lake(settings: Settings) -> Lake:
    return Lake(settings.store)


@pytest.fixture
def space(settings: Settings) -> str:
    return resolve_space(settings.embedding).name


@pytest.fixture
def base(settings: Settings) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.open(settings) as opened:
        yield opened


def endpoint(server: OpenAIServer, **changes: object) -> EmbeddingSettings:
    """Settings of the fake endpoint."""
    known = {"base_url": server.url, "api_key": server.key, "model": "fake", "dimensions": server.dimensions}
    return EmbeddingSettings.model_validate({"provider": "openai", "max_tries": 1, **known, **changes})
