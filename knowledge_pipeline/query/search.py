"""A search from the question to the response, in seven steps.

    step        from               to                 in
    understand  a question         SearchPlan         plan.py
    retrieve    each SubQuery      SpaceCandidates    retrieve.py
    fuse        SpaceCandidates    Hits               rank.py
    rank        Hits               RetrievalResult    rank.py, features.py; merged
    rerank      the best hits      RerankResult       rerank.py or extensions, where configured
    assemble    hits               SearchResults      assemble.py
    enrich      SearchResults      SearchResults      assemble.py

A question is one `SubQuery`, or several where the settings decompose it. Each is retrieved, fused and ranked
on its own, with a second look at what it found where the settings ask for one. A step that fails leaves the
response without its part, and the response says so in `degraded`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import CacheSettings, QuerySettings, Settings
from knowledge_pipeline.contract.describe import describe_unread_language
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.responses import GraphNode, GraphResponse, SearchResponse, SearchResult
from knowledge_pipeline.embedding.base import Usage
from knowledge_pipeline.embedding.query_embedder import QueryEmbedder
from knowledge_pipeline.embedding.word_vectors import WordVectors
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.llm.model_calls import ModelCall, UsageAccount, charge_to, current_account
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.answer_cache import AnswerCache, Stopwatch, reissue_response
from knowledge_pipeline.query.assemble import Enricher, assemble_best, build_response, to_result
from knowledge_pipeline.query.code_graph import CodePlace, find_used_types
from knowledge_pipeline.query.documents import ExampleFile, read_by_id, read_example, read_lines
from knowledge_pipeline.query.exact import find_exact
from knowledge_pipeline.query.features import TEXT_FEATURES, compute_text_features
from knowledge_pipeline.query.filters import compile_filter, replace_invalid_characters
from knowledge_pipeline.query.graph_queries import GraphRequest, query_graph
from knowledge_pipeline.query.hits import (
    Hit,
    Hits,
    IndexedChunk,
    RankedChunk,
    RowCache,
    SpaceCandidates,
)
from knowledge_pipeline.query.known_values import KnownValues
from knowledge_pipeline.query.open_release import Index, LiveIndex, OpenRelease
from knowledge_pipeline.query.plan import (
    ParsedQuery,
    PassageForm,
    QueryExpansion,
    SearchPlan,
    SearchQuestion,
    get_profile,
    parse_plain_text,
    plan_search,
    read_terms,
)
from knowledge_pipeline.query.question_language import detect_other_language
from knowledge_pipeline.query.rank import (
    CONFIDENT_RESULTS,
    MIN_READ,
    ConfidenceSignals,
    Ranking,
    boost_recent,
    estimate_confidence,
    fuse,
    load_model,
    measure_similarity,
    merge_hits,
)
from knowledge_pipeline.query.rerank import Reranker, RerankStep
from knowledge_pipeline.query.retrieve import (
    SearchScope,
    SubQuery,
    apply_relevance_feedback,
    find_corrections,
    find_joined_names,
    list_vector_problems,
    read_hits,
    retrieve,
)
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.search import SpaceUnreadable
from knowledge_pipeline.sync_facade import gather_all
from knowledge_pipeline.words import expand_identifiers

MAX_EXAMPLE_KEYWORDS = 200  # distinct ones: full-text search pays for each
MAX_CONCURRENT_QUERIES = 16  # sub-queries in the store: more of them only wait for each other


_LANGUAGE_MODEL_STEPS = frozenset({"hyde", "expansion", "decompose", "rerank"})

AdjustCandidates = Callable[
    [SearchScope, tuple[SpaceCandidates, ...]], Awaitable[tuple[SpaceCandidates, ...]]
]
"""Changes what the searches found before it is fused; called again for each second look."""


async def keep_candidates(
    _scope: SearchScope, candidates: tuple[SpaceCandidates, ...]
) -> tuple[SpaceCandidates, ...]:
    """Change nothing."""
    return candidates


class SearchExtension(Protocol):
    """What rewrites questions and reranks by a language model, where configured: `extensions.llm_steps`."""

    reranker: RerankStep | None

    async def expand(self, question: str, settings: QuerySettings, form: PassageForm) -> QueryExpansion:
        """What is searched for besides the question; what fails is named, and left out."""
        ...

    async def list_budget_problems(self, account: UsageAccount, *, is_refused: bool) -> dict[str, str]:
        """What an answer says of budgets, after a step was refused or not."""
        ...

    async def aclose(self) -> None:
        """Cancel what is running."""
        ...


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """What one sub-query found."""

    hits: Sequence[Hit[RankedChunk]]  # relevant ones, best first
    vector_problems: Mapping[str, str]  # space -> why it was searched by words alone
    corrections: Mapping[str, str]  # words that no document has -> those that were searched for
    signals: ConfidenceSignals | None  # None: an example, or no chunk was compared by its vector


class Selection(NamedTuple):
    """What is shown."""

    chunks: list[IndexedChunk]  # those of the results
    results: tuple[SearchResult, ...]
    problems: dict[str, str]  # step -> why it was left out


BuiltT = TypeVar("BuiltT")


def _record_embedding(
    record: Callable[[ModelCall], None], embedding: EmbeddingSettings, usage: Usage, seconds: float
) -> None:
    at, account = datetime.now(UTC), current_account.get()
    call = ModelCall(at, embedding.model, usage.requests, usage.tokens, usage.cost, seconds, account)
    record(replace(call, kind="embedding", provider=embedding.provider))


class Engine:
    """Answers from one store, or from the cache. Belongs to one event loop; end it with `aclose` there,
    or `close` anywhere. Every public method takes an `Access`; what it may see is decided inside the store.

    Reads the live release, or the `index` given. An `extension` does the steps that the core lacks, where
    the settings ask for any; a `cache` keeps responses. What a question's vectors cost is passed to `record`.
    """

    def __init__(
        self,
        settings: Settings,
        lake: Lake,
        *,
        index: Index | None = None,
        extension: SearchExtension | None = None,
        cache: AnswerCache | None = None,
        record: Callable[[ModelCall], None] = lambda call: None,
    ) -> None:
        self._settings, self._extension = settings.query, extension
        self._index = index or LiveIndex(lake)
        self._embedder = QueryEmbedder(settings, partial(_record_embedding, record))
        self._reranker = extension.reranker if extension else None
        if self._reranker is None and settings.query.rerank.model:
            self._reranker = Reranker(settings.query.rerank)
        self._enricher = Enricher(settings.query.max_related)
        self._cache = cache or AnswerCache(CacheSettings(ttl_minutes=0))
        self._rows, self._words, self._known = RowCache(), WordVectors(), KnownValues()
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_QUERIES)

    def close(self) -> None:
        """Free the threads; the engine answers nothing afterwards."""
        self._embedder.close()
        if self._reranker:
            self._reranker.close()

    async def aclose(self) -> None:
        """`close`, and cancel the calls of the language model, on the engine's event loop."""
        self.close()
        if self._extension:
            await self._extension.aclose()

    async def prewarm(self) -> None:
        """Read what ranking needs of the live release before a query has to wait for it.

        Raises `NotFound`: nothing is released yet; `SpaceUnreadable`: none can be read.
        """
        readers, _ = await (await self._index.open_release()).open_readable_readers()
        for reader in readers:
            await self._rows.load_outlines(reader)

    async def search(self, question: SearchQuestion, access: Access) -> SearchResponse:
        """The chunks that answer a question best, or that are like an example.

        Of equal contents only the first is returned. A list that is not `diverse` has nearly equal ones as
        well, and further chunks of a file count in full, as a reader of the whole list wants them. Examples
        and history are never diverse. What is like a file is of other files, by default of its source type.

        Raises:
            InvalidQuery: the question, its filters, type, mode or limit make no sense, or the path names
                several files.
            NotFound: there is no such file, or nothing is released yet.
        """
        watch, plan = Stopwatch(), None
        if question.text is None and question.path is None:
            raise InvalidQuery("nothing to be similar to: give a text or a path")
        is_verbatim = get_profile(question.type).is_example or question.is_exact
        terms = [] if is_verbatim else read_terms(question.text or "")
        if question.path is None and not terms:
            with watch.step("understand"):
                plan = plan_search(question, access, self._settings.depth)
        with watch.step("open"):
            open_release = await self._index.open_release()
            await open_release.open_readable_readers()
        if cached := self._cache.get(open_release.release, (question, access)):
            return reissue_response(cached, watch)
        notes: tuple[str, ...] = ()
        if plan is None:
            with watch.step("look_up"):
                judged = await self._known.judge_terms(open_release, access, terms, question.filters)
                file = await self._read_example(open_release, question, access) if question.path else None
            as_words, notes = judged
            plan = plan_search(question, access, self._settings.depth, file, as_words=as_words)
        with charge_to(access.account):
            run = self._run_exact if question.is_exact else self._run
            response = await run(plan, open_release, watch)
        if not response.results:
            notes += await self._known.describe_unknown(open_release, access, question.filters)
            notes += await self._explain_absence(plan, open_release)
        if access.only_tenant not in (None, access.tenant) and not access.everything:
            notes = (f"only what is public was searched: the caller is not of {access.only_tenant!r}", *notes)
        response = replace(response, notes=(*notes, *response.notes))
        self._cache.put(open_release.release, (question, access), response)
        return response

    async def _explain_absence(self, plan: SearchPlan, open_release: OpenRelease) -> tuple[str, ...]:
        """See `explain_absence`; nothing where an index cannot be read, which the response says."""
        from knowledge_pipeline.query.inventory import explain_absence  # most questions find something

        try:
            readers, _ = await open_release.open_readable_readers()

            async def finds(wider: SearchPlan) -> bool:
                scope = SearchScope(wider, readers, self._rows, self._embedder, Stopwatch())
                whole, *_ = _build_sub_queries(wider, QueryExpansion())
                return bool((await self._find_hits(whole, scope, keep_candidates))[0])

            return await explain_absence(plan, readers, finds)
        except SpaceUnreadable:
            return ()

    async def _read_example(
        self, opened: OpenRelease, question: SearchQuestion, access: Access
    ) -> ExampleFile:
        """See `read_example`; the error names the nearest paths."""
        path = question.path or ""
        try:
            readers = await opened.open_readers()  # the file may be in any of them
            return await read_example(readers, path, access, source=question.source)
        except NotFound as error:
            nearest = await self._known.suggest(opened, access, "paths", path)
            raise NotFound(f"{error}; the nearest: {', '.join(nearest)}" if nearest else str(error)) from None

    async def find_unranked(
        self, question: SearchQuestion, access: Access, *, adjust: AdjustCandidates = keep_candidates
    ) -> tuple[list[Hit[IndexedChunk]], ParsedQuery]:
        """The hits that a search hands to the ranker, best first by `fused`, and the question as understood.

        Raises:
            InvalidQuery: the question, its filters or type make no sense.
            NotFound: nothing is released yet.
        """
        plan = plan_search(question, access, self._settings.depth)
        readers = await (await self._index.open_release()).open_readers()
        scope = SearchScope(plan, readers, self._rows, self._embedder, Stopwatch())
        whole, *_ = _build_sub_queries(plan, QueryExpansion())
        hits, _ = await self._find_hits(whole, scope, adjust)
        return await read_hits(scope, hits), plan.query

    async def _run(self, plan: SearchPlan, open_release: OpenRelease, watch: Stopwatch) -> SearchResponse:
        """Steps 2 to 7: the results that answer a question best, and what the settings add to them."""
        expansion = await self._expand(plan, watch)
        sub_queries = _build_sub_queries(plan, expansion)
        while True:
            readers, unreadable = await open_release.open_readable_readers()
            self._rows.evict_other_files(readers)
            scope = SearchScope(plan, readers, self._rows, self._embedder, watch)
            try:
                retrieved, selection = await self._find_results(sub_queries, scope, open_release)
                break
            except SpaceUnreadable as error:
                await open_release.mark_unreadable(error)  # search the others again, while there are any
        problems = _list_problems(plan, open_release, unreadable, retrieved, expansion) | selection.problems
        enriched, graph_problem = await self._enricher.enrich(
            open_release,
            plan.access,
            selection.chunks,
            selection.results,
            watch,
            with_neighbours=plan.profile.enrich and self._settings.graph.enrich,
        )
        if graph_problem:
            problems["graph"] = graph_problem
        if self._extension:
            is_refused = bool(_LANGUAGE_MODEL_STEPS & problems.keys())
            problems |= await self._extension.list_budget_problems(plan.access.account, is_refused=is_refused)
        signals = retrieved[0].signals
        return build_response(
            open_release,
            enriched,
            watch,
            degraded=tuple(problems),
            explain=_explain(plan, expansion, retrieved, problems) if plan.question.explain else None,
            confidence=estimate_confidence(signals) if signals else None,
            notes=_list_notes(plan, scope),
        )

    async def _run_exact(
        self, plan: SearchPlan, open_release: OpenRelease, watch: Stopwatch
    ) -> SearchResponse:
        """What has the text of the question; nothing is ranked, and nothing is added."""
        while True:
            readers, unreadable = await open_release.open_readable_readers()
            self._rows.evict_other_files(readers)
            try:
                with watch.step("retrieve"):
                    async with self._slots:
                        results, notes = await find_exact(plan, readers, self._rows)
                break
            except SpaceUnreadable as error:
                await open_release.mark_unreadable(error)  # search the others again, while there are any
        problems = _list_problems(plan, open_release, unreadable, (), QueryExpansion())
        return build_response(open_release, results, watch, degraded=tuple(problems), notes=notes)

    async def _find_results(
        self, sub_queries: Sequence[SubQuery], scope: SearchScope, open_release: OpenRelease
    ) -> tuple[list[RetrievalResult], Selection]:
        """Steps 2 to 6. Raises `SpaceUnreadable`: a space cannot be read."""
        ranker = open_release.release.ranker
        retrieved = await gather_all(self._retrieve(sub_query, scope, ranker) for sub_query in sub_queries)
        return retrieved, await self._select(merge_hits(result.hits for result in retrieved), scope)

    async def _expand(self, plan: SearchPlan, watch: Stopwatch) -> QueryExpansion:
        """What a language model or rules add to the question; nothing to an example."""
        settings = self._settings
        if self._extension is None or plan.profile.is_example or not settings.rewrites_queries:
            return QueryExpansion()
        with watch.step("prepare"):
            if plan.question.mode == "words":  # a hypothetical answer has a vector alone
                settings = settings.model_copy(update={"hyde": False})
            form = "code" if plan.question.type == "code" else "prose"
            return await self._extension.expand(plan.query.text, settings, form)

    async def _retrieve(self, sub_query: SubQuery, scope: SearchScope, ranker: str | None) -> RetrievalResult:
        """Steps 2 to 4 for one sub-query."""
        plan, corrections, signals = scope.plan, dict[str, str](), None
        if not plan.profile.is_example:
            names = await find_joined_names(scope, sub_query.query)
            corrections = await find_corrections(scope, sub_query.query, self._words)
            sub_query = sub_query.correct(corrections).add_names(names)
        fused, candidates = await self._find_hits(sub_query, scope, keep_candidates)
        hits: Sequence[Hit[RankedChunk]] = fused
        if not plan.profile.is_example:
            with scope.watch.step("rank"):
                hits, texts = await self._rank(fused, sub_query, scope, ranker)
            if (similarity := measure_similarity(candidates)) is not None:
                nearest_words = texts[:CONFIDENT_RESULTS, TEXT_FEATURES.index("nearest_words")]
                signals = ConfidenceSignals(similarity, float(nearest_words.max(initial=0.0)))
        if plan.profile.recency_boost:
            hits = boost_recent(await read_hits(scope, hits), plan.profile.recency_boost)
        return RetrievalResult(hits, list_vector_problems(candidates), corrections, signals)

    async def _find_hits(
        self, sub_query: SubQuery, scope: SearchScope, adjust: AdjustCandidates
    ) -> tuple[Hits, tuple[SpaceCandidates, ...]]:
        """Steps 2 and 3 for one sub-query, the second look with them; and what was found at first."""
        settings, watch, profile = self._settings, scope.watch, scope.plan.profile
        fuse_all = partial(fuse, method=settings.fusion, vector_weight=settings.vector_weight)
        with watch.step("retrieve"):
            async with self._slots:
                candidates = await adjust(scope, await retrieve(scope, sub_query))
        with watch.step("fuse"):
            hits = fuse_all(candidates)
        if (share := settings.feedback) and not profile.is_example:
            with watch.step("refine"):
                async with self._slots:
                    moved = await apply_relevance_feedback(scope, candidates, hits, share=share)
                    refined = candidates if moved is candidates else await adjust(scope, moved)
                if refined is not candidates:  # else their order is the same
                    hits = fuse_all(refined)
        if settings.fusion == "following":  # others give scores that differ in meaning by question
            hits = hits.keep_relevant(max(profile.floor, settings.floor))
        return hits, candidates

    async def _rank(
        self, fused: Hits, sub_query: SubQuery, scope: SearchScope, ranker: str | None
    ) -> tuple[Hits, np.ndarray]:
        """Step 4: all by what is known of them, then the best by their texts as well.

        With the features of those texts, in the order of the hits.
        """
        plan, ranking = scope.plan, Ranking.build(fused, sub_query.query, load_model(ranker))
        best = await read_hits(scope, ranking.hits[: max(MIN_READ, plan.rerank_limit)])
        texts = compute_text_features([hit.chunk for hit in best], sub_query.query, self._words)
        hits = ranking.finish(texts, diverse=plan.diverse, explain=plan.question.explain)
        return hits, texts[ranking.list_read(hits, len(best))]

    async def _select(self, hits: Sequence[Hit[RankedChunk]], scope: SearchScope) -> Selection:
        """Steps 5 and 6: the best hits, reranked and assembled."""
        plan, problems = scope.plan, dict[str, str]()
        if self._reranker and self._reranker.is_enabled_for(plan.question.type):
            with scope.watch.step("rerank"):
                best = await read_hits(scope, hits[: plan.rerank_limit])
                hits, skip_reason = await self._reranker.rerank(plan.query.text, best)
            if skip_reason:
                problems["rerank"] = skip_reason
        with scope.watch.step("assemble"):
            return Selection(*await assemble_best(hits, scope), problems)

    async def get(self, id: str, access: Access) -> SearchResponse:
        """One chunk by its id, or all chunks of a document by "source:uri", in their order.

        Raises `NotFound`: there is none that the caller may see, or nothing is released yet.
        """
        watch = Stopwatch()
        with watch.step("open"):
            open_release = await self._index.open_release()
            readers = await open_release.open_readers()
        with watch.step("look_up"):
            chunks = await read_by_id(readers, id, access)
        results = tuple(to_result(chunk, 1.0) for chunk in chunks)
        enriched, _ = await self._enricher.enrich(open_release, access, chunks, results, watch)
        return build_response(open_release, enriched, watch)

    async def build_document(
        self, id: str, access: Access, build: Callable[[SearchResponse], BuiltT]
    ) -> tuple[SearchResponse, BuiltT]:
        """A document's response with its first chunk alone, and what `build` makes of all of its chunks.

        Where another process answers, its chunks stay there: hundreds take longer to hand over than to read.
        """
        response = await self.get(id, access)
        built = await asyncio.to_thread(build, response)
        return replace(response, results=response.results[:1]), built

    async def read_lines(
        self, places: Collection[tuple[str, str, int]], access: Access, filters: Filters
    ) -> SearchResponse:
        """The chunks that have some lines: source, path and line of each, in this order.

        Raises `NotFound`: nothing is released yet.
        """
        watch = Stopwatch()
        with watch.step("open"):
            open_release = await self._index.open_release()
            readers, _ = await open_release.open_readable_readers()
        with watch.step("look_up"):
            chunks = await read_lines(readers, places, compile_filter(access, filters))
        return build_response(open_release, tuple(to_result(chunk, 0.0) for chunk in chunks), watch)

    async def find_used_types(self, places: Collection[CodePlace], access: Access) -> list[GraphNode]:
        """See `code_graph.find_used_types`."""
        return await find_used_types(self._index, places, access)

    async def query_graph(self, request: GraphRequest, access: Access) -> GraphResponse:
        """See `graph_queries.query_graph`; the error names filters that nothing can meet."""
        try:
            return await query_graph(self._index, request, access)
        except NotFound as error:
            opened = await self._index.open_release()
            unknown = await self._known.describe_unknown(opened, access, request.filters)
            raise NotFound("; ".join([str(error), *unknown])) from None

    async def check_embedder(self) -> str | None:
        """Why queries cannot be embedded now; None if they can.

        Raises `NotFound`: nothing is released yet.
        """
        readers, _ = await (await self._index.open_release()).open_readable_readers()
        return await self._embedder.check({reader.space: reader.dimensions for reader in readers})

    async def check_reranker(self) -> str | None:
        """Why results cannot be reranked now; None if they can."""
        return await self._reranker.check() if self._reranker else None


