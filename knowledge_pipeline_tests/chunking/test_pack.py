from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.chunking.pack import pack, split_span, split_windows
from knowledge_pipeline.chunking.sentences import split_lines, split_paragraphs, split_sentences
from knowledge_pipeline_tests.chunking.documents import measured, texts
from knowledge_pipeline_tests.thoroughness import examples


def _texts(text: str, ranges: object) -> list[str]:
    return [text[start:end].strip() for start, end in ranges]  # pyright: ignore


def test_neighbours_are_joined_until_the_limit():
    spans = [(0, 4), (5, 9), (10, 14), (15, 19)]
    assert list(pack(spans, limit=9, count_tokens=lambda a, b: b - a)) == [(0, 9), (10, 19)]


def test_an_overlap_repeats_whole_last_ranges_only():
    spans = [(0, 4), (4, 8), (8, 12), (12, 16)]
    assert list(pack(spans, limit=12, count_tokens=lambda a, b: b - a, overlap=5)) == [(0, 12), (8, 16)]
    assert list(pack(spans, limit=12, count_tokens=lambda a, b: b - a, overlap=3)) == [(0, 12), (12, 16)]


def test_an_overlap_that_leaves_no_room_for_the_next_range_is_left_out():
    assert list(pack([(0, 4), (4, 14)], limit=10, count_tokens=lambda a, b: b - a, overlap=9)) == [
        (0, 4),
        (4, 14),
    ]


@settings(max_examples=examples(100), deadline=None)
@given(
    lengths=st.lists(st.integers(1, 20), min_size=1, max_size=30),
    limit=st.integers(1, 40),
    overlap=st.integers(0, 40),
)
def test_packing_loses_nothing_and_exceeds_the_limit_for_single_ranges_alone(lengths, limit, overlap):
    spans, at = [], 0
    for length in lengths:
        spans.append((at, at + length))
        at += length
    packed = list(pack(spans, limit=limit, count_tokens=lambda a, b: b - a, overlap=overlap))
    assert {char for start, end in packed for char in range(start, end)} == set(range(at))
    assert all(end - start <= limit or (start, end) in spans for start, end in packed)
    assert [end for _, end in packed] == sorted({end for _, end in packed})


def test_a_last_range_below_the_least_shares_with_the_one_before():
    spans = [(at, at + 2) for at in range(0, 22, 2)]
    how = {"limit": 10, "count_tokens": lambda a, b: b - a}
    assert list(pack(spans, **how)) == [(0, 10), (10, 20), (20, 22)]
    assert list(pack(spans, **how, least=4)) == [(0, 10), (10, 16), (16, 22)]
    assert list(pack([(0, 10), (10, 12)], **how, least=4)) == [(0, 10), (10, 12)]


def test_windows_end_between_words_and_overlap_by_whole_words():
    text = "one two three four five six seven"
    assert _texts(text, split_windows(measured(text), 0, len(text), 3)) == [
        "one two three",
        "four five six",
        "seven",
    ]
    assert _texts(text, split_windows(measured(text), 0, len(text), 3, 1)) == [
        "one two three",
        "three four five",
        "five six seven",
    ]


def test_an_overlap_that_leaves_no_room_for_the_next_word_is_left_out_of_a_window():
    text = "one two " + "x" * 18
    assert _texts(text, split_windows(measured(text), 0, len(text), 3, 1)) == ["one two", "x" * 18]


def test_a_word_longer_than_the_limit_is_cut_within():
    text = "ab " + "x" * 30 + " cd"
    assert _texts(text, split_windows(measured(text), 0, len(text), 2)) == [
        "ab",
        "x" * 12,
        "x" * 12,
        "x" * 6 + " cd",
    ]


def test_a_span_is_cut_at_the_coarsest_structure_that_serves():
    text = "A one two. B three four.\n\nC five six seven. D eight."
    whole = (0, len(text))
    assert _texts(text, split_span(measured(text), whole, 12)) == [
        "A one two. B three four.",
        "C five six seven. D eight.",
    ]
    assert _texts(text, split_span(measured(text), whole, 5)) == [
        "A one two.",
        "B three four.",
        "C five six seven.",
        "D eight.",
    ]


def test_sentences_end_neither_after_abbreviations_nor_in_numbers():
    text = 'Dr. Smith paid $3.50, e.g. at noon. J. K. Rowling agreed. "Is it so?" he asked. 你好。再见！End'
    assert _texts(text, split_sentences(text, 0, len(text))) == [
        "Dr. Smith paid $3.50, e.g. at noon.",
        "J. K. Rowling agreed.",
        '"Is it so?" he asked.',
        "你好。",
        "再见！",
        "End",
    ]


def test_sentences_behind_the_first_window_are_those_that_a_single_look_would_find():
    text = "This is number one. Dr. Smith came at 5 p.m. yesterday. " * 300
    found = _texts(text, split_sentences(text, 0, len(text)))
    assert found == ["This is number one.", "Dr. Smith came at 5 p.m. yesterday."] * 300


def test_a_carriage_return_with_its_line_feed_is_one_line_end():
    text = "a\r\nb\r\n\r\nc\r\n \t\r\nd"
    assert _texts(text, split_paragraphs(text, 0, len(text))) == ["a\r\nb", "c", "d"]


@settings(max_examples=examples(150), deadline=None)
@given(text=texts)
def test_every_cut_keeps_all_but_white_space_in_order(text):
    for cut in (split_paragraphs, split_sentences, split_lines):
        ranges = list(cut(text, 0, len(text)))
        assert all(first[1] <= second[0] for first, second in pairwise(ranges))
        kept = "".join(text[start:end] for start, end in ranges)
        assert "".join(kept.split()) == "".join(text.split())
