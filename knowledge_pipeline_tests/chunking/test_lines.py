"""Cutting by lines."""

from __future__ import annotations

from itertools import pairwise

from knowledge_pipeline_tests.chunking.code_samples import line_chunks

TEN = "".join(f"line number {n}\n" for n in range(10))


def test_whole_lines_are_packed_up_to_the_limit():
    chunks = line_chunks(TEN, max_tokens=10)
    assert [chunk.text.count("line") for chunk in chunks] == [3, 3, 3, 1]
    assert [chunk.start_line for chunk in chunks] == [1, 4, 7, 10]


def test_chunks_overlap_by_whole_lines():
    chunks = line_chunks(TEN, max_tokens=12, overlap_tokens=4)
    for first, second in pairwise(chunks):
        assert second.text.startswith(first.text.splitlines()[-1])
        assert second.tokens <= 12


def test_chunks_do_not_overlap_unless_asked_to():
    chunks = line_chunks(TEN, max_tokens=9)
    assert "\n".join(chunk.text for chunk in chunks) == TEN.strip()


def test_the_end_of_a_file_is_no_scrap():
    rules = "".join(f".class-{n} {{\n  color: red;\n}}\n\n" for n in range(20))
    text = f"<style>\n{rules}</style>\n"
    for max_tokens in range(100, 140):
        chunks = line_chunks(text, max_tokens=max_tokens)
        assert min(chunk.tokens for chunk in chunks) >= 32
        assert max(chunk.tokens for chunk in chunks) <= max_tokens
        assert "".join("".join(chunk.text for chunk in chunks).split()) == "".join(text.split())


def test_a_long_line_is_cut_after_a_word():
    chunks = line_chunks("word " * 50, max_tokens=8)
    assert {chunk.text for chunk in chunks[:-1]} == {" ".join(["word"] * 8)}


def test_a_long_word_is_one_token_and_stays_whole():
    assert [chunk.text for chunk in line_chunks("a" * 5000, max_tokens=1)] == ["a" * 5000]


def test_white_space_alone_is_no_chunk():
    assert line_chunks(" \n\n\t\n") == []


def test_equal_stretches_have_different_anchors():
    chunks = line_chunks("same\n" * 4, max_tokens=2)
    assert [chunk.anchor for chunk in chunks] == ["lines", "lines (2)"]
