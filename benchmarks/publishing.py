"""How long publishing to PostgreSQL with pgvector takes, and whether it answers as the store does.

    python -m benchmarks.publishing STORE [--questions 40]

Takes a copy of a store (that of `benchmarks.serve_load`, or one of your own), publishes its live release to a
PostgreSQL of its own, changes a hundredth of the rows, publishes again, rolls back and publishes again. Then
it asks for the ten nearest of vectors near stored ones: the store exactly, the database exactly, and by HNSW.
Prints seconds by the clock and of this process's processor time, and the share of the exact answers found.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg2

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.extensions import publish
from knowledge_pipeline.extensions.publish import PostgresTarget, format_vector
from knowledge_pipeline.store.filters import MATCH_ALL, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import open_dataset
from knowledge_pipeline.store.release import find_live_release, publish_release, restore_release
from knowledge_pipeline.store.vectors import ExactVectors
from knowledge_pipeline_tests.fakes.pgvector import run_pgvector
from knowledge_pipeline_tests.fakes.postgres import USER

LIMIT = 10
KEEP = 100
_EXACT = ("set local enable_indexscan = off", "set local enable_bitmapscan = off")
_NEAREST = "select id from knowledge.chunks order by vector <=> %s::vector limit 10"


def main() -> None:
    """Publish, change, publish, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--questions", type=int, default=40)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, run_pgvector() as server, server.database() as variables:
        shutil.copytree(given.store, Path(folder) / "store")
        address = f"postgresql://{USER}:{variables['DAGSTER_POSTGRES_PASSWORD']}@127.0.0.1:{server.port}"
        dsn = f"{address}/{variables['DAGSTER_POSTGRES_DB']}"
        lake, target = Lake(Path(folder) / "store"), PostgresTarget(dsn, "knowledge")
        measure_publications(lake, target)
        connection = psycopg2.connect(dsn)
        measure_answers(lake, connection, given.questions)
        connection.close()


def measure_publications(lake: Lake, target: PostgresTarget) -> None:
    """Print what each publication changed, and how long it took."""

    def measure(what: str) -> None:
        started = time.process_time()
        result = publish.refresh(lake, Settings(store=lake.root), target)
        changed = f"{result.added:,} added, {result.changed:,} changed, {result.removed:,} removed"
        used = time.process_time() - started
        print(
            f"{what}: {result.rows:,} rows, {changed}, {result.seconds:.2f} s, {used:.2f} s of this process"
        )

    measure("first")
    measure("no change")
    before = find_live_release(lake)
    assert before is not None
    change_rows(lake)
    measure("a hundredth changed")
    restore_release(lake, before.release, keep=KEEP)
    measure("rolled back")


def change_rows(lake: Lake) -> None:
    """Give a hundredth of the rows another text, delete a fifth as many, and release that."""
    for space, dimensions in lake.list_spaces().items():
        table = lake.index(space, dimensions)
        ids = sorted(table.read_rows(["id"]).to_pydict()["id"])[::100]
        table.update_where(one_of("id", ids), text="changed", fingerprint="changed")
        table.delete_where(one_of("id", ids[::5]))
    publish_release(lake, keep=KEEP)


def measure_answers(lake: Lake, connection: Any, count: int) -> None:
    """Print which share of the store's exact answers the database finds, and the time of a question."""
    release = find_live_release(lake)
    assert release is not None
    space = max(release.tables)
    dataset = open_dataset(lake.root / "index" / f"{space}.lance", release.tables[space])
    exact = ExactVectors.load(dataset)
    rows = dataset.to_table(columns=["id"], with_row_id=True).to_pydict()
    ids = dict(zip(rows["_rowid"], rows["id"], strict=True))
    questions = list(build_questions(exact.vectors, count))
    wanted = [
        {ids[row] for row in exact.search(each, MATCH_ALL, limit=LIMIT)[0].tolist()} for each in questions
    ]
    for name, statements in (
        ("exact", _EXACT),
        *((f"HNSW, ef_search {ef}", (f"set local hnsw.ef_search = {ef}",)) for ef in (40, 100, 200)),
    ):
        found, milliseconds = ask_all(connection, questions, statements)
        recall = sum(len(a & b) for a, b in zip(found, wanted, strict=True)) / (LIMIT * count)
        same = sum(a == b for a, b in zip(found, wanted, strict=True))
        print(f"{name}: recall@10 {recall:.3f}, {same} of {count} equal, p50 {milliseconds:.1f} ms")


def ask_all(
    connection: Any, questions: list[np.ndarray], statements: tuple[str, ...]
) -> tuple[list[set[str]], float]:
    """The ids of the nearest of each question, and the median milliseconds."""
    found: list[set[str]] = []
    times: list[float] = []
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        for question in questions:
            started = time.perf_counter()
            cursor.execute(_NEAREST, [format_vector(question)])
            found.append({id_ for (id_,) in cursor.fetchall()})
            times.append(1000 * (time.perf_counter() - started))
    return found, float(np.median(times))


def build_questions(vectors: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Vectors near stored ones, and equal to none."""
    random = np.random.default_rng(7)
    noise: Callable[..., np.ndarray] = random.normal
    for at in random.integers(0, len(vectors), count):
        scale = float(np.abs(vectors[at]).mean()) / 2
        yield np.asarray(vectors[at] + noise(0, scale, vectors.shape[1]), np.float32)


if __name__ == "__main__":
    main()
