"""Project records as files: sessions, plans, discussions, decisions, specifications.

A Markdown record keeps its text, front matter included, so that line numbers are the file's. A JSON
record becomes text that a person can read. What a record says of itself becomes metadata.
"""

from __future__ import annotations

import re
from dataclasses import replace

from knowledge_pipeline.json_values import is_object
from knowledge_pipeline.languages import detect_language
from knowledge_pipeline.sources.archive.json_records import InvalidJson, format_record, parse_record
from knowledge_pipeline.sources.archive.record_header import (
    InvalidFrontMatter,
    RecordHeader,
    infer_kind,
    parse_front_matter,
    parse_record_header,
    parse_time,
)
from knowledge_pipeline.sources.files.original import build_original_metadata
from knowledge_pipeline.sources.files.text_decoding import DECODING_VERSION, ExtractedText, decode_text
from knowledge_pipeline.sources.files.titles import extract_title

ARCHIVE_VERSION = f"1.{DECODING_VERSION}"
"""Changes whenever the same bytes may give another document."""

_JSON = re.compile(r"\.(?:json|jsonl|ndjson)$", re.IGNORECASE)


def read_record(name: str, payload: bytes) -> ExtractedText:
    """One record: its text, its title, and its metadata, author and time included.

    A record that is not what its name or its first line promises is plain text, with the reason in
    metadata, under `note`.

    Raises:
        DocumentSkipped: it is binary, empty, or in an unknown encoding.
    """
    text = decode_text(payload)
    extracted = _extract_json(name, text) if _JSON.search(name) else _extract_text(name, text)
    header = extracted.metadata
    kind = header.get("kind") or infer_kind(name)
    updated = header.get("updated_at") or header.get("created_at")
    metadata = {
        **header,
        **build_original_metadata(extracted.text, payload),
        **({"kind": kind} if kind else {}),
    }
    author = ", ".join(header.get("authors", ())) or None
    return replace(extracted, author=author, last_modified=parse_time(updated), metadata=metadata)


def _extract_json(name: str, text: str) -> ExtractedText:
    stem = name.rpartition("/")[2].rpartition(".")[0]
    try:
        record = parse_record(text)
        header = parse_record_header(record if is_object(record) else {})
        shown, segments = format_record(record, header.title or stem)
    except InvalidJson as reason:
        return ExtractedText(text, metadata={"note": f"{reason}; taken as plain text"}, language="text")
    metadata = {**header.metadata, "segments": segments} if segments else header.metadata
    return ExtractedText(shown, header.title or stem, metadata, language="markdown")


def _extract_text(name: str, text: str) -> ExtractedText:
    language = detect_language(name, text)
    try:
        header = parse_record_header(parse_front_matter(text))
    except InvalidFrontMatter as reason:
        header = RecordHeader(metadata={"note": f"{reason}; taken as plain text"})
    title = header.title or extract_title(name, text, language)
    return ExtractedText(text, title, header.metadata, language=language)
