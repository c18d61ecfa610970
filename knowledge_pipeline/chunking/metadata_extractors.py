"""The metadata of chunks: runs the extractors that their source switches on, one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.chunking.custom_extractors import run_custom_extractors
from knowledge_pipeline.chunking.document_metadata import DocumentMetadataExtractor
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.contract.types import NAMESPACE_PREFIX
from knowledge_pipeline.languages import is_code
from knowledge_pipeline.records import Chunk, Document

if TYPE_CHECKING:
    from knowledge_pipeline.chunking.coverage import CoverageReport

VERSION = 1


def add_metadata(
    chunks: Iterable[Chunk], document: Document, source: SourceConfig, note: str
) -> Iterator[Chunk]:
    """The chunks with their metadata; `note` says what was unusual about the document, "" if nothing was.

    Raises:
        ConfigError: a custom extractor or the coverage report cannot be loaded.
    """
    settings, is_prose = source.metadata, source.type != "code" or not is_code(document.language)
    extractor = DocumentMetadataExtractor(document) if settings.documents and is_prose else None
    coverage = load_coverage(source) if settings.code else None
    for chunk in chunks:
        custom, notes = run_custom_extractors(settings.custom, document, chunk)
        metadata = _select_chunker_metadata(chunk, source, document.path, coverage)
        if settings.standard:
            metadata |= {"source_type": source.type, "file_path": document.path}
        if extractor:
            metadata |= extractor.extract(chunk)
        document_tags = extractor.tags if extractor else ()
        own_tags = [
            tag
            for tag in (*document.metadata.get("tags", ()), *chunk.metadata.get("tags", ()), *document_tags)
            if not str(tag).startswith(NAMESPACE_PREFIX)  # a document joins no namespace by itself
        ]
        tags = dict.fromkeys([*settings.tags, *own_tags])
        if tags:
            metadata["tags"] = list(tags)
        metadata |= custom
        remarks = [str(remark) for remark in (note, chunk.metadata.get("note"), *notes) if remark]
        if remarks:
            metadata["note"] = "; ".join(remarks)
        yield replace(chunk, metadata=metadata)


def _select_chunker_metadata(
    chunk: Chunk, source: SourceConfig, path: str, coverage: CoverageReport | None
) -> dict[str, Any]:
    """The metadata that the chunker gave, with test coverage; without the code switch, nothing about code."""
    metadata = dict(chunk.metadata)
    if not source.metadata.code:
        from knowledge_pipeline.chunking.code.metadata import CODE_METADATA_KEYS

        return {key: value for key, value in metadata.items() if key not in CODE_METADATA_KEYS}
    share = coverage.share_of_lines(path, chunk.start_line, chunk.end_line) if coverage else None
    return metadata if share is None else {**metadata, "test_coverage": share}


def load_coverage(source: SourceConfig) -> CoverageReport | None:
    """The coverage report that a source names; None if it names none.

    Raises:
        ConfigError: the report cannot be read.
    """
    path = source.metadata.coverage
    if path is None:
        return None
    state = path.stat() if path.is_file() else None
    return _read_coverage(path, (state.st_mtime_ns, state.st_size) if state else (0, 0))


@lru_cache(maxsize=8)
def _read_coverage(path: Path, file_state: tuple[int, int]) -> CoverageReport:
    """Read anew when size or time of the file changed."""
    from knowledge_pipeline.chunking.coverage import CoverageReport

    return CoverageReport.read(path)
