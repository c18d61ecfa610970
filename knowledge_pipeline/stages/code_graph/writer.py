"""Writes resolved files into the shared tables of the code graph, under the index lock.

All rows of one pass have one time of indexing: the rows that they replace are those of the same files with
another time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import datetime

from knowledge_pipeline.stages.code_graph.rows import ResolvedRows, Row
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.filters import Filter, eq, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.spool import Spool
from knowledge_pipeline.store.tables import Table, split_batches

_IS_FILE = eq("kind", "file")


class GraphWriter:
    """The rows of one pass, kept on disk until they are written; a context manager."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._stack = ExitStack()
        self._replaced_paths: list[str] = []  # of files whose other rows are written, too
        self._files = 0  # whose own row is written

    def __enter__(self) -> GraphWriter:
        schemas = (self._lake.graph_table(name).schema for name in ("symbols", "edges"))
        opened = [Spool(schema, self._lake.cache) for schema in schemas]
        self._symbols, self._edges = map(self._stack.enter_context, opened)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def row_count(self) -> int:
        """The number of rows to write."""
        return self._symbols.rows + self._edges.rows

    def add(self, rows: ResolvedRows) -> None:
        """Take the rows of some files."""
        self._files += rows.files
        self._replaced_paths += rows.replaced_paths
        self._symbols.add_batch(rows.symbols)
        self._edges.add_batch(rows.edges)

    def add_traces(self, files: list[Row]) -> None:
        """Take the own rows of files of which nothing else is written."""
        self._files += len(files)
        self._symbols.add_rows(files)

    def write(self, source: str, now: datetime, *, removed_paths: list[str], all_files: bool) -> None:
        """Replace the rows of all files of the pass.

        First marks the files as unresolved, so that a process that is killed leaves work to do.

        Args:
            source: that has the files.
            now: the time of indexing in all rows.
            removed_paths: files whose rows are deleted.
            all_files: whether the pass resolved all files of the source.
        """
        symbols, edges = self._lake.graph_table("symbols"), self._lake.graph_table("edges")
        whole = all_files and self._files == len(self._replaced_paths)
        touched = None if whole else [*self._replaced_paths, *removed_paths]
        new = symbols.count_rows(eq("source", source)) == 0
        for where in _iter_path_filters(source, touched) if not new else ():
            symbols.update_where(where & _IS_FILE, made_of="", fingerprint="")
        _write_rows(edges, self._edges, is_new_source=new and edges.count_rows(eq("source", source)) == 0)
        _delete_rows(edges, source, touched, ~eq("indexed_at", now))
        _delete_rows(symbols, source, None if whole else self._replaced_paths, ~_IS_FILE)
        _write_rows(symbols, self._symbols, is_new_source=new)
        _delete_rows(symbols, source, removed_paths, ~eq("indexed_at", now))
        for table in (edges, symbols):
            table.compact_if_due()
            indexes.maintain_indexes(table)


def _write_rows(table: Table, spool: Spool, *, is_new_source: bool) -> None:
    """Insert or replace; a source of which nothing is stored yet needs no comparison."""
    if spool.rows or not table.exists:
        (table.append if is_new_source else table.upsert)(spool.iter_batches())


def _delete_rows(table: Table, source: str, paths: Iterable[str] | None, condition: Filter) -> None:
    for where in _iter_path_filters(source, paths):
        table.delete_where(where & condition)


def _iter_path_filters(source: str, paths: Iterable[str] | None) -> Iterator[Filter]:
    if paths is None:
        yield eq("source", source)
        return
    for portion in split_batches(paths):
        yield eq("source", source) & one_of("path", portion)
