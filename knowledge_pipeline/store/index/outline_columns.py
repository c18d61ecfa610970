"""What ranking needs of all rows of one file of an index, as columns in memory.

A search has two hundred candidates and shows five. Taking so many rows from the file costs more than either
search does; a row takes about a hundred bytes here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
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


class Outlines:
    """The outlines of some rows, as columns: objects would take longer to make than to use."""

    def __init__(
        self,
        ids: list[str],
        sources: list[str],
        paths: list[str],
        source_types: list[str],
        read_symbols: Callable[[], Iterable[tuple[str, ...]]],
    ) -> None:
        """One value of each row; symbols are read when a question names any."""
        self.ids, self.sources, self.paths, self.source_types = ids, sources, paths, source_types
        self._read_symbols = read_symbols

    @classmethod
    def of(cls, outlines: Iterable[ChunkOutline]) -> Outlines:
        """The columns of some outlines."""
        columns: list[list[Any]] = [list(column) for column in zip(*outlines, strict=True)]
        ids, sources, paths, symbols, types = columns or ([], [], [], [], [])
        return cls(ids, sources, paths, types, lambda: symbols)

    @classmethod
    def join(cls, parts: Sequence[Outlines]) -> Outlines:
        """Those of several files, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            [id_ for part in parts for id_ in part.ids],
            [source for part in parts for source in part.sources],
            [path for part in parts for path in part.paths],
            [type_ for part in parts for type_ in part.source_types],
            lambda: chain.from_iterable(part.symbols for part in parts),
        )

    @cached_property
    def symbols(self) -> list[tuple[str, ...]]:
        """Qualified names of what the text of each row defines, each once."""
        return list(self._read_symbols())

    def take(self, at: Sequence[int]) -> Outlines:
        """Those of some rows, by their positions."""
        columns = (self.ids, self.sources, self.paths, self.source_types)
        ids, sources, paths, types = ([column[each] for each in at] for column in columns)
        return Outlines(ids, sources, paths, types, lambda: [self.symbols[each] for each in at])

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, at: int) -> ChunkOutline:
        return ChunkOutline(
            self.ids[at], self.sources[at], self.paths[at], self.symbols[at], self.source_types[at]
        )

    def __iter__(self) -> Iterator[ChunkOutline]:
        columns = (self.ids, self.sources, self.paths, self.symbols, self.source_types)
        return map(ChunkOutline, *columns)


class _TextColumn(NamedTuple):
    """Texts that come often."""

    values: list[str]  # each once
    codes: np.ndarray  # int32: of each row

    @classmethod
    def encode(cls, column: Any) -> _TextColumn:
        encoded = column.combine_chunks().dictionary_encode()
        return cls(encoded.dictionary.to_pylist(), encoded.indices.to_numpy())

    def take(self, at: np.ndarray) -> list[str]:
        return list(map(self.values.__getitem__, self.codes[at].tolist()))


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

    def find(self, places: np.ndarray) -> Outlines | None:
        """The outlines of the rows at some places; None unless the version that was read had all of them."""
        at = np.searchsorted(self.places, places).clip(max=len(self.places) - 1)
        if not np.array_equal(self.places[at], places):
            return None

        def read_symbols() -> Iterator[tuple[str, ...]]:
            lists = self._symbols.take(pa.array(at))
            names, ends = lists.values.to_pylist(), lists.offsets.to_pylist()
            return (tuple(names[start:end]) for start, end in pairwise(ends))

        ids = self._ids.take(pa.array(at)).to_pylist()
        sources, paths, types = (each.take(at) for each in (self._sources, self._paths, self._types))
        return Outlines(ids, sources, paths, types, read_symbols)


def _list_symbols(rows: Any) -> Iterator[list[str]]:
    """Each row's own symbol, then those in its metadata."""
    for own, text in zip(rows["symbol"].to_pylist(), rows["metadata"].to_pylist(), strict=True):
        further = json.loads(text).get("symbols", ()) if '"symbols"' in text else ()
        yield list(dict.fromkeys(filter(None, (own, *further))))
