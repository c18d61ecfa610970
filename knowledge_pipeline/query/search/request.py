"""One question on its way through the steps of an engine, and the answer that it ends as."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.open_release import Opened
from knowledge_pipeline.query.search.assemble import Answer, Result
from knowledge_pipeline.query.search.profiles import PROFILES, Profile, SearchType
from knowledge_pipeline.query.search.understand import Question
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.store.filters import Filter

MAX_EXAMPLE_CHARS = 20_000
MAX_EXAMPLE_WORDS = 200  # distinct ones: full-text search pays for each


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, and how it is answered."""

    question: Question
    type: SearchType
    limit: int
    condition: Filter
    access: Access
    explained: Mapping[str, Any] | None  # what the answer says of the question; None: nothing
    copies: bool = False  # nearly equal results are all given

    @property
    def profile(self) -> Profile:
        """Of its type."""
        return PROFILES[self.type]

    @property
    def candidates(self) -> int:
        """How many hits are handed on to be ranked again."""
        return max(self.profile.candidates, 2 * self.limit)

    @property
    def words(self) -> str:
        """What full text looks for: of an example no more than can be afforded."""
        if not self.profile.as_is:
            return self.question.words
        return " ".join(list(dict.fromkeys(self.question.words.split()))[:MAX_EXAMPLE_WORDS])


def bounded(text: str) -> str:
    """The text. Raises `QuestionRefused` where it is too long."""
    if len(text) > MAX_EXAMPLE_CHARS:
        raise QuestionRefused(f"the text has {len(text)} characters; allowed: at most {MAX_EXAMPLE_CHARS}")
    return text


def again(known: Answer, watch: Stopwatch) -> Answer:
    """A kept answer, given to another asker."""
    times = {"took_ms": watch.took_ms, "timings_ms": watch.timings_ms, "steps": tuple(watch.steps)}
    return replace(known, query_id=str(uuid.uuid4()), **times)


def answer_of(
    opened: Opened,
    results: tuple[Result, ...],
    watch: Stopwatch,
    *,
    degraded: tuple[str, ...] = (),
    explain: Mapping[str, Any] | None = None,
) -> Answer:
    """What was found, as an answer of the release that it was found in."""
    return Answer(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=opened.release.release,
        degraded=degraded,
        results=results,
        timings_ms=watch.timings_ms,
        steps=tuple(watch.steps),
        explain=explain,
    )
