"""One question on its way through the steps of an engine, and the answer that it ends as."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from knowledge_pipeline.contract.responses import SearchResponse, SearchResult
from knowledge_pipeline.contract.types import MAX_EXAMPLE_CHARS, SearchType
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.open_release import OpenRelease
from knowledge_pipeline.query.search.profiles import PROFILES, SearchProfile
from knowledge_pipeline.query.search.understand import ParsedQuery
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.store.filters import Filter

MAX_EXAMPLE_KEYWORDS = 200  # distinct ones: full-text search pays for each


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One question, and how it is answered."""

    query: ParsedQuery
    type: SearchType
    limit: int
    condition: Filter
    access: Access
    query_explanation: Mapping[str, Any] | None  # what the answer says of the question; None: nothing
    include_near_duplicates: bool = False  # nearly equal results are all given

    @property
    def profile(self) -> SearchProfile:
        """Of its type."""
        return PROFILES[self.type]

    @property
    def rerank_limit(self) -> int:
        """How many hits are handed on to be ranked again."""
        return max(self.profile.rerank_candidates, 2 * self.limit)

    @property
    def keywords(self) -> str:
        """What full text looks for: of an example no more than can be afforded."""
        if not self.profile.is_example:
            return self.query.words
        return " ".join(list(dict.fromkeys(self.query.words.split()))[:MAX_EXAMPLE_KEYWORDS])


def require_example_length(text: str) -> str:
    """The text. Raises `QuestionRefused` where it is too long."""
    if len(text) > MAX_EXAMPLE_CHARS:
        raise InvalidQuery(f"the text has {len(text)} characters; allowed: at most {MAX_EXAMPLE_CHARS}")
    return text


def reissue_answer(cached: SearchResponse, watch: Stopwatch) -> SearchResponse:
    """A kept answer, given to another asker."""
    times = {"took_ms": watch.took_ms, "timings_ms": watch.timings_ms, "steps": tuple(watch.steps)}
    return replace(cached, query_id=str(uuid.uuid4()), **times)


def build_answer(
    open_release: OpenRelease,
    results: tuple[SearchResult, ...],
    watch: Stopwatch,
    *,
    degraded: tuple[str, ...] = (),
    explain: Mapping[str, Any] | None = None,
) -> SearchResponse:
    """What was found, as an answer of the release that it was found in."""
    return SearchResponse(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=open_release.release.release,
        degraded=degraded,
        results=results,
        timings_ms=watch.timings_ms,
        steps=tuple(watch.steps),
        explain=explain,
    )
