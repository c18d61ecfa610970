"""Vectors by processes of a Ray cluster, each with the model in its memory.

Ray starts the workers, gives them batches, and gives a dead one's batch to another. Texts wait in
Ray's object store, which moves to disk what does not fit, and vectors come back as they are made, in
whatever order: the memory of this process does not grow with the number of texts.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from knowledge_pipeline.config.embedding import RayPool
from knowledge_pipeline.config.settings import EmbeddingSettings
from knowledge_pipeline.embedding.base import Embedder, Space, Usage
from knowledge_pipeline.errors import EmbeddingUnavailable, KnowledgeError, ModelError, PermanentError
from knowledge_pipeline.records import Tokenize

_BATCH_TEXTS = 128  # some seconds of one worker, so that a killed one has little to repeat
_SORTED_TEXTS = 8192  # at a time, so that texts of one batch are of a length: the longest pads the others

_PERMANENT_PREFIX, _TRANSIENT_PREFIX = "permanent: ", "transient: "
_RESULT_SCHEMA = pa.schema(
    {"key": pa.string(), "vector": pa.list_(pa.float32()), "tokens": pa.int64(), "failure": pa.string()}
)

OpenEmbedder = Callable[[EmbeddingSettings], Embedder]


class RayEmbedder:
    """An embedder that can give a stream of texts to a cluster; a few texts it embeds itself."""

    def __init__(
        self, settings: EmbeddingSettings, pool: RayPool, local: Embedder, open_embedder: OpenEmbedder
    ) -> None:
        """Take how each worker opens the model, in settings without a pool, and one for this process."""
        self._settings, self.pool = settings, pool
        self._local, self._open = local, open_embedder
        self._cluster_usage = Usage()

    @property
    def space(self) -> Space:
        """That of the model: who computes makes no difference."""
        return self._local.space

    @property
    def usage(self) -> Usage:
        """What this process and the cluster's consumed."""
        alone = self._local.usage
        return replace(
            alone,
            texts=alone.texts + self._cluster_usage.texts,
            tokens=alone.tokens + self._cluster_usage.tokens,
        )

    def tokenizer(self) -> Tokenize:
        """See `base.Embedder.tokenizer`."""
        return self._local.tokenizer()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """See `base.Embedder.embed`; in this process."""
        return self._local.embed(texts)

    def embed_query(self, text: str) -> np.ndarray:
        """See `base.Embedder.embed_query`; in this process."""
        return self._local.embed_query(text)

    def embed_stream(self, texts: Iterable[tuple[str, str]]) -> Iterator[tuple[list[str], np.ndarray]]:
        """Embed keyed texts by the cluster's workers.

        Args:
            texts: key and text; read as far as the object store takes them, then held by it.

        Yields:
            Keys, and float32 of shape (keys, dimensions) with rows of length 1; in no order.

        Raises:
            ModelMissing: a worker cannot load the model, or Ray is not installed.
            EmbeddingUnavailable: the cluster cannot be reached, or failed.
        """
        with _connect_cluster(self.pool) as ray:
            blocks = [ray.put(block) for block in _build_blocks(texts)]
            spread = ray.data.from_arrow_refs(blocks).map_batches(
                _RayWorker,
                fn_constructor_args=(self._settings, self._open),
                batch_size=_BATCH_TEXTS,
                batch_format="pyarrow",
                num_cpus=self.pool.cpus,
                num_gpus=self.pool.gpus,
                compute=ray.data.ActorPoolStrategy(min_size=1, max_size=self.pool.workers),
            )
            for made in _translate_errors(spread.iter_batches(batch_size=None, batch_format="pyarrow")):
                yield self._collect_batch(made)

    def _collect_batch(self, result: pa.Table) -> tuple[list[str], np.ndarray]:
        tokens = int(np.sum(result["tokens"].to_numpy()))
        self._cluster_usage = replace(
            self._cluster_usage,
            texts=self._cluster_usage.texts + result.num_rows,
            tokens=self._cluster_usage.tokens + tokens,
        )
        flat = pa.concat_arrays([chunk.flatten() for chunk in result["vector"].chunks])
        return result["key"].to_pylist(), flat.to_numpy().reshape(result.num_rows, -1)


