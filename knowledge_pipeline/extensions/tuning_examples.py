"""What the ranking is learned from: questions that what is indexed answers by itself, and what each finds.

A pair is a question with its answers: from a docstring, a commit, a pull request, a ticket, or what people
judged. An example has the features of what was found for one question, and says which of it answers. Only
`mine_pairs` reads the store; the rest is pure.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, cast, get_args

import numpy as np

from knowledge_pipeline.chunking.code import extract_first_sentence, find_documentation
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.filters import SearchType, SourceType
from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion
from knowledge_pipeline.file_languages import DATA_LANGUAGES, PARSED_LANGUAGES, classify_file
from knowledge_pipeline.query.features import TEXT_FEATURES, compute_features
from knowledge_pipeline.query.hits import Hit, IndexedChunk, SpaceCandidates, to_outlines
from knowledge_pipeline.query.plan import ParsedQuery
from knowledge_pipeline.query.retrieve import SearchScope, join_candidates
from knowledge_pipeline.records import Mention, build_embedded_text, hash_strings
from knowledge_pipeline.store.federation import TermStatistics, split_terms
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.search import IndexReader, ScoredRow, ScoredRows
from knowledge_pipeline.syntax.grammars import GRAMMARS, choose_grammar
from knowledge_pipeline.syntax.outline import open_outline
from knowledge_pipeline.words import expand_identifiers

ANSWER = "answer"
MAX_HITS = 80  # of a question, best first: those below rise too rarely to learn from


@dataclass(frozen=True)
class View:
    """One way to judge what was found: each hit shows one place, and some places answer."""

    name: str  # "file" or "symbol"
    places: np.ndarray  # of each hit, a number; shape (hits,)
    gains: np.ndarray  # of each number; shape (places,)
    ideal: float  # discounted gain of the best possible list of ten


@dataclass(frozen=True)
class Example:
    """One question with its hits, in the order of their ids."""

    set: str
    group: str  # a repository, or a set of documents: what is left out at once
    question: str
    features: np.ndarray  # shape (hits, FEATURES and TEXT_FEATURES)
    files: np.ndarray  # number of each hit's document
    views: tuple[View, ...]


Judge = Callable[[IndexedChunk], Mapping[str, str]]
"""View -> the place that a chunk shows."""


def build_example(
    origin: tuple[str, str],
    hits: Sequence[Hit[IndexedChunk]],
    query: ParsedQuery,
    judge: Judge,
    gains: Mapping[str, Mapping[str, float]],
) -> Example:
    """One question of a set and group; `gains` has, for each view, what each place that answers is worth.

    The features of texts are 0, because the question was taken out of the text that answers.
    """
    by_content: dict[str, Hit[IndexedChunk]] = {}
    for hit in hits:  # of equal contents a list of results shows only the first
        by_content.setdefault(hit.chunk.content_hash, hit)
    hits = sorted(islice(by_content.values(), MAX_HITS), key=lambda hit: hit.chunk.id)
    chunks, fused = [hit.chunk for hit in hits], np.array([hit.explanation.fused for hit in hits])
    shown = list(map(judge, chunks))
    views = tuple(_build_view(name, [it[name] for it in shown], of_view) for name, of_view in gains.items())
    similarities = np.array([hit.explanation.vector_score for hit in hits], np.float64)
    features = compute_features(to_outlines(chunks), fused, similarities, query)
    texts = np.zeros((len(chunks), len(TEXT_FEATURES)))
    files = [f"{chunk.source}:{chunk.path}" for chunk in chunks]
    return Example(
        set=origin[0],
        group=origin[1],
        question=query.text,
        features=np.hstack([features, texts]),
        files=np.unique(files, return_inverse=True)[1],
        views=views,
    )


def _build_view(name: str, shown: Sequence[str], gains: Mapping[str, float]) -> View:
    places, numbers = np.unique(shown, return_inverse=True)
    best = sorted(gains.values(), reverse=True)[:10]
    ideal = sum(gain / np.log2(rank + 1) for rank, gain in enumerate(best, start=1))
    return View(name, numbers, np.array([gains.get(str(it), 0.0) for it in places]), float(ideal))


def judge_by_symbol(answers: Sequence[GoldenAnswer]) -> Judge:
    """A chunk shows its file, and the answer if it defines one of the symbols.

    An answer's path is within its source, or "source:uri".
    """
    paths = {answer.path for answer in answers}

    def judge(chunk: IndexedChunk) -> Mapping[str, str]:
        names = {*chunk.symbols, *(symbol.rpartition(".")[2] for symbol in chunk.symbols)}
        path = chunk.path if chunk.path in paths else f"{chunk.source}:{chunk.uri}"
        is_answer = any(answer.path == path and answer.symbol in {None, *names} for answer in answers)
        return {"file": path, "symbol": ANSWER if is_answer else chunk.id}

    return judge


PairKind = Literal["docstring", "commit", "pull_request", "ticket", "judgement"]
KINDS: tuple[PairKind, ...] = get_args(PairKind)
HELD_OUT_SHARE = 5  # one pair of so many, the newest, is kept for the verdict
MIN_WORDS, MAX_CHARS = 4, 200  # of a question

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pair:
    """One question with its answers, and where it is from."""

    kind: PairKind
    question: GoldenQuestion
    origin: str  # "source:uri" of the document that says it; of a judgement the query's id
    made_at: datetime | None = None  # None: unknown
    taken_out: str = ""  # of the answer's text, before it is scored: the docstring that the question is from

    @property
    def newest_first(self) -> tuple[float, str]:
        """Sorts by age; pairs of one age, or of none, are in an order that says nothing."""
        order = hash_strings(self.kind, self.question.text, self.origin)
        return -(self.made_at or _LONG_AGO).timestamp(), order


def is_question(text: str) -> bool:
    """Whether a text is long enough to ask something, and no longer than people ask."""
    return len(text.split()) >= MIN_WORDS and len(text) <= MAX_CHARS


def drop_ambiguous(pairs: Iterable[Pair]) -> list[Pair]:
    """Pairs whose question no other of the kind asks: a docstring that is copied tells nothing apart."""
    by_text: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_text[pair.question.text.casefold()].append(pair)
    return [same[0] for same in by_text.values() if len(same) == 1]


def select_newest(pairs: Iterable[Pair], *, limit: int) -> list[Pair]:
    """At most `limit` pairs of each kind, by kind, the newest first."""
    by_kind: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_kind[pair.kind].append(pair)
    ordered = (sorted(by_kind[kind], key=lambda pair: pair.newest_first) for kind in KINDS if by_kind[kind])
    return [pair for of_kind in ordered for pair in of_kind[:limit]]


def split_newest(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """The pairs to learn from, and the newest fifth of each kind, which is held out."""
    learned: list[Pair] = []
    held_out: list[Pair] = []
    for kind in KINDS:
        of_kind = sorted((pair for pair in pairs if pair.kind == kind), key=lambda pair: pair.newest_first)
        count = len(of_kind) // HELD_OUT_SHARE
        held_out += of_kind[:count]
        learned += of_kind[count:]
    return learned, held_out


EmbedText = Callable[[str, str], np.ndarray]
"""The vector of a text in a space: float32, shape (dimensions,), length 1."""


@dataclass(frozen=True)
class DocstringMask:
    """Scores the chunks of a pair's answer without the docstring that asks. For one question.

    A chunk is indexed with its docstring: in its text, maybe in the header of what continues it, and in the
    words that the chunks of a small file share. Before the hits are fused, each chunk of the answer's file
    that holds any of that is scored as if it were indexed without: its text is embedded anew, and its BM25
    score is that of the search, times what BM25 gives its words without the docstring over what it gives all
    of them.
    """

    pair: Pair
    words: str  # of the question, as full text searches for them
    statistics: Mapping[str, TermStatistics]  # by space
    embed: EmbedText

    async def __call__(
        self, scope: SearchScope, candidates: tuple[SpaceCandidates, ...]
    ) -> tuple[SpaceCandidates, ...]:
        """The candidates as if the docstring were not indexed; what only it has found is gone."""
        pairs = zip(scope.readers, candidates, strict=True)
        return tuple([await self._mask_space(reader, of_space, scope) for reader, of_space in pairs])

    async def _mask_space(
        self, reader: IndexReader, candidates: SpaceCandidates, scope: SearchScope
    ) -> SpaceCandidates:
        origin = self.pair.origin
        is_answer = candidates.chunks.mark_files(lambda file: f"{file.source}:{file.path}" == origin)
        of_answer = candidates.rows[is_answer].tolist()
        affected = await scope.cache.read_chunks(reader, of_answer)
        words = await reader.take_rows(of_answer, ["words"])
        by_words = {
            row: self._scale_words(reader.space, words[row]["words"], self._list_parts(chunk))
            for row, chunk in affected.items()
        }
        masked_matches = [
            row._replace(score=row.score * by_words.get(row.row_id, 1.0))
            for row in candidates.keyword_matches
            if by_words.get(row.row_id, 1.0) > 0
        ]
        matched = _keep_best(masked_matches, by_words, scope.plan.candidate_limit)
        vector = candidates.query_vector
        similarities = {} if vector is None else self._compare(reader.space, affected, vector)
        compared = [row._replace(score=similarities.get(row.row_id, row.score)) for row in candidates.nearest]
        near = {row.row_id for row in _keep_best(compared, similarities, scope.plan.candidate_limit)}
        kept = near | {row.row_id for row in matched}
        nearest = ScoredRows.of(row for row in compared if row.row_id in kept)
        masked = await join_candidates(scope, reader, nearest, ScoredRows.of(matched))
        return replace(masked, query_vector=vector, vector_problem=candidates.vector_problem)

    def _list_parts(self, chunk: IndexedChunk) -> list[str]:
        """The docstring, and lines of a chunk's header that repeat the beginning of it."""
        lines = (line.removesuffix("…") for line in chunk.header.splitlines()[1:])
        repeated = [line for line in lines if len(line.split()) > 1 and line in self.pair.taken_out]
        return [self.pair.taken_out, *repeated]

    def _scale_words(self, space: str, words: str, parts: Iterable[str]) -> float:
        """What a match by these words is worth without some parts of them, as a share."""
        masked = _remove(words, map(expand_identifiers, parts))
        if masked == words:
            return 1.0
        question = frozenset(split_terms(self.words))
        before = self.statistics[space].score(question, words)
        return self.statistics[space].score(question, masked) / before if before > 0 else 0.0

    def _compare(
        self, space: str, chunks: Mapping[int, IndexedChunk], vector: np.ndarray
    ) -> dict[int, float]:
        """The similarity of each chunk that holds the docstring, without it."""
        compared: dict[int, float] = {}
        for row, chunk in chunks.items():
            parts = self._list_parts(chunk)
            header, text = _remove(chunk.header, parts), _remove(chunk.text, parts)
            if (header, text) != (chunk.header, chunk.text):
                length = float(np.linalg.norm(vector))
                masked = self.embed(build_embedded_text(header, text), space)
                compared[row] = float(masked @ vector) / length if length > 0 else 0.0
        return compared


