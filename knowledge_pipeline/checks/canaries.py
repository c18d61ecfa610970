"""The check that what a release makes live is found: by words, by vector, by its readers and by nobody else.

It reads through what queries read through: their compiled filters, their access, their readers of the index.
The other blocking checks compare tables; this one notices a full-text index that lacks rows, a column of a
filter or of the access that is wrong, a vector that no search reaches. A chunk fails only where a search for
its own words, among itself alone, does not find it: a sentence that many chunks share costs a second search
and never makes a false alarm.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import pyarrow.compute as pc

from knowledge_pipeline.checks.integrity import (
    CheckResult,
    UnreleasedTable,
    build_sample,
    list_changed_sources,
    list_unreleased_tables,
)
from knowledge_pipeline.config.settings import Settings, compute_settings_digests
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.contract.filters import Filters, SourceType
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter, replace_invalid_characters
from knowledge_pipeline.query.plan import remove_stopwords
from knowledge_pipeline.store.access import AUDIENCE_PREFIX
from knowledge_pipeline.store.filters import Filter, eq, is_null, one_of, starts_with
from knowledge_pipeline.store.fragments import read_addresses
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_internals import ADDRESS
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.reconcile import find_new_rows
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline.store.search import IndexReader, Row, ScoredRow, SpaceUnreadable, open_index
from knowledge_pipeline.store.vectors import VectorMemory
from knowledge_pipeline.words import expand_identifiers

MAX_SENTENCES = 3  # of one chunk, the rarest first
MAX_WORDS = 12  # of a sentence, the rarest
_MAX_TEXT_CHARS = 8_000
_MAX_WORD_BYTES = 40  # the full-text index drops very long ones
_BOUNDARY = re.compile(r"[\n.!?;]+")


def choose_sentences(text: str, others: Iterable[str]) -> Sequence[str]:
    """At most `MAX_SENTENCES` that few chunks share, each as the words that full text is asked for.

    Args:
        text: of the chunk.
        others: texts of other chunks; a word of many of them tells little.

    Returns:
        None of a text without words.
    """
    uses = Counter(word for other in others for word in _list_words(other))
    sentences = {
        " ".join(_pick_rarest(piece, uses)): None for piece in _BOUNDARY.split(text[:_MAX_TEXT_CHARS])
    }
    sentences.pop("", None)
    rarity = {words: sum(1 / (1 + uses[word]) for word in words.split()) for words in sentences}
    return sorted(sentences, key=lambda words: (-rarity[words], words))[:MAX_SENTENCES]


def _pick_rarest(sentence: str, uses: Counter[str]) -> list[str]:
    """Words of a sentence in their order, without the most common ones where there are many."""
    words = _list_words(sentence)
    kept = set(sorted(words, key=lambda word: (uses[word], -len(word), word))[:MAX_WORDS])
    return [word for word in words if word in kept]


def _list_words(text: str) -> list[str]:
    """Distinct words as a question has them, in their order."""
    if not text.strip():
        return []
    plain = replace_invalid_characters(text[:_MAX_TEXT_CHARS])
    words = remove_stopwords(expand_identifiers(plain)).casefold().split()
    searchable = (word for word in words if word.isalnum() and 1 < len(word.encode()) <= _MAX_WORD_BYTES)
    return list(dict.fromkeys(searchable))


MAX_CHANGED_SOURCES = 16  # of a type that are asked for one of their new rows, and for one of any age
MAX_OTHER_SOURCES = 2  # of a type that are asked for a row; each release asks the next ones
MAX_RESULTS = 50  # of a source's, among which the chunk has to be
_CANDIDATES = 8  # rows that are read to choose one, and to see which words are common
_COLUMNS = ("id", "uri", "text", "content_hash", "visibility", "tenant", "principals", "unembedded")
_TURNS = "0123456789abcdef"  # first letters of chunk ids: each release looks at other ones


@dataclass(frozen=True, slots=True)
class _Canary:
    """A chunk that has to be found."""

    source: SourceConfig
    reader: IndexReader
    row: Row
    others: Sequence[Row]  # of its source, to tell which words are common

    @property
    def own_reader(self) -> IndexReader:
        """One that looks for the chunk where it lies."""
        return self.reader.narrow_to_row(self.row["_rowid"])

    @property
    def itself(self) -> Filter:
        """The chunk alone, by its place in this version of the table: no column is read to find it."""
        return eq("_rowid", self.row["_rowid"])


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why a canary is not as it has to be."""

    canary: _Canary
    what: str  # "is not found by its words 'a b' by a reader of tenant 'x'"
    searched: str

    @property
    def message(self) -> str:
        source, row = self.canary.source.id, self.canary.row
        return (
            f"source {source!r}: chunk {row['id']} of {row['uri']!r} {self.what}: "
            f"run `knowledge reindex --source {source}`"
        )

    def to_row(self) -> dict[str, Any]:
        row = self.canary.row
        columns = {"source": self.canary.source.id, "space": self.canary.reader.space, "uri": row["uri"]}
        return columns | {"chunk_id": row["id"], "searched": self.searched, "wrong": self.what}