class _RayWorker:
    """One process's model: loaded once, for the first batch.

    What it cannot do it gives back as a sentence: Ray would keep the text of an error, not its kind.
    """

    def __init__(self, settings: EmbeddingSettings, open_embedder: OpenEmbedder) -> None:
        self._settings, self._open = settings, open_embedder
        self._embedder: Embedder | None = None

    def __call__(self, batch: pa.Table) -> pa.Table:
        """From columns `key` and `text` to those of `_MADE`."""
        try:
            return self._embed_batch(batch)
        except KnowledgeError as error:
            kind = _PERMANENT_PREFIX if isinstance(error, PermanentError) else _TRANSIENT_PREFIX
            row = {"key": None, "vector": None, "tokens": 0, "failure": kind + str(error)}
            return pa.Table.from_pylist([row], schema=_RESULT_SCHEMA)

    def _embed_batch(self, batch: pa.Table) -> pa.Table:
        self._embedder = self._embedder or self._open(self._settings)
        before = self._embedder.usage.tokens
        vectors = self._embedder.embed(batch["text"].to_pylist())
        tokens = np.zeros(len(vectors), np.int64)
        tokens[0] = self._embedder.usage.tokens - before  # of all of them
        flat = pa.array(vectors.reshape(-1), pa.float32())
        ends = pa.array(np.arange(len(vectors) + 1) * vectors.shape[1], pa.int32())
        column = pa.ListArray.from_arrays(ends, flat)
        failure = pa.nulls(len(vectors), pa.string())
        return pa.table(
            [batch["key"].cast(pa.string()), column, pa.array(tokens), failure], schema=_RESULT_SCHEMA
        )


def _build_blocks(texts: Iterable[tuple[str, str]]) -> Iterator[pa.Table]:
    """A batch of texts each."""
    texts = iter(texts)
    while block := sorted(islice(texts, _SORTED_TEXTS), key=lambda each: len(each[1])):
        for start in range(0, len(block), _BATCH_TEXTS):
            keys, written = zip(*block[start : start + _BATCH_TEXTS], strict=True)
            yield pa.table({"key": list(keys), "text": list(written)})


def _translate_errors(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Let a worker's own error through, and tell any other of Ray's in a sentence."""
    from ray.exceptions import RayError  # pyright: ignore[reportMissingImports]

    try:
        for made in batches:
            for failure in made["failure"].drop_null().to_pylist():
                permanent = failure.startswith(_PERMANENT_PREFIX)
                text = failure.removeprefix(_PERMANENT_PREFIX).removeprefix(_TRANSIENT_PREFIX)
                raise ModelError(text) if permanent else EmbeddingUnavailable(text)
            yield made
    except RayError as error:
        raise EmbeddingUnavailable(
            f"the Ray cluster did not finish ({type(error).__name__}): look at its logs, then refresh again; "
            "nothing of this partition was written"
        ) from error


@contextmanager
def _connect_cluster(pool: RayPool) -> Iterator[Any]:
    """Ray's module, connected: to a cluster in use, that of `RAY_ADDRESS`, or one on this machine.

    One of this machine has room for all workers that are wanted, and ends with the block.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would send who uses it and how
    try:
        import ray  # pyright: ignore[reportMissingImports]
        import ray.data  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ModelError(
            "embedding.ray is set and Ray is not installed: pip install 'knowledge-pipeline[ray]', "
            "or remove the setting"
        ) from error
    begun = not ray.is_initialized()
    if begun:
        _init_ray(ray, pool)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    try:
        yield ray
    finally:
        if begun:
            ray.shutdown()


def _init_ray(ray: Any, pool: RayPool) -> None:
    remote = os.environ.get("RAY_ADDRESS")
    room = {} if remote else {"num_cpus": max(os.cpu_count() or 1, int(pool.workers * pool.cpus))}
    try:
        ray.init(address=remote, log_to_driver=False, logging_level="ERROR", include_dashboard=False, **room)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise EmbeddingUnavailable(
            f"the Ray cluster {remote or 'of this machine'} cannot be used ({type(error).__name__}): "
            "start it, or correct RAY_ADDRESS"
        ) from error
