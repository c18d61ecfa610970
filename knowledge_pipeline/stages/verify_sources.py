"""Compares the index of a source with the source: what it lists, and a sample that is read and cut again.

What has another revision has changed since the last refresh, and is no difference. Documents that are listed
and not stored, or the other way round, are one where the tables are not as that refresh left them, as its log
and the first release since say. What differs is marked in its own row: the next refresh makes it anew.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from knowledge_pipeline.checks.integrity import Check, CheckResult, build_sample
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.connectors.attachments import open_attachment_reader
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.embedding.registry import open_embedder, resolve_space
from knowledge_pipeline.errors import KnowledgeError, SourceRefused
from knowledge_pipeline.records import VERIFIED_STAGE, build_embedded_text
from knowledge_pipeline.stages import chunks, snapshot
from knowledge_pipeline.stages.context import RefreshContext, item_fingerprints, measure_stage
from knowledge_pipeline.stages.run_log import log_outcome
from knowledge_pipeline.store.filters import MATCH_ALL, Filter, eq, is_null, one_of
from knowledge_pipeline.store.fragments import StaleRows
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import open_log
from knowledge_pipeline.store.release import list_releases
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline.text import truncate

_SOURCES_A_DAY = 100  # of one type
_VECTORS = 8  # computed again, of one source
_MIN_COSINE = 0.99  # of 32-bit floats, which another machine or batch computes a little differently
_COPIED = ("path", "header", "text", "content_hash", "text_key", "anchor", "start_char", "end_char")
_CHANGES = ("added", "changed", "removed")
_MAY_DIFFER = frozenset({"revision", "archived_at"})  # of a row, from one that is read now


@dataclass(slots=True)
class SourceVerification:
    """What was compared of one source, and what differs."""

    source: str
    counts: Counter[str] = field(default_factory=Counter[str])  # by what was counted
    differences: dict[str, str] = field(default_factory=dict[str, str])  # a sentence by uri
    problem: str | None = None  # why it was not compared

    def add(self, uris: Iterable[str], difference: str) -> None:
        """Documents that differ in some way."""
        for uri in uris:
            self.differences[uri] = "; ".join(filter(None, (self.differences.get(uri), difference)))

    def to_rows(self) -> list[dict[str, str]]:
        """The differences, for people and programs."""
        pairs = sorted(self.differences.items())
        return [{"source": self.source, "document": uri, "difference": text} for uri, text in pairs]

    def describe(self) -> str:
        """One sentence."""
        if self.problem:
            return f"{self.source} was not compared: {self.problem}"
        counts = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in self.counts.items())
        return f"{self.source}: {len(self.differences):,} documents differ ({counts})"


def verify_source(ctx: RefreshContext, *, day: date | None = None) -> SourceVerification:
    """Compare a source, mark what differs, and log it; `day` decides the sample.

    Why a source cannot be compared, as it does not answer or is being refreshed, is in the result.
    """
    found, seed = SourceVerification(ctx.source.id), f"{day or datetime.now(UTC).date()} {ctx.source.id}"
    with measure_stage(VERIFIED_STAGE, ctx.source.id) as stats:
        try:
            with ctx.lake.lock_source(ctx.source.id, timeout_s=0):
                _Comparison(ctx, found, seed).run()
        except KnowledgeError as error:
            found.problem = str(error)
    counts, stats.changed = found.counts, len(found.differences)
    stats.seen, stats.rows = counts["listed"], counts["stored"]
    stats.skipped["changed since"] = counts["changed_since"]
    told = "; ".join(f"{uri}: {text}" for uri, text in sorted(found.differences.items()))
    log_outcome(ctx, stats, found.problem or truncate(told, 2000) or None)
    return found


def check_sources(lake: Lake, settings: Settings, source_type: SourceType) -> CheckResult:
    """Check the sources of a type; of very many, others every day."""
    own = [it for it in settings.sources if it.type == source_type]
    random = Random(str(datetime.now(UTC).date()))  # noqa: S311 - no secret
    chosen = random.sample(own, min(_SOURCES_A_DAY, len(own)))
    results = [verify_source(RefreshContext(lake, settings, source)) for source in chosen]
    rows, figures = [row for it in results for row in it.to_rows()], Counter[str]()
    for result in results:
        figures.update(result.counts)
    return CheckResult(not rows, "; ".join(it.describe() for it in results), build_sample(rows), figures)


SOURCE_CHECK = Check(
    name="equals_source",
    topic="equals_source",
    description="The index holds what the source lists, and of a sample its texts, chunks and vectors.",
    run=check_sources,
    inspect_query="verifications",
)


class _Comparison:
    """One source beside its tables; its lock is held."""

    def __init__(self, ctx: RefreshContext, found: SourceVerification, seed: str) -> None:
        self._ctx, self._found, self._counts = ctx, found, found.counts
        self._random = Random(seed)  # noqa: S311 - no secret
        self._wrong = defaultdict[str, set[str]](set)  # keys of rows to be made anew
        self._embedding = ctx.settings.resolve_embedding(ctx.source)
        type_, source, space = ctx.source.type, ctx.source.id, resolve_space(self._embedding)
        self._mine = eq("source", source)
        self._documents, self._chunks = ctx.lake.snapshot(type_, source), ctx.lake.chunks(type_, source)
        self._index = ctx.lake.index(space.name, space.dimensions)
        self._vectors = ctx.lake.embeddings(space.name, source, space.dimensions)
        columns = ["stage", "at", "rows", *_CHANGES]
        log = open_log(ctx.lake, "refreshes").read_rows(columns, self._mine).to_pylist()
        log.sort(key=lambda row: row["at"])
        self._log = {row["stage"]: row for row in log}  # the last of each
        changed = (it["at"] for it in log if it["stage"] == "index" and any(it[name] for name in _CHANGES))
        self._indexed_at = max(changed, default=datetime.min.replace(tzinfo=UTC))

    def run(self) -> None:
        """Compare; raises `SourceRefused`: there is nothing to compare with."""
        if self._ctx.source.type == "push":
            raise SourceRefused("its documents were pushed: nobody else has them")
        times = {stage: row["at"] for stage, row in self._log.items() if stage != VERIFIED_STAGE}
        if "index" not in times or max(times.values()) > times["index"]:
            raise SourceRefused("its last refresh did not finish: refresh it first")
        self._compare_chunks(self._compare_documents())
        if self._found.differences:
            self._mark()

    def _compare_documents(self) -> list[dict[str, Any]]:
        """Keys and revisions of all, and a sample that is read again: the rows that it should have."""
        ctx, fresh, wrong = self._ctx, dict[str, dict[str, Any]](), dict[str, str]()
        with (
            open_source(ctx.source, cache=ctx.lake.cache) as source,
            open_attachment_reader(ctx.source) as files,
        ):
            items = snapshot.list_whole(source, files)
            listed = item_fingerprints(items.values())
            stored = snapshot.load_live(ctx.lake, ctx.source, items)
            readable = self._compare_keys(listed, stored)
            same = sorted(uri for uri in readable if uri in listed and listed[uri] == stored.get(uri))
            sample = self._random.sample(same, min(ctx.settings.checks.verified_documents, len(same)))
            for item, result in snapshot.read_items(source, [items[uri] for uri in sample]):
                fresh[item.uri] = snapshot.build_row(item, result)
            for uri, row in _read_by(self._documents, "uri", sample).items():
                now = fresh[uri]
                if other := sorted(name for name in now.keys() - _MAY_DIFFER if now[name] != row[name]):
                    wrong[uri] = f"stored with another {', '.join(other)}"
            again = item_fingerprints(snapshot.list_whole(source, files).values()) if wrong else listed
        moved = {uri for uri in wrong if again.get(uri) != listed[uri]}  # since it was listed
        self._wrong["documents"] = wrong.keys() - moved
        for uri in self._wrong["documents"]:
            self._found.add([uri], wrong[uri])
        rows = [row for uri, row in fresh.items() if uri not in moved and row["skipped"] is None]
        self._counts.update(changed_since=len(moved), documents=len(rows))
        return rows

    def _compare_keys(self, listed: Mapping[str, str], stored: Mapping[str, str]) -> set[str]:
        """Returns the documents with text."""
        found, is_live = self._found, is_null("archived_at")
        missing, extra = listed.keys() - stored.keys(), stored.keys() - listed.keys()
        changed = sum(stored[uri] != listed[uri] for uri in stored.keys() & listed.keys())
        indexed = _read_uris(self._index, self._mine & eq("archived", False))
        lost, surplus = missing, extra
        if self._documents.count_rows(is_live) == self._log["snapshot"]["rows"]:
            left = self._read_uris_left() if lost or surplus else set[str]()
            lost, surplus = lost & left, (surplus & indexed) - left if left else set[str]()
        found.add(lost, "listed, but not stored")
        found.add(surplus, "stored, but not listed")
        changed += len(missing - lost) + len(extra - surplus)
        self._counts.update(listed=len(listed), stored=len(stored), changed_since=changed)
        readable = _read_uris(self._documents, is_live & is_null("skipped"))
        found.add(indexed - readable, "indexed, but not stored")
        empty = _read_uris(self._chunks, ~is_null("skipped"))
        found.add(readable - indexed - empty, "stored, but not indexed")
        return readable

    def _read_uris_left(self) -> set[str]:
        """The indexed documents that the last refresh left, by the first release since; empty without one."""
        releases = sorted(list_releases(self._ctx.lake), key=lambda it: it.release)
        since = (it for it in releases if it.created_at >= self._indexed_at and it.restores is None)
        if (release := next(since, None)) is None or self._index.name not in release.tables:
            return set()
        where = self._mine & eq("archived", False)
        return _read_uris(self._index, where, version=release.tables[self._index.name])

    def _compare_chunks(self, documents: Sequence[dict[str, Any]]) -> None:
        """Stored chunks and rows of the index, with those that documents are cut into now."""
        uris = [row["uri"] for row in documents]
        expected = {row["id"]: row for row in chunks.cut_rows(self._ctx, documents)} if documents else {}
        stored = _read_by(self._chunks, "uri", uris)
        made_by = {row["uri"]: row["fingerprint"] for row in expected.values()}
        # by other settings, or another version of the program
        outdated = {it["uri"] for it in stored.values() if made_by.get(it["uri"]) != it["fingerprint"]}
        wrong = {it["uri"] for id_, it in (stored | expected).items() if expected.get(id_) != stored.get(id_)}
        self._wrong["cut"] = wrong - outdated
        self._found.add(wrong - outdated, "cut into other chunks")
        sound = {id_: it for id_, it in expected.items() if not (it["skipped"] or it["uri"] in outdated)}
        rows = _read_by(
            self._index, "uri", uris, self._mine & eq("archived", False), ["id", "uri", *_COPIED, "vector"]
        )
        rows = {id_: row for id_, row in rows.items() if row["uri"] not in outdated}
        for id_, row in rows.items():
            if id_ not in sound or any(row[name] != sound[id_][name] for name in _COPIED):
                self._wrong["indexed"].add(id_)
        lost = {row["uri"] for id_, row in sound.items() if id_ not in rows}
        lost |= {rows[id_]["uri"] for id_ in self._wrong["indexed"]}
        self._found.add(lost, "indexed with other chunks")
        self._counts.update(changed_since=len(outdated), chunks=len(sound))
        embedded = sorted(id_ for id_ in sound.keys() & rows.keys() if rows[id_]["vector"] is not None)
        self._compare_vectors([sound[id_] | {"vector": rows[id_]["vector"]} for id_ in embedded])

    def _compare_vectors(self, rows: Sequence[dict[str, Any]]) -> None:
        """The vectors of some rows, in the index and beside it, with those that the model computes now."""
        sample = self._random.sample(rows, min(_VECTORS, len(rows)))
        texts = [build_embedded_text(row["header"], row["text"]) for row in sample]
        vectors = open_embedder(self._embedding).embed(texts) if texts else ()
        stored = _read_by(self._vectors, "text_key", [row["text_key"] for row in sample])
        for row, vector in zip(sample, vectors, strict=True):
            key = row["text_key"]
            if key in stored and not _is_near(vector, stored[key]["vector"]):
                self._wrong["vectors"].add(key)
            if key in self._wrong["vectors"] or not _is_near(vector, row["vector"]):
                self._wrong["without_vector"].add(row["id"])
                self._found.add([row["uri"]], "has a vector of another text")
        self._counts.update(vectors=len(sample))

    def _mark(self) -> None:
        """Let the reconciliation of each stage find what is wrong."""
        wrong, index = self._wrong, self._index
        copies: list[Any] = index.read_rows(["id"], one_of("text_key", wrong["vectors"]))["id"].to_pylist()
        ids = sorted(wrong["without_vector"].union(copies))
        self._documents.update_where(one_of("uri", wrong["documents"]), revision="")
        self._chunks.update_where(one_of("uri", wrong["cut"]), fingerprint="")
        self._vectors.replace_rows([StaleRows("text_key", sorted(wrong["vectors"]))])
        if wrong["indexed"] or ids:
            with self._ctx.lake.lock_index():
                index.update_where(self._mine & one_of("id", wrong["indexed"]), fingerprint="")
                if ids:  # of other sources too: a text without a vector gets that of any row
                    columns = {"id": ids, "vector": [None] * len(ids), "unembedded": [True] * len(ids)}
                    schema: Any = index.schema  # whose stubs give fields no type
                    own = pa.schema([schema.field(name) for name in columns])
                    index.update_columns(pa.Table.from_pydict(columns, schema=own))
        snapshot.make_full_listing_due(self._ctx.lake, self._ctx.source)  # a new version: nothing is recalled


def _read_uris(table: Table, where: Filter, *, version: int | None = None) -> set[str]:
    uris: list[Any] = table.read_rows(["uri"], where, version=version)["uri"].to_pylist()
    return set(uris)


def _read_by(
    table: Table, column: str, values: Sequence[str], where: Filter = MATCH_ALL, columns: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Rows by the table's key."""
    rows = table.read_rows(columns or table.schema.names, one_of(column, values) & where).to_pylist()
    return {row[table.key]: row for row in rows}


def _is_near(one: Any, other: Any) -> bool:
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return bool(a @ b >= _MIN_COSINE * np.linalg.norm(a) * np.linalg.norm(b))