def check_canaries(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check that a sentence of each changed source, and of some others, is found by its readers alone."""
    tables = {it.table.name: it for it in list_unreleased_tables(lake)}
    if not tables:
        return CheckResult(True, "nothing was written since the live release", figures={"sources": 0})
    started = time.perf_counter()
    try:
        with ThreadPoolExecutor(1) as thread:  # the caller's may run an event loop, as a notebook does
            examine = partial(_examine_sources, lake, settings, source_type, tables)
            counts, problems = thread.submit(lambda: asyncio.run(examine())).result()
    except SpaceUnreadable as error:
        return CheckResult(False, str(error), build_sample([{"space": error.space, "wrong": str(error)}]))
    figures = {name: counts[name] for name in ("sources", "chunks", "by_words", "by_vector", "withheld")}
    figures |= {"not_found": len(problems), "seconds": round(time.perf_counter() - started, 3)}
    if not problems:
        message = f"a sentence of each of {counts['sources']} sources is found by its readers"
        return CheckResult(True, message, figures=figures)
    message = problems[0].message + (f" ({len(problems) - 1} more chunks)" if problems[1:] else "")
    sources = tuple(dict.fromkeys(problem.canary.source.id for problem in problems))
    sample = build_sample(problem.to_row() for problem in problems)
    return CheckResult(False, message, sample, figures, sources=sources)


async def _examine_sources(
    lake: Lake, settings: Settings, source_type: SourceType, tables: Mapping[str, UnreleasedTable]
) -> tuple[Counter[str], list[_Problem]]:
    """What was examined, counted, and what is wrong."""
    live = find_live_release(lake)
    turn = live.release if live else 0
    changed = set(list_changed_sources(lake, source_type))
    mine = [source for source in settings.sources if source.type == source_type]
    new = take_turn([source for source in mine if source.id in changed], MAX_CHANGED_SOURCES, turn)
    others = take_turn([source for source in mine if source.id not in changed], MAX_OTHER_SOURCES, turn)
    spaces = {model: resolve_space(model).name for model in map(settings.resolve_embedding, (*new, *others))}
    readers = {
        space: await _open_reader(lake, space, tables[space].table.version)
        for space in set(spaces.values()) & tables.keys()
    }
    counts, problems = Counter[str](), list[_Problem]()
    for source in (*new, *others):
        space = spaces[settings.resolve_embedding(source)]
        if space not in readers:
            continue
        unreleased = tables[space] if source in new else None
        canaries = await _choose_canaries(readers[space], source, turn, unreleased)
        counts["sources"] += bool(canaries)
        for canary in canaries:
            counts["chunks"] += 1
            if problem := await _find_problem(lake, settings, canary, counts):
                problems.append(problem)
    return counts, problems


async def _open_reader(lake: Lake, space: str, version: int) -> IndexReader:
    """A reader that keeps neither vectors nor conditions for later: each is asked for once or twice."""
    reader = await open_index(lake.root, space, version)
    nothing = VectorMemory(reader.dataset, reader.dimensions, max_bytes=0, max_rows=0, opens_files=False)
    return replace(reader, memory=nothing)


def take_turn(sources: Sequence[SourceConfig], count: int, turn: int) -> list[SourceConfig]:
    """At most so many; each turn those that follow the ones of the turn before."""
    start = turn * count % len(sources) if len(sources) > count else 0
    return [*sources[start:], *sources[:start]][:count]


async def _choose_canaries(
    reader: IndexReader, source: SourceConfig, turn: int, unreleased: UnreleasedTable | None
) -> list[_Canary]:
    """A row of any age, and before it one that is new, if there are rows."""
    letter, candidates = _TURNS[turn % len(_TURNS)], list[Sequence[Row]]()
    if unreleased:
        candidates.append(await _find_new_candidates(reader, source, letter, unreleased))
    mine, chosen = eq("source", source.id) & eq("archived", False), dict[str, _Canary]()
    wanted = mine & starts_with("id", letter)
    candidates.append(await _find_candidates(reader, wanted) or await _find_candidates(reader, mine))
    for group in candidates:
        rows = sorted(group, key=lambda row: row["id"])
        readable = [row for row in rows if source.access.visibility != "from_source" or row["principals"]]
        if readable:
            row = readable[turn % len(readable)]
            others = [other for other in rows if other is not row]
            chosen.setdefault(row["id"], _Canary(source, reader, row, others))
    return list(chosen.values())


async def _find_new_candidates(
    reader: IndexReader, source: SourceConfig, letter: str, unreleased: UnreleasedTable
) -> Sequence[Row]:
    """A few rows of a source that the live version lacks; those come first whose id begins with a letter."""
    it, arrow = unreleased, cast("Any", pc)  # whose stubs leave types out
    if it.live_version is None or it.since is None:
        return []
    rows = find_new_rows(it.table, it.live_version, it.since, source=source.id)
    rows = rows.filter(arrow.invert(rows["archived"]))
    wanted = rows.filter(arrow.starts_with(rows["id"], letter))
    addresses: list[Any] = (wanted if len(wanted) else rows)[ADDRESS].to_pylist()
    return await _take_candidates(reader, addresses)


async def _find_candidates(reader: IndexReader, condition: Filter) -> Sequence[Row]:
    """A few rows that match; of a small table only they are read."""
    addresses = read_addresses(reader.dataset, condition)
    if addresses is None:
        return await reader.find_rows(condition, limit=_CANDIDATES, columns=[*_COLUMNS, "_rowid"])
    return await _take_candidates(reader, addresses)


async def _take_candidates(reader: IndexReader, addresses: Sequence[int]) -> Sequence[Row]:
    rows = await reader.take_rows(addresses[:_CANDIDATES], _COLUMNS)
    return [{**row, "_rowid": row_id} for row_id, row in rows.items()]


async def _find_problem(
    lake: Lake, settings: Settings, canary: _Canary, counts: Counter[str]
) -> _Problem | None:
    """Ask for a chunk as one of its readers does, then as one who must not see it."""
    row, source = canary.row, canary.source
    if _differs_from_configuration(row, source) and _is_refreshed_since(lake, settings, source):
        what = f"can be read by {_describe_readers(row)}, which `access` of the source does not say"
        return _Problem(canary, what, "access")
    access = _find_reader(row)
    if access is None:
        return _Problem(canary, f"can be read by nobody: it is for {_describe_readers(row)}", "access")
    scope = Filters(sources=(source.id,), source_types=(source.type,))
    where = compile_filter(access, scope)
    sentences = choose_sentences(row["text"], [other["text"] for other in canary.others])
    if sentences:
        if not await _is_found_by_words(canary, where, sentences):
            what = f"is not found by its words {sentences[0]!r} by a reader, {_describe_readers(row)}"
            return _Problem(canary, what, sentences[0])
        counts["by_words"] += 1
    if not row["unembedded"]:
        if not await _is_found_by_vector(canary, where):
            what = f"is not found by its own vector by a reader, {_describe_readers(row)}"
            return _Problem(canary, what, "its vector")
        counts["by_vector"] += 1
    for stranger in _list_strangers(access):
        condition = compile_filter(stranger, scope) & canary.itself
        own = canary.own_reader
        is_found = sentences and await own.search_text(sentences[0], condition, limit=1)
        if is_found or await own.find_rows(condition, limit=1, columns=["id"]):
            what = f"is for {_describe_readers(row)}, and a reader of tenant {stranger.tenant!r} finds it"
            return _Problem(canary, what, sentences[0] if sentences else "")
        counts["withheld"] += 1
    return None


async def _is_found_by_words(canary: _Canary, where: Filter, sentences: Sequence[str]) -> bool:
    """By the first sentence among itself, or by one of them among the first results of the source.

    The chunk alone comes first: all others would be compared to find it among them.
    """
    if await canary.own_reader.search_text(sentences[0], where & canary.itself, limit=1):
        return True
    for words in sentences:
        if await _has_chunk(canary, await canary.reader.search_text(words, where, limit=MAX_RESULTS)):
            return True
    return False


async def _is_found_by_vector(canary: _Canary, where: Filter) -> bool:
    """Among itself, or among the first results of the source."""
    row_id = canary.row["_rowid"]
    vector = (await canary.reader.take_vectors([row_id])).get(row_id)
    if vector is None:
        return False
    if await canary.own_reader.search_vector(vector, where & canary.itself, limit=1):
        return True
    return await _has_chunk(canary, await canary.reader.search_vector(vector, where, limit=MAX_RESULTS))


async def _has_chunk(canary: _Canary, results: Sequence[ScoredRow]) -> bool:
    """Whether the chunk is among the results, or one of the same text."""
    if any(result.row_id == canary.row["_rowid"] for result in results):
        return True
    rows = await canary.reader.take_rows([result.row_id for result in results], ["id", "content_hash"])
    wanted = canary.row["id"], canary.row["content_hash"]
    return any(row["id"] == wanted[0] or row["content_hash"] == wanted[1] for row in rows.values())


def _differs_from_configuration(row: Row, source: SourceConfig) -> bool:
    declared = source.access
    visibility = "private" if declared.visibility == "from_source" else declared.visibility
    principals = {name for name in row["principals"] if not name.startswith(AUDIENCE_PREFIX)}
    stored = row["visibility"], row["tenant"], principals
    return stored != (visibility, declared.tenant, set(declared.principals))


def _is_refreshed_since(lake: Lake, settings: Settings, source: SourceConfig) -> bool:
    """Whether the rows of a source were written with the access that is configured, as far as is known."""
    log = open_log(lake, "refreshes")
    if not log.exists:
        return False
    written = eq("source", source.id) & one_of("stage", ["index"]) & ~is_null("settings")
    rows = log.read_rows(["at", "settings"], written).to_pylist()
    last = max(rows, key=lambda row: row["at"], default=None)
    now = compute_settings_digests(settings, source)["access"]
    return last is not None and f'"access": "{now}"' in last["settings"]


def _find_reader(row: Row) -> Access | None:
    """One who may see a row with the least that it takes; None where there is nobody."""
    tenant, principals = row["tenant"], sorted(row["principals"])
    own_principals = [name for name in principals if not name.startswith(AUDIENCE_PREFIX)]
    match row["visibility"]:
        case "public":
            return Access.public()
        case "tenant" if tenant:
            return Access(tenant, frozenset())
        case "private" if tenant and own_principals:
            return Access(tenant, frozenset(own_principals[:1]))
        case "private" if tenant and principals:
            return Access(tenant, frozenset(), audiences=frozenset(principals[:1]))
        case _:
            return None


def _list_strangers(reader: Access) -> list[Access]:
    """Who must not see what is for a tenant: the same principals in another one, and in it without any."""
    if reader.tenant is None:
        return []
    other = Access(f"not {reader.tenant}", reader.principals, audiences=reader.audiences)
    member = [Access(reader.tenant, frozenset())] if reader.principals or reader.audiences else []
    return [other, Access.public(), *member]


def _describe_readers(row: Row) -> str:
    match row["visibility"]:
        case "public":
            return "everybody"
        case "tenant":
            return f"tenant {row['tenant']!r}"
        case "private":
            return f"{len(row['principals'])} principals of tenant {row['tenant']!r}"
        case other:
            return f"visibility {other!r}"