def _remove(text: str, parts: Iterable[str]) -> str:
    for part in parts:
        text = text.replace(part, "")
    return text


def _keep_best(scored: Sequence[ScoredRow], masked: Iterable[int], limit: int) -> list[ScoredRow]:
    """The best first; masked rows only where a search of so many results would have found them."""
    masked = frozenset(masked)
    ranked = sorted(scored, key=lambda row: (-row.score, row.row_id))
    return [row for rank, row in enumerate(ranked) if row.row_id not in masked or rank < limit]


MAX_FILES = 5  # that a change may touch besides tests: a wider one answers no question
File = tuple[str, str]
"""Source and path of a file of code."""

_KINDS: Mapping[SourceType, PairKind] = {
    "git_history": "commit",
    "github_pr": "pull_request",
    "github_issues": "ticket",
    "jira": "ticket",
}
TYPES = tuple(_KINDS)
"""Source types whose documents are changes, or say why something was changed."""

_DONE_BY = ("closes", "implements")  # how a change names the issue of a repository that it settles
_PREFIX = re.compile(r"^(?:[a-z]+(?:\([^()]*\))?!?:|\[[^\[\]]*\]|[A-Z][A-Z0-9_]+-\d+:?)\s+")
_NUMBER = re.compile(r"(?<!\s)\s*\(?[#!]\d+\)?")
_ROUTINE = re.compile(
    r"^(?:merge|revert|bump|release|version|prepare|update (?:the )?(?:changelog|depend|lock|copyright)"
    r"|upgrade|pin |drop support|fix typos?|typos?|reformat|lint|black|v?\d+\.\d+)\b"
    r"|\[bot\]|pre-commit|dependabot|requirements",
    re.I,
)


