"""Builds the indexes of the index tables and of the code graph where they pay; inspects and removes tables.

Rows that an index does not hold yet are searched all the same, by scanning them. A stale index therefore
costs time and never a result: 0.08 ms a row and query in an index table, because full text splits the tail's
words anew each time. Tables are inspected by listing their folders, which costs a fraction of opening:
maintenance inspects thousands, and most need nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.store import segments
from knowledge_pipeline.store.damage import describe_damage, read_index
from knowledge_pipeline.store.filters import UNEMBEDDED, has_any, one_of
from knowledge_pipeline.store.fragments import MAX_TABLE_ROWS
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_internals import ADDRESS, allow_rows, sample_addresses, take_rows
from knowledge_pipeline.store.lance_storage import StorePath, build_index, has_version, remove_path
from knowledge_pipeline.store.object_store import ObjectPath
from knowledge_pipeline.store.schemas import GRAPH, HELD_LISTS
from knowledge_pipeline.store.tables import COMPACT_MIN_SMALL_FRAGMENTS, Table

SCALAR_INDEX_MIN_ROWS = 10_000  # below, a scan is as fast
VECTOR_INDEX_MIN_ROWS = 5_000  # brute force over 7,000 x 768 takes 21 ms on two cores, the index 7
GRAPH_INDEX_MIN_ROWS = 5_000  # below, a scan takes 2 ms
HNSW_PARTITION_ROWS = 1_000_000  # smaller graphs are built sooner, and a search looks through all of them
MAX_UNINDEXED_ROWS = 128  # a longer tail is taken into the indexes
GRAPH_MAX_UNINDEXED_ROWS = 1_000  # with a tail of 5,000, each read takes 2 ms more

_HNSW_OPTIONS: dict[str, Any] = {"m": 20, "ef_construction": 150}
"""Lance's 300 candidates take 1.8 times the processor, and find as many neighbours."""

_VECTOR_OPTIONS = "vector_index"  # the note of a table with what settings say of the index of its vectors
_SEARCH_OPTIONS = ("nprobes", "refine_factor")  # those that say how it is searched
_VECTOR_PARAMETERS = {"partitions": "num_partitions", "sub_vectors": "num_sub_vectors", "bits": "num_bits"}

FTS_OPTIONS: dict[str, Any] = {
    "base_tokenizer": "simple",
    "stem": True,
    "remove_stop_words": False,
    "max_token_length": 80,
    "with_position": False,
}
_BTREE_PAGE_ROWS = 1_024  # of keys: a lookup reads all of a key's page
_SCALAR_INDEXES = {
    **dict.fromkeys(("source", "source_type", "language", "visibility", "tenant", "archived"), "BITMAP"),
    **dict.fromkeys(("text_key", "last_modified"), "BTREE"),
    **dict.fromkeys(("names", "mentions", *HELD_LISTS), "LABEL_LIST"),
}
_LARGE_TABLE_INDEXES = {"unembedded": "BITMAP", "id": "BTREE", "uri": "BTREE"}
"""Of columns that are not held in memory: what an edit asks of one document costs what its rows cost."""
_GRAPH_BTREE_COLUMNS = {
    "symbols": ("node", "simple", "full_name", "path"),
    "edges": ("source_id", "source_name", "target_id", "target_name", "path", "target_path"),
}
_GRAPH_ACCESS_INDEXES = {
    **dict.fromkeys(("source", "kind", "visibility", "tenant"), "BITMAP"),
    "principals": "LABEL_LIST",
}
"""With these, indexes answer a whole condition, the caller's access included: a column without one is
read for every row that the others leave, which takes longer than everything else."""


def maintain_indexes(
    table: Table, *, with_vectors: bool = True, max_unindexed_rows: int | None = None
) -> None:
    """Build missing indexes and take a long unindexed tail in, at a cost that follows the tail.

    Without vectors, their index is left for later: a graph of those that just came is soon built anew.
    A tail is long from `max_unindexed_rows` on, or from what suits the table.
    """
    built = table.indexes
    for column, kind in _required_indexes(table, built).items():
        if column not in built and (with_vectors or kind != "VECTOR"):
            _build_index(table, column, kind)
    if _has_long_tail(table, built, max_unindexed_rows or 0):
        table.extend_indexes(with_graphs=with_vectors)


