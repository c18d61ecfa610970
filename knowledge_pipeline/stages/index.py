"""Index: the retrievable rows of a source, in the table of its space. Key: chunk id.

The table is shared by all sources of the space, so the lock is held while it is written:
one upsert, or a few where many rows changed, then one delete, which readers at a release do not see between.

Each chunk of a small document carries the words of the whole document beside its own, because
full text then finds the document whichever chunk a question's words are spread over. So the
fingerprint of such a row is of its siblings, too.
"""

# pyarrow.compute makes its functions when it is imported.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from knowledge_pipeline.embedding.base import Space
from knowledge_pipeline.embedding.registry import space_of
from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.identifiers import searchable
from knowledge_pipeline.records import digest, embedded_text
from knowledge_pipeline.sources.registry import place
from knowledge_pipeline.stages.context import Pass, Stats, at_once, measured
from knowledge_pipeline.store import indexes, schemas
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.index_payload import shown
from knowledge_pipeline.store.reconcile import Difference, difference_of, reconcile, without
from knowledge_pipeline.store.tables import Table, portions

VERSION = "2"  # of how a chunk becomes an index row
_SMALL = range(2, 5)  # so many chunks, and a document is small
_LIVE = is_null("skipped") & eq("archived", False)
_BATCH_ROWS = 1024
TURN_ROWS = 1024  # fewer are written sooner than a turn is taken; the lock keeps the table right anyway
_MARKED = ("uri", "archived", "row_hash")  # what of a chunk its fingerprint is made of
_FROM_CHUNK = [field.name for field in schemas.index(1) if field.name in schemas.CHUNKS.names]
_FROM_CHUNK.remove("fingerprint")


def refresh(this: Pass) -> Stats:
    """Bring the index rows of one source up to date with its chunks and vectors.

    Raises:
        Busy: another process kept the index for too long.
        StoreError: a chunk has no vector; run the embeddings stage first.
    """
    space = space_of(this.settings.embedding_of(this.source))
    with measured("index", this.source.id) as stats:
        planned, doubled, marks = _planned(this, space)
        if planned or _left_elsewhere(this, space.name):
            turn = at_once if len(planned.write) <= TURN_ROWS else this.turn
            with turn("index"), this.lake.index_lock():
                _write(this, space, planned, doubled, marks)
        table = this.lake.index(space.name, space.dimensions)
        stats.seen = len(planned.write) + planned.unchanged
        stats.count(planned)
        stats.rows, stats.version = table.count(eq("source", this.source.id)), table.version
    return stats


@dataclass(frozen=True, slots=True)
class _Marks:
    """Second half of the rows' fingerprints: of what decides a row beside its own chunk."""

    source: str  # of the configuration and the code
    small: dict[str, str]  # of all chunks of a small document, too; by its uri

    def covers(self, uri: str, archived: bool) -> bool:
        """Whether a chunk carries the words of its whole document."""
        return not archived and uri in self.small

    def fingerprints(self, chunks: pa.Table) -> pa.ChunkedArray:
        """Of the whole index rows of chunks, by `_MARKED`."""
        uris = chunks["uri"].combine_chunks().dictionary_encode()
        of_uris = pa.array(
            [self.small.get(uri, self.source) for uri in uris.dictionary.to_pylist()], pa.string()
        )
        second = pc.if_else(chunks["archived"], self.source, of_uris.take(uris.indices))
        return pc.binary_join_element_wise(chunks["row_hash"], second, "")


def _planned(this: Pass, space: Space) -> tuple[Difference, list[str], _Marks]:
    """What is to be written, and the ids that are there twice: only the source's lock lets them change."""
    chunks = this.lake.chunks(this.source.type, this.source.id)
    table = this.lake.index(space.name, space.dimensions)
    rows = chunks.rows(["id", *_MARKED], is_null("skipped"))
    marks = _marks(rows, context_of(this))
    held = table.rows(["id", "fingerprint"], eq("source", this.source.id))
    doubled = _doubled(held["id"])
    held = held.filter(pc.invert(pc.is_in(held["id"], value_set=pa.array(doubled, pa.string()))))
    desired = rows["id"], marks.fingerprints(rows)
    planned = difference_of(desired, (held["id"], held["fingerprint"]), full=this.full)
    return planned, doubled, marks


