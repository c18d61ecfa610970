"""Retrieves candidates from every space, by vector and by words at once; both searches filter.

A word that no document has is replaced by the nearest that some have, before anything is searched. A query is
embedded for each space with the model that made the space.
"""

from __future__ import annotations

import asyncio
import difflib
import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TypeVar

import numpy as np

from knowledge_pipeline.config.embedding import PROFILES, EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SearchMode
from knowledge_pipeline.embedding.base import BatchEmbedder
from knowledge_pipeline.embedding.reading import is_mostly_kept, remove_unread
from knowledge_pipeline.embedding.registry import list_former_settings, open_embedder, resolve_space
from knowledge_pipeline.embedding.word_vectors import WordVectors
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable, ModelError
from knowledge_pipeline.query.features import stem
from knowledge_pipeline.query.hits import (
    Hit,
    Hits,
    IndexedChunk,
    RankedChunk,
    RowCache,
    SpaceCandidates,
)
from knowledge_pipeline.query.understand import ParsedQuery, parse_plain_text
from knowledge_pipeline.store.filters import Filter, one_of
from knowledge_pipeline.store.fragments import OutlineFile
from knowledge_pipeline.store.search import NO_ROWS, IndexReader, ScoredRows
from knowledge_pipeline.store.vectors import compute_cosines
from knowledge_pipeline.sync_facade import gather_all
from knowledge_pipeline.words import expand_identifiers

_PLAIN_WORD = re.compile(r"(?<![\w./:`-])[A-Za-z][a-z]{4,}(?![\w`(]|[./:-]\w)")
_MAX_CORRECTED_CHARS, _MAX_CORRECTIONS = 1_000, 4
_MAX_EDITS = 2  # of a stem, as it is indexed
_SIMILAR_ROWS = 10  # of each space, whose words are compared
_MIN_LIKENESS = 0.83  # of two words, by `difflib`

EmbedQuery = Callable[[IndexReader], Awaitable[np.ndarray]]
"""The query's vector in a reader's space; raises `VectorUnavailable`, `UnreadText` where it says nothing."""


