"""A store of very many chunks, made quickly; run as a program it runs the models and tells its memory.

python -m knowledge_pipeline_tests.stages.large_store make FOLDER ROWS
python -m knowledge_pipeline_tests.stages.large_store run FOLDER
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.sql_models import files
from knowledge_pipeline.sql_models import run as models
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.schemas import HELD_LISTS
from knowledge_pipeline.store.tables import Table

_SOURCES = 5
_CHUNKS_OF_A_DOCUMENT = 10
_ROWS_OF_A_BATCH = 10_000
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make(lake: Lake, rows: int) -> None:
    """Fill snapshot, chunks and index; a document links to the next one and to one that is not there."""
    each = rows // _SOURCES
    for number in range(_SOURCES):
        source = f"source{number}"
        _fill(lake.snapshot("markdown", source), each // _CHUNKS_OF_A_DOCUMENT, _documents)
        _fill(lake.chunks("markdown", source), each, lambda at, source=source: _chunks(source, at))
        _fill(lake.index("space", 2), each, lambda at, source=source: _index_rows(source, at))


def _fill(table: Table, rows: int, columns: Callable[[pa.Array], dict[str, Any]]) -> None:
    """Append so many rows, whose columns are made from their numbers: an array, or one value for all."""

    def batches() -> Iterator[pa.RecordBatch]:
        for first in range(0, rows, _ROWS_OF_A_BATCH):
            numbers = pa.array(range(first, min(first + _ROWS_OF_A_BATCH, rows)))
            made = columns(numbers)
            arrays = [_column(made.get(field.name), field.type, len(numbers)) for field in table.schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=table.schema)

    table.append(batches())


def _column(made: Any, type_: pa.DataType, length: int) -> pa.Array:
    return made.cast(type_) if isinstance(made, pa.Array) else pa.repeat(pa.scalar(made, type_), length)


def _join(*parts: Any) -> pa.Array:
    """Texts side by side; a number as its digits."""
    texts = [part.cast(pa.string()) if isinstance(part, pa.Array) else part for part in parts]
    return pc.binary_join_element_wise(*texts, "")


def _digits(numbers: pa.Array, length: int) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(pa.string()), length, "0")


def _path(documents: pa.Array) -> pa.Array:
    hundreds = pc.multiply(pc.divide(documents, 100), 100)
    return _join("section", pc.subtract(documents, hundreds), "/page", documents, ".md")


def _placed(documents: pa.Array) -> dict[str, Any]:
    path = _join("docs/", _path(documents))
    title = _join("Page ", documents)
    return {"uri": path, "path": path, "title": title, "last_modified": _NOW, "metadata": "{}"}


def _documents(numbers: pa.Array) -> dict[str, Any]:
    return {**_placed(numbers), "revision": "1", "content_hash": _digits(numbers, 32), "text": "…"}


def _chunks(source: str, numbers: pa.Array) -> dict[str, Any]:
    documents = pc.divide(numbers, _CHUNKS_OF_A_DOCUMENT)
    following = pc.add(documents, 1)
    links = _join('["../', _path(following), "#part", numbers, '", "missing', documents, '.md"]')
    metadata = _join(
        '{"links": ', links, ', "section": "Section ', numbers, '", "header_level": 2, "file_path": "docs"}'
    )
    return {
        **_placed(documents),
        "id": _join(f"{source}-", _digits(numbers, 25)),
        "anchor": _join("Page ", documents, "/Section ", numbers),
        "start_char": 0,
        "end_char": 1,
        "start_line": 1,
        "end_line": 1,
        "tokens": pc.add(pc.bit_wise_and(numbers, 511), 1),
        "header": "",
        "text": "…",
        "content_hash": _digits(numbers, 32),
        "text_key": _digits(numbers, 32),
        "metadata": metadata,
        "archived": False,
        "fingerprint": "1",
        "row_hash": "1",
    }


def _index_rows(source: str, numbers: pa.Array) -> dict[str, Any]:
    constant = {"source": source, "source_type": "markdown", "repo": "docs", "tags": [], "principals": []}
    more = {
        "visibility": "public",
        "labels": [],
        "names": [],
        "mentions": [],
        **{name: [] for name in HELD_LISTS},
        "words": "",
        "vector": [0.0, 1.0],
    }
    return {
        **_chunks(source, numbers),
        **constant,
        **more,
        "indexed_at": _NOW,
        "updated_at": _NOW,
        "shown": "",
    }


def run(lake: Lake) -> dict[str, Any]:
    """Run all models and tests; rows by model, seconds, and the most memory this process had."""
    started = time.perf_counter()
    made = {one.model.name: (one.rows, one.seconds) for one in models.refresh(lake, files.load_models())}
    return {"made": made, "seconds": round(time.perf_counter() - started, 1), "peak_mb": _peak_mb()}


def _peak_mb() -> int:
    """The most memory of this program; `ru_maxrss` would include that of the process which started it."""
    (kib,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    return int(kib) // 1024


if __name__ == "__main__":
    there = Lake(Path(sys.argv[2]))
    if sys.argv[1] == "make":
        make(there, int(sys.argv[3]))
    else:
        print(json.dumps(run(there)))