@dataclass(frozen=True, slots=True)
class TracedDocument:
    """A commit, a pull request or a ticket, with what it changed and mentions."""

    type: SourceType
    source: str
    uri: str
    title: str
    made_at: datetime | None
    names: tuple[str, ...]
    mentions: tuple[Mention, ...]
    is_merge: bool = False

    @property
    def kind(self) -> PairKind:
        """The kind of the pairs that it gives."""
        return _KINDS[self.type]

    def find_changed_files(self, files: Mapping[str, Sequence[File]]) -> list[File]:
        """The indexed files of code that it changed; `files` has them by their names."""
        changed = (mention.name for mention in self.mentions if mention.kind == "changes")
        return sorted({file for name in changed for file in files.get(name, ())})


def iter_history_pairs(
    documents: Iterable[TracedDocument], files: Mapping[str, Sequence[File]]
) -> Iterator[Pair]:
    """Pairs of changes with the files that they changed, and of tickets with those of their changes.

    Args:
        files: name of a file of code, as mentions spell it -> where it is indexed.
    """
    documents = list(documents)
    changes = [document for document in documents if document.kind != "ticket"]
    for change in changes:
        if not change.is_merge:
            yield from _pair(change, change.find_changed_files(files))
    tickets = {name: it for it in documents if it.kind == "ticket" for name in it.names}
    changed_for: defaultdict[str, set[File]] = defaultdict(set)
    for change in changes:
        for mention in change.mentions:
            ticket = tickets.get(mention.name)
            if ticket and (ticket.type == "jira" or mention.kind in _DONE_BY):
                changed_for[f"{ticket.source}:{ticket.uri}"].update(change.find_changed_files(files))
    for ticket in dict.fromkeys(tickets.values()):
        yield from _pair(ticket, sorted(changed_for[f"{ticket.source}:{ticket.uri}"]))


