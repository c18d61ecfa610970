"""Where the files of a source are: their branch, and the address before their paths in a browser.

A location is a note on each table that holds the source's rows, not a part of the rows: a move of the branch
changes one note. The note belongs to a version of the table, so a release, and a rollback to it, have the
location of their time. A row of an earlier program says branch and address itself, until the next refresh of
its source; what a row says holds.

A row says in which further branches of its source it stands, as far as it differs: see `build_branch_tags`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

from knowledge_pipeline.branch_names import is_pull_name
from knowledge_pipeline.records import ABSENT_KEY, BRANCHES_KEY, hash_strings
from knowledge_pipeline.store.filters import (
    ABSENT_TAG,
    VARIANT_TAG,
    BranchCondition,
    Filter,
    any_of,
    has_all,
    has_any,
    one_of,
)
from knowledge_pipeline.strings import matches_any

if TYPE_CHECKING:
    import pyarrow as pa

    from knowledge_pipeline.store.tables import Table

_NOTE = "location/"  # then the source's id
_HEAD = "HEAD"

ArrowRows = TypeVar("ArrowRows", "pa.Table", "pa.RecordBatch")


class SourceLocation(NamedTuple):
    """What all files of a source have in common."""

    branch: str | None = None  # only a configured one
    web_prefix: str | None = None  # followed by a file's quoted path it is the file's page
    branches: tuple[str, ...] = ()  # further ones that are read, by name

    @classmethod
    def from_json(cls, text: str) -> SourceLocation:
        """What `to_json` wrote."""
        branch, web_prefix, *further = json.loads(text)
        return cls(branch, web_prefix, *map(tuple, further))

    def to_json(self) -> str:
        """A location without further branches is as it was before there were any."""
        return json.dumps(self if self.branches else self[:2])

    @property
    def main_branch(self) -> str | None:
        """The name of the branch, which is HEAD where another one is told from it; None: not known."""
        return self.branch or (_HEAD if self.branches else None)

    def build_url(self, path: str, branch: str | None = None) -> str | None:
        """The page of a file, in this or in a further branch."""
        if not self.web_prefix:
            return None
        if not branch:
            return self.web_prefix + quote(path)
        pages = self.web_prefix.removesuffix(f"{quote(self.branch or _HEAD)}/")
        if not is_pull_name(branch):
            return f"{pages}{quote(branch)}/{quote(path)}"
        if (site := pages.removesuffix("/-/blob/")) != pages:  # GitLab has no page of a file in such a head
            return f"{site}/-/{branch.replace('-', '_')}/diffs"
        return f"{pages}refs/{branch}/head/{quote(path)}"


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
            self._parsed[source] = SourceLocation.from_json(text) if text else SourceLocation()
        return self._parsed[source]

    def fill_row(self, row: dict[str, Any]) -> None:
        """Give a row its `url` and `branch`, as far as it has these columns; it also has source and path."""
        if not self._texts or _NOTE + row.get("source", "") not in self._texts:
            return
        location = self.find(row["source"])
        if location.branches and isinstance(row.get("metadata"), dict):
            _fill_branches(row, location)
        if "url" in row and row["url"] is None:
            row["url"] = location.build_url(row["path"])
        if "branch" in row and row["branch"] is None:
            row["branch"] = location.branch

    def fill_columns(self, rows: ArrowRows) -> ArrowRows:
        """The same for rows of Arrow."""
        import pyarrow as pa

        columns = [name for name in ("url", "branch") if name in rows.schema.names]
        known = [name for name in ("source", "path", "tags", *columns) if name in rows.schema.names]
        if not columns or not self._texts:
            return rows
        filled: list[dict[str, Any]] = rows.select(known).to_pylist()
        for row in filled:
            if branch := _find_branch_of_variant(row.get("tags", ())):
                url = self.find(row["source"]).build_url(row["path"], branch)
                row |= {"branch": branch} | ({"url": url} if "url" in row else {})
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
            sql = sql.replace(condition.sql, (Filter(condition.sql) | self._stands_in(condition)).sql)
        return Filter(sql, tuple(each for each in where.patterns if each not in asked))

    def _stands_in(self, asked: BranchCondition) -> Filter:
        """Rows that stand in a branch by the location of their source."""
        on_main, further = list[str](), defaultdict[tuple[str, ...], list[str]](list)
        for source in sorted(name.removeprefix(_NOTE) for name in self._texts):
            location = self.find(source)
            if location.main_branch and matches_any(location.main_branch, asked.branches):
                on_main.append(source)
            if names := tuple(name for name in location.branches if matches_any(name, asked.branches)):
                further[names].append(source)
        found = [one_of("source", on_main) & asked.own]
        for names, sources in further.items():
            own = asked.own & ~has_all("tags", [f"{ABSENT_TAG}:{name}" for name in names])
            variants = has_any("tags", [f"{VARIANT_TAG}:{name}" for name in names])
            found.append(one_of("source", sources) & (own | variants))
        return any_of(found)


def build_branch_tags(metadata: Mapping[str, Any]) -> list[str]:
    """The tags of a row of the index that say where it stands, by the metadata of its document."""
    present, absent = metadata.get(BRANCHES_KEY, ()), metadata.get(ABSENT_KEY, ())
    tags = [f"{VARIANT_TAG}:{name}" for name in present] + [f"{ABSENT_TAG}:{name}" for name in absent]
    return [VARIANT_TAG, *tags] if present else tags


def _find_branch_of_variant(tags: Sequence[str]) -> str | None:
    """The first branch that a variant stands in, by its tags; None: it is none."""
    if VARIANT_TAG not in tags:
        return None
    return next(tag.partition(":")[2] for tag in tags if tag.startswith(f"{VARIANT_TAG}:"))


def _fill_branches(row: dict[str, Any], location: SourceLocation) -> None:
    """Say in which branches a row stands; one of a variant has the page of the first."""
    metadata = dict(row["metadata"])
    present, absent = metadata.pop(BRANCHES_KEY, None), metadata.pop(ABSENT_KEY, ())
    if present:
        row |= {"archived": False, "branch": present[0], "url": location.build_url(row["path"], present[0])}
    elif not row["archived"]:
        present = [location.main_branch, *(name for name in location.branches if name not in absent)]
    row["metadata"] = {**metadata, "branches": present} if present else metadata


def read_locations(table: Table, *, version: int | None = None) -> Locations:
    """The locations of a table, now or at a kept version."""
    return Locations(table.read_notes(version=version))


def write_location(table: Table, source: str, location: SourceLocation) -> None:
    """Note the location of a source, in one commit; there is none where it is noted already."""
    table.write_notes(**{_NOTE + source: location.to_json() if any(location) else None})
