"""How text of any language is normalised and cut."""

import time
import unicodedata

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.query import MatchQuery

from knowledge_pipeline.store.federation import split_terms, split_words
from knowledge_pipeline.store.indexes import FTS_OPTIONS
from knowledge_pipeline.words import (
    cut,
    expand_identifiers,
    expand_indexed_text,
    join_split_words,
    normalize,
    normalize_aligned,
)

EAST_ASIAN = "数据库备份策略検索的データベースバックアップのがをー데이터베이스를학교"


def index_words(text: str) -> set[str]:
    return set(split_words(expand_indexed_text(text, is_prose=True)))


def question_words(text: str) -> set[str]:
    return set(split_words(expand_identifiers(text)))


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("数据库备份", ["数据", "据库", "库备", "备份"]),
        ("黒い猫が", ["黒い", "い猫", "猫が", "黒", "猫"]),
        ("데이터를 책", ["데이", "이터", "터를", "책"]),
        ("ฐานข้อมูล", ["ฐาน", "นข", "ขอ", "อมู", "มูล"]),
        ("ຖານຂໍ້ມູນ", ["ຖານ", "ນຂໍ", "ຂໍມູ", "ມູນ"]),
        ("ភាសា", ["ភាសា"]),
        ("မြန်မာဘာသာ", ["မြန", "နမာ", "မာဘာ", "ဘာသာ"]),
        ("ＡＰＩ接口v2", ["API", "接口", "v2"]),
        ("数据\n库", ["数据", "据库"]),
        ("数据\n\n库", ["数据", "库"]),
        ("猫", ["猫"]),
    ],
)
def test_scripts_without_spaces_become_pairs_of_neighbours(text: str, pairs: list[str]) -> None:
    assert cut(normalize(text)).split() == pairs


@given(
    st.text(st.sampled_from(EAST_ASIAN), min_size=2, max_size=30),
    st.data(),
    st.text(max_size=8),
    st.text(max_size=8),
)
def test_a_part_of_two_characters_or_more_is_found_in_any_text(
    sentence: str, data: st.DataObject, before: str, after: str
) -> None:
    start = data.draw(st.integers(0, len(sentence) - 2))
    end = data.draw(st.integers(start + 2, len(sentence)))
    assert question_words(sentence[start:end]) <= index_words(f"{before} {sentence} {after}")


@given(st.text(st.sampled_from("数据库備份検索"), min_size=1), st.data())
def test_a_single_chinese_character_is_found(sentence: str, data: st.DataObject) -> None:
    assert question_words(data.draw(st.sampled_from(sentence))) <= index_words(f"a{sentence}b")


@given(st.text())
def test_text_is_cut_alike_however_its_characters_are_composed(text: str) -> None:
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    assert len({cut(normalize(form)) for form in forms}) == 1


@given(st.text())
def test_normalised_text_is_normal(text: str) -> None:
    once = normalize(text)
    assert normalize(once) == once


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_left_as_it_is(text: str) -> None:
    assert normalize(text) == text == cut(text)


@given(st.text())
def test_every_normalised_character_has_its_place_in_the_text(text: str) -> None:
    plain, starts, ends = normalize_aligned(text)
    assert len(plain) == len(starts) == len(ends)
    assert starts == sorted(starts) and ends == sorted(ends)
    assert all(start < end <= len(text) for start, end in zip(starts, ends, strict=True))


def test_hyphens_at_ends_of_lines() -> None:
    assert join_split_words("docu-\nmentation") == "docu-\nmentation documentation"
    assert join_split_words("docu\u2010\r\n  mentation") == "docu\u2010\r\n  mentation documentation"
    for other in ("Baden-\nBaden", "1-\n2", "a-\n- b", "x-\ny", "a - b"):
        assert join_split_words(other) == other
    assert normalize("docu\u00ad\n mentation") == "documentation", "a soft hyphen says so by itself"


def test_full_text_splits_no_normalised_word_where_we_do_not(tmp_path) -> None:
    """Lance's own tokenizer, asked about every character between two letters, but for letters in shapes."""
    places = [*range(0x80, 0x1F150), *range(0x1F18A, 0x33000)]
    characters = [chr(at) for at in places if unicodedata.category(chr(at)) not in ("Cn", "Cs")]
    texts = [normalize(f"xq{character}zj") for character in characters]
    rows = pa.table({"words": pa.array(texts, pa.large_string())})
    dataset = lance.write_dataset(rows, str(tmp_path / "words.lance"))
    dataset.create_scalar_index("words", "FTS", **FTS_OPTIONS)
    query = MatchQuery("zj", "words")
    options = {"full_text_query": query, "limit": len(texts), "disable_scoring_autoprojection": True}
    split = set(dataset.scanner(["words"], **options).to_table()["words"].to_pylist())
    differing = [text for text in texts if ("zj" in split_words(text)) != (text in split)]
    assert differing == []


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("le réglage", "reglage"),
        ("Straße", "strasse"),
        ("SCHLÜSSEL", "schlussel"),
        ("Größen", "grossen"),
        ("cœurs fidèles", "coeurs fideles"),
        ("Øresund łódź", "oresund lodz"),
        ("configuração", "configuracao"),
        ("années", "annees"),
    ],
)
def test_a_word_with_accents_has_the_term_of_the_same_without(text: str, question: str) -> None:
    assert set(split_terms(question)) <= set(split_terms(expand_indexed_text(text, is_prose=True)))
    assert set(split_terms(text)) <= set(split_terms(expand_indexed_text(text, is_prose=True)))


def test_a_word_is_indexed_without_accents_only_where_its_term_differs() -> None:
    assert expand_indexed_text("der Schlüssel Löschung", is_prose=True) == "der Schlüssel Löschung"
    assert expand_indexed_text("Réglage, réglage", is_prose=True) == "Réglage, réglage\nreglage"
    assert expand_indexed_text("нет ΑΒΓ", is_prose=True) == "нет ΑΒΓ"


@pytest.mark.parametrize(
    "piece", ["数据库备份", "ฐานข้อมูล ", "a\u0301\u0316", "\u0301\u0316", "é-\n", "据 \n", "é\u00ad  "]
)
def test_time_is_linear_in_the_length_of_a_text(piece: str) -> None:
    def measure(times: int) -> float:
        text = piece * times
        started = time.process_time()
        expand_indexed_text(text, is_prose=True)
        return time.process_time() - started

    measure(10)
    assert min(measure(40_000) for _ in range(3)) < 40 * max(min(measure(4_000) for _ in range(3)), 0.001)
