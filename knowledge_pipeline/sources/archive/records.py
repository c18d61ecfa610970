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

from knowledge_pipeline.languages import language_of
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.archive.front_matter import BrokenFrontMatter, front_matter_of
from knowledge_pipeline.sources.archive.json_records import NotJson, record_of, shown_record
from knowledge_pipeline.sources.archive.record_header import Facts, facts_of, kind_by_folder
from knowledge_pipeline.sources.base import Source
from knowledge_pipeline.sources.files.documents import FileSource, every
from knowledge_pipeline.sources.files.extraction import Extracted
from knowledge_pipeline.sources.files.original import original_of
from knowledge_pipeline.sources.files.text_decoding import READING_VERSION, text_of
from knowledge_pipeline.sources.files.titles import title_of
from knowledge_pipeline.sources.files.trees import Tree

ARCHIVE_VERSION = f"1.{READING_VERSION}"
"""Changes whenever the same bytes may give another document."""

_JSON = re.compile(r"\.(?:json|jsonl|ndjson)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Archive(Source):
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
        kind = told.get("kind") or kind_by_folder(document.path)
        return replace(
            document,
            author=", ".join(told.get("authors", ())) or document.author,
            last_modified=datetime.fromisoformat(times[0]) if times else document.last_modified,
            metadata={**told, "kind": kind} if kind else told,
        )


def open_archive(tree: Tree, *, max_bytes: int) -> Archive:
    """The records in a tree; nothing is read before `discover`."""
    return Archive(FileSource(tree, every, read_record, ARCHIVE_VERSION, max_bytes))


def read_record(name: str, payload: bytes) -> Extracted:
    """One record: its text, its title, and what it says of itself.

    What cannot be read as what its name or its first line promise is plain text, with the reason
    in metadata, under `note`.

    Raises:
        DocumentSkipped: it is binary, empty, or in no encoding that can be told.
    """
    text = text_of(payload)
    made = _of_json(name, text) if _JSON.search(name) else _of_text(name, text)
    return replace(made, metadata={**made.metadata, **original_of(made.text, payload)})


def _of_json(name: str, text: str) -> Extracted:
    try:
        record = record_of(text)
        facts = facts_of(record if isinstance(record, Mapping) else {})
        shown, segments = shown_record(record, facts.title or _stem(name))
    except NotJson as reason:
        return Extracted(text, metadata={"note": f"{reason}; taken as plain text"}, language="text")
    more: dict[str, Any] = {"segments": segments} if segments else {}
    return Extracted(shown, facts.title or _stem(name), {**facts.metadata, **more}, language="markdown")


def _of_text(name: str, text: str) -> Extracted:
    language = language_of(name, text)
    try:
        facts = facts_of(front_matter_of(text))
    except BrokenFrontMatter as reason:
        facts = Facts(metadata={"note": f"{reason}; taken as plain text"})
    return Extracted(text, facts.title or title_of(name, text, language), facts.metadata, language=language)


def _stem(name: str) -> str:
    return name.rpartition("/")[2].rpartition(".")[0]
