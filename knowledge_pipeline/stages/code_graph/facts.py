"""Facts: what each file of a code source says by itself. Key: path; fingerprint: text, sanitizer, extractor.

Facts are read from the sanitized text, as chunks are, so that both count the same lines and no
signature shows a secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from knowledge_pipeline.code_graph.extract import extract, facts_version, is_manifest
from knowledge_pipeline.code_graph.facts import Facts
from knowledge_pipeline.code_graph.facts_codec import from_json, to_json
from knowledge_pipeline.code_graph.project_layout import defines, names_between
from knowledge_pipeline.code_graph.resolve import interface
from knowledge_pipeline.config.settings import sanitize_of
from knowledge_pipeline.languages import GRAMMARS, language_of
from knowledge_pipeline.records import digest
from knowledge_pipeline.sanitizing import sanitize as sanitizing
from knowledge_pipeline.stages.context import Pass
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.reconcile import difference, fingerprints, reconcile
from knowledge_pipeline.store.tables import Table, portions

_COMMIT_FILES = 128
_FEW = 50  # files whose facts before an edit are compared with those after it
_READ = is_null("skipped") | eq("skipped", "empty")  # an empty `__init__.py` makes a package
_LIVE = _READ & is_null("archived_at")


@dataclass(frozen=True, slots=True)
class Read:
    """What a refresh of facts has read anew."""

    before: Mapping[str, str] = field(default_factory=dict[str, str])  # fingerprints of the facts, by path
    names: frozenset[str] | None = frozenset()  # as `layout.names_between`; None, too, where they are many


def refresh_facts(this: Pass) -> Read:
    """Bring the facts of one source up to date with its snapshot."""
    table = this.lake.facts(this.source.type, this.source.id)
    desired, uris = _desired(this)
    held = fingerprints(table, "path", "fingerprint")
    planned = difference(desired, held, full=this.full)
    if not planned:
        return Read()
    edited = not planned.added and not planned.removed and len(planned.changed) <= _FEW
    before = _facts(table, planned.changed) if edited else {}
    reading = _Reading(this, table, desired, uris)
    reconcile(table, planned, reading.batches)
    names = names_between(before, _facts(table, planned.changed)) if edited else None
    return Read({path: held[path] for path in planned.changed}, names)


def _facts(table: Table, paths: list[str]) -> dict[str, Facts]:
    found: dict[str, Facts] = {}
    for rows in table.rows_of("path", paths, ["path", "facts"]):
        pairs = zip(rows["path"].to_pylist(), rows["facts"].to_pylist(), strict=True)
        found.update((path, from_json(text)) for path, text in pairs)
    return found


def wanted(path: str, language: str) -> bool:
    """Whether a file has facts: it is in a language with a grammar, or tells how modules are named."""
    return language in GRAMMARS or is_manifest(path)


def _desired(this: Pass) -> tuple[dict[str, str], dict[str, str]]:
    """Fingerprints, and uris, by path; of two documents at one path the first by uri counts."""
    version = digest(facts_version(), sanitizing.fingerprint(sanitize_of(this.source)))
    snapshot = this.lake.snapshot(this.source.type, this.source.id)
    desired: dict[str, str] = {}
    uris: dict[str, str] = {}
    rows = snapshot.rows(["uri", "path", "language", "content_hash"], _LIVE).to_pylist()
    for row in sorted(rows, key=lambda row: row["uri"]):
        language = _language(row)
        if row["path"] not in desired and wanted(row["path"], language):
            desired[row["path"]] = digest(row["content_hash"], language, version)
            uris[row["path"]] = row["uri"]
    return desired, uris


def _language(stored: dict[str, Any]) -> str:
    """An empty file has none in the snapshot, but a name."""
    return stored["language"] or language_of(stored["path"]) or ""


class _Reading:
    """Makes the facts of chosen files."""

    def __init__(self, this: Pass, table: Table, desired: dict[str, str], uris: dict[str, str]) -> None:
        self._this, self._table, self._desired, self._uris = this, table, desired, uris
        self._snapshot = this.lake.snapshot(this.source.type, this.source.id)

    def batches(self, paths: list[str]) -> Iterator[pa.RecordBatch]:
        done = 0
        for portion in portions(paths, _COMMIT_FILES):
            rows: list[dict[str, Any]] = []
            where = one_of("uri", [self._uris[path] for path in portion])
            for batch in self._snapshot.batches(["uri", "path", "language", "text"], where, batch_rows=16):
                for stored in batch.to_pylist():
                    rows.append(self._row(stored))
                    done += 1
                    self._this.report("facts", done, len(paths))
            yield pa.RecordBatch.from_pylist(rows, schema=self._table.schema)

    def _row(self, stored: dict[str, Any]) -> dict[str, Any]:
        path, language = stored["path"], _language(stored)
        clean = sanitizing.sanitize(stored["text"], sanitize_of(self._this.source))
        facts = Facts(path, language) if clean.dropped else extract(path, clean.text, language)
        return {
            "path": path,
            "uri": stored["uri"],
            "language": language,
            "facts": to_json(facts),
            "interface": interface(facts),
            "defines": sorted(defines(facts)),
            "fingerprint": self._desired[path],
        }
