"""How identifiers are split into words."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.words import (
    expand_identifiers,
    expand_indexed_text,
    list_stems,
    normalize,
    split_identifier,
    split_words,
    stem,
)


@pytest.mark.parametrize(
    ("identifier", "expected"),
    [
        ("HTTPServerConfig", ["http", "server", "config"]),
        ("http_server_config", ["http", "server", "config"]),
        ("parseHTML5", ["parse", "html", "5"]),
        ("__init__", ["init"]),
        ("größeMax", ["größe", "max"]),
        ("x", ["x"]),
    ],
)
def test_parts_of_an_identifier(identifier: str, expected: list[str]) -> None:
    assert split_identifier(identifier) == expected


def test_two_spellings_of_one_name_share_the_whole_and_the_parts() -> None:
    assert expand_identifiers("HTTPServerConfig").lower() == expand_identifiers("http_server_config").lower()
    assert expand_identifiers("call get_user(id)") == "call getuser get user(id)"


@given(st.text())
def test_splitting_keeps_every_letter_of_normalised_text_and_only_adds(text: str) -> None:
    letters = [letter for letter in normalize(text) if letter.isalnum()]
    spelled = iter(expand_identifiers(text))
    assert all(letter in spelled for letter in letters)


_WORD = re.compile(r"([^\W_]+(?:_+[^\W_]+)*)")


@given(st.text(st.characters(max_codepoint=127)) | st.from_regex(r"\A([a-zA-Z0-9_]{1,6}[ ./:-]?)+\Z"))
def test_ascii_text_is_its_words_each_compound_one_followed_by_its_parts(text: str) -> None:
    """As it was before other scripts were cut; but for hyphens at ends of lines, indexed text is the same."""
    pieces = _WORD.split(text)
    for at, word in enumerate(pieces):
        parts = split_identifier(word)
        if at % 2 and len(parts) > 1:
            pieces[at] = " ".join([word.replace("_", ""), *parts])
    assert expand_identifiers(text) == "".join(pieces) == expand_indexed_text(text, is_prose=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("überPrüfung", "überPrüfung über prüfung"),
        (unicodedata.normalize("NFD", "überPrüfung"), "überPrüfung über prüfung"),
        ("\ufb01leName", "fileName file name"),
        ("get_用户名", "get_ 用户 户名 "),
    ],
)
def test_identifiers_of_other_letters_are_split_as_well(text: str, words: str) -> None:
    assert expand_identifiers(text) == words


def test_prose_has_hyphenated_words_as_wholes_and_code_does_not() -> None:
    text = "docu-\nmentation of x = total-\n  Rest"
    assert expand_indexed_text(text, is_prose=True) == "docu-\nmentation documentation of x = total-\n  Rest"
    assert expand_indexed_text(text, is_prose=False) == text == expand_identifiers(text)


_TEXTS = st.text(st.sampled_from("aAbBzZ019__ .-/x²ßÄéñ中文กา\n"), max_size=60) | st.text(max_size=30)


@given(_TEXTS)
def test_the_words_of_a_text_are_those_of_its_identifiers_without_numbers(text: str) -> None:
    identifiers = re.findall(r"[^\W_]\w*", text)
    parts = [part for identifier in identifiers for part in split_identifier(identifier)]
    assert split_words(text) == tuple(part for part in parts if not part.isdigit())


@given(st.text(st.sampled_from("aAbBzZ019__ .-/\n"), max_size=60))
def test_the_stems_of_a_text_are_those_of_the_parts_of_its_names(text: str) -> None:
    parts = [part for name in re.findall(r"[^\W\d]\w+", text) for part in split_identifier(name)]
    assert list_stems([text, ""]) == [{stem(part) for part in parts if len(part) > 1}, set()]
