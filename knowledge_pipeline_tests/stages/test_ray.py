"""One partition embedded by a Ray cluster of two processes: the tables of one process, whoever dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.stages.embeddings import TEXTS_PER_COMMIT
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.fakes.tiny_model import build_tiny_model

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]', or make test-ray")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore"),  # of Ray's own, in its threads too
]

TEXTS = 1200  # more than two commits of one process
WORKERS = 2


def write(folder: Path, functions: range) -> None:
    folder.mkdir(exist_ok=True)
    for start in range(functions.start, functions.stop, 100):
        lines = (f"def f{n}(a):\n    return a + {n}\n\n\n" for n in range(start, start + 100))
        (folder / f"m{start}.py").write_text("".join(lines))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


def project_in(root: Path, model: Path, folder: Path, ray: dict[str, Any] | None) -> Project:
    """A project over a folder of code that embeds by the model."""
    root.mkdir()
    found = Project(root, EmbeddingSettings.model_validate({"model": str(model), "ray": ray}))
    found.declare("code", "code", folder, chunking={"min_tokens": 0})
    return found


@pytest.fixture
def both(tmp_path: Path, model: Path) -> tuple[Project, Project]:
    """Two projects over the same files: one embeds by itself, one by a cluster."""
    write(tmp_path / "code", range(TEXTS))
    pool = {"workers": WORKERS, "min_texts": 100}
    return (
        project_in(tmp_path / "alone", model, tmp_path / "code", None),
        project_in(tmp_path / "spread", model, tmp_path / "code", pool),
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One that outlives refreshes, as a cluster of many machines does."""
    import ray

    ray.init(num_cpus=WORKERS, log_to_driver=False, include_dashboard=False)
    yield
    ray.shutdown()


def embeddings(project: Project) -> Table:
    ((space, dimensions),) = project.lake.list_spaces().items()
    return project.lake.embeddings(space, "code", dimensions)


def vectors(project: Project) -> dict[str, np.ndarray]:
    rows = embeddings(project).read_rows(["text_key", "vector"]).to_pylist()
    found = {row["text_key"]: np.array(row["vector"]) for row in rows}
    assert len(found) == len(rows)  # none is there twice
    return found


def without_vectors(project: Project) -> dict[str, list[dict[str, Any]]]:
    held = tables(project)
    for row in (row for rows in held.values() for row in rows):
        row.pop("vector", None)
    return held


def same(one: Project, other: Project) -> None:
    """Equal tables; vectors may differ in the last bits, as those of other batch-mates do."""
    expected, found = vectors(one), vectors(other)
    assert expected.keys() == found.keys()
    assert min(float(expected[key] @ found[key]) for key in expected) >= 0.9999
    assert without_vectors(one) == without_vectors(other) != {}


def workers() -> Iterator[int]:
    """Processes of this machine that hold a model for Ray."""
    for status in Path("/proc").iterdir():
        with suppress(OSError):
            if b"MapWorker" in (status / "cmdline").read_bytes():
                yield int(status.name)


def test_a_cluster_leaves_the_tables_of_one_process_in_one_commit(both: tuple[Project, Project]) -> None:
    alone, spread = both
    seen: set[int] = set()
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.05):
            seen.update(workers())

    watch = threading.Thread(target=look)
    watch.start()
    for project in both:
        assert not project.refresh().failures
    stop.set()
    watch.join()
    assert len(seen) == WORKERS
    deadline = time.monotonic() + 240
    while list(workers()):  # the cluster of this machine ends with the refresh
        assert time.monotonic() < deadline
        time.sleep(0.2)
    same(alone, spread)
    assert len(vectors(spread)) >= TEXTS
    made = {project: embeddings(project).version for project in both}
    assert made[alone] - made[spread] == len(vectors(spread)) // TEXTS_PER_COMMIT


@pytest.mark.usefixtures("cluster")
def test_what_changes_later_is_added_and_removed_as_by_one_process(both: tuple[Project, Project]) -> None:
    for project in both:
        assert not project.refresh().failures
    folder = both[0].root.parent / "code"
    write(folder, range(TEXTS, TEXTS + 300))
    (folder / "m0.py").unlink()
    for project in both:
        (stats,) = [each for each in project.refresh().stats if each.stage == "embeddings"]
        assert stats.added >= 300
    same(*both)


@pytest.mark.usefixtures("cluster")
def test_a_worker_that_is_killed_in_the_middle_is_replaced(both: tuple[Project, Project]) -> None:
    killed: list[int] = []

    def kill(stage: str, done: int, total: int | None, *_: object) -> None:
        if stage == "embeddings" and not killed:
            assert done < (total or 0)
            pid = next(workers())
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
            time.sleep(1)

    alone, spread = both
    assert not alone.refresh().failures
    assert not spread.refresh(report=lambda source: kill).failures
    assert killed
    same(alone, spread)


@pytest.mark.usefixtures("cluster")
def test_what_a_worker_cannot_do_is_told_in_its_own_words(tmp_path: Path) -> None:
    model = build_tiny_model(tmp_path / "tiny")
    write(tmp_path / "code", range(200))
    pool = {"workers": WORKERS, "min_texts": 10}
    project = project_in(tmp_path / "spread", model, tmp_path / "code", pool)
    weights = (model / "model.safetensors").read_bytes()
    assert not project.refresh().failures
    (model / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    failure = project.refresh().failures["code"]
    assert isinstance(failure, ModelError)
    assert "cannot load the model" in str(failure)
