"""The best fused hits, put in order by a cross-encoder, or left as they are when time is up."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from knowledge_pipeline.config.query import RerankSettings
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.query.search import cross_encoders
from knowledge_pipeline.query.search.cross_encoders import CrossEncoder
from knowledge_pipeline.query.search.hits import Hit, IndexedChunk
from knowledge_pipeline.records import build_embedded_text

RETRY_S = 60.0  # after so long a model that was missing is looked for again


@dataclass(frozen=True, slots=True)
class RerankResult:
    """Hits, best first; `skipped` says why their order is the fused one."""

    hits: Sequence[Hit]
    skip_reason: str | None = None


class Reranker:
    """One cross-encoder, loaded at the first question that needs it; its loading is not on the budget."""

    def __init__(self, settings: RerankSettings) -> None:
        self._settings = settings
        self._encoder: CrossEncoder | None = None
        self._missing: tuple[float, ModelError] | None = None  # since time.monotonic()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="query-rerank")

    def close(self) -> None:
        """Start nothing more; what is under way is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def is_enabled_for(self, type_: str) -> bool:
        """Whether the settings turn reranking on for a search type."""
        return bool(self._settings.model) and type_ in self._settings.types

    async def rerank(self, question: str, hits: Sequence[Hit]) -> RerankResult:
        """All of `hits` by the cross-encoder's score, or as they came, with the reason."""
        loop = asyncio.get_running_loop()
        stop = threading.Event()
        try:
            encoder = await loop.run_in_executor(self._pool, self._load_encoder)
            scoring = loop.run_in_executor(self._pool, _score_hits, encoder, question, hits, stop)
            scores = await asyncio.wait_for(scoring, self._settings.budget_s)
        except ModelError as error:
            return RerankResult(hits, str(error))
        except TimeoutError:
            return RerankResult(hits, f"{len(hits)} passages took more than {self._settings.budget_s} s")
        finally:
            stop.set()
        return RerankResult(_sort_by_score(hits, scores))

    def _load_encoder(self) -> CrossEncoder:
        if self._encoder is not None:
            return self._encoder
        if self._missing and time.monotonic() < self._missing[0] + RETRY_S:
            raise self._missing[1]
        try:
            self._encoder = cross_encoders.load_cross_encoder(self._settings.model or "")
        except ModelError as error:
            self._missing = time.monotonic(), error
            raise
        return self._encoder


def _score_hits(
    encoder: CrossEncoder, question: str, hits: Sequence[Hit], stop: threading.Event
) -> list[float]:
    scores: list[float] = []
    for hit in hits:
        if stop.is_set():  # nobody waits any more
            break
        scores.append(encoder.score(question, _text_to_score(hit.chunk)))
    return scores


def _text_to_score(chunk: IndexedChunk) -> str:
    return build_embedded_text(chunk.header, chunk.text)


def _sort_by_score(hits: Sequence[Hit], scores: Sequence[float]) -> list[Hit]:
    scored = [
        replace(hit, score=score, explanation=replace(hit.explanation, rerank=score))
        for hit, score in zip(hits, scores, strict=True)
    ]
    return sorted(scored, key=lambda hit: (-hit.score, -hit.explanation.fused, hit.chunk.id))
