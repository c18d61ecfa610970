"""Vectors computed by processes of a Ray cluster, each with the model in its memory.

Ray starts the workers, gives them batches, and gives a dead worker's batch to another. Texts wait in
Ray's object store, which spills to disk, and vectors come back in any order as soon as they are ready:
the memory of this process does not grow with the number of texts.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from knowledge_pipeline.config.embedding import EmbeddingSettings, RayPool
from knowledge_pipeline.embedding.base import Embedder, Usage, WrappedEmbedder
from knowledge_pipeline.errors import EmbeddingUnavailable, KnowledgeError, ModelError, PermanentError
from knowledge_pipeline.extras import describe_missing

_BATCH_TEXTS = 128  # some seconds of one worker, so that a killed one has little to repeat
_SORTED_TEXTS = 8192  # at a time, so that texts of one batch are of a length: the longest pads the others

_PERMANENT_PREFIX, _TRANSIENT_PREFIX = "permanent: ", "transient: "
_RESULT_SCHEMA = pa.schema(
    {"key": pa.string(), "vector": pa.list_(pa.float32()), "tokens": pa.int64(), "failure": pa.string()}
)

OpenEmbedder = Callable[[EmbeddingSettings], Embedder]


class RayEmbedder(WrappedEmbedder):
    """Embeds a stream of texts on a cluster, and a few texts in this process."""

    def __init__(
        self, settings: EmbeddingSettings, pool: RayPool, local: Embedder, open_embedder: OpenEmbedder
    ) -> None:
        """Workers open `settings`, which have no pool, with `open_embedder`; this process uses `local`."""
        super().__init__(local, local.space)
        self._settings, self._pool, self._open = settings, pool, open_embedder
        self._cluster_usage = Usage()

    @property
    def usage(self) -> Usage:
        """What this process and the cluster consumed."""
        return self._inner.usage.add(self._cluster_usage.texts, self._cluster_usage.tokens)

    @property
    def min_stream_texts(self) -> int:
        """See `base.StreamEmbedder.min_stream_texts`."""
        return self._pool.min_texts

    def embed_stream(self, texts: Iterable[tuple[str, str]]) -> Iterator[tuple[list[str], np.ndarray]]:
        """See `base.StreamEmbedder.embed_stream`; the object store holds all texts."""
        with _connect_cluster(self._pool) as ray:
            blocks = [ray.put(block) for block in _build_blocks(texts)]
            spread = ray.data.from_arrow_refs(blocks).map_batches(
                _RayWorker,
                fn_constructor_args=(self._settings, self._open),
                batch_size=_BATCH_TEXTS,
                batch_format="pyarrow",
                num_cpus=self._pool.cpus,
                num_gpus=self._pool.gpus,
                compute=ray.data.ActorPoolStrategy(min_size=1, max_size=self._pool.workers),
            )
            for batch in _translate_errors(spread.iter_batches(batch_size=None, batch_format="pyarrow")):
                tokens = int(np.sum(batch["tokens"].to_numpy()))
                self._cluster_usage = self._cluster_usage.add(batch.num_rows, tokens)
                chunks: list[Any] = batch["vector"].chunks  # lists, which the stubs do not know
                flat: pa.FloatArray = pa.concat_arrays([chunk.flatten() for chunk in chunks])
                keys: list[Any] = batch["key"].to_pylist()
                yield keys, flat.to_numpy().reshape(batch.num_rows, -1)


class _RayWorker:
    """One process's model, loaded for the first batch.

    Errors are returned as rows, because Ray keeps the text of an error, but not its class.
    """

    def __init__(self, settings: EmbeddingSettings, open_embedder: OpenEmbedder) -> None:
        self._settings, self._open = settings, open_embedder
        self._embedder: Embedder | None = None

    def __call__(self, batch: pa.Table) -> pa.Table:
        """From columns `key` and `text` to those of `_RESULT_SCHEMA`."""
        try:
            return self._embed_batch(batch)
        except KnowledgeError as error:
            kind = _PERMANENT_PREFIX if isinstance(error, PermanentError) else _TRANSIENT_PREFIX
            row = {"key": None, "vector": None, "tokens": 0, "failure": kind + str(error)}
            return pa.Table.from_pylist([row], schema=_RESULT_SCHEMA)

    def _embed_batch(self, batch: pa.Table) -> pa.Table:
        self._embedder = self._embedder or self._open(self._settings)
        before = self._embedder.usage.tokens
        texts: list[Any] = batch["text"].to_pylist()
        vectors = self._embedder.embed(texts)
        tokens = np.zeros(len(vectors), np.int64)
        tokens[0] = self._embedder.usage.tokens - before  # of the whole batch
        flat = pa.array(vectors.reshape(-1), pa.float32())
        ends = pa.array(np.arange(len(vectors) + 1) * vectors.shape[1], pa.int32())
        column: Any = pa.ListArray.from_arrays(ends, flat)  # pyright: ignore[reportUnknownMemberType]
        failure = pa.nulls(len(vectors), pa.string())
        return pa.Table.from_arrays(
            [batch["key"].cast(pa.string()), column, pa.array(tokens), failure], schema=_RESULT_SCHEMA
        )


def _build_blocks(texts: Iterable[tuple[str, str]]) -> Iterator[pa.Table]:
    """Tables of one batch of texts each."""
    texts = iter(texts)
    while block := sorted(islice(texts, _SORTED_TEXTS), key=lambda item: len(item[1])):
        for start in range(0, len(block), _BATCH_TEXTS):
            keys, written = zip(*block[start : start + _BATCH_TEXTS], strict=True)
            yield pa.Table.from_pydict({"key": list(keys), "text": list(written)})


def _translate_errors(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Raise the errors that workers returned, and turn those of Ray into a sentence."""
    ray_error: type[Exception] = import_module("ray.exceptions").RayError
    try:
        for batch in batches:
            failures: list[Any] = batch["failure"].drop_null().to_pylist()
            for failure in failures:
                permanent = failure.startswith(_PERMANENT_PREFIX)
                text = failure.removeprefix(_PERMANENT_PREFIX).removeprefix(_TRANSIENT_PREFIX)
                raise ModelError(text) if permanent else EmbeddingUnavailable(text)
            yield batch
    except ray_error as error:
        raise EmbeddingUnavailable(
            f"the Ray cluster did not finish ({type(error).__name__}): check its logs, then refresh again; "
            "nothing of this partition was written"
        ) from error


@contextmanager
def _connect_cluster(pool: RayPool) -> Generator[Any]:
    """Ray's module, connected to the current cluster, that of `RAY_ADDRESS`, or one on this machine.

    A cluster on this machine has room for all workers of the pool, and ends with the block.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise Ray reports who uses it and how
    try:
        ray: Any = import_module("ray")
        import_module("ray.data")
    except ImportError as error:
        raise ModelError(describe_missing("embedding.ray", "ray") + ", or remove the setting") from error
    started = not ray.is_initialized()
    if started:
        address = os.environ.get("RAY_ADDRESS")
        cpus = None if address else max(os.cpu_count() or 1, int(pool.workers * pool.cpus))
        try:
            ray.init(
                address=address,
                num_cpus=cpus,
                log_to_driver=False,
                logging_level="ERROR",
                include_dashboard=False,
            )
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise EmbeddingUnavailable(
                f"the Ray cluster {address or 'of this machine'} cannot be used ({type(error).__name__}): "
                "start it, or correct RAY_ADDRESS"
            ) from error
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    try:
        yield ray
    finally:
        if started:
            ray.shutdown()
