"""Export: writes the stored documents of a source as files. It changes nothing in the store.

A record gives the bytes that it was read from; a document of a service, or an extracted one, gives its text.
An existing file that differs is overwritten only by `force`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.connectors.base import uri_to_path
from knowledge_pipeline.connectors.files import restore_original_bytes
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.records import is_variant_uri
from knowledge_pipeline.store.filters import is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.tables import Table

ExportOutcome = Literal["written", "unchanged", "replaced", "differs", "failed"]

_COLUMNS = ("uri", "text", "metadata", "language", "archived_at")
_BATCH_ROWS = 64  # documents held at once
_PLAIN_TEXT_TYPES = frozenset({"archive", "code", "markdown", "openapi"})  # their text is the file's
_EXTRACTED_SUFFIX = re.compile(
    r"\.(?:pdf|do[ct][xm]|(?:pp[ts]|pot)[xm]|xls[xmb]?|o[dt][tsp]|rtf|epub|csv|tsv|eml|mbox|x?html?)$",
    re.IGNORECASE,
)
_UNSAFE_PARTS = {"": "%", ".": "%2E", "..": "%2E%2E"}


@dataclass(frozen=True, slots=True)
class ExportedDocument:
    """One stored document as a file."""

    uri: str
    name: str  # relative POSIX path that never leaves its folder
    content: bytes
    archived_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What became of one file."""

    uri: str
    outcome: ExportOutcome
    file: Path
    stored_copy: Path | None = None  # differs: where the stored document was written instead
    error: str = ""  # failed


def iter_documents(
    lake: Lake, settings: Settings, source: str, *, uris: Collection[str] = (), include_archived: bool = False
) -> Iterator[ExportedDocument]:
    """The stored documents of a source, or some of them; skipped ones have no content.

    Raises `NotFound`: nothing is stored of such a source, or of one of these documents.
    """
    stored_types = lake.list_stored_types(source)
    if not stored_types:
        stored = ", ".join(lake.list_stored_sources()) or "none"
        raise NotFound(f"nothing of a source {source!r} is stored; stored: {stored}")
    configured = {source_config.id: source_config.type for source_config in settings.sources}.get(source)
    source_type = configured if configured in stored_types else stored_types[0]
    table = lake.snapshot(source_type, source)
    where = is_null("skipped") if include_archived else is_null("skipped") & is_null("archived_at")
    if uris:
        _require_stored(table, source, uris, include_archived=include_archived)
        where &= one_of("uri", uris)
    for batch in table.iter_batches(_COLUMNS, where, batch_rows=_BATCH_ROWS):
        for row in batch.to_pylist():
            if not uris and is_variant_uri(row["uri"]):
                continue  # a file of the main branch has its name
            name = export_path(row["uri"], source_type, row["language"])
            content = restore_original_bytes(row["text"], json.loads(row["metadata"]))
            yield ExportedDocument(row["uri"], name, content, row["archived_at"])


def write_document(document: ExportedDocument, folder: Path, *, force: bool = False) -> ExportResult:
    """Write a document into a folder, atomically.

    `force` replaces a file that differs. Otherwise it stays, and the stored document is written next to it
    as `NAME.stored`.
    """
    file = folder / document.name
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.parent.resolve().is_relative_to(folder.resolve()):
            return ExportResult(document.uri, "failed", file, error="its folder is a link to outside")
        if not os.path.lexists(file):
            _write_atomically(file, document.content)
            return ExportResult(document.uri, "written", file)
        if _has_content(file, document.content):
            return ExportResult(document.uri, "unchanged", file)
        if force:
            _write_atomically(file, document.content)
            return ExportResult(document.uri, "replaced", file)
        for number in count(1):  # `NAME.stored`, or the next free name where that holds something else
            stored_copy = file.with_name(f"{file.name}.stored{number if number > 1 else ''}")
            if not os.path.lexists(stored_copy):
                _write_atomically(stored_copy, document.content)
            elif not _has_content(stored_copy, document.content):
                continue
            return ExportResult(document.uri, "differs", file, stored_copy=stored_copy)
        raise AssertionError("there is always a next name")
    except OSError as error:
        return ExportResult(document.uri, "failed", file, error=error.strerror or "it cannot be written")


def export_path(uri: str, source_type: str, language: str | None) -> str:
    """The path that a document is exported to: the file's own where its text is the file's."""
    parts = uri_to_path(uri).replace("\0", "%00").split("/")
    name = "/".join(_UNSAFE_PARTS.get(part, part) for part in parts)
    if source_type in _PLAIN_TEXT_TYPES or (source_type == "files" and not _EXTRACTED_SUFFIX.search(name)):
        return name
    plain = source_type == "git_history" or (source_type == "files" and language != "markdown")
    return f"{name}.txt" if plain else f"{name}.md"


def _require_stored(table: Table, source: str, uris: Collection[str], *, include_archived: bool) -> None:
    rows = table.read_rows(["uri", "skipped", "archived_at"], one_of("uri", uris)).to_pylist()
    by_uri: dict[str, dict[str, Any]] = {row["uri"]: row for row in rows}
    for uri in uris:
        row = by_uri.get(uri)
        if row is None:
            raise NotFound(f"source {source!r} holds no document {uri!r}")
        if row["skipped"] is not None:
            raise NotFound(f"the document {uri!r} was skipped ({row['skipped']}): nothing of it is stored")
        if row["archived_at"] is not None and not include_archived:
            raise NotFound(
                f"the document {uri!r} is archived since {row['archived_at']:%Y-%m-%d}: "
                "add --include-archived"
            )


def _has_content(file: Path, content: bytes) -> bool:
    return file.is_file() and file.stat().st_size == len(content) and file.read_bytes() == content


def _write_atomically(file: Path, content: bytes) -> None:
    with NamedTemporaryFile(dir=file.parent, prefix=".export-", delete=False) as temporary:
        try:
            temporary.write(content)
            temporary.flush()
            mask = os.umask(0)  # the only way to read it
            os.umask(mask)
            Path(temporary.name).chmod(0o666 & ~mask)
            Path(temporary.name).replace(file)
        except OSError:
            Path(temporary.name).unlink(missing_ok=True)
            raise


def count_outcomes(written: Sequence[ExportResult]) -> dict[ExportOutcome, int]:
    """How many files had each outcome."""
    outcomes: tuple[ExportOutcome, ...] = ("written", "unchanged", "replaced", "differs", "failed")
    return {outcome: sum(result.outcome == outcome for result in written) for outcome in outcomes}
