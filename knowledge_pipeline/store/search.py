"""Reads an index table at one released version: by vector, by words, by condition.

Async, because one process answers many queries at once. Every search takes a filter, which the query
layer makes from the caller's `Access`. Lance reads in threads, as fast as LanceDB, whose import takes
longer than a search.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar, overload
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.records import (
    ABSENT_KEY,
    ABSENT_TAG,
    BRANCHES_KEY,
    VARIANT_TAG,
    hash_strings,
    is_pull_name,
)
from knowledge_pipeline.store.damage import LANCE_ERRORS, IndexDamage, explain_lance_error, is_damage
from knowledge_pipeline.store.file_cache import open_file_cache
from knowledge_pipeline.store.filters import (
    MATCH_NONE,
    BranchCondition,
    Filter,
    any_of,
    contains,
    has_all,
    has_any,
    one_of,
)
from knowledge_pipeline.store.fragments import OutlineColumns, find_covered_fragments
from knowledge_pipeline.store.indexes import read_vector_options
from knowledge_pipeline.store.lance_internals import set_indexes_aside, take_rows
from knowledge_pipeline.store.lance_storage import StorePath, open_dataset
from knowledge_pipeline.store.matching_rows import (
    ListedValues,
    RowSet,
    ScanOptions,
    count_values,
    read_values,
)
from knowledge_pipeline.store.vectors import IndexedVectors, VectorMemory
from knowledge_pipeline.text import matches_any
from knowledge_pipeline.text_matches import MAX_SCANNED_ROWS, TextMatches, TextPattern, find_matches

if TYPE_CHECKING:
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
    """The locations of all sources of one version of a table; sources without one are left out.

    A location is a note on each table that holds the source's rows, not a part of the rows: a move of the
    branch changes one note. The note belongs to a version of the table, so a release, and a rollback to it,
    have the location of their time. A row of an earlier program says branch and address itself, until the
    next refresh of its source; what a row says holds.
    """

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

    def fill_rows(self, rows: Iterable[dict[str, Any]]) -> None:
        """Give rows their `url` and `branch`, as far as they have these columns; each has source and path."""
        if not self._texts:
            return
        for row in rows:
            if _NOTE + row.get("source", "") not in self._texts:
                continue
            location = self.find(row["source"])
            if location.branches and isinstance(row.get("metadata"), dict):
                _fill_branches(row, location)
            if "url" in row and row["url"] is None:
                row["url"] = location.build_url(row["path"])
            if "branch" in row and row["branch"] is None:
                row["branch"] = location.branch

    def fill_columns(self, rows: ArrowRows) -> ArrowRows:
        """The same for rows of Arrow."""
        columns = [name for name in ("url", "branch") if name in rows.schema.names]
        names = [name for name in ("source", "path", "tags", *columns) if name in rows.schema.names]
        if not columns or not self._texts:
            return rows
        filled: list[dict[str, Any]] = rows.select(names).to_pylist()
        for row in filled:
            location = self.find(row["source"])
            if location.branches and (branch := _find_branch_of_variant(row.get("tags", ()))):
                url = location.build_url(row["path"], branch)
                row |= {"branch": branch} | ({"url": url} if "url" in row else {})
        self.fill_rows(filled)
        for name in columns:
            values = pa.array([row[name] for row in filled], pa.string())
            rows = rows.set_column(rows.schema.names.index(name), name, values)  # pyright: ignore[reportArgumentType, reportUnknownMemberType]  # a table takes an array, too
        return rows

    def resolve(self, where: Filter) -> Filter:
        """A condition with the sources on a branch beside the rows that name it themselves."""
        conditions = [pattern for pattern in where.patterns if isinstance(pattern, BranchCondition)]
        if not conditions or not self._texts:
            return where
        sql = where.sql
        for condition in dict.fromkeys(conditions):
            sql = sql.replace(condition.sql, (Filter(condition.sql) | self._stands_in(condition)).sql)
        return Filter(sql, tuple(pattern for pattern in where.patterns if pattern not in conditions))

    def _stands_in(self, condition: BranchCondition) -> Filter:
        """Rows that stand in a branch by the location of their source."""
        on_main, further = list[str](), defaultdict[tuple[str, ...], list[str]](list)
        for source in sorted(name.removeprefix(_NOTE) for name in self._texts):
            location = self.find(source)
            if location.main_branch and matches_any(location.main_branch, condition.branches):
                on_main.append(source)
            if names := tuple(name for name in location.branches if matches_any(name, condition.branches)):
                further[names].append(source)
        parts = [one_of("source", on_main) & condition.own]
        for names, sources in further.items():
            own = condition.own & ~has_all("tags", [f"{ABSENT_TAG}:{name}" for name in names])
            variants = has_any("tags", [f"{VARIANT_TAG}:{name}" for name in names])
            parts.append(one_of("source", sources) & (own | variants))
        return any_of(parts)


def build_branch_tags(metadata: Mapping[str, Any]) -> list[str]:
    """The tags of an index row that say in which further branches it stands, as far as it differs."""
    present, absent = metadata.get(BRANCHES_KEY, ()), metadata.get(ABSENT_KEY, ())
    tags = [f"{VARIANT_TAG}:{name}" for name in present] + [f"{ABSENT_TAG}:{name}" for name in absent]
    return [VARIANT_TAG, *tags] if present else tags


def _find_branch_of_variant(tags: Sequence[str]) -> str | None:
    """The first branch that a variant stands in, by its tags; None: it is none."""
    if VARIANT_TAG not in tags:
        return None
    return next((tag.partition(":")[2] for tag in tags if tag.startswith(f"{VARIANT_TAG}:")), None)


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


PAYLOAD_COLUMNS = (
    *("id", "source", "uri", "path", "content_hash", "header", "title", "url"),
    *("start_char", "start_line", "end_line"),
    *("source_type", "repo", "branch", "language", "author", "last_modified"),
    *("anchor", "symbol", "symbol_kind", "section", "page"),
    *("tags", "labels", "project", "status", "wiki_space", "tokens"),
    *("archived", "metadata"),
)
"""Who may see a row is left out: callers must not learn who else may. So is the time of writing: a row
that is built again is otherwise the same."""


_ENCODER = json.JSONEncoder(separators=(",", ":"), default=datetime.isoformat)


def build_payload(row: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> str:
    """The column `shown` of a row of an index table; times as ISO 8601, the metadata as it is.

    Reading scattered rows costs by the column: two hundred rows of thirty-three columns take four times as
    long as the text and this one, and a search reads little else.

    The metadata may be given as parsed, where the caller has it so.
    """
    values = [row.get(column) for column in PAYLOAD_COLUMNS[:-1]]
    values.append(json.loads(row["metadata"] or "{}") if metadata is None else metadata)
    return _ENCODER.encode(values)


def parse_payloads(texts: Iterable[str], columns: Sequence[str] = PAYLOAD_COLUMNS) -> list[dict[str, Any]]:
    """The columns that `shown` holds, of many rows, whose metadata are objects: together that is faster."""
    return [dict(zip(columns, row, strict=True)) for row in json.loads(f"[{','.join(texts)}]")]


Row = Mapping[str, Any]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_FEW_ROWS = 30_000  # whose words take 25 MB; all of 100,000 take 73, and those of 200 questions 17
_HNSW_EF = 200  # candidates of the HNSW search: recall@10 .977 at 100,000 rows
_ENOUGH = 0.85  # of them that have to match: where fewer do, a vector is far from the rows that match

TIE_TOLERANCE = 1e-5  # of a score: Lance adds floats of 32 bits, and in an order of its own
_MAX_SIMILAR_WORDS = 20  # that a misspelled word may stand for
_TIED_SHARE = 4  # a quarter as many rows as were asked for may share the last place with them


class ScoredRow(NamedTuple):
    """A row that a search found."""

    row_id: int  # its place in the table, at this version: the fragment in the upper 32 bits
    score: float  # higher is better


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRows(Sequence[ScoredRow]):
    """Rows that a search found, as columns; each is made when it is looked at."""

    row_ids: np.ndarray  # int64
    scores: np.ndarray  # float64

    @classmethod
    def of(cls, rows: Iterable[ScoredRow]) -> ScoredRows:
        """Rows as columns."""
        listed = list(rows)
        ids, scores = [row.row_id for row in listed], [row.score for row in listed]
        return cls(np.array(ids, np.int64), np.array(scores, np.float64))

    def join(self, others: ScoredRows) -> ScoredRows:
        """These rows, then others."""
        ids, scores = (self.row_ids, others.row_ids), (self.scores, others.scores)
        return ScoredRows(np.concatenate(ids), np.concatenate(scores))

    def take(self, at: np.ndarray | slice) -> ScoredRows:
        """Some rows, by their positions or a mask."""
        return ScoredRows(self.row_ids[at], self.scores[at])

    def __len__(self) -> int:
        return len(self.row_ids)

    @overload
    def __getitem__(self, index: int) -> ScoredRow: ...

    @overload
    def __getitem__(self, index: slice) -> ScoredRows: ...

    def __getitem__(self, index: int | slice) -> ScoredRow | ScoredRows:
        if isinstance(index, slice):
            return self.take(index)
        return ScoredRow(int(self.row_ids[index]), float(self.scores[index]))


NO_ROWS = ScoredRows(np.empty(0, np.int64), np.empty(0, np.float64))


class SpaceUnreadable(StoreError):
    """One space's index cannot be read; others may be."""

    def __init__(self, message: str, space: str) -> None:
        super().__init__(message)
        self.space = space

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.space)


