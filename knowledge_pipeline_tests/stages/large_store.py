"""A store of a million chunks, made quickly; run as a program it runs the models and tells its memory.

python -m knowledge_pipeline_tests.stages.large_store make FOLDER ROWS
python -m knowledge_pipeline_tests.stages.large_store run FOLDER
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from knowledge_pipeline.sql_models import files
from knowledge_pipeline.sql_models import run as models
from knowledge_pipeline.store.lake import Lake
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
        documents = (_document(at) for at in range(each // _CHUNKS_OF_A_DOCUMENT))
        _fill(lake.snapshot("markdown", source), documents)
        _fill(lake.chunks("markdown", source), (_chunk(source, at) for at in range(each)))
        _fill(lake.index("space", 2), (_index_row(source, at) for at in range(each)))


def _fill(table: Table, rows: Iterator[dict[str, Any]]) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        portion: list[dict[str, Any]] = []
        for row in rows:
            portion.append(row)
            if len(portion) == _ROWS_OF_A_BATCH:
                yield pa.RecordBatch.from_pylist(portion, schema=table.schema)
                portion = []
        if portion:
            yield pa.RecordBatch.from_pylist(portion, schema=table.schema)

    table.append(batches())


def _placed(number: int) -> dict[str, Any]:
    path = f"docs/section{number % 100}/page{number}.md"
    return {"uri": path, "path": path, "title": f"Page {number}", "last_modified": _NOW, "metadata": "{}"}


def _document(number: int) -> dict[str, Any]:
    return {**_placed(number), "revision": "1", "content_hash": f"{number:032x}", "text": "…"}


def _chunk(source: str, number: int) -> dict[str, Any]:
    document = number // _CHUNKS_OF_A_DOCUMENT
    following = document + 1
    links = [f"../section{following % 100}/page{following}.md#part{number}", f"missing{document}.md"]
    metadata = {"links": links, "section": f"Section {number}", "header_level": 2, "file_path": "docs"}
    return {
        **_placed(document),
        "id": f"{source}-{number:025d}",
        "anchor": f"Page {document}/Section {number}",
        "start_char": 0,
        "end_char": 1,
        "start_line": 1,
        "end_line": 1,
        "tokens": number % 512 + 1,
        "header": "",
        "text": "…",
        "content_hash": f"{number:032x}",
        "text_key": f"{number:032x}",
        "metadata": json.dumps(metadata),
        "archived": False,
        "fingerprint": "1",
        "row_hash": "1",
    }


def _index_row(source: str, number: int) -> dict[str, Any]:
    constant = {"source": source, "source_type": "markdown", "repo": "docs", "tags": [], "principals": []}
    more = {
        "visibility": "public",
        "labels": [],
        "names": [],
        "mentions": [],
        "words": "",
        "vector": [0.0, 1.0],
    }
    return {**_chunk(source, number), **constant, **more, "indexed_at": _NOW, "updated_at": _NOW, "shown": ""}


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
