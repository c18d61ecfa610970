"""Extracts the facts of each file of a code source. Key: path; fingerprint: text, sanitizer, extractor.

Facts are read from the sanitized text, as chunks are, so that both count the same lines and no
signature shows a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from knowledge_pipeline.code_graph import (
    FACTS_VERSION,
    ChangedNames,
    FileFacts,
    extract,
    find_changed_names,
    from_json,
    interface_digest,
    is_manifest,
    list_defined_names,
    to_json,
)
from knowledge_pipeline.config.sources.source import SanitizeSettings, resolve_sanitize
from knowledge_pipeline.languages import GRAPH_LANGUAGES, detect_language
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.sanitizing import sanitize as sanitizing
from knowledge_pipeline.sanitizing.custom import SanitizerFailed
from knowledge_pipeline.stages.code_graph.portions import FILES_PER_PORTION, map_portions
from knowledge_pipeline.stages.code_graph.project import recall_facts, remember_facts
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.stages.worker_pool import WorkerPool
from knowledge_pipeline.store import schemas
from knowledge_pipeline.store.changes.change_tracker import ChangeTracker
from knowledge_pipeline.store.filters import Filter, eq, is_null, one_of
from knowledge_pipeline.store.reconcile import load_fingerprints, plan_changes, reconcile
from knowledge_pipeline.store.tables import Table, split_batches

_FILES_PER_COMMIT = 128
_COMPARED_FILES_MAX = 50  # files whose facts before an edit are compared with those after it
_READABLE = is_null("skipped") | eq("skipped", "empty")  # an empty `__init__.py` makes a package
_LIVE = _READABLE & is_null("archived_at")


@dataclass(frozen=True, slots=True)
class FactsRefresh:
    """The facts that a refresh has extracted again."""

    old_fingerprints: Mapping[str, str | None] = field(default_factory=dict[str, str | None])  # by path
    changes: ChangedNames | None = field(default_factory=ChangedNames)  # None if there are many
    old_facts: Mapping[str, FileFacts] = field(default_factory=dict[str, FileFacts])  # of a few, by path


def refresh_facts(ctx: RefreshContext, pool: WorkerPool) -> FactsRefresh:
    """Bring the facts of one source up to date with its snapshot."""
    table = ctx.lake.facts(ctx.source.type, ctx.source.id)
    version = hash_strings(str(FACTS_VERSION), sanitizing.fingerprint(resolve_sanitize(ctx.source)))
    tables = [ctx.lake.snapshot(ctx.source.type, ctx.source.id), table]
    forget = ctx.options.full
    tracker = ChangeTracker(ctx.lake, ctx.source.id, "facts", version, tables, forget=forget)
    paths = tracker.find_changed_values("path", "path")
    where = None if paths is None else one_of("path", sorted(paths))
    desired, uris = _desired_fingerprints(ctx, version, where)
    held = load_fingerprints(table, "path", "fingerprint", where)
    planned = plan_changes(desired, held, full=ctx.options.full)
    if not planned:
        tracker.remember()
        return FactsRefresh()
    written, gone = planned.keys_to_write, [*planned.changed, *planned.removed]
    are_few = len(written) + len(planned.removed) <= _COMPARED_FILES_MAX
    before = _load_facts(table, gone, held) if are_few else {}
    builder = _FactsBatchBuilder(ctx, pool, desired, uris)
    reconcile(table, planned, builder.build_batches)
    ctx.upkeep.tend(table)
    tracker.remember(has_written=True)
    changes = find_changed_names(before, _load_facts(table, written, desired)) if are_few else None
    return FactsRefresh({path: held.get(path) for path in (*written, *planned.removed)}, changes, before)


def _load_facts(table: Table, paths: list[str], fingerprints: Mapping[str, str]) -> dict[str, FileFacts]:
    recent = {path: recall_facts(path, fingerprints[path]) for path in paths}
    found = {path: facts for path, facts in recent.items() if facts is not None}
    others = [path for path in paths if path not in found]
    for rows in table.iter_rows_by_values("path", others, ["path", "facts"]) if others else ():
        pairs = zip(*rows.to_pydict().values(), strict=True)
        found.update((path, from_json(text)) for path, text in pairs)
    return found


def has_facts(path: str, language: str) -> bool:
    """Whether a file has facts: it is in a language with a code graph, or says how modules are named."""
    return language in GRAPH_LANGUAGES or is_manifest(path)


def _desired_fingerprints(
    ctx: RefreshContext, version: str, where: Filter | None
) -> tuple[dict[str, str], dict[str, str]]:
    """Fingerprints, and uris, by path; of two documents at one path the first by uri counts."""
    snapshot = ctx.lake.snapshot(ctx.source.type, ctx.source.id)
    desired: dict[str, str] = {}
    uris: dict[str, str] = {}
    rows = snapshot.read_rows(
        ["uri", "path", "language", "content_hash"], where & _LIVE if where else _LIVE
    ).to_pylist()
    for row in sorted(rows, key=lambda row: row["uri"]):
        language = _language_of(row)
        if row["path"] not in desired and has_facts(row["path"], language):
            desired[row["path"]] = hash_strings(row["content_hash"], language, version)
            uris[row["path"]] = row["uri"]
    return desired, uris


def _language_of(row: dict[str, Any]) -> str:
    """The language of a file; an empty file has none in the snapshot, but its name may say it."""
    return row["language"] or detect_language(row["path"]) or ""


@dataclass(frozen=True, slots=True)
class FactsWork:
    """Builds the facts of files; calling it is a portion's work, here or in another process."""

    sanitize: SanitizeSettings

    def __call__(self, portion: list[_StoredText]) -> pa.RecordBatch:
        """One row for each file of the portion, in its order."""
        return pa.RecordBatch.from_pylist([self._build_row(file) for file in portion], schema=schemas.FACTS)

    def _build_row(self, file: _StoredText) -> dict[str, Any]:
        facts = FileFacts(file.path, file.language)
        with suppress(SanitizerFailed):  # the chunks say so
            clean = sanitizing.sanitize(file.text, self.sanitize)
            facts = facts if clean.dropped else extract(file.path, clean.text, file.language)
        remember_facts(file.path, file.fingerprint, facts)
        return {
            "path": file.path,
            "uri": file.uri,
            "language": file.language,
            "facts": to_json(facts),
            "interface": interface_digest(facts),
            "defines": sorted(list_defined_names(facts)),
            "fingerprint": file.fingerprint,
        }