def has_vector_options(table: Table, options: str | None) -> bool:
    """Whether the index of a table's vectors is, or will be, built as settings say: JSON, or None."""
    return not table.exists or table.read_notes().get(_VECTOR_OPTIONS) == options


def choose_vector_options(table: Table, options: str | None) -> None:
    """Let the index of vectors be built as settings say; one that was built otherwise is dropped."""
    if has_vector_options(table, options):
        return
    built, _ = read_vector_options(table.read_notes())
    wanted, _ = read_vector_options({_VECTOR_OPTIONS: options or ""})
    if built != wanted and (name := table.indexes.get("vector")):
        table.build_index(partial(table.open_newest().drop_index, name))
    table.write_notes(**{_VECTOR_OPTIONS: options})


def read_vector_options(notes: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, int]]:
    """What settings say of the index of a table's vectors: how it is built, and how it is searched."""
    options = json.loads(notes.get(_VECTOR_OPTIONS) or "{}")
    return options, {name: options.pop(name) for name in _SEARCH_OPTIONS if name in options}


def merge_segments(table: Table) -> None:
    """As `maintain_indexes`, and unite many graphs of vectors, at a cost that follows the table."""
    maintain_indexes(table)
    table.extend_indexes(merge_graphs=True)


def needs_maintenance(table: Table) -> bool:
    """Whether an index is missing, has a long unindexed tail, or is in many pieces."""
    built = table.indexes
    if lacks_index(table) or _has_long_tail(table, built):
        return True
    return bool(built) and segments.has_many_graphs(table.open_newest())


def lacks_index(table: Table) -> bool:
    """Whether an index that the table needs at its size was never built."""
    built = table.indexes
    return not _required_indexes(table, built).keys() <= built.keys()


def rebuild_indexes(table: Table) -> None:
    """Build every index anew, so that none holds a word of a row that was erased."""
    built, required = table.indexes, _required_indexes(table)
    for column in built.keys() - required.keys():
        table.build_index(partial(table.open_newest().drop_index, built[column]))
    for column, kind in required.items():
        _build_index(table, column, kind)


def rebuild_index(table: Table, column: str) -> None:
    """Build the index of one column anew, or drop it where the table needs none; its files are not read."""
    if kind := _required_indexes(table, table.indexes).get(column):
        _build_index(table, column, kind)
    else:
        table.build_index(partial(table.open_newest().drop_index, table.indexes[column]))


def count_unindexed_rows(table: Table) -> int:
    """Rows that full-text search finds by scanning."""
    return segments.count_rows_beyond(table.open_version(), "words") if table.exists else 0


def _has_long_tail(table: Table, built: dict[str, str], min_rows: int = 0) -> bool:
    columns = [column for column in ("words", "vector") if column in built] or list(built)[:1]
    max_rows = max(GRAPH_MAX_UNINDEXED_ROWS if table.name in GRAPH else MAX_UNINDEXED_ROWS, min_rows)
    return any(segments.count_rows_beyond(table.open_version(), column) > max_rows for column in columns)


def _required_indexes(table: Table, built: Collection[str] = ()) -> dict[str, str]:
    """Columns, each with its kind of index, that the table needs at its size.

    Whether a graph of vectors still has enough is not counted where it is built: that looks at every row.
    """
    rows = table.count_rows()
    if table.name in GRAPH:
        trees = dict.fromkeys(_GRAPH_BTREE_COLUMNS[table.name], "BTREE")
        return {**trees, **_GRAPH_ACCESS_INDEXES} if rows >= GRAPH_INDEX_MIN_ROWS else {}
    required = {"words": "FTS"} if rows else {}
    if rows >= SCALAR_INDEX_MIN_ROWS:
        required |= _SCALAR_INDEXES
    if rows > MAX_TABLE_ROWS:
        required |= _LARGE_TABLE_INDEXES
    min_rows = read_vector_options(table.read_notes())[0].get("min_rows", VECTOR_INDEX_MIN_ROWS)
    if rows < min_rows or ("vector" not in built and rows - table.count_rows(UNEMBEDDED) < min_rows):
        return required
    return {**required, "vector": "VECTOR"}


