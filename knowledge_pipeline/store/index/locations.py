"""Where the files of a source are: their branch, and the address before their paths in a browser.

A location is a note on each table that holds the source's rows, not a part of the rows: a move of the branch
changes one note. The note belongs to a version of the table, so a release, and a rollback to it, have the
location of their time. A row of an earlier program says branch and address itself, until the next refresh of
its source; what a row says holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.store.filters import BranchCondition, Filter, one_of

if TYPE_CHECKING:
    import pyarrow as pa

    from knowledge_pipeline.store.tables import Table

_NOTE = "location/"  # then the source's id

ArrowRows = TypeVar("ArrowRows", "pa.Table", "pa.RecordBatch")


class SourceLocation(NamedTuple):
    """What all files of a source have in common."""

    branch: str | None = None  # only a configured one
    web_prefix: str | None = None  # followed by a file's quoted path it is the file's page

    def build_url(self, path: str) -> str | None:
        """The page of a file."""
        return self.web_prefix + quote(path) if self.web_prefix else None


class Locations:
    """The locations of all sources of one version of a table; sources without one are left out."""

    def __init__(self, notes: Mapping[str, str]) -> None:
        """From all notes of the table."""
        self._texts = {name: text for name, text in notes.items() if name.startswith(_NOTE)}
        self._parsed: dict[str, SourceLocation] = {}

    def __bool__(self) -> bool:
        return bool(self._texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Locations) and self._texts == other._texts

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def compute_digest(self, source: str | None = None) -> str:
        """Equal for equal locations, of all sources or of one; empty where there is none."""
        names = sorted(self._texts) if source is None else [_NOTE + source]
        parts = [part for name in names if name in self._texts for part in (name, self._texts[name])]
        return hash_strings(*parts) if parts else ""

    def find(self, source: str) -> SourceLocation:
        """The location of a source; an empty one if it has none."""
        if source not in self._parsed:
            text = self._texts.get(_NOTE + source)
            self._parsed[source] = SourceLocation(*json.loads(text)) if text else SourceLocation()
        return self._parsed[source]

    def fill_row(self, row: dict[str, Any]) -> None:
        """Give a row its `url` and `branch`, as far as it has these columns; it also has source and path."""
        if not self._texts or _NOTE + row.get("source", "") not in self._texts:
            return
        location = self.find(row["source"])
        if "url" in row and row["url"] is None:
            row["url"] = location.build_url(row["path"])
        if "branch" in row and row["branch"] is None:
            row["branch"] = location.branch

    def fill_columns(self, rows: ArrowRows) -> ArrowRows:
        """The same for rows of Arrow."""
        import pyarrow as pa

        columns = [name for name in ("url", "branch") if name in rows.schema.names]
        if not columns or not self._texts:
            return rows
        filled: list[dict[str, Any]] = rows.select(["source", "path", *columns]).to_pylist()
        for row in filled:
            self.fill_row(row)
        for name in columns:
            values = pa.array([row[name] for row in filled], pa.string())
            rows = rows.set_column(rows.schema.names.index(name), name, values)  # pyright: ignore[reportArgumentType, reportUnknownMemberType]  # a table takes an array, too
        return rows

    def resolve(self, where: Filter) -> Filter:
        """A condition with the sources on a branch beside the rows that name it themselves."""
        asked = [each for each in where.patterns if isinstance(each, BranchCondition)]
        if not asked or not self._texts:
            return where
        sql = where.sql
        for condition in dict.fromkeys(asked):
            on_branch = one_of("source", self._list_sources(condition.branches))
            sql = sql.replace(condition.sql, (Filter(condition.sql) | on_branch).sql)
        return Filter(sql, tuple(each for each in where.patterns if each not in asked))

    def _list_sources(self, branches: Iterable[str]) -> list[str]:
        wanted = set(branches)
        sources = (name.removeprefix(_NOTE) for name in self._texts)
        return sorted(source for source in sources if self.find(source).branch in wanted)


def read_locations(table: Table, *, version: int | None = None) -> Locations:
    """The locations of a table, now or at a kept version."""
    return Locations(table.read_notes(version=version))


def write_location(table: Table, source: str, location: SourceLocation) -> None:
    """Note the location of a source, in one commit; there is none where it is noted already."""
    table.write_notes(**{_NOTE + source: json.dumps(location) if any(location) else None})
