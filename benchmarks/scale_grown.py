"""An index of many times a hundred thousand rows, made of those of one source that went through all stages.

    python -m benchmarks.scale_grown FOLDER CHUNKS

Run by `benchmarks.scale --grown`, where reading, cutting and embedding a million chunks would take too long.
Each hundred thousand rows more are a source of their own: the same texts, other ids, and vectors between
those of two passages, so that each has neighbours of its own. They are added and taken into the indexes by
the store's functions, as the index stage does, and released. Prints one line of JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.figures import time_work
from benchmarks.scale_build import GROWN, held, settings
from benchmarks.scale_corpus import CHUNKS_A_REPOSITORY
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import publish_release
from knowledge_pipeline.store.tables import Table

_BATCH_ROWS = 4096
_NEAR = 0.8  # cosine, about, of a made vector to the one that it is made of


def rows(table: Table, dimensions: int, copy: int) -> Iterator[pa.RecordBatch]:
    """The first source's rows again, as another source's."""
    chosen, last = np.random.default_rng(copy), np.empty((0, dimensions), np.float32)
    scanned = table.open_newest().to_batches(
        filter="source = 'r00'", batch_size=_BATCH_ROWS, batch_readahead=2
    )
    for batch in scanned:
        vectors = batch["vector"].flatten().to_numpy().reshape(-1, dimensions)
        others = chosen.permutation(np.concatenate([last, vectors]))[: len(vectors)]
        made = _NEAR * vectors + (1 - _NEAR**2) ** 0.5 * others
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        last = vectors
        columns = {name: batch[name] for name in table.schema.names}
        for name in ("id", "text_key"):
            columns[name] = pc.utf8_replace_slice(columns[name], 0, 2, f"g{copy:x}")  # type: ignore[attr-defined]
        columns["source"] = pa.array([f"g{copy:02}"] * len(vectors))
        columns["vector"] = pa.FixedSizeListArray.from_arrays(
            pa.array(made.astype(np.float32).ravel()), dimensions
        )
        yield pa.RecordBatch.from_arrays(list(columns.values()), schema=table.schema)


def main() -> None:
    """Grow, release, and tell what it took."""
    folder, chunks = Path(sys.argv[1]), int(sys.argv[2])
    place = folder / str(chunks)
    if not (place / GROWN).exists():
        shutil.copytree(folder / str(CHUNKS_A_REPOSITORY) / "store", place / "store", dirs_exist_ok=True)
        (place / GROWN).touch()
    lake = Lake(settings(folder, chunks).store)
    ((space, dimensions),) = lake.list_spaces().items()
    adding: list[tuple[float, float]] = []
    indexing: list[tuple[float, float]] = []
    present = len(set(lake.index(space, dimensions).read_rows(["source"])["source"].unique().to_pylist()))
    for copy in range(present, round(chunks / CHUNKS_A_REPOSITORY)):
        table = lake.index(space, dimensions)
        adding.append(time_work(lambda table=table, copy=copy: table.append(rows(table, dimensions, copy))))
        indexing.append(time_work(lambda: indexes.maintain_indexes(lake.index(space, dimensions))))
        print(copy, adding[-1], indexing[-1], file=sys.stderr, flush=True)
    publish_release(lake, keep=3)
    print(json.dumps({"adding": adding, "indexing": indexing, **held(lake)}))


if __name__ == "__main__":
    main()
