"""Fixtures that many tests share: an embedding endpoint on a real socket, and projects in a folder."""

from __future__ import annotations

import copy
import gc
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import knowledge_pipeline
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshOptions, RefreshOutcome
from knowledge_pipeline.stages.progress import ProgressCallback, ignore_progress
from knowledge_pipeline.store import search as index_payload
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.thoroughness import examples, mark_further_parameters_slow

# No deadline: a busy machine is slow, and nothing is wrong.
settings.register_profile("ours", deadline=None, max_examples=examples(100))
settings.load_profile("ours")

pytest_plugins = ["knowledge_pipeline_tests.fakes.storage"]

# Programs that tests start import the package under test, not one that is installed from another checkout.
_PATH = (str(Path(knowledge_pipeline.__file__).parents[1]), os.environ.get("PYTHONPATH"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _PATH))

_LACKS_PYTORCH = find_spec("torch") is None
_NO_PYTORCH = "PyTorch (torch) is not installed: pip install -e '.[dev]', as `make test` does"

_STORAGES = frozenset({"instance", "dagster_yaml"})
"""Fixtures by which a test uses a storage of Dagster."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage in what is collected: there is none, and it stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what is not the essence to `make test-all`, and begin with what may take longest.

    On PostgreSQL, only what uses a storage of Dagster is run: nothing else could differ.
    """
    if os.environ.get("KNOWLEDGE_TEST_STORAGE") == "postgres":
        items[:] = [item for item in items if not _STORAGES.isdisjoint(getattr(item, "fixturenames", ()))]
    weights: dict[Path, tuple[float, bool]] = {}
    for item in items:
        limit, is_slow = item.get_closest_marker("timeout"), item.get_closest_marker("slow") is not None
        weight = limit.args[0] if limit else 0.0, is_slow
        weights[item.path] = max(weights.get(item.path, weight), weight)
    waiting = {item.path for item in items if item.get_closest_marker("waits")}
    places = {path: at for at, path in enumerate(_begin_with_half(waiting, weights))}
    items.sort(key=lambda item: places[item.path])
    mark_further_parameters_slow(items)
    if _LACKS_PYTORCH:
        for item in items:
            if item.get_closest_marker("pytorch"):
                item.add_marker(pytest.mark.skip(reason=_NO_PYTORCH))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped for want of PyTorch: nobody reads the reasons of single ones."""
    skipped = terminalreporter.stats.get("skipped", [])
    if count := sum(_NO_PYTORCH in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(f"SKIPPED {count} tests that run a model by PyTorch: {_NO_PYTORCH}")


def _begin_with_half(waiting: set[Path], weights: dict[Path, tuple[float, bool]]) -> list[Path]:
    """The heaviest modules first, but of those that wait as many at once as half of the processes.

    Were all of them to begin at once, the processor would be idle half of the time until they end.
    """
    heaviest = sorted(weights, key=lambda path: weights[path], reverse=True)
    waits = [path for path in heaviest if path in waiting]
    others = [path for path in heaviest if path not in waiting]
    half = max(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) // 2, 1)
    turns = [[*waits[at : at + half], *others[at : at + half]] for at in range(0, len(waits), half)]
    return [*chain.from_iterable(turns), *others[len(turns) * half :]]


@pytest.fixture(scope="session")
def embedding_server() -> Iterator[OpenAIServer]:
    """One endpoint for the whole session; tests that make it fail start their own."""
    with OpenAIServer(ends_within_s=0.5) as server:
        yield server


def embedding_by(server: OpenAIServer, **changes: Any) -> EmbeddingSettings:
    """Settings that embed by a test's endpoint."""
    return EmbeddingSettings.model_validate(
        {
            "provider": "openai",
            "model": "hashed-words",
            "base_url": server.url,
            "api_key": server.key,
            "dimensions": server.dimensions,
            **changes,
        }
    )


