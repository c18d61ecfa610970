"""Embeddings: one vector per text of a source, in its space. Key: the hash of the text.

A text embedded once with a model is never embedded again by it: vectors of texts that
are gone stay until maintenance collects them, and a text that another source of the
space already has is taken from the index.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from knowledge_pipeline.config.settings import Embedding
from knowledge_pipeline.embedding.base import Embedder, unsound
from knowledge_pipeline.embedding.ray_embedder import SpreadEmbedder
from knowledge_pipeline.embedding.registry import open_embedder
from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.records import embedded_text
from knowledge_pipeline.stages.context import Pass, Stats, at_once, measured
from knowledge_pipeline.stages.run_log import note_embedding
from knowledge_pipeline.store.filters import is_null, one_of
from knowledge_pipeline.store.reconcile import Difference, reconcile, without
from knowledge_pipeline.store.spool import Spool
from knowledge_pipeline.store.tables import KEYS_PER_FILTER, Table, portions

_COMMIT_TEXTS = 512
TURN_TEXTS = 64  # fewer are embedded sooner than a turn is taken
_SPREAD_COMMIT_TEXTS = 1_000_000  # what is lost at most where the process that refreshes is killed
_SPREAD_UPSERT_TEXTS = 65_536  # a merge holds all its rows in memory: 200 MB of 768 dimensions
_LOCAL_STEP = 64  # a few seconds of a local model between two reports; an endpoint gets all at once


def refresh(this: Pass) -> Stats:
    """Embed what the chunks of one source hold and its space does not.

    Raises:
        ModelMissing, EmbeddingUnavailable: what was embedded before that is kept.
    """
    embedder = open_embedder(this.settings.embedding_of(this.source))
    started = time.perf_counter()
    try:
        return _refresh(this, embedder)
    finally:  # what a failed pass has cost is noted too
        if embedder.usage.texts:
            seconds = round(time.perf_counter() - started, 4)
            note_embedding(this, embedder.usage, seconds=seconds)


def _refresh(this: Pass, embedder: Embedder) -> Stats:
    chunks = this.lake.chunks(this.source.type, this.source.id)
    table = this.lake.embeddings(embedder.space.name, this.source.id, embedder.space.dimensions)
    with measured("embeddings", this.source.id) as stats:
        desired = chunks.rows(["text_key"], is_null("skipped"))["text_key"].unique()
        added = without(desired, table.rows(["text_key"])["text_key"])
        held = without(desired, added) if this.reembed else desired[:0]
        planned = Difference(added.to_pylist(), held.to_pylist(), [], len(desired) - len(added) - len(held))
        making = _Embedding(this, embedder, chunks, table)
        if isinstance(embedder, SpreadEmbedder) and len(planned.write) >= embedder.pool.from_texts:
            _reconcile_spread(table, planned, making, this.lake.cache)
        else:
            reconcile(table, planned, making.batches)
        stats.seen = len(desired)
        stats.count(planned)
        stats.notes.update({"taken from another source": making.borrowed} if making.borrowed else {})
        stats.tokens, stats.cost = embedder.usage.tokens, embedder.usage.cost
        stats.rows, stats.version = len(desired), table.version
    return stats


def _reconcile_spread(table: Table, planned: Difference, making: _Embedding, folder: Path) -> None:
    """Carry a difference out in one commit, or in as few as memory and what a crash may cost allow.

    Vectors are collected on disk, so that the commit begins when all of them are there.
    """
    commits = [(keys, table.append) for keys in portions(planned.added, _SPREAD_COMMIT_TEXTS)]
    commits += [(keys, table.upsert) for keys in portions(planned.changed, _SPREAD_UPSERT_TEXTS)]
    for keys, write in commits:
        with Spool(table.schema, folder) as spool:
            for batch in making.spread(keys):
                spool.take(batch)
            write(spool.batches())
    reconcile(table, replace(planned, added=[], changed=[]), making.batches)


class _Embedding:
    """Makes the vectors of chosen texts: borrowed from the index where it has them, else embedded."""

    def __init__(self, this: Pass, embedder: Embedder, chunks: Table, table: Table) -> None:
        self._this, self._embedder = this, embedder
        self._chunks, self._table = chunks, table
        self.borrowed = 0

    def batches(self, keys: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some texts; each batch is as much as one commit should hold."""
        yield from self._made(keys, self._embed)

    def spread(self, keys: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some texts, in no order, made by a cluster."""
        yield from self._made(keys, self._embed_spread)

    def _made(
        self, keys: list[str], embed: Callable[[set[str]], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        missing = set(keys)
        if not self._this.reembed:
            for batch in self._borrow(keys):
                missing.difference_update(batch["text_key"].to_pylist())
                self.borrowed += batch.num_rows
                yield batch
        turn = at_once if len(missing) <= TURN_TEXTS else self._this.turn
        with turn(_pool(self._this.settings.embedding_of(self._this.source))):
            yield from embed(missing)

    def _borrow(self, keys: list[str]) -> Iterator[pa.RecordBatch]:
        space = self._embedder.space
        index = self._this.lake.index(space.name, space.dimensions)
        for found in index.rows_of("text_key", keys, ["text_key", "vector"]):
            unique = {key: at for at, key in enumerate(found["text_key"].to_pylist())}
            if unique:
                yield from (
                    found.take(list(unique.values())).cast(self._table.schema).combine_chunks().to_batches()
                )

    def _embed(self, missing: set[str]) -> Iterator[pa.RecordBatch]:
        waiting: dict[str, str] = {}
        done, total = 0, len(missing)
        for key, text in self._texts(missing):
            waiting[key] = text
            if len(waiting) == _COMMIT_TEXTS or done + len(waiting) == total:
                yield self._vectors(waiting, done=done, total=total)
                done += len(waiting)
                waiting = {}
        if waiting:
            yield self._vectors(waiting, done=done, total=total)

    def _embed_spread(self, missing: set[str]) -> Iterator[pa.RecordBatch]:
        assert isinstance(self._embedder, SpreadEmbedder)
        done = 0
        for keys, vectors in self._embedder.embed_all(self._texts(missing)):
            done += len(keys)
            self._this.report("embeddings", done, len(missing))
            yield self._rows(keys, vectors)

    def _texts(self, missing: set[str]) -> Iterator[tuple[str, str]]:
        left = set(missing)
        where = is_null("skipped")
        if len(left) <= KEYS_PER_FILTER:
            where = where & one_of("text_key", sorted(left))
        for batch in self._chunks.batches(["text_key", "header", "text"], where) if left else ():
            for row in batch.to_pylist():
                if row["text_key"] in left:
                    left.discard(row["text_key"])
                    yield row["text_key"], embedded_text(row["header"], row["text"])

    def _vectors(self, texts: Mapping[str, str], *, done: int, total: int) -> pa.RecordBatch:
        """Embed in small portions, so that progress is seen, and return one commit's rows.

        Sorted by length first: texts of one batch are padded to the longest.
        """
        keys = sorted(texts, key=lambda key: len(texts[key]))
        made: list[np.ndarray] = []
        local = self._this.settings.embedding_of(self._this.source).provider == "local"
        step = _LOCAL_STEP if local else _COMMIT_TEXTS
        for start in range(0, len(keys), step):
            made.append(self._embedder.embed([texts[key] for key in keys[start : start + step]]))
            self._this.report("embeddings", done + min(start + step, len(keys)), total)
        return self._rows(keys, np.concatenate(made))

    def _rows(self, keys: list[str], vectors: np.ndarray) -> pa.RecordBatch:
        require_sound(vectors, self._this.source.id)
        flat = pa.array(vectors.reshape(-1), pa.float32())
        column = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        return pa.RecordBatch.from_arrays([pa.array(keys), column], schema=self._table.schema)


def _pool(by: Embedding) -> str:
    """Whose turn is waited for: this machine's one embedder, or an endpoint's host."""
    return "embedder" if by.provider == "local" else urlsplit(by.base_url).hostname or "embedder"


def require_sound(vectors: np.ndarray, source: str) -> None:
    """Refuse vectors that are not finite or not of length 1.

    Raises:
        StoreError: naming the source; nothing was written.
    """
    if unsound(vectors).any():
        raise StoreError(
            f"the embedding model gave vectors for source {source!r} that are not finite or not of length 1: "
            "check the model, then refresh again"
        )
