"""Embeds questions for the spaces of an index, each with the model that made the space."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np

from knowledge_pipeline.config.embedding import PROFILES, EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding.base import BatchEmbedder, Usage, call_usage
from knowledge_pipeline.embedding.reading import is_mostly_kept, reads_only_english, remove_unread
from knowledge_pipeline.embedding.registry import list_former_settings, open_embedder, resolve_space
from knowledge_pipeline.errors import ConfigError, EmbeddingUnavailable, ModelError

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

RecordUsage = Callable[[EmbeddingSettings, Usage, float], None]
"""Notes what a question's vector consumed, and its share of the request's seconds, in the asker's context."""


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
    unrelated_similarities: Mapping[str, float]  # by name of the space: see `Space`
    problems: tuple[str, ...]  # why a model of the settings has no space
    read_at: float  # time.monotonic()
    has_former: bool = False  # whether those that other settings may have made are among them


_Waiting = tuple[str, asyncio.Future[np.ndarray], Context]
"""A question, who waits for its vector, and on whose account."""


class QueryBatches:
    """Questions to one endpoint: those that come while requests are under way wait, and share the next one.

    A request costs a client and an endpoint far more than a question in it, and a question that comes alone
    waits for none. For one event loop.
    """

    def __init__(
        self,
        embedder: BatchEmbedder,
        pool: ThreadPoolExecutor,
        record: Callable[[Usage, float], None] = lambda usage, seconds: None,
    ) -> None:
        """Send nothing yet; requests wait for the endpoint in threads of `pool`."""
        self._embedder, self._pool, self._record = embedder, pool, record
        self._max_texts = min(_MAX_BATCH, embedder.max_queries)
        self._max_requests = _REQUESTS if self._max_texts > 1 else _THREADS
        self._waiting: deque[_Waiting] = deque()
        self._senders = set[asyncio.Task[None]]()

    async def embed(self, text: str) -> np.ndarray:
        """The vector of a question; raises as `Embedder.embed_query`."""
        vector: asyncio.Future[np.ndarray] = asyncio.get_running_loop().create_future()
        self._waiting.append((text, vector, copy_context()))
        if len(self._senders) < self._max_requests:
            self._senders.add(asyncio.create_task(self._send_all()))
        return await vector

    async def _send_all(self) -> None:
        """Send requests for as long as questions wait."""
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(self._max_texts, len(self._waiting)))]
                # Nobody waits any more for what is done.
                await self._send([waiting for waiting in batch if not waiting[1].done()])
        finally:  # at once: a question that comes before the task counts as done would wait for nobody
            self._senders -= {asyncio.current_task()}

    async def _send(self, batch: Sequence[_Waiting]) -> None:
        if not batch:
            return
        texts, loop = list(dict.fromkeys(text for text, _, _ in batch)), asyncio.get_running_loop()
        started_s = time.monotonic()
        try:
            answers, usages = await loop.run_in_executor(self._pool, self._embed_queries, texts)
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
            for text, vector, _ in batch:
                if not vector.done():
                    vector.set_result(vectors[text])
            self._charge(batch, usages, time.monotonic() - started_s)

    def _embed_queries(self, texts: Sequence[str]) -> tuple[np.ndarray, list[Usage]]:
        """Their vectors, and what each request for them consumed. In a thread of the pool."""
        context, usages = copy_context(), list[Usage]()
        context.run(call_usage.set, usages)
        return context.run(self._embedder.embed_queries, texts), usages

    def _charge(self, batch: Sequence[_Waiting], usages: Sequence[Usage], seconds: float) -> None:
        """Note for each asker, also one that gave up meanwhile, a share by the length of the question."""
        tokens, cost = sum(usage.tokens for usage in usages), sum(usage.cost for usage in usages)
        chars = sum(len(text) or 1 for text, _, _ in batch)
        for text, _, context in batch if cost else ():
            share = (len(text) or 1) / chars
            context.run(self._record, Usage(1, round(share * tokens), 1, share * cost), share * seconds)


def _fail(batch: Iterable[_Waiting], error: Exception) -> None:
    for _, vector, _ in batch:
        if not vector.done():
            vector.set_exception(error)


class QueryEmbedder:
    """Embeds texts for the spaces of the configured models, which are opened when first needed."""

    def __init__(
        self, settings: Settings, record: RecordUsage = lambda embedding, usage, seconds: None
    ) -> None:
        """Nothing is opened yet; what endpoints with a price consume is passed to `record`."""
        self._record = record
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
            is_read = read is text or is_mostly_kept(read, text)
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

    def reads_only_english(self, space: str) -> bool:
        """Whether the configured model that makes the space is known to read no other language."""
        embedding = self._load_spaces(space).embeddings.get(space)
        return embedding is not None and reads_only_english(embedding)

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
                embed = QueryBatches(embedder, self._pool, partial(self._record, embedding)).embed
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
