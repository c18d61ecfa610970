"""Answers that were given already, by what was asked, what the caller may see, and the release."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from cachetools import TTLCache

from knowledge_pipeline.config.query import CacheSettings
from knowledge_pipeline.contract.responses import SearchResponse
from knowledge_pipeline.store.release import Release

_RESULT_CHARS = 2_000  # that a result takes beside its content, about


class AnswerCache:
    """Answers of the last minutes, bounded by their size; for one thread.

    What differs in who asks differs in the key: a caller is given nothing that was found for one who
    may see something else. An answer that lacks a step is not kept, so that the next one may have it.
    """

    def __init__(self, settings: CacheSettings) -> None:
        size = settings.megabytes * 1_000_000 if settings.minutes else 0
        self._answers: TTLCache[Hashable, SearchResponse] = TTLCache(
            size, settings.minutes * 60, getsizeof=_size_of
        )
        self._release: Release | None = None

    def get(self, release: Release, key: Hashable) -> SearchResponse | None:
        """The answer to the same question of the same release, if it is still kept."""
        if release != self._release:
            self._answers.clear()
            self._release = release
        return self._answers.get(key)

    def put(self, release: Release, key: Hashable, answer: SearchResponse) -> None:
        """Keep an answer, unless it lacks something, is too large, or is of a release that is no more."""
        fits = _size_of(answer) <= self._answers.maxsize
        if fits and not answer.degraded and release == self._release:
            self._answers[key] = replace(answer, cached=True)


def _size_of(answer: SearchResponse) -> int:
    return sum(len(result.content) + _RESULT_CHARS for result in answer.results) + _RESULT_CHARS
