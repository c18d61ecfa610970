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


class OutlineFile(NamedTuple):
    """What the chunks of a file, or of a document, have in common."""

    source: str
    path: str
    source_type: str


def order_by_id(ids: Sequence[str]) -> np.ndarray:
    """Positions in the order of ids, those of equal ones in their own: int64."""
    return np.array(sorted(range(len(ids)), key=ids.__getitem__), np.int64)


class Outlines:
    """The outlines of some rows, as columns: objects would take longer to make than to use."""

    def __init__(
        self,
        ids: list[str],
        files: list[OutlineFile],
        file_numbers: np.ndarray,
        read_symbols: Callable[[], Iterable[tuple[str, ...]]],
    ) -> None:
        """Ids and symbols of each row; symbols are read when a question names any.

        `file_numbers` are the positions in `files` of each row's: int64.
        """
        self.ids, self.files, self.file_numbers = ids, files, file_numbers
        self._read_symbols = read_symbols

    @classmethod
    def of(cls, outlines: Iterable[ChunkOutline]) -> Outlines:
        """The columns of some outlines."""
        listed, numbers = list(outlines), dict[OutlineFile, int]()
        files = [OutlineFile(each.source, each.path, each.source_type) for each in listed]
        own = np.array([numbers.setdefault(file, len(numbers)) for file in files], np.int64)
        return cls(
            [each.id for each in listed], list(numbers), own, lambda: [each.symbols for each in listed]
        )

    @classmethod
    def join(cls, parts: Sequence[Outlines]) -> Outlines:
        """Those of several tables' files, one after the other."""
        if len(parts) == 1:
            return parts[0]
        numbers, joined = dict[OutlineFile, int](), [np.empty(0, np.int64)]
        for part in parts:
            own = np.array([numbers.setdefault(file, len(numbers)) for file in part.files], np.int64)
            joined.append(own[part.file_numbers])
        ids = [id_ for part in parts for id_ in part.ids]
        symbols = (part.symbols for part in parts)
        return cls(ids, list(numbers), np.concatenate(joined), lambda: chain.from_iterable(symbols))

    @cached_property
    def symbols(self) -> list[tuple[str, ...]]:
        """Qualified names of what the text of each row defines, each once."""
        return list(self._read_symbols())

    @cached_property
    def by_id(self) -> np.ndarray:
        """Positions in the order of ids, those of equal ones in their own: int64."""
        return order_by_id(self.ids)

    def mark_files(self, is_marked: Callable[[OutlineFile], bool]) -> np.ndarray:
        """For each row whether its file is one of some."""
        return np.fromiter(map(is_marked, self.files), bool, len(self.files))[self.file_numbers]

    def take(self, at: np.ndarray) -> Outlines:
        """Those of some rows, by their positions."""
        listed: list[int] = at.tolist()
        ids = [self.ids[each] for each in listed]
        return Outlines(
            ids, self.files, self.file_numbers[at], lambda: [self.symbols[each] for each in listed]
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, at: int) -> ChunkOutline:
        file = self.files[int(self.file_numbers[at])]
        return ChunkOutline(self.ids[at], file.source, file.path, self.symbols[at], file.source_type)

    def __iter__(self) -> Iterator[ChunkOutline]:
        return map(self.__getitem__, range(len(self)))


@dataclass(frozen=True, slots=True)
class OutlineColumns:
    """The outlines of the rows that a file has in one version of an index."""

    places: np.ndarray  # int64, ascending: of the rows in the file
    _ids: Any  # of Arrow
    _files: list[OutlineFile]  # each once
    _file_numbers: np.ndarray  # int32: of each row
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
        files, file_numbers = _number_files(*(rows[name] for name in OutlineFile._fields))
        return cls(
            (rows["_rowid"].to_numpy() & 0xFFFFFFFF).astype(np.int64),
            rows["id"].combine_chunks(),
            files,
            file_numbers,
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
        numbers, own = np.unique(self._file_numbers[at], return_inverse=True)
        return Outlines(ids, [self._files[number] for number in numbers.tolist()], own, read_symbols)


def _number_files(*columns: Any) -> tuple[list[OutlineFile], np.ndarray]:
    """The files of some rows, each once, and which of them each row is of."""
    encoded = [column.combine_chunks().dictionary_encode() for column in columns]
    values: list[list[str]] = [each.dictionary.to_pylist() for each in encoded]
    sizes = [max(len(each), 1) for each in values]
    keys = np.ravel_multi_index([each.indices.to_numpy() for each in encoded], sizes)
    distinct, numbers = np.unique(keys, return_inverse=True)
    of_files = np.unravel_index(distinct, sizes)
    named = (map(each.__getitem__, at.tolist()) for each, at in zip(values, of_files, strict=True))
    return list(map(OutlineFile, *named)), numbers.astype(np.int32)


def _list_symbols(rows: Any) -> Iterator[list[str]]:
    """Each row's own symbol, then those in its metadata."""
    for own, text in zip(rows["symbol"].to_pylist(), rows["metadata"].to_pylist(), strict=True):
        further = json.loads(text).get("symbols", ()) if '"symbols"' in text else ()
        yield list(dict.fromkeys(filter(None, (own, *further))))
