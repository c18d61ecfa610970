"""A private repository at a small GitHub or GitLab, and the project that indexes it by `from_source`."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import Stats
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.fakes.github.server import GithubServer
from knowledge_pipeline_tests.fakes.gitlab.server import GitlabServer
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.serve.isolation_attempts import Secret
from knowledge_pipeline_tests.serve.world import CODE, GUIDE, STORE, Held

SOURCE = Held("secretcode", "code", "acme", ("ada@example.org",))
CANARY = SOURCE.canary
TYPES = ("code", "markdown", "git_history")


@dataclass
class Host:
    """A service with one private repository, which Ada may read."""

    connection: dict[str, Any]
    token: str
    admit: Callable[..., None]  # these people and nobody else
    hide: Callable[[], object]  # who may read is not shown any more
    show: Callable[[], object]
    publish: Callable[[], object]
    privatize: Callable[[], object]
    remove: Callable[[], object]


def open_github(stack: ExitStack, folder: Path) -> Host:
    server = stack.enter_context(GithubServer(enterprise=True))
    server.repositories, repository = folder, server.repository

    def admit(*names: str) -> None:
        repository.collaborate(*names)

    return Host(
        {"type": "github", "repository": repository.full_name, "url": server.url},
        server.token,
        admit,
        lambda: server.forbidden.update({"/collaborators": 403}),
        server.forbidden.clear,
        lambda: setattr(repository, "private", False),
        lambda: setattr(repository, "private", True),
        lambda: setattr(server.answerer, "hidden", True),
    )


def open_gitlab(stack: ExitStack, folder: Path) -> Host:
    server = stack.enter_context(GitlabServer(project="octo/engine"))
    server.repositories, project = folder, server.project

    def admit(*names: str) -> None:
        project.members.clear()
        for name in names:
            project.join(name)

    return Host(
        {"type": "gitlab", "project": project.full_path, "url": server.url},
        server.token,
        admit,
        lambda: server.forbidden.update({"members/all": 403}),
        server.forbidden.clear,
        lambda: project.facts.update(visibility="public"),
        lambda: project.facts.update(visibility="private"),
        lambda: server.forbidden.update({"": 404}),
    )


class RepositoryProject:
    """A project whose sources are the repository's code, documents and history."""

    def __init__(self, root: Path, host: Host, repository: Repository, embedding: OpenAIServer) -> None:
        self.root, self.host, self.repository, self.embedding = root, host, repository, embedding
        self.lake = Lake(root / ".knowledge")

    @property
    def config(self) -> Path:
        return self.root / "knowledge.yaml"

    @property
    def environment(self) -> dict[str, str]:
        """What knowledge.yaml names."""
        return {"TEST_HOST_TOKEN": self.host.token, "TEST_EMBEDDING_KEY": self.embedding.key}

    @property
    def settings(self) -> Settings:
        return file.load_settings(self.config)

    def declare(self, types: tuple[str, ...], **access: Any) -> None:
        access = {"visibility": "from_source", "tenant": "acme", "principals": ["auditor"], **access}
        if access["visibility"] == "from_source":
            access["mapping"] = {"*": "*@example.org"}
        connection = {**self.host.connection, "token": "${TEST_HOST_TOKEN}"}
        model = {"provider": "openai", "model": "fake", "base_url": self.embedding.url}
        model |= {"dimensions": self.embedding.dimensions, "api_key": "${TEST_EMBEDDING_KEY}"}
        source = {"connection": connection, "access": access}
        sources = [{"id": f"secret{each.replace('_', '')}", "type": each, **source} for each in types]
        self.config.write_text(json.dumps({"embedding": model, "sources": sources}))

    def refresh(self) -> dict[str, Stats]:
        """The statistics by stage, of the first source."""
        settings = self.settings
        outcome = pipeline.refresh(self.lake, settings, settings.sources)
        assert not outcome.failures, outcome.failures
        return {each.stage: each for each in reversed(outcome.stats)}

    def sees(self, access: Access) -> set[str]:
        """The sources of which a caller finds something, also by the code graph."""
        with KnowledgeBase.open(self.root, access=access) as base:
            found = base.search(CANARY, limit=100, filters=Filters(include_archived=True)).results
            seen = {str(each.metadata["source_type"]) for each in found}
            with suppress(NotFound):
                usages = base.graph.find_usages("Store.get_payment")
                assert CANARY in json.dumps(usages.as_json())
                seen.add("graph")
            assert bool(base.status().rows) == bool(seen)
        return seen

    def secret(self) -> Secret:
        with KnowledgeBase.open(self.root) as base:
            found = base.search(CANARY, limit=100)
            nodes = base.graph.find_usages("Store.get_payment").nodes
        return Secret(
            SOURCE,
            chunks=tuple(each.id for each in found.results),
            uris=tuple(each.span.uri for each in found.results),
            paths=tuple(each.citation.path for each in found.results),
            titles=tuple(each.citation.title or "untitled" for each in found.results),
            urls=tuple(each.citation.url for each in found.results if each.citation.url),
            nodes=tuple(each.id for each in nodes),
            queries=(found.query_id,),
        )


HOSTS: dict[str, Callable[[ExitStack, Path], Host]] = {"github": open_github, "gitlab": open_gitlab}


def open_project(stack: ExitStack, host: str, folder: Path, embedding: OpenAIServer) -> RepositoryProject:
    """The project with the code alone, not refreshed; its secrets have to be in the environment."""
    repository = Repository(folder / "served/octo/engine.git")
    texts = {"shop/store.py": STORE, f"shop/{CANARY}.py": CODE, "docs/guide.md": GUIDE}
    repository.write({path: text.replace("CANARY", CANARY) for path, text in texts.items()})
    repository.commit(f"Add {CANARY}")
    opened = HOSTS[host](stack, folder / "served")
    opened.admit("ada")
    root = folder / "project"
    root.mkdir()
    project = RepositoryProject(root, opened, repository, embedding)
    project.declare(("code",))
    return project
