"""What the best passages are, by comparing a question with every vector: what recall is measured by.

    python -m benchmarks.scale_truth FOLDER CHUNKS

Run by `benchmarks.scale` in a process of its own, because all vectors lie in memory. Writes the questions,
their vectors and the exact answers beside the store; prints how long one product of numpy's BLAS takes.
"""

from __future__ import annotations

import json
import random
import re
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.figures import measure_peak_memory
from benchmarks.scale_build import settings
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.embedding.registry import open_embedder
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline.store.tables import Table

TOP = 10
QUESTIONS = 200
FILTERS = {
    "none": Filters(),
    "a tenth: two languages": Filters(languages=("c", "cpp")),
    "a hundredth: one folder": Filters(paths=("part07",)),
    "a thousandth: both": Filters(paths=("part07",), languages=("c", "cpp")),
}
_WORD = re.compile(r"[A-Za-z_]{3,}")
_BATCH_ROWS = 16_384
_SAMPLED_ROWS = 40_000
_TIMED = 30


def questions(table: Table, count: int) -> list[str]:
    """Some words that follow one another in a passage, four to a dozen, as people and agents type them."""
    chosen, texts = random.Random(11), list[str]()
    rows = table.open_newest().sample(min(_SAMPLED_ROWS // 10, table.count_rows()), columns=["id", "text"])
    for text in rows.sort_by("id")["text"].to_pylist():
        words = _WORD.findall(text)
        if len(words) > 30:
            start = chosen.randrange(len(words) - 12)
            texts.append(" ".join(words[start : start + chosen.randint(4, 12)]))
    return texts[:count]


def open_live_index(folder: Path, chunks: int) -> tuple[Table, int]:
    """The index, and the version of it that is live."""
    lake = Lake(settings(folder, chunks).store)
    now = find_live_release(lake)
    assert now is not None
    ((space, version),) = now.tables.items()
    return lake.index(space, lake.list_spaces()[space]), version


class Exact:
    """All vectors of an index in memory, and what the filters look at."""

    def __init__(self, table: Table, version: int) -> None:
        rows = table.count_rows(version=version)
        self.vectors = np.empty((rows, table.schema.field("vector").type.list_size), np.float32)
        self.ids: list[str] = []
        folders, languages = list[bool](), list[bool]()
        dataset, at = table.open_newest().checkout_version(version), 0
        for batch in dataset.to_batches(
            columns=["id", "path", "language", "vector"], batch_size=_BATCH_ROWS, batch_readahead=2
        ):
            flat = batch["vector"].flatten().to_numpy()
            self.vectors[at : at + batch.num_rows] = flat.reshape(batch.num_rows, -1)
            at += batch.num_rows
            self.ids += batch["id"].to_pylist()
            folders += [path.startswith("part07/") for path in batch["path"].to_pylist()]
            languages += [language in ("c", "cpp") for language in batch["language"].to_pylist()]
        everything, folder, language = np.ones(rows, bool), np.array(folders), np.array(languages)
        self.kept = dict(zip(FILTERS, (everything, language, folder, folder & language), strict=True))

    def best(self, vector: np.ndarray, kept: np.ndarray) -> tuple[list[str], float]:
        """Ids of the best rows, best first, and the similarity of the last of them."""
        alike = np.where(kept, self.vectors @ vector, -2.0)
        top = np.argpartition(alike, -TOP)[-TOP:]
        top = top[np.argsort(-alike[top])]
        return [self.ids[row] for row in top], float(alike[top[-1]])


def main() -> None:
    """Compute, write, and tell how long a product takes."""
    folder, chunks = Path(sys.argv[1]), int(sys.argv[2])
    table, version = open_live_index(folder, chunks)
    texts = questions(table, QUESTIONS)
    embedder = open_embedder(settings(folder, chunks).embedding)
    vectors = np.stack([embedder.embed_query(text) for text in texts])
    exact, took = Exact(table, version), list[float]()
    for vector in vectors[:_TIMED]:
        started = time.perf_counter()
        exact.best(vector, exact.kept["none"])
        took.append((time.perf_counter() - started) * 1000)
    answers = {name: [exact.best(vector, kept) for vector in vectors] for name, kept in exact.kept.items()}
    written = {"questions": texts, "vectors": vectors.tolist(), "answers": answers}
    (folder / str(chunks) / "truth.json").write_text(json.dumps(written))
    shares = {name: round(float(kept.mean()), 5) for name, kept in exact.kept.items()}
    cuts = statistics.quantiles(took, n=20)
    print(json.dumps({"blas_ms": [cuts[9], cuts[18]], "kept": shares, "peak_mb": measure_peak_memory()}))


if __name__ == "__main__":
    main()