class _StoredText(NamedTuple):
    """A file of the snapshot, as it is sent to the process that reads it."""

    path: str
    uri: str
    language: str
    text: str
    fingerprint: str  # of the row that is built


class _FactsBatchBuilder:
    """Builds the rows of chosen files; many are read by a process for each core."""

    def __init__(
        self, ctx: RefreshContext, pool: WorkerPool, desired: dict[str, str], uris: dict[str, str]
    ) -> None:
        self._ctx, self._pool, self._desired, self._uris = ctx, pool, desired, uris
        self._snapshot = ctx.lake.snapshot(ctx.source.type, ctx.source.id)

    def build_batches(self, paths: list[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some files; each batch is one commit."""
        work, portions = FactsWork(resolve_sanitize(self._ctx.source)), self._iter_portions(paths)
        done, since_commit, waiting = 0, 0, list[pa.RecordBatch]()
        for batch in map_portions(self._pool, len(paths), work, portions, lambda files: files[0].path):
            done, since_commit = done + batch.num_rows, since_commit + batch.num_rows
            waiting.append(batch)
            self._ctx.report("facts", done, len(paths))
            if since_commit >= _FILES_PER_COMMIT:
                yield pa.Table.from_batches(waiting).combine_chunks().to_batches()[0]
                since_commit, waiting = 0, []
        if waiting:
            yield pa.Table.from_batches(waiting).combine_chunks().to_batches()[0]

    def _iter_portions(self, paths: list[str]) -> Iterator[list[_StoredText]]:
        columns = ["uri", "path", "language", "text"]
        for commit in split_batches(paths, _FILES_PER_COMMIT):
            where = one_of("uri", [self._uris[path] for path in commit])
            portion = list[_StoredText]()
            for batch in self._snapshot.iter_batches(columns, where, batch_rows=FILES_PER_PORTION):
                for row in batch.to_pylist():
                    path, language = row["path"], _language_of(row)
                    portion.append(_StoredText(path, row["uri"], language, row["text"], self._desired[path]))
                    if len(portion) == FILES_PER_PORTION:
                        yield portion
                        portion = []
            if portion:
                yield portion