def _build_sub_queries(plan: SearchPlan, expansion: QueryExpansion) -> list[SubQuery]:
    """The question as a whole, then its parts."""
    keywords = plan.query.words
    if plan.profile.is_example:
        keywords = " ".join(list(dict.fromkeys(keywords.split()))[:MAX_EXAMPLE_KEYWORDS])
    keywords = " ".join((keywords, *map(expand_identifiers, expansion.terms)))
    texts = (plan.query.text, expansion.hypothetical_passage)
    whole = SubQuery(plan.query, keywords, tuple(filter(None, texts)))
    others = (part for part in expansion.parts if part != plan.query.text)
    parts = [parse_plain_text(part) for part in others if replace_invalid_characters(part).strip()]
    return [whole, *(SubQuery(part, part.words, (part.text,)) for part in parts)]


def _list_problems(
    plan: SearchPlan,
    open_release: OpenRelease,
    unreadable: Mapping[str, SpaceUnreadable],
    retrieved: Sequence[RetrievalResult],
    expansion: QueryExpansion,
) -> dict[str, Any]:
    """Step -> why its part of the results is missing."""
    problems: dict[str, Any] = {}
    if unreadable:
        problems["index"] = {space: str(error) for space, error in unreadable.items()}
    for space, problem in (item for result in retrieved for item in result.vector_problems.items()):
        problems.setdefault("vector", {})[space] = problem
    problems |= expansion.problems
    for step, problem in open_release.missing.items():
        problems[step] = {**problems.get(step, {}), **problem} if step == "index" else problem
    if plan.question.mode in ("hybrid", "vectors") and (waiting := open_release.release.unembedded):
        problems["embedding"] = f"{waiting} of {open_release.release.rows} chunks have no vector yet"
    return problems