def _write(this: Pass, space: Space, planned: Difference, doubled: list[str], marks: _Marks) -> None:
    chunks = this.lake.chunks(this.source.type, this.source.id)
    table = this.lake.index(space.name, space.dimensions)  # as the last writer left it
    rows = _IndexRows(this, chunks, table, context_of(this), marks)
    if planned.write:
        rows.require_vectors()
        table.delete(doubled)  # an upsert would replace both and leave both
    reconcile(table, planned, rows.batches, whole=True)
    for stray in _left_elsewhere(this, space.name):
        stray.delete_where(eq("source", this.source.id))
        stray.tidy()
    if planned:
        indexes.maintain(table)


def context_of(this: Pass) -> dict[str, Any]:
    """Columns that the configuration decides, the same for all rows of the source."""
    source, where = this.source, place(this.source)
    return {
        "source": source.id,
        "source_type": source.type,
        "repo": where.repo,
        "branch": where.branch,
        "web_prefix": where.web_prefix,
        "tags": sorted(source.metadata.tags),
        "visibility": source.access.visibility,
        "tenant": source.access.tenant,
        "principals": sorted(source.access.principals),
    }


def _marks(rows: pa.Table, context: dict[str, Any]) -> _Marks:
    """The one place that says which documents are small."""
    mark = digest(VERSION, json.dumps(context, sort_keys=True))
    live = rows.filter(pc.invert(rows["archived"]))
    documents = live.group_by("uri").aggregate([("row_hash", "list")])
    few = pc.is_in(pc.list_value_length(documents["row_hash_list"]), value_set=pa.array(_SMALL, pa.int32()))
    small = documents.filter(few)
    hashes = zip(small["uri"].to_pylist(), small["row_hash_list"].to_pylist(), strict=True)
    return _Marks(mark, {uri: digest(mark, *sorted(found)) for uri, found in hashes})


def _doubled(ids: pa.ChunkedArray) -> list[str]:
    """Ids that two writers without a common lock have left twice: they count as missing and are made anew."""
    if pc.count_distinct(ids).as_py() == len(ids):
        return []
    return [id_ for id_, times in Counter(ids.to_pylist()).items() if times > 1]


def _left_elsewhere(this: Pass, space: str) -> list[Table]:
    """The tables of other spaces that hold rows of the source, made by its former models."""
    tables = [
        this.lake.index(other, dimensions)
        for other, dimensions in this.lake.spaces().items()
        if other != space
    ]
    return [table for table in tables if table.count(eq("source", this.source.id))]


