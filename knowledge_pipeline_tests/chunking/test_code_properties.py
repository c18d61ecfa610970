"""What holds for every text, however broken: exact slices, nothing lost, nothing too long."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_pipeline_tests.chunking.code_samples import (
    FILES,
    code_chunks,
    line_chunks,
    measured,
    sample,
    uncovered,
)
from knowledge_pipeline_tests.thoroughness import examples

languages = st.sampled_from(sorted(FILES))
limits = st.integers(1, 120).flatmap(lambda most: st.tuples(st.just(most), st.integers(0, most - 1)))
granularities = st.sampled_from(["file", "class", "function", "method"])
fragments = st.sampled_from(
    [
        *"(){}[];:,\n\t\"'`#@\\ ",
        *["\r\n", "\ufeff", "\ud800", "🐍", "é", "/*", "*/", "//", '"""', "<<EOF\n", "=>", "<?php "],
        *["def f(x):\n", "class A {\n", "end\n", "  return 1\n", "import a\n", "#if X\n", "fn "],
    ]
)
texts = st.lists(fragments | st.text(max_size=5), max_size=60).map("".join)
quick = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def mutated_samples(draw: st.DrawFn) -> tuple[str, str]:
    """A corpus file with a few stretches deleted, doubled or replaced by odd text."""
    language = draw(languages)
    text = sample(language)
    for _ in range(draw(st.integers(1, 4))):
        start, stop = sorted(draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        middle = draw(st.sampled_from(["", text[start:stop] * 2]) | texts)
        text = text[:start] + middle + text[stop:]
    return language, text


def holds(text: str, language: str, size: tuple[int, int], granularity: str) -> None:
    max_tokens, min_tokens = size
    how = {"max_tokens": max_tokens, "min_tokens": min_tokens, "granularity": granularity}
    chunks = code_chunks(text, language, **how)
    assert uncovered(text, chunks) == ""
    for chunk in chunks:
        assert text[chunk.start_char : chunk.end_char] == chunk.text != ""
        assert chunk.start_line == text.count("\n", 0, chunk.start_char) + 1
        assert measured(text, language).count_tokens(chunk.start_char, chunk.end_char) <= max_tokens
        assert len(chunk.header) <= 160
        assert len(chunk.anchor) <= 4000
    assert len({(chunk.anchor, chunk.text) for chunk in chunks}) == len(chunks)
    assert code_chunks(text, language, **how) == chunks


@quick
@given(texts, languages, limits, granularities)
def test_any_text_is_cut_into_exact_slices_that_lose_nothing(text, language, size, granularity):
    holds(text, language, size, granularity)


@quick
@given(mutated_samples(), limits, granularities)
def test_broken_code_is_cut_into_exact_slices_that_lose_nothing(mutated, size, granularity):
    language, text = mutated
    holds(text, language, size, granularity)


@quick
@given(texts, limits)
def test_lines_are_cut_into_exact_slices_that_lose_nothing(text, size):
    max_tokens, overlap_tokens = size
    chunks = line_chunks(text, max_tokens=max_tokens, overlap_tokens=overlap_tokens)
    assert uncovered(text, chunks) == ""
    assert all(text[chunk.start_char : chunk.end_char] == chunk.text for chunk in chunks)
    assert all(chunk.tokens <= max_tokens for chunk in chunks)
    assert len({(chunk.anchor, chunk.text) for chunk in chunks}) == len(chunks)


@pytest.mark.parametrize("language", FILES)
@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_ends_of_other_systems_lose_nothing(language, ending):
    text = "\ufeff" + sample(language).replace("\n", ending)
    holds(text, language, (60, 20), "method")
