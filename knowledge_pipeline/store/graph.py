"""Reads the code graph at one released version; every read takes a filter, made from an `Access`.

A read that indexes answer takes Lance two to five milliseconds, and a search needs four. So the keys of a
table are kept in memory, with the numbers that narrow what they find: then only the rows that match are read.
Of edges, and of some hundred thousand symbols, all that is read is kept: each value once, and in each row its
number. LanceDB would add a third to the time of each read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store import filters
from knowledge_pipeline.store.damage import (
    LANCE_ERRORS,
    MEND,
    IndexProbe,
    explain_lance_error,
    is_damage,
)
from knowledge_pipeline.store.file_cache import DueValue, RecentValues, open_file_cache
from knowledge_pipeline.store.filters import MATCH_ALL, MATCH_NONE, Filter, one_of
from knowledge_pipeline.store.fragments import KeyIndex
from knowledge_pipeline.store.lance_internals import count_rows, set_indexes_aside, take_rows
from knowledge_pipeline.store.lance_storage import StorePath, open_dataset
from knowledge_pipeline.store.schemas import GRAPH
from knowledge_pipeline.store.search import (
    Locations,
    Row,
    parse_payloads,
)

_P = ParamSpec("_P")
_T = TypeVar("_T")

MAX_ROWS = 1_000_000  # of a table, at most 85 bytes each; a larger one is read by its indexes
MAX_CONDITIONS = 32  # whose rows are kept; a bit for each row
_MIN_LOOKUPS = 4  # of one version, or more where reading takes longer: a process that asks once loses by it
_ROWS_PER_LOOKUP = 20_000  # that are read in about the time that a lookup saves


@dataclass(frozen=True, slots=True)
class RowLookup:
    """Rows that have any of some keys, narrowed by what they are and where.

    `lines` has the first and the last line that count, of each of the paths, which are the only keys then.
    From the store come the rows between the first and the last of all: it would search for each path.
    """

    keys: Mapping[str, Collection[str]]  # column -> values; one of any column is enough
    sources: Collection[str] = ()  # none: of any source
    kinds: Collection[str] = ()  # none: of any kind
    excluded_kinds: Collection[str] = ()
    lines: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    unbounded_kinds: Collection[str] = ()  # that match as well, whatever the lines and kinds
    min_confidence: float | None = None
    line_columns: tuple[str, str] = ("line", "line")  # the first and the last of a row

    def to_filter(self) -> Filter:
        """The condition for the store."""
        keyed = (one_of(column, sorted(values)) for column, values in self.keys.items())
        bounds: list[Filter] = []
        if self.lines:
            first, last = self.line_columns
            bounds.append(filters.at_least(last, min(start for start, _ in self.lines.values())))
            bounds.append(filters.below(first, max(end for _, end in self.lines.values()) + 1))
        if self.kinds:
            bounds.append(one_of("kind", sorted(self.kinds)))
        bounds += [~filters.eq("kind", kind) for kind in self.excluded_kinds]
        narrowed = reduce(lambda one, other: one & other, bounds, MATCH_ALL)
        if self.unbounded_kinds:
            narrowed |= one_of("kind", sorted(self.unbounded_kinds))
        where = filters.any_of(list(keyed)) & narrowed
        if self.sources:
            where &= one_of("source", sorted(self.sources))
        if self.min_confidence is not None:
            where &= filters.at_least("confidence", self.min_confidence)
        return where


@dataclass(frozen=True, slots=True)
class _WholeColumns:
    """All values of some columns; a text that several rows or columns have is held once."""

    texts: Any  # of Arrow: each once, then null
    codes: Mapping[str, np.ndarray]  # of columns of texts: int32, where the text of each row is
    numbers: Mapping[str, np.ndarray]  # of other columns

    @classmethod
    def build(cls, columns: Mapping[str, Any]) -> _WholeColumns:
        """Of columns of Arrow, those of texts encoded."""
        encoded = {name: column for name, column in columns.items() if pa.types.is_dictionary(column.type)}
        numbers = {name: column.to_numpy() for name, column in columns.items() if name not in encoded}
        if not encoded:
            return cls(pa.nulls(1, pa.string()), {}, numbers)
        merged: Any = pa.concat_arrays([column.dictionary for column in encoded.values()]).dictionary_encode()
        places, null = merged.indices.to_numpy().astype(np.int32), len(merged.dictionary)
        codes: dict[str, np.ndarray] = {}
        for name, column in encoded.items():
            own, places = places[: len(column.dictionary)], places[len(column.dictionary) :]
            codes[name] = np.append(own, np.int32(null))[column.indices.fill_null(-1).to_numpy()]
        return cls(pa.concat_arrays([merged.dictionary, pa.nulls(1, pa.string())]), codes, numbers)

    def has(self, columns: Collection[str]) -> bool:
        """Whether all of the columns are among these."""
        return all(name in self.codes or name in self.numbers for name in columns)

    def to_rows(self, at: np.ndarray, columns: Sequence[str]) -> list[Row]:
        """Some of the columns of the rows at some positions, with one look at the texts of all."""
        count, texts = len(at), [name for name in columns if name in self.codes]
        if not count:
            return []
        numbers = [name for name in columns if name not in self.codes]
        values: dict[str, list[Any]] = {name: self.numbers[name][at].tolist() for name in numbers}
        if texts:
            codes: Any = np.concatenate([self.codes[name][at] for name in texts])
            texts_of_rows: list[Any] = self.texts.take(pa.array(codes)).to_pylist()
            values |= {
                name: texts_of_rows[start * count : (start + 1) * count] for start, name in enumerate(texts)
            }
        ordered = [values[name] for name in columns]
        return [dict(zip(columns, row, strict=True)) for row in zip(*ordered, strict=True)]


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys and numbers of all rows of one version of a table, in its order, and some whole columns."""

    rows: np.ndarray  # int64: row ids
    indexes: Mapping[str, KeyIndex]  # by column
    numbers: Mapping[str, np.ndarray]  # by column
    codes: Mapping[str, tuple[np.ndarray, Mapping[str, int]]]  # of `kind` and `source`
    whole: _WholeColumns
    _visible: RecentValues[np.ndarray] = field(default_factory=lambda: RecentValues(MAX_CONDITIONS))

    @classmethod
    def load(cls, dataset: Any, keys: Sequence[str], numbers: Sequence[str], whole: Collection[str]) -> _Keys:
        """Read all rows, a column at a time: as texts, all of them take three times as much."""
        columns: dict[str, Any] = {}
        for name in dict.fromkeys((*keys, *numbers, "kind", "source", *whole)):
            column = dataset.to_table(columns=[name])[name].combine_chunks()
            columns[name] = column.dictionary_encode() if pa.types.is_string(column.type) else column
        codes: dict[str, tuple[np.ndarray, Mapping[str, int]]] = {}
        for name in ("kind", "source"):
            code_by_value = {value: code for code, value in enumerate(columns[name].dictionary.to_pylist())}
            codes[name] = columns[name].indices.to_numpy(zero_copy_only=False), code_by_value
        indexes = dict[str, KeyIndex]()
        for name in keys:
            index_codes = columns[name].indices.fill_null(-1).to_numpy()
            positions = np.flatnonzero(index_codes >= 0).astype(np.int32)
            keyed = columns[name].dictionary.to_pylist()
            indexes[name] = KeyIndex.build(keyed, index_codes[positions], positions)
        return cls(
            dataset.to_table(columns=[], with_row_id=True)["_rowid"].to_numpy().astype(np.int64),
            indexes,
            {name: columns[name].to_numpy() for name in numbers},
            codes,
            _WholeColumns.build({name: columns[name] for name in whole}),
        )

    def find(self, lookup: RowLookup, visible: Filter, dataset: Any) -> np.ndarray:
        """The positions of the rows that match and are visible, ascending."""
        matches = [np.empty(0, np.int32)]
        for column, values in lookup.keys.items():
            for value in values:
                of_key = self.indexes[column].find(value)
                bounds = lookup.lines.get(value)
                matches.append(of_key[self._is_in_lines(of_key, lookup, bounds)] if bounds else of_key)
        at = np.unique(np.concatenate(matches))
        narrowed = np.ones(len(at), bool)
        if lookup.kinds:
            narrowed &= self._is_one_of("kind", at, lookup.kinds)
        if lookup.excluded_kinds:
            narrowed &= ~self._is_one_of("kind", at, lookup.excluded_kinds)
        if lookup.unbounded_kinds:
            narrowed |= self._is_one_of("kind", at, lookup.unbounded_kinds)
        if lookup.sources:
            narrowed &= self._is_one_of("source", at, lookup.sources)
        if lookup.min_confidence is not None:
            narrowed &= self.numbers["confidence"][at] >= lookup.min_confidence
        if visible != MATCH_ALL:
            narrowed &= self._is_visible(visible, at, dataset)
        return at[narrowed]

    def knows(self, visible: Filter) -> bool:
        """Whether it is known which rows are visible, so that finding reads nothing."""
        return visible == MATCH_ALL or self._visible.get(visible.sql) is not None

    def _is_in_lines(self, at: np.ndarray, lookup: RowLookup, bounds: tuple[int, int]) -> np.ndarray:
        first, last = lookup.line_columns
        within = (self.numbers[last][at] >= bounds[0]) & (self.numbers[first][at] <= bounds[1])
        if lookup.unbounded_kinds:
            within |= self._is_one_of("kind", at, lookup.unbounded_kinds)
        return within

    def _is_one_of(self, column: str, at: np.ndarray, values: Collection[str]) -> np.ndarray:
        codes, code_by_value = self.codes[column]
        is_asked = np.zeros(len(code_by_value), bool)
        is_asked[[code_by_value[value] for value in values if value in code_by_value]] = True
        return is_asked[codes[at]]

    def _is_visible(self, visible: Filter, at: np.ndarray, dataset: Any) -> np.ndarray:
        """Of some rows, whether they match: as the store says, for the last conditions."""

        def read() -> np.ndarray:
            matching = dataset.to_table(columns=[], filter=visible.sql, with_row_id=True)["_rowid"]
            return np.packbits(np.isin(self.rows, matching.to_numpy().astype(np.int64)), bitorder="little")

        packed = self._visible.load(visible.sql, read)
        return ((packed[at >> 3] >> (at & 7)) & 1).astype(bool)