class _IndexRows:
    """Makes the index rows of chosen chunks."""

    def __init__(
        self, this: Pass, chunks: Table, table: Table, context: dict[str, Any], marks: _Marks
    ) -> None:
        self._this, self._chunks, self._table, self._marks = this, chunks, table, marks
        self._web_prefix = context["web_prefix"]
        self._context = {name: context[name] for name in context if name != "web_prefix"}
        space = space_of(this.settings.embedding_of(this.source))
        self._embeddings = this.lake.embeddings(space.name, this.source.id, space.dimensions)
        self._now = datetime.now(UTC)

    def batches(self, ids: list[str]) -> Iterator[pa.RecordBatch]:
        done = 0
        for portion in portions(ids, _BATCH_ROWS):
            found = pa.concat_tables(self._chunks.rows_of("id", portion, [*_FROM_CHUNK, "row_hash"]))
            chunks = found.append_column("fingerprint", self._marks.fingerprints(found)).to_pylist()
            shared = self._shared_words({row["uri"] for row in chunks if self._shares(row)})
            since = self._indexed_at(portion)
            rows = [
                self._row(chunk, shared)
                | {"indexed_at": since.get(chunk["id"], self._now), "updated_at": self._now}
                for chunk in chunks
            ]
            done += len(rows)
            self._this.report("index", done, len(ids))
            yield self._batch(rows)

    def require_vectors(self) -> None:
        """Refuse to start while a chunk has no vector, because nothing may fail within the one commit.

        Raises:
            StoreError: naming the source and how many are missing.
        """
        needed = self._chunks.rows(["text_key"], is_null("skipped"))["text_key"].unique()
        missing = without(needed, self._embeddings.rows(["text_key"])["text_key"])
        if len(missing):
            raise StoreError(
                f"{len(missing)} texts of source {self._this.source.id!r} have no vector: "
                "run the embeddings stage, then the index stage again"
            )

    def _batch(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        """Rows with their vectors, which never are objects of Python."""
        schema = self._table.schema
        at = schema.get_field_index("vector")
        made = pa.RecordBatch.from_pylist(rows, schema=schema.remove(at))
        return made.add_column(at, schema.field(at), self._vectors(made["text_key"]))

    def _vectors(self, keys: pa.Array) -> pa.Array:
        """The vector of each key, in their order."""
        wanted = sorted(set(keys.to_pylist()))
        found = pa.concat_tables(self._embeddings.rows_of("text_key", wanted, ["text_key", "vector"]))
        return found["vector"].combine_chunks().take(pc.index_in(keys, value_set=found["text_key"]))

    def _shared_words(self, uris: set[str]) -> dict[str, dict[str, str]]:
        """The words of all chunks of some documents: by uri, then in the document's order by chunk id."""
        columns = ["uri", "start_char", "end_char", "id", "text"]
        found = self._chunks.rows(columns, one_of("uri", sorted(uris)) & _LIVE).to_pylist() if uris else []
        words: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for chunk in sorted(found, key=itemgetter("start_char", "end_char", "id")):
            words[chunk["uri"]][chunk["id"]] = searchable(chunk["text"])
        return words

    def _indexed_at(self, ids: list[str]) -> dict[str, datetime]:
        found: dict[str, datetime] = {}
        for rows in self._table.rows_of("id", ids, ["id", "indexed_at"]):
            found.update(zip(rows["id"].to_pylist(), rows["indexed_at"].to_pylist(), strict=True))
        return found

    def _shares(self, chunk: dict[str, Any]) -> bool:
        return self._marks.covers(chunk["uri"], chunk["archived"])

    def _row(self, chunk: dict[str, Any], shared: dict[str, dict[str, str]]) -> dict[str, Any]:
        metadata = json.loads(chunk["metadata"])
        tags = sorted({*self._context["tags"], *metadata.get("tags", ())})
        row = {
            **self._context,
            **{name: chunk[name] for name in _FROM_CHUNK},
            "url": chunk["url"] or self._url(chunk["path"]),
            "tags": tags,
            "extension": PurePosixPath(chunk["path"]).suffix.lower() or None,
            "labels": list(metadata.get("labels", ())),
            "project": metadata.get("project"),
            "status": metadata.get("status"),
            "wiki_space": metadata.get("wiki_space"),
            "names": metadata.get("names", []) if metadata.get("leads") else [],
            "mentions": sorted({mention["name"] for mention in metadata.get("mentions", ())}),
            "words": self._words(chunk, shared),
            "fingerprint": chunk["fingerprint"],
        }
        return row | {"shown": shown(row)}

    def _words(self, chunk: dict[str, Any], shared: dict[str, dict[str, str]]) -> str:
        """The words of a small document follow a chunk's own, which so count twice."""
        if not self._shares(chunk):
            return searchable(embedded_text(chunk["header"], chunk["text"]))
        texts = shared[chunk["uri"]]
        own = embedded_text(searchable(chunk["header"]), texts[chunk["id"]])
        return "\n\n".join((own, *texts.values()))

    def _url(self, path: str) -> str | None:
        return self._web_prefix + quote(path) if self._web_prefix else None
