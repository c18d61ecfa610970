"""Reranks the best fused hits with a cross-encoder, or leaves them as they are when time is up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from knowledge_pipeline.config.settings import RerankSettings
from knowledge_pipeline.embedding.cross_encoder import CrossEncoder, load_cross_encoder
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.query.hits import Hit, IndexedChunk
from knowledge_pipeline.records import build_embedded_text

RETRY_S = 60.0  # after so long a model that was missing is tried again


class RerankResult(NamedTuple):
    """Hits, best first; `skip_reason` says why their order is the fused one."""

    hits: Sequence[Hit[IndexedChunk]]
    skip_reason: str | None = None


class RerankStep:
    """What orders the best hits anew: a cross-encoder, or a language model."""

    def __init__(self, settings: RerankSettings) -> None:
        self._settings = settings

    def is_enabled_for(self, type_: str) -> bool:
        """Whether the settings turn reranking on for a search type."""
        return type_ in self._settings.types

    async def rerank(self, question: str, hits: Sequence[Hit[IndexedChunk]]) -> RerankResult:
        """All of `hits` in another order; or in their order, with the reason."""
        raise NotImplementedError

    async def check(self) -> str | None:
        """Why it cannot be used now; None if it can."""

    def close(self) -> None:
        """Start nothing more; what is running is not waited for."""


class Reranker(RerankStep):
    """One cross-encoder, loaded at the first question that needs it; loading does not count as budget."""

    def __init__(self, settings: RerankSettings) -> None:
        super().__init__(settings)
        self._encoder: CrossEncoder | None = None
        self._missing: tuple[float, ModelError] | None = None  # since time.monotonic()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="query-rerank")

    def close(self) -> None:
        """Start no more scoring; what is running is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def rerank(self, question: str, hits: Sequence[Hit[IndexedChunk]]) -> RerankResult:
        """All of `hits` by the cross-encoder's score; or in their order, with the reason."""
        loop = asyncio.get_running_loop()
        stop = threading.Event()

        def score_hits(encoder: CrossEncoder) -> list[float]:
            scores: list[float] = []
            for hit in hits:
                if stop.is_set():  # nobody waits any more
                    break
                scores.append(encoder.score(question, build_embedded_text(hit.chunk.header, hit.chunk.text)))
            return scores

        try:
            encoder = await loop.run_in_executor(self._pool, self._load_encoder)
            scoring = loop.run_in_executor(self._pool, score_hits, encoder)
            scores = await asyncio.wait_for(scoring, self._settings.budget_s)
        except ModelError as error:
            return RerankResult(hits, str(error))
        except TimeoutError:
            return RerankResult(hits, f"{len(hits)} results took more than {self._settings.budget_s} s")
        finally:
            stop.set()
        scored = [
            hit._replace(score=score, explanation=replace(hit.explanation, rerank=score))
            for hit, score in zip(hits, scores, strict=True)
        ]
        scored.sort(key=lambda hit: (-hit.score, -hit.explanation.fused, hit.chunk.id))
        return RerankResult(scored)

    async def check(self) -> str | None:
        """Why the cross-encoder cannot be used now; None if it can."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, self._load_encoder)
        except ModelError as error:
            return str(error)
        return None

    def _load_encoder(self) -> CrossEncoder:
        if self._encoder is not None:
            return self._encoder
        if self._missing and time.monotonic() < self._missing[0] + RETRY_S:
            raise self._missing[1]
        try:
            self._encoder = load_cross_encoder(self._settings.model or "")
        except ModelError as error:
            self._missing = time.monotonic(), error
            raise
        return self._encoder
