"""Export: what is stored of a source, back as files. Nothing in the store is changed.

A record gives the bytes that it was read from; what comes from a service, or was extracted, gives its
text. A file that is there and differs is not touched unless that is asked for.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.sources.files.original import original_bytes
from knowledge_pipeline.sources.path_encoding import path_of
from knowledge_pipeline.store.filters import is_null, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.tables import Table

Outcome = Literal["written", "unchanged", "replaced", "differs", "failed"]

_COLUMNS = ("uri", "text", "metadata", "language", "archived_at")
_BATCH_ROWS = 64  # documents held at once
_FILES_OF_TEXT = frozenset({"archive", "code", "markdown", "openapi"})  # their text is the file's
_EXTRACTED = re.compile(r"\.(?:pdf|docx|html?|xhtml)$", re.IGNORECASE)
_ODD = {"": "%", ".": "%2E", "..": "%2E%2E"}


@dataclass(frozen=True, slots=True)
class Exported:
    """One stored document as a file."""

    uri: str
    name: str  # POSIX path, never out of the folder that it is put into
    payload: bytes
    archived_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What became of one file."""

    uri: str
    outcome: Outcome
    file: Path
    stored: Path | None = None  # differs: where the stored one was written instead
    why: str = ""  # failed


def exported(
    lake: Lake,
    settings: Settings,
    source: str,
    *,
    uris: Collection[str] = (),
    include_archived: bool = False,
) -> Iterator[Exported]:
    """The stored documents of a source, or some of them; skipped ones have no content.

    Raises:
        NotFound: nothing of such a source is stored, or not one of these documents.
    """
    source_type = _stored_type(lake, settings, source)
    table = lake.snapshot(source_type, source)
    where = is_null("skipped") if include_archived else is_null("skipped") & is_null("archived_at")
    if uris:
        _require_stored(table, source, uris, include_archived=include_archived)
        where &= one_of("uri", uris)
    for batch in table.batches(_COLUMNS, where, batch_rows=_BATCH_ROWS):
        yield from (_exported(row, source_type) for row in batch.to_pylist())


def write(document: Exported, folder: Path, *, force: bool = False) -> Written:
    """Put a document into a folder, whole or not at all.

    Args:
        document: what is stored.
        folder: made where it is missing.
        force: replace a file that differs, which is otherwise left as it is: the stored
            document is then written beside it, as `NAME.stored`.
    """
    file = folder / document.name
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.parent.resolve().is_relative_to(folder.resolve()):
            return Written(document.uri, "failed", file, why="its folder is a link that leads out")
        if not os.path.lexists(file):
            _put(file, document.payload)
            return Written(document.uri, "written", file)
        if _holds(file, document.payload):
            return Written(document.uri, "unchanged", file)
        if force:
            _put(file, document.payload)
            return Written(document.uri, "replaced", file)
        return Written(document.uri, "differs", file, stored=_put_beside(file, document.payload))
    except OSError as error:
        return Written(document.uri, "failed", file, why=error.strerror or "it cannot be written")


def name_of(uri: str, source_type: str, language: str | None) -> str:
    """The path that a document is exported to: the file's own where its text is the file's."""
    parts = path_of(uri).replace("\0", "%00").split("/")
    name = "/".join(_ODD.get(part, part) for part in parts)
    if source_type in _FILES_OF_TEXT:
        return name
    if source_type == "files" and not _EXTRACTED.search(name):
        return name
    plain = source_type == "git_history" or (source_type == "files" and language != "markdown")
    return f"{name}.txt" if plain else f"{name}.md"


def _exported(row: dict[str, Any], source_type: str) -> Exported:
    name = name_of(row["uri"], source_type, row["language"])
    payload = original_bytes(row["text"], json.loads(row["metadata"]))
    return Exported(row["uri"], name, payload, row["archived_at"])


def _stored_type(lake: Lake, settings: Settings, source: str) -> str:
    stored = lake.stored_types(source)
    if not stored:
        known = ", ".join(lake.stored_sources()) or "none"
        raise NotFound(f"nothing of a source {source!r} is stored; stored: {known}")
    configured = {each.id: each.type for each in settings.sources}.get(source)
    return configured if configured in stored else stored[0]


def _require_stored(table: Table, source: str, uris: Collection[str], *, include_archived: bool) -> None:
    rows = table.rows(["uri", "skipped", "archived_at"], one_of("uri", uris)).to_pylist()
    by_uri = {row["uri"]: row for row in rows}
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


def _holds(file: Path, payload: bytes) -> bool:
    return file.is_file() and file.stat().st_size == len(payload) and file.read_bytes() == payload


def _put(file: Path, payload: bytes) -> None:
    """Write a file that is whole whenever it is seen."""
    with NamedTemporaryFile(dir=file.parent, prefix=".export-", delete=False) as made:
        try:
            made.write(payload)
            made.flush()
            Path(made.name).chmod(0o666 & ~_umask())
            Path(made.name).replace(file)
        except OSError:
            Path(made.name).unlink(missing_ok=True)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _put_beside(file: Path, payload: bytes) -> Path:
    """Write `NAME.stored`, or the next free name where that holds something else."""
    for place in _places_beside(file):
        if not os.path.lexists(place):
            _put(place, payload)
            return place
        if _holds(place, payload):
            return place
    raise AssertionError("there is always a next name")


def _places_beside(file: Path) -> Iterator[Path]:
    number = 1
    while True:
        yield file.with_name(f"{file.name}.stored{number if number > 1 else ''}")
        number += 1


def counts_of(written: Sequence[Written]) -> dict[Outcome, int]:
    """How many files had each outcome."""
    outcomes: tuple[Outcome, ...] = ("written", "unchanged", "replaced", "differs", "failed")
    return {outcome: sum(each.outcome == outcome for each in written) for outcome in outcomes}
