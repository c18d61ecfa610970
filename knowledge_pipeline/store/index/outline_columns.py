"""What ranking needs of all rows of one file of an index, as columns in memory.

A search has two hundred candidates and shows five. Taking so many rows from the file costs more than either
search does; a row takes about a hundred bytes here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

_BATCH_ROWS = 1024  # whose metadata are in memory at a time
_COLUMNS = ("id", "source", "path", "source_type")


class ChunkOutline(NamedTuple):
    """What ranking needs of a row: of two hundred candidates a handful are shown."""

    id: str
    source: str
    path: str
    symbols: tuple[str, ...]  # qualified names of what its text defines, each once
    source_type: str


class _TextColumn(NamedTuple):
    """Texts that come often."""

    values: list[str]  # each once
    codes: np.ndarray  # int32: of each row

    @classmethod
    def encode(cls, column: Any) -> _TextColumn:
        encoded = column.combine_chunks().dictionary_encode()
        return cls(encoded.dictionary.to_pylist(), encoded.indices.to_numpy())

    def take(self, at: np.ndarray) -> Iterator[str]:
        return map(self.values.__getitem__, self.codes[at].tolist())


@dataclass(frozen=True, slots=True)
class OutlineColumns:
    """The outlines of the rows that a file has in one version of an index."""

    places: np.ndarray  # int64, ascending: of the rows in the file
    _ids: Any  # of Arrow
    _sources: _TextColumn
    _paths: _TextColumn
    _types: _TextColumn
    _symbols: Any  # of Arrow: a list for each row

    @classmethod
    def read_fragment(cls, dataset: Any, fragment: int) -> OutlineColumns:
        """Read the rows of a fragment, in some ten microseconds of the processor each.

        Metadata are read by themselves: what is kept of a batch keeps all of it in memory.
        """
        rows = dataset.get_fragment(fragment).to_table(columns=list(_COLUMNS), with_row_id=True)
        batches = dataset.get_fragment(fragment).to_batches(
            columns=["symbol", "metadata"], batch_size=_BATCH_ROWS, batch_readahead=1
        )
        symbols = (pa.array(_list_symbols(batch), pa.list_(pa.string())) for batch in batches)
        return cls(
            (rows["_rowid"].to_numpy() & 0xFFFFFFFF).astype(np.int64),
            rows["id"].combine_chunks(),
            _TextColumn.encode(rows["source"]),
            _TextColumn.encode(rows["path"]),
            _TextColumn.encode(rows["source_type"]),
            pa.chunked_array(symbols).combine_chunks(),
        )

    def find(self, places: np.ndarray) -> tuple[np.ndarray, list[ChunkOutline]]:
        """The rows at some places: which of them the version that was read had, and their outlines."""
        at = np.searchsorted(self.places, places).clip(max=len(self.places) - 1)
        known = self.places[at] == places
        at = at[known]
        taken = pa.array(at)
        lists = self._symbols.take(taken)
        names, ends = lists.values.to_pylist(), lists.offsets.to_pylist()
        columns = (
            self._ids.take(taken).to_pylist(),
            self._sources.take(at),
            self._paths.take(at),
            (tuple(names[start:end]) for start, end in pairwise(ends)),
            self._types.take(at),
        )
        return known, list(map(ChunkOutline, *columns))


def _list_symbols(rows: Any) -> Iterator[list[str]]:
    """Each row's own symbol, then those in its metadata."""
    for own, text in zip(rows["symbol"].to_pylist(), rows["metadata"].to_pylist(), strict=True):
        further = json.loads(text).get("symbols", ()) if '"symbols"' in text else ()
        yield list(dict.fromkeys(filter(None, (own, *further))))
