"""Answers questions from an index: understand, retrieve, fuse, rerank, assemble.

Every public method takes an `Access`; what it may see is decided inside the store's query.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from knowledge_pipeline.config import Settings
from knowledge_pipeline.errors import QuestionRefused
from knowledge_pipeline.query import lookup
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.assemble import Answer, Result, assemble, result_of
from knowledge_pipeline.query.filters import Filters, where
from knowledge_pipeline.query.fuse import fuse
from knowledge_pipeline.query.hits import Hit
from knowledge_pipeline.query.live import Index, LiveIndex, Opened
from knowledge_pipeline.query.refine import refine
from knowledge_pipeline.query.rerank import Reranker
from knowledge_pipeline.query.retrieve import Retrieved, VectorIn, retrieve
from knowledge_pipeline.query.stopwatch import Stopwatch
from knowledge_pipeline.query.understand import Question, as_is, understand
from knowledge_pipeline.query.vectors import QueryVectors
from knowledge_pipeline.store.filters import Filter
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.readers import IndexReader

SearchType = Literal["semantic", "code", "similar", "historical"]

MAX_RESULTS = 100
RETRIEVED = 100  # by each search of each space, at least: fusion sees more than it hands on
MAX_EXAMPLE_CHARS = 20_000
MAX_EXAMPLE_WORDS = 200  # distinct ones: full-text search pays for each
AT_ONCE = 16  # questions in the store: more of them only wait for each other


@dataclass(frozen=True, slots=True)
class Profile:
    """What a search type looks for, and how deep."""

    candidates: int  # that are reranked
    results: int  # unless `limit` says otherwise
    filters: Filters = field(default_factory=Filters)
    floor: float = 0.0  # a result below this score is not relevant


PROFILES: Mapping[SearchType, Profile] = {
    "semantic": Profile(20, 5),
    "code": Profile(30, 10, Filters(source_types=("code",))),
    "similar": Profile(20, 5),
    "historical": Profile(50, 10, Filters(source_types=("git_history", "github_pr")), floor=0.1),
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question on its way through the steps."""

    question: Question
    type: SearchType
    limit: int
    condition: Filter
    explained: Mapping[str, Any] | None  # what the answer says of the question; None: nothing

    @property
    def candidates(self) -> int:
        return max(PROFILES[self.type].candidates, 2 * self.limit)