def date_files(
    documents: Iterable[TracedDocument], files: Mapping[str, Sequence[File]]
) -> dict[File, datetime]:
    """When each file was last changed by a commit or a pull request, as far as they are indexed."""
    dates: dict[File, datetime] = {}
    for document in documents:
        for file in document.find_changed_files(files) if document.made_at else ():
            if document.made_at and (file not in dates or dates[file] < document.made_at):
                dates[file] = document.made_at
    return dates


def clean_title(title: str) -> str:
    """A title as a question: without its prefix, its ticket's key and its numbers."""
    shorter = title.strip()
    while (match := _PREFIX.match(shorter)) is not None:
        shorter = shorter[match.end() :]
    return _NUMBER.sub("", shorter).strip().rstrip(".")


def _pair(document: TracedDocument, changed: Sequence[File]) -> Iterator[Pair]:
    """The title, and the changed files of one source that are no tests; none if it says little."""
    text = clean_title(document.title)
    answers = [file for file in changed if classify_file(file[1]) == "source"]
    sources = {source for source, _ in answers}
    if len(sources) != 1 or len(answers) > MAX_FILES or not is_question(text) or _ROUTINE.search(text):
        return
    places = tuple(GoldenAnswer(path) for _, path in answers)
    question = GoldenQuestion(text, places, "code", {"sources": tuple(sources)})
    yield Pair(document.kind, question, f"{document.source}:{document.uri}", document.made_at)