@dataclass(frozen=True, slots=True)
class SubQuery:
    """One text to search for; a question may be several."""

    query: ParsedQuery
    keywords: str  # for full text
    embedded_texts: tuple[str, ...]  # their mean vector is searched for

    def correct(self, corrections: Mapping[str, str]) -> SubQuery:
        """The same with other words in place of some."""
        if not corrections:
            return self
        pattern = re.compile(rf"\b({'|'.join(map(re.escape, corrections))})\b", re.I)

        def replace_words(text: str) -> str:
            return pattern.sub(lambda match: corrections[match[0].lower()], text)

        query = parse_plain_text(replace_words(self.query.text))
        texts = tuple(map(replace_words, self.embedded_texts))
        return SubQuery(query, replace_words(self.keywords), texts)


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Where to search, and how deep."""

    readers: Sequence[IndexReader]
    condition: Filter
    limit: int  # candidates of each search of each space
    cache: RowCache
    mode: SearchMode = "hybrid"


async def find_corrections(scope: SearchScope, query: ParsedQuery, vectors: WordVectors) -> Mapping[str, str]:
    """Words of a question that no document has -> the nearest that some have, where one is near.

    A word that the static model knows as a whole is spelled well, and is not looked up; of the others, and of
    what is no name in code, the first few are.
    """
    words = dict.fromkeys(word.lower() for word in _PLAIN_WORD.findall(query.text[:_MAX_CORRECTED_CHARS]))
    unknown = [word for word in words if vectors.count_pieces(word) > 1][:_MAX_CORRECTIONS]
    nearest = await gather_all(_find_nearest_word(scope, word) for word in unknown)
    return {word: near for word, near in zip(unknown, nearest, strict=True) if near}


async def _find_nearest_word(scope: SearchScope, word: str) -> str | None:
    """None: a document has the word, or none has one that is near."""
    readers, where = scope.readers, scope.condition
    matches = await gather_all(reader.search_text(word, where, limit=1) for reader in readers)
    if any(map(len, matches)):
        return None
    word = stem(word)
    similar = await gather_all(
        reader.search_similar_stem(word, where, limit=_SIMILAR_ROWS, max_edits=_MAX_EDITS)
        for reader in readers
    )
    chunks = await gather_all(
        scope.cache.read_chunks(reader, rows.row_ids.tolist())
        for reader, rows in zip(readers, similar, strict=True)
    )
    texts = (f"{chunk.header} {chunk.text}" for of_space in chunks for chunk in of_space.values())
    words = {part for text in texts for part in expand_identifiers(text).lower().split() if part.isalpha()}
    by_stem = {stem(word): word for word in sorted(words, reverse=True)}
    near = difflib.get_close_matches(word, by_stem, n=1, cutoff=_MIN_LIKENESS)
    return by_stem[near[0]] if near else None


async def retrieve(
    scope: SearchScope, sub_query: SubQuery, embed_query: EmbedQuery
) -> tuple[SpaceCandidates, ...]:
    """At most `scope.limit` candidates by each search of each space that the mode has.

    Vectors of a text that its model does not read are searched for only where words find nothing anywhere:
    beside words, they would bring what has as little to do with the question as everything else.
    """
    by_space = await gather_all(
        _retrieve_from_space(reader, scope, sub_query.keywords, embed_query) for reader in scope.readers
    )
    if not any(len(candidates.keyword_matches) for candidates in by_space):
        by_space = await gather_all(
            _search_unread(reader, scope, candidates)
            for reader, candidates in zip(scope.readers, by_space, strict=True)
        )
    return tuple(by_space)


async def _retrieve_from_space(
    reader: IndexReader, scope: SearchScope, keywords: str, embed_query: EmbedQuery
) -> SpaceCandidates:
    """Both searches at once. What full text alone found gets a similarity, too."""
    if scope.mode == "words":
        return await join_candidates(scope, reader, NO_ROWS, await _match_words(scope, reader, keywords))
    matching = asyncio.ensure_future(_match_words(scope, reader, keywords))
    try:
        vector = await embed_query(reader)
        nearest = await reader.search_vector(vector, scope.condition, limit=scope.limit)
        matches = await matching
    except VectorUnavailable as reason:
        # in no variable: the reason leads to this frame
        return replace(await join_candidates(scope, reader, NO_ROWS, await matching), vector_problem=reason)
    except BaseException:
        matching.cancel()
        raise
    return await join_candidates(scope, reader, nearest, matches, vector)


async def _search_unread(
    reader: IndexReader, scope: SearchScope, candidates: SpaceCandidates
) -> SpaceCandidates:
    """What is nearest to the vector of a text that its model does not read."""
    unread = candidates.vector_problem
    if not isinstance(unread, UnreadText):
        return candidates
    nearest = await reader.search_vector(unread.vector, scope.condition, limit=scope.limit)
    return await join_candidates(scope, reader, nearest, NO_ROWS, unread.vector)


def list_vector_problems(candidates: Iterable[SpaceCandidates]) -> dict[str, str]:
    """Space -> why it was searched without vectors; nothing of a text that its model does not read."""
    problems = {space.space: space.vector_problem for space in candidates}
    return {
        name: str(problem)
        for name, problem in problems.items()
        if problem and not isinstance(problem, UnreadText)
    }


async def _match_words(scope: SearchScope, reader: IndexReader, keywords: str) -> ScoredRows:
    """What full text finds; nothing where vectors alone are searched.

    What will be asked of it is read meanwhile, as far as it is not in memory.
    """
    if scope.mode == "vectors":
        return NO_ROWS
    matches = await reader.search_text(keywords, scope.condition, limit=scope.limit)
    await scope.cache.read_ahead(reader, matches.row_ids, with_vectors=scope.mode != "words")
    return matches


async def join_candidates(
    scope: SearchScope,
    reader: IndexReader,
    nearest: ScoredRows,
    matches: ScoredRows,
    vector: np.ndarray | None = None,
) -> SpaceCandidates:
    """What both searches found, with outlines; what full text alone found is compared to a `vector`."""
    rows = _unite(nearest.row_ids, matches.row_ids)
    similarities, word_scores = np.full((2, len(rows)), np.nan)
    word_scores[np.searchsorted(rows, matches.row_ids)] = matches.scores
    _set_similarities(similarities, rows, nearest)
    if vector is not None:
        unscored = rows[np.isnan(similarities)]
        _set_similarities(similarities, rows, await score_rows(scope.cache, reader, vector, unscored))
    chunks = await scope.cache.read_outlines(reader, rows)
    return SpaceCandidates(reader.space, rows, chunks, similarities, word_scores, query_vector=vector)


def _unite(*row_ids: np.ndarray) -> np.ndarray:
    """All rows, ascending and each once: by sorting, as few take a fifth of what `np.union1d` takes."""
    rows = np.sort(np.concatenate(row_ids))
    return rows[np.diff(rows, prepend=-1) != 0]


def _set_similarities(similarities: np.ndarray, rows: np.ndarray, scored: ScoredRows) -> None:
    """Write those of some of the rows, which are ascending."""
    finite = np.where(np.isfinite(scored.scores), scored.scores, -np.inf)
    similarities[np.searchsorted(rows, scored.row_ids)] = finite


async def read_hits(scope: SearchScope, hits: Sequence[Hit[RankedChunk]]) -> list[Hit[IndexedChunk]]:
    """The hits with their whole chunks, in their order."""
    parts = hits.list_parts() if isinstance(hits, Hits) else [hit[1:] for hit in hits]
    rows_by_space: dict[str, list[int]] = {}
    for _, explanation, row in parts:
        rows_by_space.setdefault(explanation.space, []).append(row)
    readers = [reader for reader in scope.readers if reader.space in rows_by_space]
    chunks_read = await gather_all(
        scope.cache.read_chunks(reader, rows_by_space[reader.space]) for reader in readers
    )
    chunks = {reader.space: of_space for reader, of_space in zip(readers, chunks_read, strict=True)}
    return [Hit(chunks[explanation.space][row], score, explanation, row) for score, explanation, row in parts]


async def score_rows(
    cache: RowCache, reader: IndexReader, vector: np.ndarray, rows: np.ndarray
) -> ScoredRows:
    """The cosine of some rows' vectors and a vector, in [-1, 1]; 0 where one of the two is all zero.

    Rows without a vector are left out.
    """
    if source := reader.memory.find_holder(rows):
        scored, others = source.take_matrix(rows)
    else:
        vectors = await cache.read_vectors(reader, rows.tolist())
        scored, others = np.array(list(vectors), np.int64), np.array(list(vectors.values()))
    if not len(scored):
        return NO_ROWS
    return ScoredRows(scored, compute_cosines(others, vector))


MAX_FEEDBACK_CHUNKS = 2  # chunks that the query is moved towards
_CODE_SOURCE_TYPES = ("code", "openapi")


async def apply_relevance_feedback(
    scope: SearchScope, candidates: tuple[SpaceCandidates, ...], hits: Hits, *, share: float
) -> tuple[SpaceCandidates, ...]:
    """Candidates whose prose is compared to the refined query; the same object where no prose was found.

    A question and its answer may call alike things by different words; the best prose found knows some of the
    answer's. The query's vector is moved towards it: pseudo-relevance feedback (Rocchio 1971, in Salton's
    "The SMART Retrieval System", chapter 14). It raises the figures of prose and lowers those of code
    (docs/decisions/retrieval.md), so code is left as it was found.

    `hits` are the fused candidates, best first; `share` is the weight of the best, against 1 of the query.
    """
    chunks = hits.candidates.chunks
    of_prose = chunks.mark_files(is_prose)
    if not of_prose.any():
        return candidates
    positions: list[int] = hits.order[of_prose[hits.order]].tolist()
    best_prose = [chunks.ids[at] for at in positions]
    refined = await gather_all(
        _refine_space(reader, scope, of_space, best_prose, share)
        for reader, of_space in zip(scope.readers, candidates, strict=True)
    )
    is_same = all(after is before for after, before in zip(refined, candidates, strict=True))
    return candidates if is_same else tuple(refined)


async def _refine_space(
    reader: IndexReader,
    scope: SearchScope,
    candidates: SpaceCandidates,
    best_prose: Sequence[str],
    share: float,
) -> SpaceCandidates:
    """`best_prose` are the ids of chunks of all spaces, best first."""
    query_vector = candidates.query_vector
    if query_vector is None:
        return candidates
    rows = dict(zip(candidates.chunks.ids, candidates.rows.tolist(), strict=True))
    best_rows = list(islice((rows[id_] for id_ in best_prose if id_ in rows), MAX_FEEDBACK_CHUNKS))
    best_vectors = await scope.cache.read_vectors(reader, best_rows) if best_rows else {}
    if not best_vectors:
        return candidates
    shift = share * np.mean(list(best_vectors.values()), axis=0)
    vector = to_unit_length(query_vector + shift, fallback=query_vector)
    prose_alone = scope.condition & ~one_of("source_type", _CODE_SOURCE_TYPES)
    nearest = await reader.search_vector(vector, prose_alone, limit=scope.limit)
    of_prose = candidates.chunks.mark_files(is_prose)
    before, code = candidates.list_nearest(of_prose), candidates.list_nearest(~of_prose)
    found_rows = set(nearest.row_ids.tolist())
    lost = np.array([row for row in before.row_ids.tolist() if row not in found_rows], np.int64)
    prose = nearest.join(await score_rows(scope.cache, reader, vector, lost))
    similar = code.join(_rescale_scores(prose, reference=before))
    refined = await join_candidates(scope, reader, similar, candidates.keyword_matches)
    return replace(refined, query_vector=query_vector)


def is_prose(file: OutlineFile) -> bool:
    """Whether a file is text for people."""
    return file.source_type not in _CODE_SOURCE_TYPES


def _rescale_scores(scored: ScoredRows, *, reference: ScoredRows) -> ScoredRows:
    """Similarities such that the best is what it was: else all prose would come nearer than all code."""
    before, after = (np.fmax.reduce(rows.scores, initial=0.0) for rows in (reference, scored))
    if before <= 0 or after <= 0:
        return scored
    return ScoredRows(scored.row_ids, scored.scores * before / after)


ENDPOINT_BUDGET_S = 10.0  # a model on this machine may take longer, at its first question
RETRY_S = 60.0  # after so long a model that was missing is tried again
_THREADS = 4
_REQUESTS = 2  # to an endpoint at once, where one can have several questions
_MAX_BATCH = 32  # questions of a request
_FORMER_EMBEDDINGS = [
    EmbeddingSettings(model=model) for model in dict.fromkeys(chain.from_iterable(PROFILES.values()))
]
"""What another profile may have made, which answers until the present one has made all vectors."""

Result = TypeVar("Result")

EmbedText = Callable[[str], Awaitable[np.ndarray]]
"""The vector of a question; raises as `Embedder.embed_query`."""


class VectorUnavailable(Exception):
    """A text has no vector in a space; `str(error)` says why. Then full text answers alone."""


class UnreadText(VectorUnavailable):
    """The model of a space does not read most of a text; `vector` is what it makes of it nevertheless."""

    def __init__(self, vector: np.ndarray) -> None:
        super().__init__("the model does not read the script of the question")
        self.vector = vector


@dataclass(frozen=True, slots=True)
class _ConfiguredSpaces:
    embeddings: Mapping[str, EmbeddingSettings]  # by name of the space
    unrelated_similarities: Mapping[str, float]  # by name of the space: see `embedding.base.Space`
    problems: tuple[str, ...]  # why a model of the settings has no space
    read_at: float  # time.monotonic()
    has_former: bool = False  # whether those that other settings may have made are among them


_Waiting = tuple[str, asyncio.Future[np.ndarray]]
"""A question, and who waits for its vector."""


class QueryBatches:
    """Questions to one endpoint: those that come while requests are under way wait, and share the next one.

    A request costs a client and an endpoint far more than a question in it, and a question that comes alone
    waits for none. For one event loop.
    """

    def __init__(self, embedder: BatchEmbedder, pool: ThreadPoolExecutor) -> None:
        """Send nothing yet; requests wait for the endpoint in threads of `pool`."""
        self._embedder, self._pool = embedder, pool
        self._max_texts = min(_MAX_BATCH, embedder.max_queries)
        self._max_requests = _REQUESTS if self._max_texts > 1 else _THREADS
        self._waiting: deque[_Waiting] = deque()
        self._senders = set[asyncio.Task[None]]()

    async def embed(self, text: str) -> np.ndarray:
        """The vector of a question; raises as `Embedder.embed_query`."""
        vector: asyncio.Future[np.ndarray] = asyncio.get_running_loop().create_future()
        self._waiting.append((text, vector))
        if len(self._senders) < self._max_requests:
            self._senders.add(asyncio.create_task(self._send_all()))
        return await vector

    async def _send_all(self) -> None:
        """Send requests for as long as questions wait."""
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(self._max_texts, len(self._waiting)))]
                await self._send(
                    [waiting for waiting in batch if not waiting[1].done()]
                )  # else nobody waits any more
        finally:  # at once: a question that comes before the task counts as done would wait for nobody
            self._senders -= {asyncio.current_task()}

    async def _send(self, batch: Sequence[_Waiting]) -> None:
        if not batch:
            return
        texts, loop = list(dict.fromkeys(text for text, _ in batch)), asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._pool, self._embedder.embed_queries, texts)
        except ModelError as error:
            if len(texts) == 1:
                _fail(batch, error)
                return
            for waiting in batch:  # one of them may be what the endpoint refuses
                await self._send([waiting])
        except Exception as error:  # noqa: BLE001 - raised where somebody waits
            _fail(batch, error)
        else:
            vectors = dict(zip(texts, answers, strict=True))
            for text, vector in batch:
                if not vector.done():
                    vector.set_result(vectors[text])


def _fail(batch: Iterable[_Waiting], error: Exception) -> None:
    for _, vector in batch:
        if not vector.done():
            vector.set_exception(error)


class QueryEmbedder:
    """Embeds texts for the spaces of the configured models, which are opened when first needed."""

    def __init__(self, settings: Settings) -> None:
        self._embeddings = list(dict.fromkeys((*settings.list_embeddings(), settings.embedding)))
        self._spaces: _ConfiguredSpaces | None = None
        self._resolving = threading.Lock()
        self._opened: dict[str, tuple[EmbedText, float | None]] = {}  # with its budget, in seconds
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="query-embedding")

    def close(self) -> None:
        """Start no more embeddings; one that is running is not waited for."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def embed(self, text: str, *, space: str, dimensions: int) -> np.ndarray:
        """float32, shape (dimensions,), length 1; of what the model reads of the text.

        Raises:
            UnreadText: the model does not read most of the text.
            VectorUnavailable: no configured model makes the space, or its model cannot embed the text now.
        """
        try:
            embed, budget_s = self._opened.get(space) or await self._run_in_pool(self._open_embedder, space)
            read = text if text.isascii() else await self._run_in_pool(self._remove_unread, space, text)
            is_read = is_mostly_kept(read, text)
            vector = await asyncio.wait_for(embed(read if is_read else text), budget_s)
        except TimeoutError:
            problem = f"the embedding endpoint took more than {ENDPOINT_BUDGET_S:.0f} s"
            raise VectorUnavailable(problem) from None
        except (ConfigError, ModelError, EmbeddingUnavailable) as error:
            raise VectorUnavailable(str(error)) from error
        if vector.shape != (dimensions,):
            problem = f"the model made {vector.shape[0]} dimensions; the space {space!r} has {dimensions}"
            raise VectorUnavailable(problem)
        if not is_read:
            raise UnreadText(vector)
        return vector

    async def check(self, spaces: Mapping[str, int]) -> str | None:
        """Why queries cannot be embedded in every space (name -> dimensions) now; None if they can."""
        text = uuid.uuid4().hex  # in no cache
        try:
            await asyncio.gather(*(self.embed(text, space=name, dimensions=n) for name, n in spaces.items()))
        except VectorUnavailable as problem:
            return str(problem)
        return None

    def unrelated_similarity(self, space: str) -> float:
        """The similarity of texts that have nothing in common; 0 if no configured model makes the space."""
        return self._load_spaces(space).unrelated_similarities.get(space, 0.0)

    def _remove_unread(self, space: str, text: str) -> str:
        embedding = self._load_spaces(space).embeddings.get(space)
        return remove_unread(embedding, text) if embedding else text

    async def _run_in_pool(self, call: Callable[..., Result], *args: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *args)

    def _open_embedder(self, space: str) -> tuple[EmbedText, float | None]:
        spaces = self._load_spaces(space)
        embedding = spaces.embeddings.get(space)
        if embedding is None:
            raise VectorUnavailable(
                "; ".join(spaces.problems)
                or f"no embedding of knowledge.yaml makes the space {space!r}: "
                "set the model that made it, or run `knowledge refresh` to embed everything again"
            )
        if space not in self._opened:
            embedder, is_local = open_embedder(embedding), embedding.provider == "local"
            embed: EmbedText = partial(self._run_in_pool, embedder.embed_query)
            if isinstance(embedder, BatchEmbedder) and not is_local:
                embed = QueryBatches(embedder, self._pool).embed
            self._opened.setdefault(space, (embed, None if is_local else ENDPOINT_BUDGET_S))
        return self._opened[space]

    def _load_spaces(self, space: str) -> _ConfiguredSpaces:
        """The spaces of the settings, and where none of them is this one, those that may have been before."""
        with self._resolving:
            spaces = self._spaces
            if spaces is None or (spaces.problems and time.monotonic() > spaces.read_at + RETRY_S):
                spaces = _resolve_spaces(self._embeddings)
            if space not in spaces.embeddings and not spaces.has_former:
                former = chain.from_iterable(map(list_former_settings, self._embeddings))
                before = _resolve_spaces((*former, *_FORMER_EMBEDDINGS))
                spaces = replace(
                    spaces,
                    embeddings={**before.embeddings, **spaces.embeddings},
                    unrelated_similarities={**before.unrelated_similarities, **spaces.unrelated_similarities},
                    has_former=True,
                )
            self._spaces = spaces
            return spaces


def _resolve_spaces(configured: Iterable[EmbeddingSettings]) -> _ConfiguredSpaces:
    embeddings: dict[str, EmbeddingSettings] = {}
    unrelated: dict[str, float] = {}
    problems: dict[str, None] = {}
    for embedding in configured:
        try:
            space = resolve_space(embedding)
            embeddings.setdefault(space.name, embedding)
            unrelated[space.name] = space.baseline_score
        except (ConfigError, ModelError) as error:
            problems[str(error)] = None
    return _ConfiguredSpaces(embeddings, unrelated, tuple(problems), time.monotonic())


def compute_mean_vector(vectors: Sequence[np.ndarray]) -> np.ndarray:
    """The mean of vectors of length 1, float32, of length 1 again; the first where they cancel out."""
    if len(vectors) == 1:
        return vectors[0]
    return to_unit_length(np.mean(vectors, axis=0), fallback=vectors[0])


def to_unit_length(vector: np.ndarray, *, fallback: np.ndarray) -> np.ndarray:
    """The direction of a vector: float32, length 1; `fallback` for a vector that is all but zero."""
    length = float(np.linalg.norm(vector))
    return (vector / length).astype(np.float32) if length > 1e-6 else fallback
