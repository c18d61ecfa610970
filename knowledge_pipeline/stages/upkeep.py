"""Keeps the tables that refreshes write quick to read: few fragments, few versions, short unindexed tails.

A refresh does so with each table that it has written. A process that goes on running does it later, when
nothing changes: an edit does not wait for it, and searches see rows that no index holds all the same.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from knowledge_pipeline.errors import Busy
from knowledge_pipeline.store.lake import Lake

if TYPE_CHECKING:  # Arrow is imported where a table is opened: a refresh without a change opens none
    from knowledge_pipeline.store.tables import Table

MAX_POSTPONED_ROWS = 512  # that no index holds: full text scans them at 0.08 ms each
MAX_POSTPONED_GRAPH_ROWS = 20_000  # of the code graph in all, scanned in some 8 ms
MAX_POSTPONED_VERSIONS = 64  # of a table


class Upkeep:
    """Tends to each table right after it was written; its writer holds the table's lock."""

    def tend(self, table: Table) -> None:
        """Compact a table of one source, if that is due."""
        table.compact_if_due()

    def tend_index(self, table: Table, *, with_vectors: bool = True) -> None:
        """The same for a table with indexes, which are built and extended too; see `maintain_indexes`."""
        from knowledge_pipeline.store import indexes

        table.compact_if_due()
        indexes.maintain_indexes(table, with_vectors=with_vectors)


AT_ONCE = Upkeep()


class PostponedUpkeep(Upkeep):
    """Leaves what can wait to `run`, which a running process calls when nothing changes."""

    def __init__(self) -> None:
        self._sources: dict[str, Table] = {}  # by the path of the table
        self._is_index_due = False

    @property
    def is_due(self) -> bool:
        """Whether a table was written since the last run."""
        return bool(self._sources) or self._is_index_due

    def tend(self, table: Table) -> None:
        """Compact a table only if it has very many versions."""
        self._sources[str(table.path)] = table
        table.compact_if_due(after_versions=MAX_POSTPONED_VERSIONS)

    def tend_index(self, table: Table, *, with_vectors: bool = True) -> None:
        """Build missing indexes, and extend them only over very many rows; a small graph's wait."""
        from knowledge_pipeline.store import indexes, schemas

        self._is_index_due = True
        table.compact_if_due(after_versions=MAX_POSTPONED_VERSIONS)
        if table.name in schemas.GRAPH and table.count_rows() <= MAX_POSTPONED_GRAPH_ROWS:
            return
        indexes.maintain_indexes(table, with_vectors=with_vectors, max_unindexed_rows=MAX_POSTPONED_ROWS)

    def run(self, lake: Lake, *, keep_releases: int) -> None:
        """Tend to all tables that were written. What another process is working on waits for the next run."""
        for name, table in list(self._sources.items()):
            with suppress(Busy), lake.lock_source(table.name, timeout_s=0):
                with _carry_over(lake, table):
                    table.compact_if_due()
                del self._sources[name]
        if self._is_index_due:
            with suppress(Busy), lake.lock_index(timeout_s=0):
                _tend_released_tables(lake, keep_releases)
                self._is_index_due = False


@contextmanager
def _carry_over(lake: Lake, table: Table) -> Generator[None]:
    """Let what is done inside, which changes no row, be no reason to compare all rows again."""
    from knowledge_pipeline.store.held_terms import carry_over

    before = table.open_version()
    yield
    carry_over(lake, before, table.open_version())


def _tend_released_tables(lake: Lake, keep_releases: int) -> None:
    """Those that releases name; a release that was the newest version still is. Needs the index lock."""
    from knowledge_pipeline.store.release import (
        find_live_release,
        newest_graph_versions,
        newest_index_versions,
        publish_release,
    )
    from knowledge_pipeline.store.tables import RETAINED_VERSIONS

    live = find_live_release(lake)
    is_newest = live and (live.tables, live.graph) == (
        newest_index_versions(lake),
        newest_graph_versions(lake),
    )
    index_tables = [lake.index(space, size) for space, size in lake.list_spaces().items()]
    for table in (*index_tables, *lake.graph_tables().values()):
        with _carry_over(lake, table):
            table.compact_if_due(after_versions=RETAINED_VERSIONS)  # whatever releases keep of it
            AT_ONCE.tend_index(table)
    if live and is_newest:  # nothing but their files has changed
        publish_release(lake, keep=keep_releases, pinned_since=live.pinned_since)
