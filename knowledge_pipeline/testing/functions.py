"""Checks of chunkers, extractors and sanitizers: pure functions, each tried on some texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from knowledge_pipeline.chunking.base import Chunker, ChunkSpan, MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.registry import CustomExtractor
from knowledge_pipeline.config.sources import ChunkingSettings
from knowledge_pipeline.records import Document
from knowledge_pipeline.sanitizing.findings import merge_overlapping, redact
from knowledge_pipeline.sanitizing.sanitize import CustomSanitizer


def check_chunker(
    chunker: Chunker,
    documents: Iterable[Document],
    *,
    chunking: ChunkingSettings | None = None,
    max_tokens: int = 64,
) -> None:
    """Every chunk is a span that fits, all text is in one, and the same document is cut the same way.

    Tokens are counted as words. A chunker may exceed the limit only for text without white space.

    Raises `AssertionError`: one of these does not hold.
    """
    settings, limits = chunking or ChunkingSettings(), TokenLimits(max_tokens)
    for document in documents:
        measured = MeasuredDocument(document, _find_words)
        spans = list(chunker(measured, settings, limits))
        uncovered = {at for at, char in enumerate(document.text) if not char.isspace()}
        for span in spans:
            location = f"[{span.start_char}, {span.end_char}) of {document.uri!r}"
            is_span = 0 <= span.start_char < span.end_char <= len(document.text)
            assert is_span, f"{location} is no span of {len(document.text)} characters"
            tokens = measured.count_tokens(span.start_char, span.end_char)
            assert tokens <= max_tokens, f"{location} has {tokens} tokens; the limit is {max_tokens}"
            json.dumps(dict(span.metadata))
            uncovered -= set(range(span.start_char, span.end_char))
        assert not uncovered, f"characters of {document.uri!r} are in no chunk, the first at {min(uncovered)}"
        assert list(chunker(measured, settings, limits)) == spans, f"{document.uri!r} is cut in two ways"


def check_extractor(extractor: CustomExtractor, documents: Iterable[Document]) -> None:
    """An extractor gives the same JSON object, or None, for the whole text of each document.

    Raises `AssertionError`: it does not.
    """
    for document in documents:
        chunk = MeasuredDocument(document, _find_words).build_chunk(ChunkSpan(0, len(document.text)))
        facts = extractor(document, chunk)
        is_mapping = facts is None or isinstance(facts, Mapping)  # pyright: ignore[reportUnnecessaryIsInstance]
        assert is_mapping, f"it gives {type(facts).__name__} for {document.uri!r}, not a mapping or None"
        try:
            json.dumps(dict(facts or {}))
        except (TypeError, ValueError) as error:
            raise AssertionError(f"what it gives for {document.uri!r} is no JSON: {error}") from None
        assert extractor(document, chunk) == facts, f"it gives two results for {document.uri!r}"


def check_sanitizer(sanitizer: CustomSanitizer, texts: Iterable[str], *, hidden: Sequence[str] = ()) -> None:
    """What is hidden is found, every finding is a span, and nothing is found in a redacted text.

    Raises `AssertionError`: one of these does not hold.
    """
    for text in texts:
        findings = merge_overlapping(sanitizer(text))
        for start_char, end_char, kind in findings:
            assert 0 <= start_char < end_char <= len(text), f"[{start_char}, {end_char}) of {text!r}"
            assert kind.replace("_", "a").isalnum(), f"{kind!r} is no kind: use small letters and `_`"
        clean = redact(text, findings)
        for secret in hidden:
            assert secret not in clean, f"{secret!r} stays in {clean!r}"
        assert not list(sanitizer(clean)), f"it finds something in {clean!r}, which is redacted already"


def _find_words(text: str) -> list[int]:
    return [at for at, char in enumerate(text) if not char.isspace() and (at == 0 or text[at - 1].isspace())]
