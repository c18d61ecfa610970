"""Writing what was resolved into the shared tables of the code graph, under the index lock.

What is written in one pass has one time of indexing, so that the rows which it takes the place of
are those of its files with another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import datetime

from knowledge_pipeline.stages.code_graph.rows import FileRows
from knowledge_pipeline.store.code_graph import indexes
from knowledge_pipeline.store.filters import Filter, eq, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.spool import Spool
from knowledge_pipeline.store.tables import Table, portions

_FILES = eq("kind", "file")


class Made:
    """The rows of one pass, kept on disk until they are written; a context manager."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._stack = ExitStack()
        self._replaced: list[str] = []  # files whose other rows are written, too
        self._files = 0

    def __enter__(self) -> Made:
        schemas = (self._lake.graph(name).schema for name in ("symbols", "edges"))
        opened = [Spool(schema, self._lake.cache) for schema in schemas]
        self._symbols, self._edges = map(self._stack.enter_context, opened)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def rows(self) -> int:
        """How many rows are to be written."""
        return self._symbols.rows + self._edges.rows

    def add(self, rows: FileRows, *, same: bool) -> None:
        """Take the rows of one file; of one that is the `same` as in the tables its own row alone."""
        self._files += 1
        if not same:
            self._replaced.append(rows.file["path"])
            self._symbols.add(rows.symbols)
            self._edges.add(rows.edges)
        self._symbols.add([rows.file])

    def write(self, source: str, now: datetime, *, removed: list[str], everything: bool) -> None:
        """Bring the tables to what was made.

        First the files say that they are to be made anew, so that nothing is taken for done before
        all of it is, whatever becomes of this process and of the files meanwhile.

        Args:
            source: whose rows they are.
            now: the time that they carry.
            removed: files of which nothing is to stay.
            everything: all files of the source were made.
        """
        symbols, edges = self._lake.graph("symbols"), self._lake.graph("edges")
        whole = everything and self._files == len(self._replaced)
        touched = None if whole else [*self._replaced, *removed]
        new = symbols.count(eq("source", source)) == 0
        for condition in _of(source, touched) if not new else ():
            symbols.set_where(condition & _FILES, made_of="", fingerprint="")
        _put(edges, self._edges, new=new and edges.count(eq("source", source)) == 0)
        _drop(edges, source, touched, ~eq("indexed_at", now))
        _drop(symbols, source, None if whole else self._replaced, ~_FILES)
        _put(symbols, self._symbols, new=new)
        _drop(symbols, source, removed, ~eq("indexed_at", now))
        for table in (edges, symbols):
            table.tidy()
            indexes.maintain(table)


def _put(table: Table, made: Spool, *, new: bool) -> None:
    """Insert or replace; a source of which nothing is stored yet needs no comparison."""
    if made.rows or not table.exists:
        (table.append if new else table.upsert)(made.batches())


def _drop(table: Table, source: str, paths: Iterable[str] | None, which: Filter) -> None:
    for condition in _of(source, paths):
        table.delete_where(condition & which)


def _of(source: str, paths: Iterable[str] | None) -> Iterator[Filter]:
    if paths is None:
        yield eq("source", source)
        return
    for portion in portions(paths):
        yield eq("source", source) & one_of("path", portion)
