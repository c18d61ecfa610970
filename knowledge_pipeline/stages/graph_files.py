"""Facts: what each file of a code source says by itself. Key: path; fingerprint: text, sanitizer, extractor.

Facts are read from the sanitized text, as chunks are, so that both count the same lines and no
signature shows a secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from knowledge_pipeline.config import sanitize_of
from knowledge_pipeline.graph.codec import to_json
from knowledge_pipeline.graph.extract import extract, facts_version, is_manifest
from knowledge_pipeline.graph.facts import Facts
from knowledge_pipeline.graph.layout import defines
from knowledge_pipeline.graph.resolve import interface
from knowledge_pipeline.languages import GRAMMARS, language_of
from knowledge_pipeline.records import digest
from knowledge_pipeline.sanitizing import sanitize as sanitizing
from knowledge_pipeline.stages.base import Pass
from knowledge_pipeline.store.filters import eq, is_null, one_of
from knowledge_pipeline.store.reconcile import Difference, difference, fingerprints, reconcile
from knowledge_pipeline.store.tables import Table, portions

_COMMIT_FILES = 256
_READ = is_null("skipped") | eq("skipped", "empty")  # an empty `__init__.py` makes a package
_LIVE = _READ & is_null("archived_at")


def refresh_facts(this: Pass) -> Difference:
    """Bring the facts of one source up to date with its snapshot; tells which files they are of."""
    table = this.lake.facts(this.source.type, this.source.id)
    desired, uris = _desired(this)
    planned = difference(desired, fingerprints(table, "path", "fingerprint"), full=this.full)
    reading = _Reading(this, table, desired, uris)
    reconcile(table, planned, reading.batches)
    return planned


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
