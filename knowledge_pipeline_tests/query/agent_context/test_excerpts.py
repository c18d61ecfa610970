"""Chunks of one document put together again: exactly as they stand there, or not at all."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.context.select import Excerpt, build_excerpts
from knowledge_pipeline.contract.responses import SearchResult
from knowledge_pipeline_tests.query.agent_context.cited import result

CLASS = "class A:\n    x = 1\n\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"

lines = st.tuples(
    st.sampled_from(["", "  ", "    ", "\t"]), st.sampled_from(["", "a", "def f():", "}", "é 🎉"])
)
endings = st.sampled_from(["\n", "\r\n", "  \n", "\n\n", " \n\t\n"])
documents = st.lists(st.tuples(lines, endings), min_size=1, max_size=12).map(
    lambda drawn: "".join(indent + text + end for (indent, text), end in drawn)
)


@st.composite
def chunked(draw: st.DrawFn):
    """A document, and spans of it that are not white space alone, overlapping or apart."""
    text = draw(documents.filter(str.strip))
    spans = draw(st.lists(st.tuples(*[st.integers(0, len(text))] * 2), min_size=1, max_size=8))
    return text, [sorted(span) for span in spans if text[min(span) : max(span)].strip()]


def parts(text: str, spans) -> list[SearchResult]:
    return [result(text, *span) for span in spans]


def shown(excerpt: Excerpt) -> tuple[str, int, int]:
    return excerpt.text, excerpt.start_line, excerpt.end_line


@given(chunked())
def test_an_excerpt_is_exactly_the_document_s_text(drawn):
    text, spans = drawn
    for excerpt in build_excerpts(parts(text, spans)):
        at = excerpt.end_char - len(excerpt.text)
        assert text[at : excerpt.end_char] == excerpt.text
        assert at == 0 or text[at - 1] == "\n" or not excerpt.text[0].isspace()
        assert excerpt.start_line == text.count("\n", 0, excerpt.start_char) + 1
        assert excerpt.end_line == text.count("\n", 0, excerpt.end_char) + 1
        assert excerpt.missing_lines == 0


@given(chunked())
def test_excerpts_never_overlap_or_touch_and_show_every_chunk(drawn):
    text, spans = drawn
    whole = parts(text, spans)
    found = build_excerpts(whole)
    for first, second in pairwise(found):
        assert text[first.end_char : second.start_char].strip() != ""
    for part in whole:
        span = part.span
        assert any(each.start_char <= span.start_char and span.end_char <= each.end_char for each in found)


@given(chunked(), st.randoms())
def test_the_order_of_chunks_does_not_matter(drawn, random):
    text, spans = drawn
    whole = parts(text, spans)
    mixed = random.sample(whole, len(whole))
    assert list(map(shown, build_excerpts(mixed))) == list(map(shown, build_excerpts(whole)))


@given(chunked(), st.data())
def test_some_lines_of_an_excerpt_are_the_document_s_and_say_how_many_are_missing(drawn, data):
    text, spans = drawn
    for whole in build_excerpts(parts(text, spans)):
        numbers = st.integers(whole.start_line, whole.end_line)
        first, last = sorted((data.draw(numbers), data.draw(numbers)))
        some = whole.take_lines(first, last)
        assert some.text == "\n".join(whole.lines[first - whole.start_line : last - whole.start_line + 1])
        assert text[some.start_char : some.end_char] == some.body
        assert (some.start_line, some.end_line) == (first, last)
        at = range(first, last + 1)
        within = [
            each for each in whole.parts if {*range(each.span.start_line, each.span.end_line + 1)} & {*at}
        ]
        assert list(some.parts) == within
        if some.parts:
            assert some.missing_lines == max(0, max(each.span.end_line for each in some.parts) - last)


def test_methods_that_follow_each_other_are_one_passage_with_its_indentation():
    f, g = CLASS.index("def f"), CLASS.index("def g")
    (excerpt,) = build_excerpts(parts(CLASS, [(g, len(CLASS)), (f, g)]))
    assert excerpt.text == "    def f(self):\n        return 1\n\n    def g(self):\n        return 2"
    assert excerpt.citation.lines == "L4-L8"
    assert excerpt.citation.url == "https://example.com/a.py#L4-L8"


def test_a_gap_is_never_hidden():
    f, g = CLASS.index("def f"), CLASS.index("def g")
    assert len(build_excerpts(parts(CLASS, [(0, f - 10), (g, len(CLASS))]))) == 2


def test_without_knowing_the_space_between_chunks_are_not_put_together():
    f, g = CLASS.index("def f"), CLASS.index("def g")
    unknown = [
        replace(each, span=replace(each.span, space_before=None))
        for each in parts(CLASS, [(f, g), (g, len(CLASS))])
    ]
    assert [each.text.split("(")[0] for each in build_excerpts(unknown)] == ["def f", "def g"]


def test_chunks_of_different_versions_of_a_document_are_not_mixed():
    old, new = "one two three four", "one TWO three four"
    assert len(build_excerpts([*parts(old, [(0, 13)]), *parts(new, [(4, 18)])])) == 2
