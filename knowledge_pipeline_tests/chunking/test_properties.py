from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.chunking.registry import chunk_document, compute_limits
from knowledge_pipeline_tests.chunking.documents import assert_sound, document, source, texts, tokenize
from knowledge_pipeline_tests.thoroughness import examples

WAYS = ["fixed_size", "sentence", "paragraph", "semantic"]
KINDS = [("a.md", "markdown"), ("a.rst", "rst"), ("a.txt", "text"), ("a.html", "html")]


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=examples(150), deadline=None)
@given(
    text=texts,
    kind=st.sampled_from(KINDS),
    max_tokens=st.sampled_from([16, 24, 60, 512]),
    overlap=st.sampled_from([None, 0, 5, 15]),
    depth=st.integers(1, 6),
)
def test_chunks_of_prose_are_sound_and_the_same_each_time(way, text, kind, max_tokens, overlap, depth):
    path, language = kind
    of = document(text, path, language)
    settings_ = source(
        "markdown", strategy=way, max_tokens=max_tokens, overlap_tokens=overlap, max_section_depth=depth
    )
    chunks = chunk_document(of, settings_, tokenize=tokenize, model_tokens=256)
    limits, _ = compute_limits(way, settings_.chunking, 256)
    assert_sound(chunks, of, limits.max_tokens)
    assert bool(chunks) == bool(text.strip())
    assert chunks == chunk_document(of, settings_, tokenize=tokenize, model_tokens=256)


@pytest.mark.parametrize("way", ["endpoint", "commit"])
@settings(max_examples=examples(150), deadline=None)
@given(text=texts, max_tokens=st.sampled_from([16, 60, 512]))
def test_a_text_that_a_chunker_was_not_made_for_is_still_cut_soundly(way, text, max_tokens):
    of = document(text, "odd", None)
    chunks = chunk_document(
        of,
        source("openapi", strategy=way, max_tokens=max_tokens),
        tokenize=tokenize,
        model_tokens=256,
    )
    assert_sound(chunks, of, max_tokens)
    assert bool(chunks) == bool(text.strip())


@settings(max_examples=examples(100), deadline=None)
@given(text=texts, max_tokens=st.sampled_from([16, 40, 200]))
def test_text_and_header_together_keep_to_the_configured_limit(text, max_tokens):
    of = document(text, "a/very/long/path/with/many/folders/in/it/guide.md")
    for chunk in chunk_document(of, source(max_tokens=max_tokens), tokenize=tokenize, model_tokens=256):
        assert chunk.tokens + len(tokenize(chunk.header)) <= max_tokens
