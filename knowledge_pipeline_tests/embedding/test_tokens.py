import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.embedding.model_folders import find_model_folder
from knowledge_pipeline.embedding.tokenizer import load_model_tokenizer
from knowledge_pipeline.endpoints.token_estimates import estimate_token_starts
from knowledge_pipeline.strings import replace_surrogates
from knowledge_pipeline_tests.thoroughness import examples

_TEXTS = st.text(st.characters(), max_size=200)  # lone surrogates included


@pytest.fixture(scope="module")
def minilm():
    return load_model_tokenizer(find_model_folder("all-MiniLM-L6-v2"))


def test_offsets_of_the_model_count_characters_not_bytes(minilm):
    text = "日本 👩‍👩‍👧 héllo wörld"
    assert [text[at:].split()[0] for at in minilm(text)] == ["日本", "本", "👩‍👩‍👧", "héllo", "wörld"]


def test_special_tokens_are_left_out_and_nothing_is_cut_or_padded(minilm):
    assert minilm("") == []
    assert len(minilm("word " * 3000)) == 3000


def test_one_token_of_many_characters_counts_as_several(minilm):
    assert len(minilm("a" * 3200)) == 100


@pytest.mark.parametrize("text", ["", "return x", "émigré 漢字 🎉", "a" * 10_000])
def test_every_offset_lies_in_the_text(minilm, text):
    for tokenize in (minilm, estimate_token_starts):
        starts = tokenize(text)
        assert list(starts) == sorted(starts)
        assert all(0 <= at < len(text) for at in starts)


@settings(deadline=None, max_examples=examples(60))
@given(_TEXTS)
def test_any_text_is_tokenized_in_ascending_order(minilm, text):
    for tokenize in (minilm, estimate_token_starts):
        starts = list(tokenize(text))
        assert starts == sorted(starts)
        assert all(0 <= at < len(text) for at in starts)


@settings(deadline=None)
@given(_TEXTS)
def test_making_a_text_encodable_keeps_its_length(text):
    clean = replace_surrogates(text)
    assert len(clean) == len(text)
    assert clean.encode().decode() == clean == replace_surrogates(clean)


def test_a_folder_without_a_tokenizer_gets_an_estimate(tmp_path):
    assert load_model_tokenizer(tmp_path)("two words") == [0, 4, 8]
