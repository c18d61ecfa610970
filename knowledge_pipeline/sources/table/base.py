"""What a table source needs of a table, whatever holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

Row = tuple[Any, ...]


class TableReader(Protocol):
    """One table, or the rows of a query; nothing is opened before the first call."""

    @property
    def description(self) -> str:
        """What it is, in messages: "the query of connection.query"."""
        ...

    @property
    def definition(self) -> str:
        """Changes where the same id and `updated` may stand for another row: the query."""
        ...

    def list_columns(self) -> list[str]:
        """The names of its columns; of several files, those of the first.

        Raises:
            SourceRefused, SourceUnavailable: as `Source.discover`.
        """
        ...

    def iter_rows(self, columns: Sequence[str], ids: Sequence[str] | None = None) -> Iterator[Row]:
        """Rows with these columns, the first of them, the id, as text; with `ids`, only theirs.

        Memory is bounded by a batch. Values are Python's: text, numbers, times, lists.

        Raises:
            SourceRefused, SourceUnavailable: as `Source.discover`.
        """
        ...

    def close(self) -> None:
        """Free what was opened."""
        ...
