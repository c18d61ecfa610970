"""Which metadata a chunk gets: the extractors that its source switches on, one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.chunking.custom_extractors import run_custom_extractors
from knowledge_pipeline.chunking.document_metadata import DocumentMetadataExtractor
from knowledge_pipeline.config.settings import SourceConfig
from knowledge_pipeline.languages import is_code
from knowledge_pipeline.records import Chunk, Document

if TYPE_CHECKING:
    from knowledge_pipeline.chunking.coverage import CoverageReport

VERSION = 1


def add_metadata(
    chunks: Iterable[Chunk], document: Document, source: SourceConfig, note: str
) -> Iterator[Chunk]:
    """The chunks with their metadata; `note` says what was out of the ordinary, "" if nothing was.

    Raises:
        ConfigError: a custom extractor or the coverage report cannot be loaded.
    """
    extract = _MetadataExtractor(document, source)
    for chunk in chunks:
        yield extract.add_to(chunk, note)


class _MetadataExtractor:
    def __init__(self, document: Document, source: SourceConfig) -> None:
        self._document, self._source = document, source
        switches = source.metadata
        is_prose = source.type != "code" or not is_code(document.language)
        self._document_extractor = (
            DocumentMetadataExtractor(document) if switches.documents and is_prose else None
        )
        self._coverage = load_coverage(source) if switches.code else None

    def add_to(self, chunk: Chunk, note: str) -> Chunk:
        told, notes = run_custom_extractors(self._source.metadata.custom, self._document, chunk)
        known = self._chunker_metadata(chunk) | self._standard_metadata()
        if self._document_extractor:
            known |= self._document_extractor.extract(chunk)
        told_tags = [
            *chunk.metadata.get("tags", ()),
            *(self._document_extractor.tags if self._document_extractor else ()),
        ]
        tags = dict.fromkeys([*self._source.metadata.tags, *told_tags])
        if tags:
            known["tags"] = list(tags)
        known |= told
        remarks = [str(remark) for remark in (note, chunk.metadata.get("note"), *notes) if remark]
        if remarks:
            known["note"] = "; ".join(remarks)
        return replace(chunk, metadata=known)

    def _chunker_metadata(self, chunk: Chunk) -> dict[str, Any]:
        """What the chunker itself told; without the code switch, nothing about code."""
        known = dict(chunk.metadata)
        if not self._source.metadata.code:
            from knowledge_pipeline.chunking.code.metadata import CODE_METADATA_KEYS

            return {key: value for key, value in known.items() if key not in CODE_METADATA_KEYS}
        if self._coverage:
            share = self._coverage.share_of_lines(self._document.path, chunk.start_line, chunk.end_line)
            if share is not None:
                known["test_coverage"] = share
        return known

    def _standard_metadata(self) -> dict[str, Any]:
        if not self._source.metadata.standard:
            return {}
        return {"source_type": self._source.type, "file_path": self._document.path}


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
