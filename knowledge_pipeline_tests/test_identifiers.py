"""How identifiers are split into words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.identifiers import expand_identifiers, split_identifier


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
def test_splitting_keeps_every_letter_and_only_adds(text: str) -> None:
    letters = [letter for letter in text if letter.isalnum()]
    spelled = iter(expand_identifiers(text))
    assert all(letter in spelled for letter in letters)
