"""Keeps responses, by what was asked, what the caller may see, and the release; and times their steps."""

from __future__ import annotations

import time
import uuid
from collections.abc import Hashable
from dataclasses import replace
from typing import Self

from cachetools import TTLCache

from knowledge_pipeline.config.settings import CacheSettings
from knowledge_pipeline.contract.base import Step
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.store.release import Release


class Stopwatch:
    """Milliseconds by step, and since the start; of equal steps at once the longest counts.

    `steps` tells every step and its parts, in the order of their ends.
    """

    def __init__(self) -> None:
        self._start_s = time.perf_counter()
        self.timings_ms: dict[str, float] = {}
        self.steps: list[Step] = []

    def step(self, name: str) -> _RunningStep:
        """Time what happens inside, under a name."""
        return _RunningStep(self, name, is_whole=True)

    def substep(self, name: str) -> _RunningStep:
        """Tell when something within a step was done; the times by step are those of whole steps."""
        return _RunningStep(self, name, is_whole=False)

    @property
    def took_ms(self) -> float:
        """Since the start."""
        return round((time.perf_counter() - self._start_s) * 1000, 3)


class _RunningStep:
    """Tells a stopwatch of itself when it ends. A generator would take three times as long."""

    __slots__ = ("_is_whole", "_name", "_start_ms", "_watch", "steps")

    def __init__(self, watch: Stopwatch, name: str, *, is_whole: bool) -> None:
        self._watch, self._name, self._is_whole = watch, name, is_whole
        self._start_ms = 0.0
        self.steps: tuple[Step, ...] = ()  # of a query that runs as this step

    def __enter__(self) -> Self:
        self._start_ms = self._watch.took_ms
        return self

    def __exit__(self, *_: object) -> None:
        watch, start_ms, end_ms = self._watch, self._start_ms, self._watch.took_ms
        watch.steps.append(Step(self._name, start_ms, end_ms, self.steps))
        if self._is_whole:
            took_ms = round(end_ms - start_ms, 3)
            watch.timings_ms[self._name] = max(took_ms, watch.timings_ms.get(self._name, 0.0))


_RESULT_CHARS = 2_000  # that a result takes besides its content, about


class AnswerCache:
    """Responses of the last minutes, bounded by their size; for one thread.

    The key holds the caller's access, so a caller never gets what was found for one who may see
    something else. A degraded response is not kept, so that the next one may be complete.
    """

    def __init__(self, settings: CacheSettings) -> None:
        size = settings.max_megabytes * 1_000_000 if settings.ttl_minutes else 0
        self._responses: TTLCache[Hashable, SearchResponse] = TTLCache(
            size, settings.ttl_minutes * 60, getsizeof=_size_of
        )
        self._release: Release | None = None

    def get(self, release: Release, key: Hashable) -> SearchResponse | None:
        """The response to the same question of the same release, if it is still kept."""
        if release != self._release:
            self._advance_to(release)
        return self._responses.get(key)

    def _advance_to(self, release: Release) -> None:
        self._responses.clear()
        self._release = release

    def put(self, release: Release, key: Hashable, response: SearchResponse) -> None:
        """Keep a response, unless it is degraded, too large, or of a release that is no longer live."""
        fits = _size_of(response) <= self._responses.maxsize
        if fits and not response.degraded and release == self._release:
            self._responses[key] = replace(response, cached=True)


def reissue_response(cached: SearchResponse, watch: Stopwatch) -> SearchResponse:
    """A kept response for another request: with an id and times of its own."""
    return replace(
        cached,
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        timings_ms=watch.timings_ms,
        steps=tuple(watch.steps),
    )


def _size_of(response: SearchResponse) -> int:
    return sum(len(result.content) + _RESULT_CHARS for result in response.results) + _RESULT_CHARS
