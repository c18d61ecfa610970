"""Writes rows of an index table as the pipeline would, without running the pipeline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from knowledge_pipeline import words
from knowledge_pipeline.store import indexes, release, schemas
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.search import build_payload
from knowledge_pipeline_tests.fakes.openai_server import word_vector

MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)
DIMENSIONS = 32


def row(text: str, path: str = "src/app.py", **columns: Any) -> dict[str, Any]:
    """One chunk of a public code source called `app`, unless `columns` say otherwise."""
    source = columns.get("source", "app")
    start_line = columns.get("start_line", 1)
    defaults: dict[str, Any] = {
        "id": f"{source}:{path}#{start_line}",
        "source": source,
        "source_type": "code",
        "tags": [],
        "visibility": "public",
        "principals": [],
        "uri": path,
        "path": path,
        "language": "python",
        "last_modified": MOMENT,
        "anchor": "",
        "start_char": 0,
        "end_char": len(text),
        "start_line": 1,
        "end_line": start_line + text.count("\n"),
        "tokens": len(text.split()),
        "header": path,
        "text": text,
        "content_hash": hashlib.sha256(text.encode()).hexdigest(),
        "text_key": "",
        "metadata": "{}",
        "archived": False,
        "extension": PurePosixPath(path).suffix,
        "labels": [],
        "names": [],
        "mentions": [],
        "words": words.expand_identifiers(f"{path}\n\n{text}"),
        "vector": word_vector(f"{path}\n\n{text}", columns.pop("dimensions", DIMENSIONS)),
        "fingerprint": "",
        "indexed_at": MOMENT,
        "updated_at": MOMENT,
    }
    return defaults | columns


def write(lake: Lake, space: str, rows: Iterable[dict[str, Any]], *, dimensions: int = DIMENSIONS) -> None:
    """Upsert rows into a space's index; they are not released, and not taken into its indexes."""
    table = lake.index(space, dimensions)
    with_payload = [
        {**schemas.list_held(row, json.loads(row["metadata"])), **row, "shown": build_payload(row)}
        for row in rows
    ]
    table.upsert([pa.RecordBatch.from_pylist(with_payload, schema=table.schema)])


def publish(lake: Lake, *, indexed: bool = True, graph: bool = True) -> None:
    """Release the newest versions, with a code graph, which is empty where a test wrote none."""
    for name in schemas.GRAPH if graph else ():
        if not lake.graph_table(name).exists:
            lake.graph_table(name).upsert([])
    if indexed:
        for space, dimensions in lake.list_spaces().items():
            indexes.maintain_indexes(lake.index(space, dimensions))
    release.publish_release(lake, keep=5)