def _list_notes(plan: SearchPlan, scope: SearchScope) -> tuple[str, ...]:
    """What is withheld for its permissions, and that no model of the searched spaces reads the language."""
    notes = tuple(
        f"{source}: its permissions could not be read for longer than access.max_age allows: its documents "
        "are withheld until they are"
        for source in sorted(plan.access.outdated_sources)
    )
    if plan.profile.is_example or plan.question.mode == "words":
        return notes
    language = detect_other_language(plan.query.text)
    embedder, spaces = scope.embedder, [reader.space for reader in scope.readers]
    if language is None or not all(map(embedder.reads_only_english, spaces)):
        return notes
    return (
        *notes,
        describe_unread_language(language),
    )


def _explain(
    plan: SearchPlan,
    expansion: QueryExpansion,
    retrieved: Sequence[RetrievalResult],
    problems: Mapping[str, Any],
) -> dict[str, Any]:
    """How the question was understood, what was searched for besides it, and what is missing."""

    def keep_set(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if value}

    question = asdict(plan.query)
    del question["filters"]
    filters = [keep_set(asdict(restriction)) for restriction in plan.restrictions]
    generated = keep_set(
        {"hypothetical": expansion.hypothetical_passage, "terms": expansion.terms, "parts": expansion.parts}
    )
    explanation = {"question": question, "filters": [restriction for restriction in filters if restriction]}
    confidence = retrieved[0].signals._asdict() if retrieved[0].signals else None
    corrected = {word: near for result in retrieved for word, near in result.corrections.items()}
    added = keep_set({"corrected": corrected, "generated": generated, "confidence": confidence})
    return explanation | added | {"degraded": problems}
