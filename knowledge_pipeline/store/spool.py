"""Keeps rows on disk until they may be written, so that memory stays bounded.

The file has no name, so that the operating system frees it even after a kill.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

_BATCH_ROWS = 4096


class Spool:
    """Takes rows of one schema and returns them in the same order; a context manager."""

    def __init__(self, schema: pa.Schema, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.schema, self.rows = schema, 0
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed at the end of the context
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writer: Any = pa.ipc.new_stream(self._file, schema, options=options)
        self._pending: list[Mapping[str, Any]] = []

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows."""
        self.rows += len(rows)
        self._pending += rows
        if len(self._pending) >= _BATCH_ROWS:
            self._flush()

    def add_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows that are a batch already."""
        self._flush()
        self.rows += batch.num_rows
        self._writer.write_batch(batch)

    def iter_batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, each time that it is called; none can be added after."""
        if self._writer:
            self._flush()
            self._writer.close()
            self._writer = None
        self._file.seek(0)
        yield from pa.ipc.open_stream(self._file)

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._pending, schema=self.schema))
            self._pending = []