class Engine:
    """Searches one store. Asynchronous, for one event loop; `close` frees its threads.

    Asks the live release, unless an `index` says otherwise.
    """

    def __init__(self, settings: Settings, lake: Lake, *, index: Index | None = None) -> None:
        self._settings = settings
        self._index = index or LiveIndex(lake)
        self._vectors = QueryVectors(settings)
        self._reranker = Reranker(settings.query.rerank)
        self._slots = asyncio.Semaphore(AT_ONCE)

    def close(self) -> None:
        """Free the threads; the engine answers nothing after."""
        self._vectors.close()
        self._reranker.close()

    async def search(
        self,
        text: str,
        access: Access,
        *,
        type: SearchType = "semantic",
        filters: Filters = Filters(),  # noqa: B008 - frozen
        limit: int | None = None,
        explain: bool = False,
    ) -> Answer:
        """The passages that answer a question best.

        Raises:
            QuestionRefused: the question, its filters, type or limit make no sense.
            NotFound: nothing is released yet.
        """
        watch = Stopwatch()
        profile = _profile(type)
        with watch.step("understand"):
            question = as_is(_bounded(text)) if type == "similar" else understand(text)
            narrowed = (filters, question.filters, profile.filters)
            condition = where(access, *narrowed)
        explained = _explained(question, *narrowed) if explain else None
        asked = _Asked(question, type, _limit(limit, profile), condition, explained)
        with watch.step("open"):
            opened = await self._index.opened()
        return await self._answer(asked, opened, self._embedded(question.text), watch)

    async def similar(
        self,
        access: Access,
        *,
        text: str | None = None,
        path: str | None = None,
        source: str | None = None,
        filters: Filters = Filters(),  # noqa: B008 - frozen
        limit: int | None = None,
        explain: bool = False,
    ) -> Answer:
        """Passages of other files that are like a text, or like a file of the index.

        Args:
            access: who asks.
            text: a piece of code or prose.
            path: a file within its source, whose own passages are left out. With `text` as
                well, the text is what others shall be like, and the path says where it is from.
            source: the file's source, where several have such a path.
            filters: what the results are narrowed to; by default the file's source type.
            limit: how many results.
            explain: whether each result says where its score is from.

        Raises:
            QuestionRefused: neither is given, the text is too long, or the path names several files.
            NotFound: there is no such file, or nothing is released yet.
        """
        watch = Stopwatch()
        if text is None and path is None:
            raise QuestionRefused("nothing to be similar to: give a text or a path")
        with watch.step("open"):
            opened = await self._index.opened()
        narrowed, condition, vectors = filters, where(access, filters), {}
        with watch.step("look_up"):
            if path is not None:
                found = await lookup.example(opened.readers, path, access, source=source)
                narrowed = replace(filters, source_types=filters.source_types or (found.source_type,))
                condition = where(access, narrowed) & found.others
                if text is None:
                    text, vectors = found.text[:MAX_EXAMPLE_CHARS], found.vectors
        question = as_is(_bounded(text or ""))
        explained = _explained(question, narrowed) if explain else None
        asked = _Asked(question, "similar", _limit(limit, PROFILES["similar"]), condition, explained)
        return await self._answer(asked, opened, self._embedded(question.text, vectors), watch)

    async def get(self, id: str, access: Access) -> Answer:
        """One chunk by its id, or all chunks of a document by "source:uri", in their order.

        Raises:
            NotFound: there is none that the caller may see, or nothing is released yet.
        """
        watch = Stopwatch()
        with watch.step("open"):
            opened = await self._index.opened()
        with watch.step("look_up"):
            passages = await lookup.by_id(opened.readers, id, access)
        return _answer(opened, tuple(result_of(passage, 1.0) for passage in passages), watch)

    async def _answer(self, asked: _Asked, opened: Opened, vector_in: VectorIn, watch: Stopwatch) -> Answer:
        words, limit = _words(asked), max(RETRIEVED, asked.candidates)
        with watch.step("retrieve"):
            async with self._slots:
                retrieved = await retrieve(opened.readers, words, vector_in, asked.condition, limit=limit)
        with watch.step("fuse"):
            hits = self._fused(asked, retrieved)
        share = self._settings.query.feedback
        if share and asked.type != "similar":
            with watch.step("refine"):
                async with self._slots:
                    retrieved = await refine(
                        opened.readers, retrieved, hits, asked.condition, share=share, limit=limit
                    )
                hits = self._fused(asked, retrieved)
        reasons: dict[str, Any] = {"vector": retrieved.without_vector} if retrieved.without_vector else {}
        if self._reranker.wanted(asked.type):
            with watch.step("rerank"):
                reranked = await self._reranker.rerank(asked.question.text, hits[: asked.candidates])
            hits = reranked.hits
            reasons |= {"rerank": reranked.skipped} if reranked.skipped else {}
        with watch.step("assemble"):
            results = assemble(hits, limit=asked.limit, explain=asked.explained is not None)
        explained = None if asked.explained is None else {**asked.explained, "degraded": reasons}
        return _answer(opened, results, watch, degraded=tuple(reasons), explain=explained)

    def _fused(self, asked: _Asked, retrieved: Retrieved) -> Sequence[Hit]:
        query = self._settings.query
        hits = fuse(
            retrieved.candidates, asked.question, method=query.fusion, vector_weight=query.vector_weight
        )
        return [hit for hit in hits if hit.score >= PROFILES[asked.type].floor]

    def _embedded(self, text: str, known: Mapping[str, np.ndarray] | None = None) -> VectorIn:
        """The text's vector in each space, unless it is known already."""

        async def vector_in(reader: IndexReader) -> np.ndarray:
            if known and reader.space in known:
                return known[reader.space]
            return await self._vectors.vector(text, space=reader.space, dimensions=reader.dimensions)

        return vector_in


def _profile(type_: str) -> Profile:
    for name, profile in PROFILES.items():
        if name == type_:
            return profile
    raise QuestionRefused(f"found the search type {type_!r}; allowed: {', '.join(PROFILES)}")


def _limit(limit: int | None, profile: Profile) -> int:
    if limit is None:
        return profile.results
    if not 1 <= limit <= MAX_RESULTS:
        raise QuestionRefused(f"found limit {limit}; allowed: 1 to {MAX_RESULTS}")
    return limit


def _bounded(text: str) -> str:
    if len(text) > MAX_EXAMPLE_CHARS:
        raise QuestionRefused(f"the text has {len(text)} characters; allowed: at most {MAX_EXAMPLE_CHARS}")
    return text


def _words(asked: _Asked) -> str:
    if asked.type != "similar":
        return asked.question.words
    return " ".join(list(dict.fromkeys(asked.question.words.split()))[:MAX_EXAMPLE_WORDS])


def _explained(question: Question, *narrowed: Filters) -> dict[str, Any]:
    """How a question was understood, and what its results had to fulfil."""
    understood = asdict(question)
    del understood["filters"]
    stated = [{name: value for name, value in asdict(each).items() if value} for each in narrowed]
    return {"question": understood, "filters": [each for each in stated if each]}


def _answer(
    opened: Opened,
    results: tuple[Result, ...],
    watch: Stopwatch,
    *,
    degraded: tuple[str, ...] = (),
    explain: Mapping[str, Any] | None = None,
) -> Answer:
    return Answer(
        query_id=str(uuid.uuid4()),
        took_ms=watch.took_ms,
        release=opened.release.release,
        degraded=degraded,
        results=results,
        timings_ms=watch.timings_ms,
        explain=explain,
    )