def _translate_errors(
    read: Callable[Concatenate[IndexReader, _P], Awaitable[_T]],
) -> Callable[Concatenate[IndexReader, _P], Coroutine[Any, Any, _T]]:
    """Read without the indexes that are damaged, if that is what an error of Lance comes from.

    Other errors become one that names the index.
    """

    @wraps(read)
    async def read_or_translate(reader: IndexReader, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        used = reader.damage.sound or reader
        try:
            return await read(used, *args, **kwargs)
        except BaseException as error:  # Rust's panic is no Exception
            if not (isinstance(error, LANCE_ERRORS) or is_damage(error)):
                raise
            try:
                if sound := await reader.set_damaged_aside(error, used):
                    return await read(sound, *args, **kwargs)
            except LANCE_ERRORS as later:
                error = later
            raise _to_space_unreadable(reader.space, reader.version, error) from error

    return read_or_translate


def _to_space_unreadable(space: str, version: int, error: BaseException) -> SpaceUnreadable:
    return SpaceUnreadable(
        f"version {version} of the index {space!r} cannot be read{explain_lance_error(error)}", space
    )


@dataclass(frozen=True, slots=True)
class IndexReader:
    """One space's index at one version.

    A search finds row ids and scores only: reading every column of every candidate takes longer than
    the search. `take_rows` reads the columns of the best.
    """

    space: str
    version: int
    dimensions: int
    dataset: Any  # of Lance, at that version
    is_local: bool  # whether it lies on this machine
    files: Mapping[int, str]  # fragment -> the names of its data files, and where the sources' files are
    memory: VectorMemory
    listed: ListedValues
    locations: Locations
    search_options: Mapping[str, int] = field(default_factory=dict[str, int], kw_only=True)  # of the vectors
    fragments: Sequence[Any] | None = field(default=None, kw_only=True)  # of Lance: searches look at no other
    damage: IndexDamage = field(default_factory=IndexDamage, kw_only=True)

    def narrow_to_row(self, row: int) -> IndexReader:
        """A reader whose searches look at the fragment of a row alone, in the indexes too.

        By a condition on `_rowid` other searches find the same, and read the columns of every row for it.
        """
        reader = self.damage.sound or self
        fragments = [reader.dataset.get_fragment(row >> 32)]
        damage = IndexDamage(reader.damage.columns, probe=self.damage.probe)
        return replace(reader, fragments=fragments, damage=damage)

    async def set_damaged_aside(self, error: BaseException, used: IndexReader) -> IndexReader | None:
        """A reader without the indexes that cannot be read; None where all can, or `used` did without."""
        known: Mapping[str, str] = {} if used is self else self.damage.columns
        if not self.damage.columns.keys() > known.keys():  # else they were set aside meanwhile
            damaged: Mapping[str, str] = {}
            if is_damage(error):
                damaged = await asyncio.to_thread(self.damage.probe.find_damaged, self.dataset)
            if damaged.keys() <= known.keys():
                return None
            if damaged.keys() != self.damage.columns.keys():
                dataset, aside = set_indexes_aside(self.dataset, damaged), IndexDamage(damaged)
                memory = VectorMemory(dataset, self.dimensions, self.locations.resolve)
                own = {"memory": memory, "listed": ListedValues(dataset), "damage": aside}
                self.damage.columns, self.damage.sound = damaged, replace(self, dataset=dataset, **own)
        return self.damage.sound

    async def is_readable(self) -> bool:
        """Whether any row can be read."""
        try:
            await asyncio.to_thread(self.dataset.to_table, columns=["id", "text"], limit=1)
        except LANCE_ERRORS:
            return False
        return True

    @_translate_errors
    async def prewarm(self) -> None:
        """Load the indexes that questions need into memory, as far as there is room, before one has to wait.

        Many words are loaded by the questions that have them, where reading one takes no request.
        """

        def prewarm() -> None:
            left = {"text_key", "id", "uri", "unembedded"}  # which the pipeline asks for
            if self.is_local and self.dataset.count_rows() > _FEW_ROWS:
                left.add("words")
            for index in self.dataset.describe_indices():
                if left.isdisjoint(index.field_names):
                    self.dataset.prewarm_index(index.name)

        await asyncio.to_thread(prewarm)

    @_translate_errors
    async def advance_from(self, earlier: IndexReader) -> None:
        """Hold the vectors in memory if the reader of an earlier version of the space does."""
        if earlier.memory.loaded:
            unchanged = await asyncio.to_thread(find_covered_fragments, earlier.dataset, self.dataset)
            await asyncio.to_thread(self.memory.advance_from, earlier.memory, unchanged)

    @_translate_errors
    async def search_vector(self, vector: np.ndarray, where: Filter, *, limit: int) -> ScoredRows:
        """Rows by cosine similarity in [-1, 1], best first.

        Rows that an index finds are compared again by their vectors: the distances of the index are
        those of quantised vectors, squared, about twice the cosine's.
        """
        vectors = self.memory.loaded
        if vectors and vectors.knows(where):  # takes less than handing it to a thread
            return _to_scored_rows(*vectors.search(vector, where, limit=limit))
        return await asyncio.to_thread(self._search_vector, vector, where, limit)

    def _search_vector(self, vector: np.ndarray, where: Filter, limit: int) -> ScoredRows:
        if vectors := self.memory.load_if_due(where):
            return _to_scored_rows(*vectors.search(vector, where, limit=limit))
        if self.fragments is None and (indexed := self.memory.indexed_vectors):
            return self._search_indexed(indexed, vector, where, limit)
        rows: Any = self._find_nearest(vector, self.memory.matching.restrict(where), limit)
        return _to_scored_rows(rows["_rowid"].to_numpy(), 1.0 - rows["_distance"].to_numpy())

    def _search_indexed(
        self, indexed: IndexedVectors, vector: np.ndarray, where: Filter, limit: int
    ) -> ScoredRows:
        matches = self.memory.matching.find(where)
        if matches and matches.few is not None:
            rows = matches.few
        else:
            many = matches.many if matches else None
            candidates = limit * self.search_options.get("refine_factor", 1)
            nearest = self._find_in_index(vector, where, many, candidates)
            rows = np.concatenate([nearest, indexed.list_newer_rows(where)])
        return _to_scored_rows(*indexed.keep_nearest(rows, vector, limit=limit))

    def _find_in_index(
        self, vector: np.ndarray, where: Filter, many: RowSet | None, limit: int
    ) -> np.ndarray:
        """Ids of the nearest rows that the index has and that match: int64, at most `limit`."""

        def list_nearest(matching: ScanOptions, limit: int, **depth: int) -> np.ndarray:
            rows: Any = self._find_nearest(vector, matching, limit, in_index_alone=True, **depth)
            return rows["_rowid"].to_numpy().astype(np.int64)

        if many:
            wanted = max(_HNSW_EF, limit)
            depth = math.ceil(wanted / many.share)  # looks as far as a search for matching rows
            nearest = list_nearest({}, depth, depth=depth)
            kept = nearest[many.contains(nearest)]
            if len(kept) >= wanted * _ENOUGH:
                return kept[:limit]
        return list_nearest(self.memory.matching.restrict(where), limit)

    def _find_nearest(
        self,
        vector: np.ndarray,
        matching: ScanOptions,
        limit: int,
        *,
        depth: int = _HNSW_EF,
        in_index_alone: bool = False,
    ) -> pa.Table:
        """Rows by distance; of the index alone, by one that tells only which are nearest."""
        values = np.ascontiguousarray(vector, np.float32)
        query = pa.FloatArray.from_buffers(pa.float32(), len(values), [None, pa.py_buffer(values.data)])
        options = {"refine_factor": 1, **self.search_options}
        if in_index_alone:
            del options["refine_factor"]  # who asks for them compares more rows
        depth = max(depth, limit * options.get("refine_factor", 1))  # Lance refuses to find more than it sees
        nearest = {"column": "vector", "q": query, "k": limit, "ef": depth, "metric": "cosine", **options}
        columns = ["_distance", "_rowid"]
        return self._scan(matching, columns, nearest=nearest, in_index_alone=in_index_alone)

    @_translate_errors
    async def search_text(self, words: str, where: Filter, *, limit: int) -> ScoredRows:
        """Rows by BM25 over the split words, best first; scores are above 0.

        Rows that score as the last of them does come as well: see `keep_tied`.

        `words` is plain text, split by `identifiers.expand_identifiers`; no query syntax is read from it.
        """
        from lance.query import MatchQuery

        return await self._match(MatchQuery(words, "words"), where, limit)

    @_translate_errors
    async def search_similar_stem(
        self, stem: str, where: Filter, *, limit: int, max_edits: int
    ) -> ScoredRows:
        """Rows with a stem of the same first letter that differs from this one in a few letters."""
        from lance.query import MatchQuery

        query = MatchQuery(
            stem, "words", fuzziness=max_edits, prefix_length=1, max_expansions=_MAX_SIMILAR_WORDS
        )
        return await self._match(query, where, limit)

    async def _match(self, query: Any, where: Filter, limit: int) -> ScoredRows:
        """Rows by a query of Lance, best first; none where the index of words is damaged."""
        if "words" in self.damage.columns:
            return NO_ROWS
        columns = ["_score", "_rowid"]

        def scan() -> pa.Table:
            matching = self.memory.matching.restrict(where)
            return self._scan(matching, columns, full_text_query=query, limit=count_with_tied(limit))

        rows: Any = await asyncio.to_thread(scan)
        return keep_tied(_to_scored_rows(rows["_rowid"].to_numpy(), rows["_score"].to_numpy()), limit)

    def _scan(
        self,
        matching: ScanOptions,
        columns: list[str],
        *,
        nearest: Mapping[str, Any] | None = None,
        full_text_query: Any = None,  # of Lance
        limit: int | None = None,
        in_index_alone: bool = False,
    ) -> pa.Table:
        return self.dataset.scanner(
            columns,
            **matching,
            prefilter=True,
            with_row_id=True,
            nearest=nearest,
            full_text_query=full_text_query,
            limit=limit,
            disable_scoring_autoprojection=True,
            fast_search=in_index_alone,
            fragments=self.fragments,
        ).to_table()

    @_translate_errors
    async def take_rows(self, rows: Collection[int], columns: Sequence[str]) -> Mapping[int, Row]:
        """Some columns of rows that a search of this reader found, by row id; `shown` is parsed."""
        if not rows:
            return {}
        taken_rows = await self._take(rows, columns)
        return dict(zip(rows, self._to_rows(taken_rows), strict=True))

    def count_file_rows(self, fragment: int) -> int:
        """The rows of a file, deleted ones included."""
        return self.dataset.get_fragment(fragment).physical_rows

    @_translate_errors
    async def read_outline_columns(self, fragment: int) -> OutlineColumns:
        """The outlines of all rows of a file."""
        return await asyncio.to_thread(OutlineColumns.read_fragment, self.dataset, fragment)

    @_translate_errors
    async def take_vectors(self, rows: Collection[int]) -> Mapping[int, np.ndarray]:
        """The vectors of rows that a search of this reader found: float32, shape (dimensions,).

        Rows without a vector are left out.
        """
        if not rows:
            return {}
        rows_with_vectors: Any = await self._take(rows, ["vector"])  # the stubs know no column's type
        column = rows_with_vectors["vector"].combine_chunks()
        embedded = [
            row for row, is_embedded in zip(rows, column.is_valid().to_pylist(), strict=True) if is_embedded
        ]
        vectors = np.asarray(column.flatten(), dtype=np.float32)  # without those that are null
        return dict(zip(embedded, vectors.reshape(len(embedded), self.dimensions), strict=True))

    async def _take(self, rows: Collection[int], columns: Sequence[str]) -> pa.Table:
        """In the order of the rows."""
        return await asyncio.to_thread(take_rows, self.dataset, list(rows), columns)

    @_translate_errors
    async def find_rows(self, where: Filter, *, limit: int, columns: Sequence[str]) -> Sequence[Row]:
        """Rows that match, in no particular order; `shown` is parsed."""
        if where == MATCH_NONE:
            return []

        def read() -> pa.Table:
            condition = self.memory.values.resolve(where).sql
            return self.dataset.scanner(
                list(columns), condition, limit=limit, fragments=self.fragments
            ).to_table()

        return self._to_rows(await asyncio.to_thread(read))

    @_translate_errors
    async def find_text(self, pattern: TextPattern, where: Filter, *, limit: int) -> TextMatches:
        """The first rows that match and have a text; see `find_matches`."""

        def find() -> TextMatches:
            condition, required = self.memory.values.resolve(where), pattern.find_required_text()
            # of a larger table the bound would hold for what has the text, not for what is read
            if required and self.dataset.count_rows() <= MAX_SCANNED_ROWS:
                condition &= contains("text", required)
            return find_matches(self.dataset, pattern, condition.sql, limit=limit)

        return await asyncio.to_thread(find)

    def _to_rows(self, table: pa.Table) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = table.to_pylist()
        if rows and "shown" in rows[0]:
            payloads = parse_payloads([row["shown"] for row in rows])
            self.locations.fill_rows(payloads)
            for row, payload in zip(rows, payloads, strict=True):
                row["shown"] = payload
        if rows and "source" in rows[0]:
            self.locations.fill_rows(rows)
        return rows

    @_translate_errors
    async def find_rows_listing(
        self, column: str, values: Collection[str], where: Filter, *, limit: int, columns: Sequence[str]
    ) -> Sequence[Row]:
        """Rows that match and have any of the values in a list column, in no particular order."""
        if self.listed.knows(column):  # takes less than handing it to a thread
            listed = self.listed.keep_listed(column, values)
        else:
            listed = await asyncio.to_thread(self.listed.keep_listed, column, values)
        return await self.find_rows(where & has_any(column, listed), limit=limit, columns=columns)

    @_translate_errors
    async def list_values(self, column: str, where: Filter) -> Sequence[str]:
        """What a column of text holds in the rows that match; see `read_values`."""
        return await asyncio.to_thread(read_values, self.dataset, column, self.memory.values.resolve(where))

    @_translate_errors
    async def count_rows(self, where: Filter) -> int:
        """How many rows match."""
        return await asyncio.to_thread(self.dataset.count_rows, self.locations.resolve(where).sql)

    @_translate_errors
    async def count_by(self, columns: Sequence[str], where: Filter) -> Counter[tuple[Any, ...]]:
        """How many rows match, by their values of some columns."""

        def count() -> Counter[tuple[Any, ...]]:
            return count_values(self.dataset, columns, self.memory.values.resolve(where).sql)

        return await asyncio.to_thread(count)


def count_with_tied(limit: int) -> int:
    """How many rows to look for, to know which ones share the last of `limit` places."""
    return limit + limit // _TIED_SHARE


def keep_tied(rows: ScoredRows, limit: int) -> ScoredRows:
    """The best rows, best first, and all that share the last place: which of them come first is chance.

    So what is found does not depend on how rows are spread over fragments, segments and stores. Where more
    share it than `count_with_tied` looks for, it still does.
    """
    if len(rows) <= limit:
        return rows
    floor = rows.scores[limit - 1] * (1 - TIE_TOLERANCE)
    return rows.take(rows.scores >= floor)


def _to_scored_rows(ids: np.ndarray, scores: np.ndarray) -> ScoredRows:
    return ScoredRows(ids.astype(np.int64, copy=False), scores.astype(np.float64, copy=False))


async def open_index(root: StorePath, space: str, version: int) -> IndexReader:
    """Open one space's index at a version that a release names. Raises `SpaceUnreadable`."""
    try:
        path = root / "index" / f"{space}.lance"
        dataset = await asyncio.to_thread(open_dataset, path, version, open_file_cache(root))
        dimensions, locations = dataset.schema.field("vector").type.list_size, Locations(dataset.metadata)
        digest = locations.compute_digest()
        files = {
            fragment.fragment_id: " ".join((*(file.path for file in fragment.data_files()), digest))
            for fragment in dataset.get_fragments()
        }
    except BaseException as error:  # Rust's panic is no Exception
        if not (isinstance(error, LANCE_ERRORS) or is_damage(error)):
            raise
        raise _to_space_unreadable(space, version, error) from error
    memory, listed = VectorMemory(dataset, dimensions, locations.resolve), ListedValues(dataset)
    is_local = isinstance(root, Path)
    parts = space, version, dimensions, dataset, is_local, files, memory, listed, locations
    return IndexReader(*parts, search_options=read_vector_options(dataset.metadata)[1])
