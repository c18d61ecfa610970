from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.connectors.base import decode_path, encode_path, format_path, path_to_uri, uri_to_path

raw_paths = st.binary(min_size=1, max_size=40) | st.text(alphabet="a%é/\n2F80", max_size=12).map(str.encode)


@given(raw_paths)
@settings(deadline=None)
def test_a_uri_is_valid_text_and_leads_back_to_the_very_bytes(raw):
    uri = path_to_uri(decode_path(raw))
    assert uri.encode("utf-8").decode("utf-8") == uri
    assert encode_path(uri_to_path(uri)) == raw


@given(raw_paths, raw_paths)
@settings(deadline=None)
def test_different_paths_have_different_uris(one, other):
    assert (path_to_uri(decode_path(one)) == path_to_uri(decode_path(other))) == (one == other)


def test_an_ordinary_path_is_its_own_uri():
    assert path_to_uri("src/naïve file.py") == "src/naïve file.py"


def test_a_percent_sign_cannot_be_taken_for_an_escape():
    assert path_to_uri("100%.txt") == "100%25.txt"
    assert path_to_uri("a\udcff") == "a%FF"
    assert path_to_uri("a%FF") == "a%25FF"


def test_what_a_person_sees_is_valid_text():
    assert format_path("a\udcff%.py") == "a\ufffd%.py"
