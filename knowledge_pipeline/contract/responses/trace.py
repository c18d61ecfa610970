"""What made a result: its document, its chunk, and the refresh that wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from knowledge_pipeline.contract.responses.base import QueryResponse
from knowledge_pipeline.contract.responses.search import Citation


@dataclass(frozen=True, slots=True)
class TracedRefresh:
    """One stage of the refresh that wrote a result."""

    stage: str
    done_at: datetime
    seconds: float
    changes: int = field(metadata={"description": "Keys that it added, changed or removed."})
    code: str | None = field(metadata={"description": "Versions of the package and of the stage's code."})
    settings: Mapping[str, str] = field(
        metadata={"description": "Digests of the settings that it used: source, chunking, model, access."}
    )
    run: str | None = field(metadata={"description": "The Dagster run; null: by the command line."})
    run_url: str | None = field(metadata={"description": "Its page, if KNOWLEDGE_DAGSTER_URL is set."})


@dataclass(frozen=True, slots=True)
class TraceResponse(QueryResponse):
    """What made a result, as far as the store still knows it."""

    id: str
    citation: Citation
    revision: str | None = field(metadata={"description": "Of the document, as its source has it."})
    document_hash: str | None
    chunk_fingerprint: str | None = field(
        metadata={"description": "Of the document, the chunker and the sanitizer that made the chunk."}
    )
    text_key: str | None = field(metadata={"description": "Of the embedded text; the key of its vector."})
    indexed_at: datetime
    updated_at: datetime
    first_release: int | None = field(
        metadata={"description": "The first of the kept releases that has it as it is."}
    )
    first_released_at: datetime | None
    stages: tuple[TracedRefresh, ...]