class KeyedTable:
    """One version of a table, read by its keys: in memory once that pays, else by its indexes. For threads.

    Which rows a caller may see is part of each read.
    """

    def __init__(
        self,
        dataset: Any,
        keys: Sequence[str],
        numbers: Sequence[str],
        *,
        whole: Collection[str] = (),
        max_rows: int = MAX_ROWS,
        max_whole_rows: int = MAX_ROWS,
    ) -> None:
        """Read nothing yet; later, beside the keys and numbers, `whole` columns, of so many rows at most."""
        self._dataset, self._keys, self._numbers, self._whole = dataset, keys, numbers, whole
        self._max_rows, self._max_whole_rows = max_rows, max_whole_rows
        self._loaded = DueValue[_Keys](min_uses=_MIN_LOOKUPS)

    def reads_nothing(self, visible: Filter, columns: Sequence[str]) -> bool:
        """Whether the next read finds all in memory."""
        loaded = self._loaded.value
        return loaded is not None and loaded.knows(visible) and loaded.whole.has(columns)

    def read(self, lookup: RowLookup, visible: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """Rows that match and are visible, in no particular order."""
        if not any(lookup.keys.values()) or visible == MATCH_NONE:
            return []
        loaded = self._loaded.use(self._load)
        if loaded is None:
            return _read_rows(self._dataset, visible & lookup.to_filter(), limit, columns)
        at = loaded.find(lookup, visible, self._dataset)[:limit]
        if loaded.whole.has(columns):
            return loaded.whole.to_rows(at, columns)
        addresses = loaded.rows[at].tolist()
        return [*take_rows(self._dataset, addresses, columns).to_pylist()] if addresses else []

    def _load(self, lookups: int) -> _Keys | None:
        rows = count_rows(self._dataset)
        if rows > min(self._max_rows, lookups * _ROWS_PER_LOOKUP):
            return None
        whole = self._whole if rows <= self._max_whole_rows else ()
        return _Keys.load(self._dataset, self._keys, self._numbers, whole)


PAYLOAD_COLUMNS = (
    *("node", "source", "path", "language", "url", "kind", "name", "full_name", "signature"),
    *("start_line", "end_line"),
)


def build_payload(row: Mapping[str, Any]) -> str:
    """The column `shown` of a row of `schemas.SYMBOLS`: what a response shows of a symbol.

    Reading scattered rows costs by the column: a hundred rows of eleven columns take three times as long as
    one text, and queries of the code graph read little else.
    """
    return json.dumps([row.get(column) for column in PAYLOAD_COLUMNS], separators=(",", ":"))


@lru_cache(50_000)  # most edges of a file lead to few definitions
def node_id(source: str, path: str, name: str) -> str:
    """The id by which edges name a definition; `name` is qualified within its file, "" for the file."""
    return hash_strings(source, path, name)


MAX_CACHED_FILTERS = 1_000  # different access filters
_MAX_CACHED_NODES = 20_000  # about 1 KB each
_SYMBOL_KEYS, _SYMBOL_NUMBERS = ("path", "node", "simple", "full_name"), ("start_line", "end_line")
_MAX_WHOLE_SYMBOLS = 300_000  # that are kept with all that is shown of them, at about 150 bytes each
_EDGE_KEYS, _EDGE_NUMBERS = ("path", "target_id", "target_name"), ("line", "confidence")
WHOLE_EDGE_COLUMNS = (
    *("kind", "source", "path", "line", "confidence"),
    *("source_id", "source_name", "target_id", "target_name", "target_path"),
)
"""Of edges, what is kept in memory once that pays: reads of nothing else wait for no thread."""


def _without_damaged_indexes(
    read: Callable[Concatenate[GraphReader, _P], Awaitable[_T]],
) -> Callable[Concatenate[GraphReader, _P], Coroutine[Any, Any, _T]]:
    """Read without the indexes that are damaged, if that is what an error of Lance comes from."""

    @wraps(read)
    async def read_or_translate(reader: GraphReader, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        before = reader.describe_damage()
        try:
            return await read(reader, *args, **kwargs)
        except BaseException as error:  # Rust's panic is no Exception
            if not (isinstance(error, LANCE_ERRORS) or is_damage(error)):
                raise
            if reader.describe_damage() == before and is_damage(error):
                await asyncio.to_thread(reader.set_damaged_aside)
            if reader.describe_damage() != before:
                return await read(reader, *args, **kwargs)
            raise StoreError(
                f"the code graph of the live release cannot be read{explain_lance_error(error)}"
            ) from error

    return read_or_translate


@dataclass(slots=True)
class GraphReader:
    """The symbols and edges of all sources at the versions that one release names."""

    versions: Mapping[str, int]
    _symbols: Any  # a Lance dataset
    _edges: Any
    _keyed_symbols: KeyedTable
    _keyed_edges: KeyedTable
    _locations: Locations
    _multi_source: RecentValues[bool] = field(default_factory=lambda: RecentValues(MAX_CACHED_FILTERS))
    _symbol_cache: dict[str, dict[str, list[Row]]] = field(default_factory=dict[str, dict[str, list[Row]]])
    _damaged: set[str] = field(default_factory=set[str])  # columns, whose indexes are not read
    _probes: tuple[IndexProbe, IndexProbe] = field(default_factory=lambda: (IndexProbe(), IndexProbe()))

    def describe_damage(self) -> str:
        """What is read without its index, and what mends it; empty where nothing is damaged."""
        columns = ", ".join(sorted(self._damaged))
        return f"the index of {columns} in the code graph cannot be read: {MEND}" if columns else ""

    def set_damaged_aside(self) -> None:
        """Read both tables without the indexes that cannot be read."""
        if columns := self._probes[0].find_damaged(self._symbols):
            self._symbols = set_indexes_aside(self._symbols, columns)
            self._damaged |= {f"symbols.{column}" for column in columns}
        if columns := self._probes[1].find_damaged(self._edges):
            self._edges = set_indexes_aside(self._edges, columns)
            self._damaged |= {f"edges.{column}" for column in columns}
        self._keyed_symbols, self._keyed_edges = _key_symbols(self._symbols), _key_edges(self._edges)

    @_without_damaged_indexes
    async def find_symbols(self, where: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """Rows of `schemas.SYMBOLS` that match, in no particular order; `shown` is parsed."""
        where = self._locations.resolve(where)
        return self._fill_rows(await asyncio.to_thread(_read_rows, self._symbols, where, limit, columns))

    @_without_damaged_indexes
    async def find_edges(self, where: Filter, *, limit: int, columns: Sequence[str]) -> list[Row]:
        """Rows of `schemas.EDGES` that match, in no particular order."""
        where = self._locations.resolve(where)
        return await asyncio.to_thread(_read_rows, self._edges, where, limit, columns)

    @_without_damaged_indexes
    async def look_up_symbols(
        self, lookup: RowLookup, visible: Filter, *, limit: int, columns: Sequence[str]
    ) -> list[Row]:
        """Rows of `schemas.SYMBOLS` by path, node or names, as far as visible; `shown` is parsed."""
        read, visible = self._keyed_symbols.read, self._locations.resolve(visible)
        if columns == ("shown",) and self._keyed_symbols.reads_nothing(visible, PAYLOAD_COLUMNS):
            payloads = list(map(dict, read(lookup, visible, limit=limit, columns=PAYLOAD_COLUMNS)))
            self._locations.fill_rows(payloads)
            return [{"shown": payload} for payload in payloads]
        return self._fill_rows(await asyncio.to_thread(read, lookup, visible, limit=limit, columns=columns))

    def _fill_rows(self, rows: list[Row]) -> list[Row]:
        if not rows or "shown" not in rows[0]:
            return rows
        payloads = parse_payloads((row["shown"] for row in rows), PAYLOAD_COLUMNS)
        self._locations.fill_rows(payloads)
        return [{**row, "shown": payload} for row, payload in zip(rows, payloads, strict=True)]

    @_without_damaged_indexes
    async def look_up_edges(
        self, lookup: RowLookup, visible: Filter, *, limit: int, columns: Sequence[str]
    ) -> list[Row]:
        """Rows of `schemas.EDGES` by path, or by the node or name of their target, as far as visible."""
        read, visible = self._keyed_edges.read, self._locations.resolve(visible)
        if self._keyed_edges.reads_nothing(visible, columns):  # takes less than handing it to a thread
            return read(lookup, visible, limit=limit, columns=columns)
        return await asyncio.to_thread(read, lookup, visible, limit=limit, columns=columns)

    def cached_symbols(self, where: Filter) -> dict[str, list[Row]]:
        """Rows of symbols by node that were read under exactly this condition; callers add to them.

        Popular symbols share neighbours, which most reads are for.
        """
        cached_nodes = sum(map(len, self._symbol_cache.values()))
        if len(self._symbol_cache) > MAX_CACHED_FILTERS or cached_nodes > _MAX_CACHED_NODES:
            self._symbol_cache.clear()
        return self._symbol_cache.setdefault(where.sql, {})

    async def has_several_sources(self, where: Filter) -> bool:
        """Whether rows of more than one source match; read once for each condition."""
        several = self._multi_source.get(where.sql)
        if several is None:
            several = await self._read_several(where)
            self._multi_source.put(where.sql, several)
        return several

    async def _read_several(self, where: Filter) -> bool:
        sources = {row["source"] for row in await self.find_symbols(where, limit=1, columns=("source",))}
        others = where & ~one_of("source", sources) if sources else MATCH_NONE
        return bool(await self.find_symbols(others, limit=1, columns=("source",)))


async def open_graph(root: StorePath, versions: Mapping[str, int]) -> GraphReader:
    """Open the code graph at the versions that a release names.

    Raises `StoreError`: one of them cannot be opened.
    """
    files = open_file_cache(root)
    try:
        symbols, edges = await asyncio.to_thread(
            lambda: [open_dataset(root / "graph" / f"{name}.lance", versions[name], files) for name in GRAPH]
        )
    except (KeyError, *LANCE_ERRORS) as error:
        raise StoreError(
            f"the code graph of the live release cannot be opened{explain_lance_error(error)}"
        ) from error
    locations = Locations(symbols.metadata)
    return GraphReader(dict(versions), symbols, edges, _key_symbols(symbols), _key_edges(edges), locations)


def _key_symbols(symbols: Any) -> KeyedTable:
    return KeyedTable(
        symbols, _SYMBOL_KEYS, _SYMBOL_NUMBERS, whole=PAYLOAD_COLUMNS, max_whole_rows=_MAX_WHOLE_SYMBOLS
    )


def _key_edges(edges: Any) -> KeyedTable:
    return KeyedTable(edges, _EDGE_KEYS, _EDGE_NUMBERS, whole=WHOLE_EDGE_COLUMNS)


def _read_rows(table: Any, where: Filter, limit: int, columns: Sequence[str]) -> list[Row]:
    if where == MATCH_NONE:
        return []
    return table.to_table(columns=list(columns), filter=where.sql, limit=limit).to_pylist()
