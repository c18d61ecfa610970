"""One organisation, built once a session, and a server that answers for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from knowledge_pipeline.config import file
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import World, build


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory, embedding_server: OpenAIServer) -> World:
    """Three tenants and the public, with code, documents, tickets and tokens; nobody changes it."""
    return build(tmp_path_factory.mktemp("world"), embedding_server)


@pytest.fixture
def own_world(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A copy that a test may change; the secrets that its knowledge.yaml names are in the environment."""
    return copy_world(world, tmp_path / "world", monkeypatch)


def copy_world(world: World, root: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The same in another folder."""
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    of_other_tests = shutil.ignore_patterns(
        "logs", "state.sqlite*"
    )  # their questions, and what they refreshed
    shutil.copytree(world.root, root, ignore=of_other_tests)
    settings = file.load_settings(root / "knowledge.yaml")
    return World(root, settings, world.environment, world.tokens, world.ids)


@pytest.fixture(scope="session")
def server(world: World) -> Iterator[Running]:
    """Answers for `world`."""
    with Running(world.settings, config=world.config) as running:
        yield running


@pytest.fixture(scope="session")
def asking(server: Running, world: World) -> Callable[[str], httpx2.Client]:
    """A client by the name of a token: `asking("acme").post(...)`."""
    clients: dict[str, httpx2.Client] = {}

    def client(name: str) -> httpx2.Client:
        if name not in clients:
            clients[name] = server.client(world.tokens[name])
        return clients[name]

    return client
