"""Compound questions in parts, by rules."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.extensions.decomposition import MAX_PARTS, decompose
from knowledge_pipeline_tests.thoroughness import examples


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "How are locks taken? Where is the timeout configured?",
            ["How are locks taken?", "Where is the timeout configured?"],
        ),
        (
            "where is the token checked and how are rate limits counted?",
            ["where is the token checked", "how are rate limits counted?"],
        ),
        (
            "How do I index a folder, and also where is the store written?",
            ["How do I index a folder", "where is the store written?"],
        ),
        (
            "I use Postgres. How do I set the pool size? Where are timeouts configured?",
            [
                "I use Postgres. How do I set the pool size?",
                "I use Postgres. Where are timeouts configured?",
            ],
        ),
        (
            "For the payment service:\n1. where are webhooks verified\n2. how are refunds made",
            [
                "For the payment service: where are webhooks verified",
                "For the payment service: how are refunds made",
            ],
        ),
        (
            "Tell me 1) who writes a release 2) who reads it",
            ["Tell me who writes a release", "Tell me who reads it"],
        ),
        ("- what is a space?\n- what is a release?", ["what is a space?", "what is a release?"]),
        (
            "What is the difference between a snapshot and a release?",
            ["What is the difference between a snapshot and a release?", "a snapshot", "a release"],
        ),
        ("compare BM25 with vector search", ["compare BM25 with vector search", "BM25", "vector search"]),
        ("redis vs memcached", ["redis vs memcached", "redis", "memcached"]),
        ("IVF_FLAT vs. IVF_PQ vs. HNSW?", ["IVF_FLAT vs. IVF_PQ vs. HNSW?", "IVF_FLAT", "IVF_PQ", "HNSW"]),
        (
            "How does upsert differ from merge_insert?",
            ["How does upsert differ from merge_insert?", "upsert", "merge_insert"],
        ),
    ],
)
def test_a_compound_question_is_cut(question, parts):
    assert list(decompose(question)) == parts


@pytest.mark.parametrize(
    "question",
    [
        "how are files read and chunked?",
        "read and write a file",
        "What is a space? How does it relate to a release?",
        "where do we decide what to index and what to skip?",
        "what is the file that was read and is cached",
        "Why? How are locks taken?",
        "how are locks taken and where are they released?",
        "x = a ? b : c",
        "std::vector and std::list",
        "https://example.com/?a=1 and what is b",
        "compare A with B and C",
        "difference between these two",
        "error: 1) bad 3) worse",
        "def f(a, b):\n    return {\n1. a\n2. b\n}",
        "what and how?",
        "commits since version 1. 2. fails",
        "",
    ],
)
def test_what_is_one_question_or_unclear_stays_whole(question):
    assert decompose(question) == (question.strip(),)


def test_more_than_four_items_share_four_parts_in_order():
    question = "\n".join(f"{number}. item{number} is where" for number in range(1, 8))
    parts = decompose(question)
    assert len(parts) == MAX_PARTS
    assert [re.findall(r"item\d", part) for part in parts] == [
        ["item1", "item2"],
        ["item3", "item4"],
        ["item5", "item6"],
        ["item7"],
    ]


_VOCABULARY = (
    "how what where is does and also it they compare difference between with vs versus differ from "
    "alpha beta Gamma delta_x the lock release ? . , 1. 2. 3. 1) 2) - Why used set :"
)
_WORDS = st.sampled_from([*_VOCABULARY.split(), "\n"])
_QUESTIONS = st.lists(_WORDS, max_size=40).map(lambda words: re.sub(r" ([?.,:])", r"\1", " ".join(words)))


def words_of(text: str) -> Counter[str]:
    """All but joining words and the marks of lists."""
    words = re.findall(r"\w+", text)
    return Counter(word for word in words if word.lower() not in ("and", "also") and not word.isdigit())


@settings(deadline=None, max_examples=examples(300))
@given(_QUESTIONS | st.text(max_size=200))
def test_no_word_is_lost_and_there_are_never_more_than_four_parts(question):
    parts = decompose(question)
    assert 1 <= len(parts) <= MAX_PARTS
    assert not words_of(question) - words_of("\n".join(parts))
    if question.strip():
        assert all(part.strip() for part in parts)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "piece", [" ", "compare ", "a vs ", "how does a differ ", "1) a ", "x? ", "and how ", "- a\n"]
)
def test_a_long_question_is_read_in_time(piece):
    for length in (900, 4000):
        decompose((piece * length)[:length])
