"""One corpus twice: in one store, and cut by source into four, which a federation asks together."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import knowledge_pipeline
from knowledge_pipeline.config import file
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshOptions
from knowledge_pipeline.stages.progress import ignore_progress
from knowledge_pipeline.store import release
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.conftest import embedding_by
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

PACKAGE = Path(knowledge_pipeline.__file__).parent
KEY_VARIABLE = "FEDERATION_TEST_KEY"  # of the endpoint that embeds
ACME = {"visibility": "tenant", "tenant": "acme"}
SOURCES: Mapping[str, Mapping[str, Any]] = {
    "asking": {"type": "code", "files": "query/*.py"},
    "keeping": {"type": "code", "files": "store/*.py", "access": ACME},
    "serving": {
        "type": "code",
        "files": "serve/http/*.py",
        "access": {"visibility": "private", "tenant": "acme", "principals": ["ops"]},
    },
    "pages": {"type": "markdown", "folder": PACKAGE.parent / "docs", "files": "[ps]e*.md"},
}
"""How each is declared, but for `files` of a `folder`, the package's unless one is named: what it reads."""


@dataclass(frozen=True)
class World:
    """Where the projects are."""

    root: Path
    files: Path  # a folder for each source

    @property
    def union(self) -> Path:
        """The project with all sources in one store."""
        return self.root / "union"

    @property
    def federation(self) -> Path:
        """The project that asks the four stores."""
        return self.root / "federation"

    def member(self, source: str) -> Path:
        """The project with one source."""
        return self.root / f"only-{source}"


def build_world(root: Path, server: OpenAIServer) -> World:
    """Copy the corpus, and index it in both ways."""
    world = World(root, root / "files")
    for source, declared in SOURCES.items():
        folder = declared.get("folder", PACKAGE)
        for path in sorted(folder.glob(declared["files"])):
            copied = world.files / source / path.relative_to(folder)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copied)
    write_project(world, world.union, tuple(SOURCES), server)
    for source in SOURCES:
        write_project(world, world.member(source), (source,), server)
    for project in (world.union, *map(world.member, SOURCES)):
        refresh(project)
    write_federation(world, server)
    return world


def write_project(world: World, project: Path, sources: tuple[str, ...], server: OpenAIServer) -> None:
    """Write the knowledge.yaml of a project with some of the sources."""
    declared = [
        {
            "id": source,
            "connection": {"type": "local", "path": str(world.files / source)},
            **{key: value for key, value in SOURCES[source].items() if key not in ("files", "folder")},
        }
        for source in sources
    ]
    write_yaml(project, {"embedding": dump_embedding(server), "sources": declared})


def write_federation(world: World, server: OpenAIServer, **changes: Any) -> None:
    """Write the knowledge.yaml that names the four stores."""
    stores = [{"name": source, "path": f"../only-{source}"} for source in SOURCES]
    federation = {"stores": stores, "timeout_s": 240.0, **changes}  # a busy machine is slow
    write_yaml(world.federation, {"embedding": dump_embedding(server), "federation": federation})


def dump_embedding(server: OpenAIServer) -> dict[str, Any]:
    """Settings that embed by a test's endpoint, as they are written in a file."""
    embedding = embedding_by(server)
    keys = ("provider", "model", "base_url", "dimensions")
    return {**embedding.model_dump(include=set(keys)), "api_key": f"${{{KEY_VARIABLE}}}"}


def write_yaml(project: Path, content: Mapping[str, Any]) -> None:
    """Write a knowledge.yaml."""
    project.mkdir(parents=True, exist_ok=True)
    (project / "knowledge.yaml").write_text(yaml.safe_dump({"version": 1, **content}))


def refresh(project: Path) -> None:
    """Index all sources of a project, every row, and release them.

    A refresh may leave a tail of rows out of the indexes, whose words then do not count in statistics.
    """
    settings = file.load_settings(project / "knowledge.yaml")
    lake = Lake(settings.store)
    pipeline.refresh(
        lake,
        settings,
        settings.sources,
        RefreshOptions(),
        report=lambda source: ignore_progress,
    )
    for space, dimensions in lake.list_spaces().items():
        lake.index(space, dimensions).extend_indexes()
    release.publish_release(lake, keep=5)
