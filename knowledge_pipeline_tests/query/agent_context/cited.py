"""Results as the engine gives them, made from a document without an index."""

from __future__ import annotations

import hashlib
from typing import Any

from knowledge_pipeline.contract.responses import SearchResult
from knowledge_pipeline.query.assemble import to_result
from knowledge_pipeline.query.hits import IndexedChunk


def result(text: str, start_char: int, end_char: int, *, uri: str = "a.py", **metadata: Any) -> SearchResult:
    """The chunk of a document between two characters, white space at both ends left off."""
    content = text[start_char:end_char]
    start_char += len(content) - len(content.lstrip())
    content = content.strip()
    before = text[:start_char]
    passage = IndexedChunk(
        id=f"{uri}#{start_char}-{start_char + len(content)}",
        source="app",
        uri=uri,
        path=uri,
        text=content,
        content_hash=hashlib.sha256(content.encode("utf-8", "replace")).hexdigest(),
        url=f"https://example.com/{uri}",
        start_char=start_char,
        start_line=before.count("\n") + 1,
        end_line=before.count("\n") + 1 + content.count("\n"),
        metadata={"space_before": before[len(before.rstrip()) :], **metadata},
    )
    return to_result(passage, 0.5)