class Project:
    """A folder with a store and settings that a test changes as a user would."""

    def __init__(self, root: Path, embedding: EmbeddingSettings) -> None:
        self.root = root
        self.lake = Lake(root / "store")
        self.embedding = embedding
        self.sources: dict[str, dict[str, Any]] = {}

    def declare(self, id_: str, type_: str, folder: Path, **rest: Any) -> None:
        """Add a source over a local folder, or change it."""
        connection = {"type": "local", "path": folder}
        self.sources[id_] = {"id": id_, "type": type_, "connection": connection, **rest}

    @property
    def settings(self) -> Settings:
        """What `knowledge.yaml` would say now."""
        return Settings.model_validate(
            {"store": self.lake.root, "embedding": self.embedding, "sources": list(self.sources.values())}
        )

    def refresh(
        self,
        *ids: str,
        report: Callable[[SourceConfig], ProgressCallback] = lambda source: ignore_progress,
        **options: Any,
    ) -> RefreshOutcome:
        """Refresh all sources, or some, and release."""
        settings = self.settings
        sources = settings.select_sources(ids)
        return pipeline.refresh(self.lake, settings, sources, RefreshOptions(**options), report=report)

    def copy_store(self, template: Project) -> None:
        """Hold what another project's store holds; its sources stay where they are, to be read alone."""
        shutil.copytree(template.lake.root, self.lake.root)
        self.sources = copy.deepcopy(template.sources)

    def copy_all(self, template: Project) -> None:
        """Hold the folders of its sources, too: they are other files, of another configuration."""
        shutil.copytree(template.root, self.root, dirs_exist_ok=True)
        self.sources = copy.deepcopy(template.sources)
        for declared in self.sources.values():
            folder = declared["connection"]["path"].relative_to(template.root)
            declared["connection"]["path"] = self.root / folder


@pytest.fixture
def project(tmp_path: Path, embedding_server: OpenAIServer) -> Project:
    """An empty project."""
    return Project(tmp_path, embedding_by(embedding_server))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, embedding_server: OpenAIServer) -> Project:
    """An empty project, which a module fills once: its tests get copies."""
    return Project(tmp_path_factory.mktemp("template"), embedding_by(embedding_server))


TIMES = ("indexed_at", "updated_at")


def without_times(shown: str) -> str:
    """The column `shown` of an index, but for times of writing."""
    return str(
        {name: value for name, value in index_payload.parse_payloads([shown])[0].items() if name not in TIMES}
    )


def tables(project: Project, *, archived: bool = True) -> dict[str, list[dict[str, Any]]]:
    """Everything that the stages hold, in a fixed order, but for times of writing.

    Vectors of texts that are gone may stay in the embeddings, so those are seen through the index.
    """
    held: dict[str, list[dict[str, Any]]] = {}
    for source in project.settings.sources:
        for stage in (project.lake.snapshot, project.lake.chunks):
            table = stage(source.type, source.id)
            held[f"{table.path.parent.parent.name} {source.id}"] = table.read_rows(
                table.schema.names
            ).to_pylist()
    for space, dimensions in project.lake.list_spaces().items():
        table = project.lake.index(space, dimensions)
        rows = table.read_rows(table.schema.names).to_pylist()
        held[f"index {space}"] = [{**row, "shown": without_times(row["shown"])} for row in rows]
    for name, table in project.lake.graph_tables().items():
        held[f"graph {name}"] = table.read_rows(table.schema.names).to_pylist()
    shared = [project.lake.index(*each) for each in project.lake.list_spaces().items()]
    for table in (*shared, *project.lake.graph_tables().values()):
        notes = table.read_notes().items()
        held[f"notes {table.name}"] = [{"id": name, "text": text} for name, text in sorted(notes)]
    for name, rows in held.items():
        if not archived:
            rows[:] = [row for row in rows if not row.get("archived") and not row.get("archived_at")]
        for row in rows:
            for time in TIMES:
                row.pop(time, None)
            if row.get("archived_at"):
                row["archived_at"] = "some time"
        held[name] = sorted(rows, key=lambda row: row.get("id") or row["uri"])
    return {name: rows for name, rows in held.items() if rows}