def _build_index(table: Table, column: str, kind: str) -> None:
    """By LanceDB, except for a tree with small pages, whose size LanceDB does not take."""
    if kind == "BTREE" and (table.name in GRAPH or column in _LARGE_TABLE_INDEXES):
        from lance.indices import IndexConfig

        tree = IndexConfig(index_type="btree", parameters={"zone_size": _BTREE_PAGE_ROWS})
        build = partial(table.open_newest().create_scalar_index, column, tree, replace=True)
    else:
        build = partial(build_index, table.path, column, _configure_index(table, kind))
    table.build_index(build)


def _configure_index(table: Table, kind: str) -> Any:
    from lancedb import index

    if kind == "VECTOR":
        return _configure_vector_index(table, **read_vector_options(table.read_notes())[0])
    if kind == "FTS":
        return index.FTS(**FTS_OPTIONS)
    return {"BITMAP": index.Bitmap, "BTREE": index.BTree, "LABEL_LIST": index.LabelList}[kind]()


def _configure_vector_index(table: Table, type: str = "hnsw_sq", min_rows: int = 0, **chosen: int) -> Any:
    from lancedb import index

    kinds: dict[str, Any] = {
        "hnsw_sq": index.HnswSq,
        "hnsw_pq": index.HnswPq,
        "ivf_flat": index.IvfFlat,
        "ivf_sq": index.IvfSq,
        "ivf_pq": index.IvfPq,
    }
    del min_rows  # which decides whether there is one
    options: dict[str, Any] = {}  # Lance has fewer partitions where there are too few rows to train them
    if type.startswith("hnsw"):
        options = {"num_partitions": max(1, table.count_rows() // HNSW_PARTITION_ROWS), **_HNSW_OPTIONS}
    options |= {_VECTOR_PARAMETERS.get(name, name): value for name, value in chosen.items()}
    return kinds[type](distance_type="cosine", **options)


_DISCARDED_SUFFIX = ".discarded"
_CREATION_GRACE_S = 86_400.0
_FOLDERS_WRITTEN_FIRST = ("data", "_deletions", "_indices")


def count_versions_in_use(table: Table, since: float) -> int:
    """How many of the newest versions readers may use that opened the table after a time, since the epoch.

    A version is in use until the next one is written, so these are those written after that, and one more.
    """
    return 1 + sum(written > since for written in _iter_write_times(table.path / "_versions"))


def newest_version_time(table: Table) -> float:
    """When the newest version of a table was written; seconds since the epoch."""
    return max(_iter_write_times(table.path / "_versions"), default=0.0)


def last_write_time(folder: StorePath) -> float:
    """When a file, or anything in a folder two levels deep, was last written; seconds since the epoch."""
    if isinstance(folder, ObjectPath):
        return max((path.stat().st_mtime for path in folder.iter_objects()), default=0)
    return max(file.lstat().st_mtime for file in [folder, *folder.glob("*"), *folder.glob("*/*")])


def has_unfinished_writes(table: Table) -> bool:
    """Whether files are newer than the newest version: of a writer that runs, or was killed."""
    begun = (max(_iter_write_times(table.path / part), default=0.0) for part in _FOLDERS_WRITTEN_FIRST)
    return max(begun) > newest_version_time(table)


def may_need_compaction(table: Table) -> bool:
    """Whether there are deletions, or so many files, that opening the table is worth it."""
    if any((table.path / "_deletions").glob("*")):
        return True
    return sum(1 for _ in (table.path / "data").glob("*")) >= COMPACT_MIN_SMALL_FRAGMENTS


def _iter_write_times(folder: StorePath) -> Iterator[float]:
    for entry in folder.glob("*"):
        with suppress(FileNotFoundError):
            yield entry.stat().st_mtime


def list_vector_tables(lake: Lake) -> dict[str, list[Table]]:
    """The embeddings of every source, of all spaces that it ever had."""
    tables: dict[str, list[Table]] = {}
    for path in sorted((lake.root / "embeddings").glob("*/*.lance")):
        if has_version(path):
            table = lake.embeddings(path.parent.name, path.stem, lake.read_dimensions(path))
            tables.setdefault(path.stem, []).append(table)
    return tables


def discard_path(lake: Lake, path: StorePath) -> None:
    """Remove a table, a folder or a file of the store: a kill leaves it whole, or nameless.

    Raises `StoreError`: it lies elsewhere, behind a link; nothing was removed.
    """
    if isinstance(path, ObjectPath):
        return path.remove()
    if not path.parent.resolve().is_relative_to(lake.folder.resolve()):
        raise StoreError(
            f"{path} is a link out of the store {lake.folder}: remove it yourself if it is not needed"
        )
    nameless = path.with_name(path.name + _DISCARDED_SUFFIX)
    remove_path(nameless)
    path.rename(nameless)
    remove_path(nameless)


def list_half_discarded(lake: Lake) -> list[StorePath]:
    """What a killed `discard_path` left."""
    folders = ("index", "embeddings/*", "cache/mirrors", "marts")
    local = sorted(path for name in folders for path in lake.folder.glob(f"{name}/*{_DISCARDED_SUFFIX}"))
    if not isinstance(lake.root, ObjectPath):
        return [*local]
    # tables without a version that nobody has written to for a day, so that nobody is creating them
    latest = time.time() - _CREATION_GRACE_S
    tables = (table for name in folders[:2] for table in lake.root.glob(f"{name}/*.lance"))
    unused = (table for table in tables if last_write_time(table) < latest)
    return [*local, *(table for table in unused if not (table / "_versions").is_dir())]


_MISSES_ROWS = "it does not find rows that are there"
_WORDS_OF_A_ROW = 16  # that a row is looked for by
_MAX_WORD_CHARS = 40  # an index leaves longer ones out
_ALL_PARTITIONS = 1_000_000


def find_index_problem(dataset: Any, index: Any, rows: int) -> str:
    """What is wrong with an index, which is read whole and asked for so many rows; empty for nothing.

    What reads damaged bytes may end the whole process.
    """
    reader, kind = read_index(dataset, index)
    if not kind:
        try:
            addresses = sample_addresses(dataset, rows) if rows else []
            return _MISSES_ROWS if addresses and _misses_rows(reader, index.field_names[0], addresses) else ""
        except BaseException as error:  # noqa: BLE001 - Rust's panic is no Exception
            kind = describe_damage(error)
    return f"it cannot be read ({kind})"


def _misses_rows(dataset: Any, column: str, addresses: Sequence[int]) -> bool:
    """Whether the index of a column does not find some rows by what they hold."""
    values = take_rows(dataset, addresses, [column])[column].to_pylist()
    rows = [(at, value) for at, value in zip(addresses, values, strict=True) if value is not None]
    if column == "words":
        return not all(_finds_by_words(dataset, at, words) for at, words in rows)
    if column == "vector":
        return not all(_finds_by_vector(dataset, at, vector) for at, vector in rows)
    if any(isinstance(value, list) for _, value in rows):
        condition = has_any(column, sorted({item for _, value in rows for item in value}))
    else:
        condition = one_of(column, {value for _, value in rows})
    by_index, by_scan = (
        dataset.to_table([], filter=condition.sql, with_row_address=True, use_scalar_index=is_used)
        for is_used in (True, False)
    )
    return sorted(by_index[ADDRESS].to_pylist()) != sorted(by_scan[ADDRESS].to_pylist())


def _finds_by_words(dataset: Any, address: int, text: str) -> bool:
    from lance.query import FullTextOperator, MatchQuery

    words = [word for word in text.split() if word.isalnum() and len(word) <= _MAX_WORD_CHARS]
    words = words[:: max(1, len(words) // _WORDS_OF_A_ROW)]
    query = MatchQuery(" ".join(words), "words", operator=FullTextOperator.AND)
    return not words or _finds(dataset, address, full_text_query=query)


def _finds_by_vector(dataset: Any, address: int, vector: Sequence[float]) -> bool:
    nearest = {"column": "vector", "q": vector, "k": 1, "metric": "cosine", "nprobes": _ALL_PARTITIONS}
    return not any(vector) or _finds(dataset, address, nearest=nearest)


def _finds(dataset: Any, address: int, **query: Any) -> bool:
    """Whether a query finds a row, which is all that it may find."""
    options = {"prefilter": True, "with_row_id": True, **allow_rows([address]), **query}
    return address in dataset.scanner([], **options).to_table()["_rowid"].to_pylist()
