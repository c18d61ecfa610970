"""Project records as files: sessions, plans, discussions, decisions, specifications.

A Markdown record is shown as it lies there, front matter included, so that lines are the file's; a
JSON record is shown as text that a person can read. What a record says of itself becomes metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from knowledge_pipeline.languages import detect_language
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.archive.front_matter import InvalidFrontMatter, parse_front_matter
from knowledge_pipeline.sources.archive.json_records import InvalidJson, format_record, parse_record
from knowledge_pipeline.sources.archive.record_header import RecordHeader, infer_kind, parse_record_header
from knowledge_pipeline.sources.base import Source
from knowledge_pipeline.sources.files.documents import FileSource, accept_all
from knowledge_pipeline.sources.files.original import build_original_metadata
from knowledge_pipeline.sources.files.text_decoding import DECODING_VERSION, ExtractedText, decode_text
from knowledge_pipeline.sources.files.titles import extract_title
from knowledge_pipeline.sources.files.trees import FileTree

ARCHIVE_VERSION = f"1.{DECODING_VERSION}"
"""Changes whenever the same bytes may give another document."""

_JSON = re.compile(r"\.(?:json|jsonl|ndjson)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ArchiveSource(Source):
    """The records of one tree of files, one document each."""

    files: FileSource

    def close(self) -> None:
        """Free what was opened."""
        self.files.close()

    def discover(self) -> Iterator[Item]:
        """As `FileSource.discover`."""
        return self.files.discover()

    def fetch(self, item: Item) -> Document:
        """As `FileSource.fetch`; author and time are the record's own where it tells them."""
        document = self.files.fetch(item)
        told = document.metadata
        times = [told[name] for name in ("updated_at", "created_at") if name in told]
        kind = told.get("kind") or infer_kind(document.path)
        return replace(
            document,
            author=", ".join(told.get("authors", ())) or document.author,
            last_modified=datetime.fromisoformat(times[0]) if times else document.last_modified,
            metadata={**told, "kind": kind} if kind else told,
        )


def open_archive(tree: FileTree, *, max_bytes: int) -> ArchiveSource:
    """The records in a tree; nothing is read before `discover`."""
    return ArchiveSource(FileSource(tree, accept_all, read_record, ARCHIVE_VERSION, max_bytes))


def read_record(name: str, payload: bytes) -> ExtractedText:
    """One record: its text, its title, and what it says of itself.

    What cannot be read as what its name or its first line promise is plain text, with the reason
    in metadata, under `note`.

    Raises:
        DocumentSkipped: it is binary, empty, or in no encoding that can be told.
    """
    text = decode_text(payload)
    made = _extract_json(name, text) if _JSON.search(name) else _extract_text(name, text)
    return replace(made, metadata={**made.metadata, **build_original_metadata(made.text, payload)})


def _extract_json(name: str, text: str) -> ExtractedText:
    try:
        record = parse_record(text)
        facts = parse_record_header(record if isinstance(record, Mapping) else {})
        shown, segments = format_record(record, facts.title or _stem(name))
    except InvalidJson as reason:
        return ExtractedText(text, metadata={"note": f"{reason}; taken as plain text"}, language="text")
    more: dict[str, Any] = {"segments": segments} if segments else {}
    return ExtractedText(shown, facts.title or _stem(name), {**facts.metadata, **more}, language="markdown")


def _extract_text(name: str, text: str) -> ExtractedText:
    language = detect_language(name, text)
    try:
        facts = parse_record_header(parse_front_matter(text))
    except InvalidFrontMatter as reason:
        facts = RecordHeader(metadata={"note": f"{reason}; taken as plain text"})
    return ExtractedText(
        text, facts.title or extract_title(name, text, language), facts.metadata, language=language
    )


def _stem(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0]
