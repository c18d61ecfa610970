"""Keeps responses, by what was asked, what the caller may see, and the release."""

from __future__ import annotations

import uuid
from collections.abc import Hashable
from dataclasses import replace

from cachetools import TTLCache

from knowledge_pipeline.config.query import CacheSettings
from knowledge_pipeline.contract.responses.search import SearchResponse
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.store.release import Release

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
            self._responses.clear()
            self._release = release
        return self._responses.get(key)

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
