"""Writes resolved files into the shared tables of the code graph, under the index lock."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.stages.code_graph.rows import ReplacedRows, ResolvedRows, Row
from knowledge_pipeline.stages.upkeep import Upkeep
from knowledge_pipeline.store.changes.row_replacement import StaleRows
from knowledge_pipeline.store.filters import Filter, eq, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.spool import Spool
from knowledge_pipeline.store.tables import Table, split_batches

_IS_FILE = eq("kind", "file")


class GraphWriter:
    """The rows of one pass, kept on disk until they are written; a context manager."""

    def __init__(self, lake: Lake, upkeep: Upkeep) -> None:
        self._lake, self._upkeep = lake, upkeep
        self._stack = ExitStack()
        self._changes = ReplacedRows()
        self._paths: list[str] = []  # of files whose own row is written

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
        columns = rows.symbols.select(["path", "kind"]).to_pydict()
        self._paths += [path for path, kind in zip(*columns.values(), strict=True) if kind == "file"]
        self._changes.add(rows.changes)
        self._symbols.add_batch(rows.symbols)
        self._edges.add_batch(rows.edges)

    def add_traces(self, files: list[Row]) -> None:
        """Take the own rows of files of which nothing else is written."""
        self._paths += [row["path"] for row in files]
        self._symbols.add_rows(files)

    def write(
        self, source: str, *, new_paths: Collection[str], removed_paths: list[str], all_files: bool
    ) -> None:
        """Replace the rows of all files of the pass.

        First marks the files as unresolved, so that a process that is killed leaves work to do. Of a new
        file the mark is its own row: its edges would be nobody's, were it deleted before the next refresh.

        Args:
            source: that has the files.
            new_paths: files of which the table has no row.
            removed_paths: files whose rows are deleted.
            all_files: whether the pass resolved all files of the source.
        """
        symbols, edges = self._lake.graph_table("symbols"), self._lake.graph_table("edges")
        mine, changes = eq("source", source), self._changes
        touched = [*changes.paths, *removed_paths]
        is_whole = all_files and len(self._paths) == len(changes.symbols) == len(changes.edges)
        files = [mine] if is_whole else [mine & one_of("path", each) for each in split_batches(touched)]
        is_first = all_files and len(new_paths) == len(self._paths) and not removed_paths
        if not is_first:
            for where in files:
                symbols.update_where(where & _IS_FILE, made_of="", fingerprint="")
            self._mark_new_files(symbols, frozenset(new_paths))
        stale = [StaleRows("source", [source])] if is_whole else self._list_stale_edges(mine, removed_paths)
        edges.replace_rows(stale, self._edges.iter_batches(), create=True)
        if not is_whole:
            replaced = {*changes.symbols, *removed_paths}
            own_rows = set(self._paths).difference(replaced)
            stale = [StaleRows("path", replaced, mine), StaleRows("path", own_rows, mine & _IS_FILE)]
        symbols.replace_rows(stale, self._symbols.iter_batches(), create=True)
        for table in (edges, symbols):
            self._upkeep.tend_index(table)

    def _list_stale_edges(self, mine: Filter, removed_paths: list[str]) -> list[StaleRows]:
        some = self._changes.some_edges
        stale = [StaleRows("path", [*self._changes.edges, *removed_paths], mine)]
        if some:
            ids = [each for ids in some.values() for each in ids]
            stale.append(StaleRows("id", ids, mine & one_of("path", sorted(some))))
        return stale

    def _mark_new_files(self, symbols: Table, paths: frozenset[str]) -> None:
        if not paths:
            return
        marks = [row for batch in self._symbols.iter_batches() for row in _mark_files(batch, paths)]
        symbols.append([pa.RecordBatch.from_pylist(marks, schema=symbols.schema)])


def _mark_files(batch: pa.RecordBatch, paths: frozenset[str]) -> list[Row]:
    """The own rows of some files, as rows of unresolved ones."""
    files = batch.filter(pc.field("kind") == "file").to_pylist()
    return [{**row, "made_of": "", "fingerprint": ""} for row in files if row["path"] in paths]
