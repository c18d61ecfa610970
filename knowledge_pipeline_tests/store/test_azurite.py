"""A store and a source in Microsoft's own emulator of Azure Storage, where one is installed.

It is 365 MB of packages for Node.js, so that the other tests use a small server of their own.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from knowledge_pipeline.config.connections import AzureConnection
from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.connectors.azure import AzureContainer, build_auth
from knowledge_pipeline.errors import Busy
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline_tests.conftest import Project, embedding_by, tables
from knowledge_pipeline_tests.fakes.bucket.store import RemoteProject
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

INSTALLED = os.environ.get("KNOWLEDGE_TEST_AZURITE")  # a folder after `npm install azurite@3`
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Of every emulator, as its documentation says."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not INSTALLED, reason="KNOWLEDGE_TEST_AZURITE names no folder with Azurite"),
]


@pytest.fixture(scope="module")
def emulator() -> Iterator[str]:
    """The address of its account."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = f"{INSTALLED}/node_modules/azurite/dist/src/blob/main.js"
    options = ("--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry")
    command = ["node", script, "--blobPort", str(port), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout and any("successfully listens" in line for line in process.stdout)
        yield f"http://127.0.0.1:{port}/devstoreaccount1"
        process.terminate()


@pytest.fixture
def connection(emulator: str, monkeypatch: pytest.MonkeyPatch) -> AzureConnection:
    """An empty container, which the environment's store reaches too."""
    account = {"account": "devstoreaccount1", "account_key": KEY, "endpoint_url": emulator}
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", account["account"])
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", emulator)
    found = AzureConnection.model_validate({"type": "azure", "container": "tests", **account})
    answer = requests.put(
        f"{emulator}/tests?restype=container",
        headers={"x-ms-version": "2021-12-02"},
        auth=build_auth(found, "Azurite"),
        timeout=30,
    )
    assert answer.status_code == 201
    return found


def test_a_store_and_a_source_work_on_the_emulator(
    connection: AzureConnection, project: Project, embedding_server: OpenAIServer, tmp_path: Path
) -> None:
    store = ObjectStore(url="az://tests/team/knowledge", folder=tmp_path / "here")
    remote = RemoteProject(tmp_path / "remote", embedding_by(embedding_server), store)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Harbour\n\nBoats lie in the harbour.\n")
    for each in (project, remote):
        each.declare("docs", "markdown", tmp_path / "docs")
        each.refresh()
    (tmp_path / "docs" / "a.md").write_text("# Harbour\n\nBoats left the harbour.\n")
    for each in (project, remote):
        each.refresh()
    assert tables(remote) == tables(project) != {}
    with (
        remote.lake.lock_source("docs"),
        pytest.raises(Busy),
        remote.lake.lock_source("docs", timeout_s=0),
    ):
        pass
    with KnowledgeBase.open(remote.settings, access=Access.operator()) as base:
        assert base.search("boats in the harbour").results[0].citation.path == "a.md"
    container = AzureContainer(connection)
    listed = {each.key: each for each in container.list_objects("team/knowledge/locks/")}
    assert listed
    for each in listed.values():
        assert len(container.read(each.key, "", 100_000).payload) == each.size_bytes
    container.close()
