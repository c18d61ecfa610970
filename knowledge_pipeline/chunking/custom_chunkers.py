"""Chunkers of other packages, named in `chunking.custom`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from knowledge_pipeline.chunking.base import Chunker, ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.config.sources.chunking import ChunkingSettings
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.plugins import Plugin, load_plugin
from knowledge_pipeline.records import Chunk

_MAX_CHUNKS = 100_000  # of one document


def load_chunker(name: str) -> Plugin:
    """The chunker of that name; raises ConfigError if it cannot be loaded."""
    return load_plugin("chunker", name, key="chunking.custom")


def run_custom_chunker(
    name: str, measured: MeasuredDocument, chunking: ChunkingSettings, limits: TokenLimits
) -> tuple[list[Chunk], str]:
    """The chunks of a document, or none and the reason, so that it is cut in another way.

    Raises:
        ConfigError: the chunker cannot be loaded.
    """
    chunker: Chunker = load_chunker(name).value
    try:
        spans = _require_spans(chunker(measured, chunking, limits), len(measured.document.text))
        chunks = [measured.build_chunk(span) for span in spans]
    except ConfigError:
        raise
    except Exception as error:  # noqa: BLE001 - a foreign function's fault must not lose the document
        return [], f"not cut by {name!r}: {type(error).__name__}: {error}"[:300]
    found = [chunk for chunk in chunks if chunk.text and not chunk.text.isspace()]
    return found, "" if found else f"not cut by {name!r}: it gave no chunk"


def _require_spans(spans: Iterator[ChunkSpan], length: int) -> Iterator[ChunkSpan]:
    for span in islice(spans, _MAX_CHUNKS):
        if not 0 <= span.start_char < span.end_char <= length:
            raise ValueError(f"[{span.start_char}, {span.end_char}) is no span of {length} characters")
        yield span
