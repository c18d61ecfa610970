"""Stores that earlier programs wrote, in the current folder, and the endpoint that embedded them."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock
import pytest

from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.write_store import DIMENSIONS, KEY_VARIABLE, PORT

STORES = Path(__file__).parents[2] / "corpus" / "stores"
OpenStore = Callable[..., Lake]


def unpack(version: str, folder: Path) -> Lake:
    """The store that a program of a version of the schema wrote, with its files and its configuration."""
    with tarfile.open(STORES / f"v{version}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return Lake(folder / "store")


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """The endpoint at the address that the stores' vectors belong to: one test at a time has it."""
    lock = filelock.FileLock(Path(tempfile.gettempdir()) / f"knowledge-test-port-{PORT}.lock")
    with lock, OpenAIServer(port=PORT, dimensions=DIMENSIONS) as server:
        monkeypatch.setenv(KEY_VARIABLE, server.key)
        yield server


@pytest.fixture
def open_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenStore:
    """Unpack a store and make its folder the current one."""
    for name in ("KNOWLEDGE_CONFIG", "KNOWLEDGE_STORE", "KNOWLEDGE_EMBEDDING_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv(KEY_VARIABLE, "test-key")

    def opens(version: str) -> Lake:
        home = tmp_path / "home"
        home.mkdir()
        monkeypatch.chdir(home)
        return unpack(version, home)

    return opens
