"""A project whose tables lie in a bucket of moto or of our Azure, for this process and for others.

def test_something(s3_project):    # like `project`, with an empty prefix of a bucket as its store
    s3_project.declare("docs", "markdown", folder)
    s3_project.refresh()
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.store import ObjectStore, StoreOptions
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.conftest import Project, embedding_by
from knowledge_pipeline_tests.fakes.bucket.azure_server import AzureServer
from knowledge_pipeline_tests.fakes.bucket.s3_server import REGION, S3Bucket
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer


def store_in(bucket: S3Bucket, folder: Path, prefix: str = "team/knowledge") -> ObjectStore:
    """A prefix of the bucket, reached with the keys of the bucket's own reader."""
    options = StoreOptions(
        endpoint_url=bucket.server.url,
        region=REGION,
        access_key_id=bucket.connection.access_key_id,
        secret_access_key=bucket.connection.secret_access_key,
    )
    return ObjectStore(url=f"s3://{bucket.name}/{prefix}", folder=folder, options=options)


class RemoteProject(Project):
    """A folder with sources, and tables in a bucket."""

    def __init__(self, root: Path, embedding: EmbeddingSettings, store: ObjectStore) -> None:
        super().__init__(root, embedding)
        self.store, self.lake = store, Lake(store)

    @property
    def settings(self) -> Settings:
        """What `knowledge.yaml` would say now."""
        told: dict[str, Any] = {"store": self.store, "embedding": self.embedding}
        return Settings.model_validate({**told, "sources": list(self.sources.values())})


@pytest.fixture
def s3_project(tmp_path: Path, s3: S3Bucket, embedding_server: OpenAIServer) -> RemoteProject:
    """An empty project."""
    return RemoteProject(tmp_path, embedding_by(embedding_server), store_in(s3, tmp_path / "here"))


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """One server for the whole session: clients of a store are kept as long as their process."""
    with AzureServer() as server:
        yield server


@pytest.fixture
def azure_store(azure_server: AzureServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ObjectStore:
    """A prefix of an empty container, on a machine whose environment has the account's key."""
    for name, value in azure_server.environment.items():
        monkeypatch.setenv(name, value)
    azure_server.reset(f"container-{uuid.uuid4().hex[:12]}")
    return ObjectStore(url=f"az://{azure_server.bucket}/team/knowledge", folder=tmp_path / "here")


@pytest.fixture
def azure_project(tmp_path: Path, azure_store: ObjectStore, embedding_server: OpenAIServer) -> RemoteProject:
    """An empty project."""
    return RemoteProject(tmp_path, embedding_by(embedding_server), azure_store)
