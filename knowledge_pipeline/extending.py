"""What a package needs that brings its own source, chunker, extractor or sanitizer: docs/extending.md.

The names here keep their meaning from one minor version to the next; other modules may change.
"""

from __future__ import annotations

from knowledge_pipeline.chunking.base import Chunker, ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.registry import CustomExtractor
from knowledge_pipeline.config.sources import ChunkingSettings
from knowledge_pipeline.connectors.base import ApiSource, BatchSource, Source
from knowledge_pipeline.connectors.guarded import CustomSource
from knowledge_pipeline.connectors.http_retry import mount_retries, to_source_error
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.extraction.extraction import FileExtractor
from knowledge_pipeline.records import Chunk, Document, Item
from knowledge_pipeline.sanitizing.findings import Finding
from knowledge_pipeline.sanitizing.sanitize import CustomSanitizer

__all__ = [
    "ApiSource",
    "BatchSource",
    "Chunk",
    "ChunkSpan",
    "Chunker",
    "ChunkingSettings",
    "ConfigError",
    "CustomExtractor",
    "CustomSanitizer",
    "CustomSource",
    "Document",
    "DocumentSkipped",
    "FileExtractor",
    "Finding",
    "Item",
    "MeasuredDocument",
    "Source",
    "SourceRefused",
    "SourceUnavailable",
    "TokenLimits",
    "mount_retries",
    "to_source_error",
]
