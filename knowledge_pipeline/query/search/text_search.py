"""One text on its way through the searches: retrieve, fuse, and look again where that is configured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from knowledge_pipeline.config.settings import QuerySettings
from knowledge_pipeline.query.search.corpus_expansion import related_names
from knowledge_pipeline.query.search.fuse import fuse
from knowledge_pipeline.query.search.hits import Hit
from knowledge_pipeline.query.search.profiles import Profile
from knowledge_pipeline.query.search.recency import favouring_recent
from knowledge_pipeline.query.search.relevance_feedback import refine
from knowledge_pipeline.query.search.retrieve import Retrieved, VectorIn, matched_anew, retrieve
from knowledge_pipeline.query.search.understand import Question
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.readers import IndexReader

AT_ONCE = 16  # texts in the store: more of them only wait for each other


@dataclass(frozen=True, slots=True)
class Sought:
    """One text that is searched for; a question may be several."""

    question: Question
    words: str  # that full text is asked for
    vector_in: VectorIn


@dataclass(frozen=True, slots=True)
class Ground:
    """Where is searched."""

    readers: Sequence[IndexReader]
    condition: Filter
    limit: int  # candidates of each search of each space


@dataclass(frozen=True, slots=True)
class Caught:
    """What one text found."""

    hits: Sequence[Hit]  # best first
    retrieved: Retrieved
    names: tuple[str, ...] = ()  # of the corpus, that full text was asked for as well


class Seeker:
    """Searches for texts as the settings say. For one event loop.

    `unrelated` tells what a space's model gives texts that have nothing in common.
    """

    def __init__(self, settings: QuerySettings, unrelated: Callable[[str], float]) -> None:
        self._settings = settings
        self._unrelated = unrelated  # by name of a space
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def seek(self, sought: Sought, ground: Ground, profile: Profile, watch: Stopwatch) -> Caught:
        """What is relevant, best first."""
        with watch.step("retrieve"):
            async with self._slots:
                retrieved = await retrieve(
                    ground.readers, sought.words, sought.vector_in, ground.condition, limit=ground.limit
                )
        with watch.step("fuse"):
            caught = self._fused(sought, retrieved)
        if not profile.as_is:
            caught = await self._again(sought, caught, ground, watch)
        return Caught(self._relevant(caught.hits, profile), caught.retrieved, caught.names)

    async def _again(self, sought: Sought, caught: Caught, ground: Ground, watch: Stopwatch) -> Caught:
        """After the second looks that are configured."""
        if self._settings.expansion == "corpus" and (names := related_names(sought.question, caught.hits)):
            with watch.step("expand"):
                words = " ".join((sought.words, *(name.replace("_", "") for name in names)))
                async with self._slots:
                    retrieved = await matched_anew(
                        ground.readers, caught.retrieved, words, ground.condition, limit=ground.limit
                    )
                caught = self._fused(sought, retrieved, names)
        if share := self._settings.feedback:
            with watch.step("refine"):
                where, limit = ground.condition, ground.limit
                async with self._slots:
                    retrieved = await refine(
                        ground.readers, caught.retrieved, caught.hits, where, share=share, limit=limit
                    )
                caught = self._fused(sought, retrieved, caught.names)
        return caught

    def _fused(self, sought: Sought, retrieved: Retrieved, names: tuple[str, ...] = ()) -> Caught:
        method, weight = self._settings.fusion, self._settings.vector_weight
        scaled = [replace(each, unrelated=self._unrelated(each.space)) for each in retrieved.candidates]
        hits = fuse(scaled, sought.question, method=method, vector_weight=weight)
        return Caught(hits, retrieved, names)

    def _relevant(self, hits: Sequence[Hit], profile: Profile) -> Sequence[Hit]:
        """Hits from the floor on, the recent ones favoured where the profile says so.

        Only `following` gives scores that mean the same for every question. What another hit is
        boosted by takes nothing from a hit here, so the score before boosts counts as well.
        """
        floor = max(profile.floor, self._settings.floor) if self._settings.fusion == "following" else 0.0
        relevant = [hit for hit in hits if max(hit.score, hit.explanation.fused) >= floor]
        return favouring_recent(relevant, profile.recency) if profile.recency else relevant


def merged(found: Iterable[Sequence[Hit]]) -> list[Hit]:
    """Several lists as one, best first; a passage of several counts once, by its best score."""
    best: dict[str, Hit] = {}
    for hit in (hit for hits in found for hit in hits):
        known = best.get(hit.passage.id)
        if known is None or hit.score > known.score:
            best[hit.passage.id] = hit
    return sorted(best.values(), key=lambda hit: (-hit.score, hit.passage.id))
