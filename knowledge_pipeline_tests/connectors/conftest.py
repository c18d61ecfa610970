"""Fixtures of the tests of sources."""

from pathlib import Path

import pytest

from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.fakes.bucket.s3_server import s3, s3_server  # noqa: F401 - fixtures


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "origin")