def iter_docstring_pairs(
    text: str, *, source: str, path: str, language: str | None, made_at: datetime | None = None
) -> Iterator[Pair]:
    """A pair for each definition of a file whose documentation begins with a sentence that is a question."""
    if language not in GRAMMARS:
        return
    outline = open_outline(text, choose_grammar(language, path))
    for definition in outline.definitions if outline else ():
        documentation = find_documentation(outline, definition) if outline else ""
        sentence = extract_first_sentence(documentation, definition.name)
        if is_question(sentence):
            answer = GoldenAnswer(path, definition.symbol)
            question = GoldenQuestion(sentence, (answer,), "code", {"sources": (source,)})
            yield Pair("docstring", question, f"{source}:{path}", made_at, documentation)


_WORTH = {"useful": 2, "clicked": 1, "useless": -2}
_MAX_RELEVANCE = 10


def iter_judgement_pairs(
    queries: Iterable[Mapping[str, Any]], feedback: Iterable[Mapping[str, Any]], documents: Mapping[str, str]
) -> Iterator[Pair]:
    """A pair for each text and search type, with the documents that more readers found useful than useless.

    Args:
        queries: rows with `query_id`, `text` and `type`.
        feedback: rows with `query_id`, `result_id`, `judgement` and `at`.
        documents: id of a chunk that is still indexed -> "source:uri" of its document.
    """
    question_by_id = {row["query_id"]: (row["text"], row["type"]) for row in queries}
    worth: defaultdict[tuple[str, str], defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    newest: dict[tuple[str, str], tuple[datetime, str]] = {}
    for row in feedback:
        key, document = question_by_id.get(row["query_id"]), documents.get(row["result_id"])
        if key and document and key[1] in get_args(SearchType) and key[1] != "similar":
            worth[key][document] += _WORTH[row["judgement"]]
            newest[key] = max(newest.get(key, (row["at"], "")), (row["at"], row["query_id"]))
    for (text, type_), by_document in worth.items():
        useful = [(document, value) for document, value in sorted(by_document.items()) if value > 0]
        places = [GoldenAnswer(document, relevance=min(value, _MAX_RELEVANCE)) for document, value in useful]
        if places and text.strip():
            question = GoldenQuestion(text, tuple(places), cast("SearchType", type_))
            made_at, query_id = newest[text, type_]
            yield Pair("judgement", question, query_id, made_at)


MAX_PAIRS = 300  # of a kind, the newest: each is asked once, in some 20 to 90 ms
_FILES_PER_READ = 64
_LIVE = is_null("skipped") & eq("archived", False)


def mine_pairs(lake: Lake, settings: Settings, *, limit: int = MAX_PAIRS) -> list[Pair]:
    """At most `limit` pairs of each kind, in an order that follows from what is stored alone."""
    files = _load_file_names(lake, settings)
    documents = [it for source in settings.sources for it in _load_traced_documents(lake, source)]
    dates = date_files(documents, files)
    history = select_newest(drop_ambiguous(iter_history_pairs(documents, files)), limit=limit)
    code = [source for source in settings.sources if source.type == "code"]
    docstrings = drop_ambiguous(_iter_docstring_pairs(lake, code, dates, limit=2 * limit))
    return select_newest([*docstrings, *history, *_load_judgement_pairs(lake, settings)], limit=limit)


def _load_file_names(lake: Lake, settings: Settings) -> Mapping[str, Sequence[File]]:
    """Where each file of a programming language is indexed, by its names."""
    files: defaultdict[str, set[File]] = defaultdict(set)
    for source in settings.sources:
        if source.type == "code":
            programs = _LIVE & one_of("language", sorted(PARSED_LANGUAGES - DATA_LANGUAGES))
            rows = lake.chunks(source.type, source.id).read_rows(["path", "metadata"], programs).to_pylist()
            for row in rows:
                for name in json.loads(row["metadata"]).get("names", ()):
                    files[name].add((source.id, row["path"]))
    return {name: sorted(locations) for name, locations in files.items()}


def _load_traced_documents(lake: Lake, source: SourceConfig) -> Iterator[TracedDocument]:
    if source.type not in TYPES:
        return
    columns = ["uri", "title", "last_modified", "metadata"]
    by_uri: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in lake.chunks(source.type, source.id).read_rows(columns, _LIVE).to_pylist():
        by_uri[row["uri"]].append(row | {"metadata": json.loads(row["metadata"])})
    for uri, rows in sorted(by_uri.items()):
        first = next((row for row in rows if row["metadata"].get("leads")), rows[0])
        mentions = (Mention(**mention) for row in rows for mention in row["metadata"].get("mentions", ()))
        yield TracedDocument(
            type=source.type,
            source=source.id,
            uri=uri,
            title=first["title"] or "",
            made_at=first["last_modified"],
            names=tuple(first["metadata"].get("names", ())),
            mentions=tuple(dict.fromkeys(mentions)),
            is_merge=len(first["metadata"].get("parents", ())) > 1,
        )


def _iter_docstring_pairs(
    lake: Lake, sources: Sequence[SourceConfig], dates: Mapping[File, datetime], *, limit: int
) -> Iterator[Pair]:
    """About `limit` pairs, from files of all sources in an order that says nothing."""
    count = 0
    for source, paths in _iter_file_portions(lake, sources):
        for path, text, language, stored in _read_files(lake, source, paths):
            made_at = dates.get((source.id, path))
            pairs = iter_docstring_pairs(
                text, source=source.id, path=path, language=language, made_at=made_at
            )
            kept = [pair for pair in pairs if pair.taken_out in stored]  # as indexed, secrets left out
            count += len(kept)
            yield from kept
        if count >= limit:
            return


def _iter_file_portions(
    lake: Lake, sources: Iterable[SourceConfig]
) -> Iterator[tuple[SourceConfig, list[str]]]:
    """Uris of files of code that are no tests, some at a time."""
    by_id = {source.id: source for source in sources}
    files = sorted(
        (hash_strings(source.id, row["uri"]), source.id, row["uri"])
        for source in by_id.values()
        for row in lake.snapshot(source.type, source.id)
        .read_rows(["uri", "path"], is_null("skipped") & is_null("archived_at"))
        .to_pylist()
        if classify_file(row["path"]) == "source"
    )
    for start in range(0, len(files), _FILES_PER_READ):
        portion: defaultdict[str, list[str]] = defaultdict(list)
        for _, source, uri in files[start : start + _FILES_PER_READ]:
            portion[source].append(uri)
        yield from ((by_id[source], uris) for source, uris in portion.items())


def _read_files(
    lake: Lake, source: SourceConfig, uris: list[str]
) -> Iterator[tuple[str, str, str | None, str]]:
    chosen = one_of("uri", uris)
    stored: defaultdict[str, list[str]] = defaultdict(list)
    chunks = lake.chunks(source.type, source.id).read_rows(["id", "uri", "text"], chosen & _LIVE)
    for row in sorted(chunks.to_pylist(), key=lambda row: row["id"]):
        stored[row["uri"]].append(row["text"])
    columns = ["uri", "path", "text", "language"]
    rows = lake.snapshot(source.type, source.id).read_rows(columns, chosen).to_pylist()
    for row in sorted(rows, key=lambda row: row["path"]):
        yield row["path"], row["text"], row["language"], "\0".join(stored[row["uri"]])


def _load_judgement_pairs(lake: Lake, settings: Settings) -> list[Pair]:
    feedback = lake.log_table("feedback").read_rows(["query_id", "result_id", "judgement", "at"]).to_pylist()
    if not feedback:
        return []
    queries = lake.log_table("queries").read_rows(["query_id", "text", "type"])
    judged = sorted({row["result_id"] for row in feedback})
    documents: dict[str, str] = {}
    for source in settings.sources:
        table = lake.chunks(source.type, source.id)
        for rows in table.iter_rows_by_values("id", judged, ["id", "uri"]):
            documents |= {row["id"]: f"{source.id}:{row['uri']}" for row in rows.to_pylist()}
    return list(iter_judgement_pairs(queries.to_pylist(), feedback, documents))
